//! The processes of this machine, as `/proc` lists them; there are none on a system without it.

use std::fs;

/// A process, as parsed from a line of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    state: char,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// CPU ticks in user and kernel mode.
    pub(super) ticks: u64,
    /// Start time, in ticks since the system booted.
    pub(super) started: u64,
}

impl Process {
    /// Reads a process; `None` if it does not exist.
    pub(super) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `1234 (a name) S 1 1234 …`. The name may contain any character.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            started: number(19)?,
        })
    }

    /// Returns true unless it has ended. A zombie has: in a container whose init process does not reap them, zombies never
    /// disappear.
    pub(super) fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Lists all processes except this one, by ID.
pub(super) fn processes() -> impl Iterator<Item = (i32, Process)> {
    let own = i32::try_from(std::process::id()).ok();
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let ids = all.filter_map(|e| e.file_name().to_str()?.parse().ok());
    ids.filter(move |pid| Some(*pid) != own).filter_map(|pid| Some((pid, Process::read(pid)?)))
}

/// Returns this process, if the system has `/proc`.
pub(super) fn own() -> Option<(i32, Process)> {
    let pid = i32::try_from(std::process::id()).ok()?;
    Some((pid, Process::read(pid)?))
}

/// Returns true if a process of the group is running; `None` if the system has no `/proc`.
pub(super) fn group_runs(group: i32) -> Option<bool> {
    own()?;
    Some(processes().any(|(_, process)| process.group == group && process.runs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_process_table_is_read_from_its_end() {
        let line = "12 (a) b) S 7 10 10 0 -1 4194560 1 2 3 4 50 6 7 8 20 0 1 0 98765 1000 20";
        let expected = Process { state: 'S', parent: 7, group: 10, ticks: 56, started: 98765 };
        assert_eq!(Process::parse(line), Some(expected));
        let runs = |line: &str| Process::parse(line).map(|p| p.runs());
        assert_eq!((runs(line), runs(&line.replace(" S ", " Z "))), (Some(true), Some(false)));
        for line in ["12 vllm S 1 10", "12 (x) S 1", ""] {
            assert_eq!(Process::parse(line), None, "{line}");
        }
    }
}
