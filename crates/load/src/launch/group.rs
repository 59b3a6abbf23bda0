//! Process groups: a started command together with all of its descendants.

use super::log::Log;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Polling interval while a group terminates.
const LOOK: Duration = Duration::from_millis(20);

/// A process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group(Option<Pid>);

/// Puts a command into a new process group, so that the terminal's Ctrl-C does not reach it and the whole group can be
/// signalled.
pub(super) fn apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

impl Group {
    fn signal(self, signal: Signal) {
        // A failure means that the group is gone and needs no signal.
        let _ = self.0.map(|id| kill_process_group(id, signal));
    }

    /// Sends SIGTERM to the group.
    pub(super) fn ask(self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the group.
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Returns true if a process of the group is running. Zombies do not count: in a container whose init process does
    /// not reap them, they never disappear.
    pub(super) fn alive(self) -> bool {
        let Some(id) = self.0 else { return false };
        members(id.as_raw_nonzero().get())
            .unwrap_or_else(|| rustix::process::test_kill_process_group(id).is_ok())
    }

    /// Sends SIGTERM and waits on this thread for at most `time`, then sends SIGKILL. `reap` polls for the exit of the
    /// group's leader, a child of this process, and returns true once it has exited.
    pub(super) fn end(self, time: Duration, mut reap: impl FnMut() -> bool) {
        let mut gone_within = |looks: u128| {
            (0..looks).any(|_| {
                // Reaped on every look: until then the leader is still listed as a process.
                let reaped = reap();
                let gone = reaped && !self.alive();
                if !gone {
                    thread::sleep(LOOK);
                }
                gone
            })
        };
        self.ask();
        if !gone_within(time.as_millis() / LOOK.as_millis()) {
            self.kill();
            gone_within(50);
        }
    }
}

/// Returns true if the process table lists a process of the group that is not a zombie; `None` if the system has no
/// `/proc`.
pub(super) fn members(group: i32) -> Option<bool> {
    let all = std::fs::read_dir("/proc").ok()?;
    let mut any = None;
    for entry in all.filter_map(Result::ok) {
        let number = entry.file_name().to_str().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        if !number {
            continue;
        }
        // The process ended in the meantime.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        any.get_or_insert(false);
        if let Some((state, of)) = state_and_group(&stat)
            && of == group
            && !matches!(state, "Z" | "X" | "x")
        {
            return Some(true);
        }
    }
    any
}

/// Returns the process group of a process.
pub(super) fn of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    state_and_group(&stat).map(|(_, group)| group)
}

/// Parses state and group from a line of `/proc/PID/stat`: `1234 (a name) S 1 1234 …`. The name may contain any
/// character.
fn state_and_group(stat: &str) -> Option<(&str, i32)> {
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, _parent, group) = (rest.next()?, rest.next()?, rest.next()?);
    Some((state, group.parse().ok()?))
}

/// The process groups of all running commands, each with its log, to be ended if this process must exit at once. Clones
/// share the list.
#[derive(Debug, Clone, Default)]
pub struct Groups(Arc<Mutex<Vec<(Group, Log)>>>);

impl Groups {
    fn with<T>(&self, of: impl FnOnce(&mut Vec<(Group, Log)>) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers the group of a command that has been started.
    pub(super) fn list(&self, child: &Child, log: &Log) -> Group {
        let group = Group(i32::try_from(child.id()).ok().and_then(Pid::from_raw));
        self.with(|all| all.push((group, log.clone())));
        group
    }

    pub(super) fn forget(&self, group: &Group) {
        self.with(|all| all.retain(|(g, _)| g != group));
    }

    /// Ends every running group, waiting a few seconds at most for each, and removes the secrets from its log.
    pub fn kill(&self) {
        for (group, mut log) in self.with(std::mem::take) {
            // The leader stays in the process table until its parent, this process, exits.
            group.end(Duration::from_secs(3), || true);
            log.clean();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_process_table_is_read_from_its_end() {
        for (line, want) in [
            ("12 (vllm) S 1 10 10 0 -1 4194560", Some(("S", 10))),
            ("12 (a) b (c)) Z 1 77 10", Some(("Z", 77))),
            ("12 vllm S 1 10", None),
            ("12 (x) S 1", None),
            ("", None),
        ] {
            assert_eq!(state_and_group(line), want, "{line}");
        }
    }
}
