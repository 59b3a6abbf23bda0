//! Process groups: a started command together with all of its descendants.

use super::log::Log;
use super::process::group_runs;
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
pub(super) fn in_new_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

impl Group {
    fn signal(self, signal: Signal) {
        // A failure means that the group is gone and needs no signal.
        let _ = self.0.map(|id| kill_process_group(id, signal));
    }

    /// Sends SIGTERM to the group.
    pub(super) fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the group.
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Returns true if a process of the group is running.
    pub(super) fn alive(self) -> bool {
        let Some(id) = self.0 else { return false };
        group_runs(id.as_raw_nonzero().get())
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
        self.terminate();
        if !gone_within(time.as_millis() / LOOK.as_millis()) {
            self.kill();
            gone_within(50);
        }
    }
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
