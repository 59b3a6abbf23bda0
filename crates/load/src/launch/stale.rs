//! Leftover servers: processes started by a goodput that was killed (`kill -9`) before it could stop them.
//!
//! Each process that goodput starts is recorded in a file next to its log; the file is removed when the process is
//! stopped. An environment variable of the process names the run that it was started for. A leftover can therefore be
//! found by its run folder, by the address that it was to serve, or by the port that it has open. All of this reads
//! `/proc`: on a system without it, nothing is found.

use super::process::{Process, group_runs, processes};
use anyhow::{Context, Result};
use goodput_core::endpoint::BaseUrl;
use goodput_core::redact::{Redactor, registered};
use goodput_core::secrets::masked;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Environment variable of a started process: its run folder.
pub(super) const RUN: &str = "GOODPUT_RUN";
/// Environment variable of a started process: the process that started it, as `pid:ticks:boot`.
const BY: &str = "GOODPUT_STARTED_BY";
/// Environment variable of a started process: the addresses that it was to serve, separated by spaces.
const SERVES: &str = "GOODPUT_SERVES";
/// Maximum number of characters of a command line that are shown.
const SHOWN: usize = 160;

/// The identity of a process. The start time guards against a later process that reuses the number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Process ID; also the ID of its process group.
    pub pid: i32,
    /// Start time, in clock ticks since the system booted.
    pub ticks: u64,
    /// ID of the system's boot.
    pub boot: String,
    /// Command line, with secrets masked.
    pub command: String,
    /// Start time in local time, for display.
    pub since: String,
}

impl ProcessMark {
    /// Identifies a process that was just started with these arguments, with `secrets` and all registered secrets
    /// masked. Returns `None` if the system does not report the start time. The arguments are not read from `/proc`: it
    /// has none while the program is being loaded.
    pub(super) fn started(pid: i32, argv: &[String], secrets: &Redactor) -> Option<Self> {
        Self::new(pid, &in_a_line(&argv.join(" "), secrets))
    }

    /// Identifies a running process, with all registered secrets masked. Returns `None` if the system does not report
    /// it.
    fn of(pid: i32) -> Option<Self> {
        Self::new(pid, &command(pid)?)
    }

    fn new(pid: i32, command: &str) -> Option<Self> {
        let ticks = started(pid)?;
        Some(Self { pid, ticks, boot: boot()?, command: command.to_owned(), since: since(ticks)? })
    }

    /// Returns true if the process, or another process of its group, is still running.
    pub fn alive(&self) -> bool {
        let leader = started(self.pid);
        // The kernel assigns the ID of an existing group to no new process.
        boot().as_deref() == Some(&*self.boot)
            && leader.is_none_or(|ticks| ticks == self.ticks)
            && group_runs(self.pid) == Some(true)
    }

    /// Writes the identity to `path` as JSON.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).context("failed to write a process as JSON")?;
        fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
    }
}

impl fmt::Display for ProcessMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The file may come from another process, which did not know the secrets registered here.
        let Self { pid, since, .. } = self;
        match registered().redact(&self.command) {
            // The program is still being loaded, or has overwritten its arguments.
            nothing if nothing.is_empty() => write!(f, "process {pid} (since {since})"),
            command => write!(f, "process {pid} (`{command}`, since {since})"),
        }
    }
}

/// Returns the processes recorded in a folder of logs that are still running, each with its name, sorted by name.
pub fn leftovers(logs: &Path) -> Vec<(String, ProcessMark)> {
    let entries = fs::read_dir(logs).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    let one = |path: std::path::PathBuf| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        // A file that was torn while being written is skipped.
        let mark: ProcessMark = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some((name, mark))
    };
    let mut all: Vec<_> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "pid")).filter_map(one).collect();
    all.retain(|(_, mark)| mark.alive());
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// A process that occupies the place of a server to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    process: ProcessMark,
    owner: Owner,
}

/// The party that started a process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// A goodput that has exited, for a run; with the process group.
    Left { group: i32, run: String },
    /// A goodput that is still running.
    Running { run: String },
    /// Any other program.
    Other,
}

impl Obstacle {
    /// Returns true if an exited goodput left the process behind. Such a process is in the way even before it answers.
    pub const fn is_left(&self) -> bool {
        matches!(self.owner, Owner::Left { .. })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = &self.process;
        match &self.owner {
            Owner::Left { group, run } => write!(
                f,
                "{process} was started for the run {run}, and goodput was killed before it could stop it; end it, and all that it started, \
                 with: kill -- -{group}"
            ),
            Owner::Running { run } => write!(f, "{process} belongs to the sweep {run}, which still runs"),
            Owner::Other => write!(f, "{process}; end it with: kill {}", process.pid),
        }
    }
}

/// Returns the processes that are in the way of a server to be started at these addresses: processes of this machine
/// that listen there, and processes started for one of them by a goodput that has exited, even if they do not listen
/// yet.
pub fn obstacles(urls: &[BaseUrl]) -> Vec<Obstacle> {
    let sockets: BTreeSet<u64> = urls.iter().flat_map(listeners).collect();
    let served: Vec<String> = urls.iter().map(ToString::to_string).collect();
    let mut found: Vec<Obstacle> = Vec::new();
    for (pid, process) in processes() {
        let environment = environment(pid);
        let of = |name: &str| environment.iter().find_map(|v| v.strip_prefix(name)?.strip_prefix('='));
        let owner = match (of(RUN), of(BY)) {
            (Some(run), Some(by)) if is_running(by) => Owner::Running { run: run.to_owned() },
            (Some(run), Some(_)) => Owner::Left { group: process.group, run: run.to_owned() },
            _ => Owner::Other,
        };
        let serves =
            of(SERVES).is_some_and(|urls| urls.split(' ').any(|url| served.iter().any(|s| s == url)));
        let left = serves && matches!(owner, Owner::Left { .. });
        if !left && (sockets.is_empty() || !has_open(pid, &sockets)) {
            continue;
        }
        // The first process of a group represents the whole group.
        if let Some(process) = ProcessMark::of(pid)
            && (owner == Owner::Other || !found.iter().any(|f| f.owner == owner))
        {
            found.push(Obstacle { process, owner });
        }
    }
    found
}

/// Returns the environment variables by which a started process can be found again, as names and values.
pub(super) fn environment_of(log: &Path, serves: &[BaseUrl]) -> Vec<(&'static str, String)> {
    let run = log.parent().and_then(Path::parent).unwrap_or(log);
    let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    let own = i32::try_from(std::process::id()).ok();
    let by = own.and_then(|own| Some(format!("{own}:{}:{}", started(own)?, boot()?)));
    let urls: Vec<String> = serves.iter().map(ToString::to_string).collect();
    vec![(RUN, run.display().to_string()), (BY, by.unwrap_or_default()), (SERVES, urls.join(" "))]
}

/// Returns true if the process `pid:ticks:boot` is running.
fn is_running(by: &str) -> bool {
    let mut parts = by.splitn(3, ':');
    let (pid, then) =
        (parts.next().and_then(|p| p.parse().ok()), parts.next().and_then(|t| t.parse::<u64>().ok()));
    match (pid.and_then(started), parts.next()) {
        (Some(now), Some(of)) => Some(now) == then && boot().as_deref() == Some(of),
        _ => false,
    }
}

/// Returns the start time of a process in ticks; `None` if it does not exist or has ended.
fn started(pid: i32) -> Option<u64> {
    Process::read(pid).filter(Process::runs).map(|process| process.started)
}

/// Returns the ID of the current boot.
fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// Converts ticks since boot to local time, to the second.
fn since(ticks: u64) -> Option<String> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let at = boot + ticks / rustix::param::clock_ticks_per_second().max(1);
    let at = jiff::Timestamp::from_second(i64::try_from(at).ok()?).ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Returns the command line of a running process on one line. It is empty while the program is being loaded.
fn command(pid: i32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ");
    Some(in_a_line(&text, &Redactor::default()))
}

/// Formats a command line on one line, shortened, with `secrets`, all registered secrets and anything that looks like a
/// secret masked.
fn in_a_line(text: &str, secrets: &Redactor) -> String {
    let text = secrets.redact(text);
    let text: String =
        masked(&registered().redact(&text)).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

fn environment(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|b| *b == 0).map(|v| String::from_utf8_lossy(v).into_owned()).collect()
}

/// Returns true if a process has one of these sockets open. False for a process owner descriptors
/// are unreadable.
pub(super) fn has_open(pid: i32, sockets: &BTreeSet<u64>) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    let socket = |e: fs::DirEntry| {
        let to = fs::read_link(e.path()).ok()?;
        to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
    };
    files.filter_map(socket).any(|inode| sockets.contains(&inode))
}

/// Returns true if an address is one of this machine's own: a Unix socket, or a loopback address.
pub(super) fn is_here(url: &BaseUrl) -> bool {
    if url.socket().is_some() {
        return true;
    }
    let url = url.join("/");
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Returns the inode numbers of the sockets that listen at an address.
pub(super) fn listeners(url: &BaseUrl) -> Vec<u64> {
    if let Some(path) = url.socket() {
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let paths = [whole.display().to_string(), path.display().to_string()];
        return table.lines().filter_map(|line| unix_listener(line, &paths)).collect();
    }
    let Some(port) = url.join("/").port_or_known_default().filter(|_| is_here(url)) else {
        return Vec::new();
    };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|t| t.lines()).filter_map(|line| tcp_listener(line, port)).collect()
}

/// Parses the inode of a socket that listens on `port` from a line of `/proc/net/tcp`:
/// `  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 …`
fn tcp_listener(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let own = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
    (own == port && *fields.get(3)? == "0A").then(|| fields.get(9)?.parse().ok())?
}

/// Parses the inode of a socket that listens at one of `paths` from a line of `/proc/net/unix`:
/// `0000000000000000: 00000002 00000000 00010000 0001 01 23456 /run/a.sock`
fn unix_listener(line: &str, paths: &[String]) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let listens = u32::from_str_radix(fields.get(3)?, 16).ok()? & 0x1_0000 != 0;
    let own = fields.get(7)?;
    (listens && paths.iter().any(|p| p == own)).then(|| fields.get(6)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read() {
        let tcp = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0";
        assert_eq!((tcp_listener(tcp, 8080), tcp_listener(tcp, 8081)), (Some(4711), None));
        assert_eq!(tcp_listener(&tcp.replace(" 0A ", " 01 "), 8080), None, "a connection");
        assert_eq!(tcp_listener("  sl  local_address rem_address   st tx_queue", 8080), None);
        let unix = "0000000000000000: 00000002 00000000 00010000 0001 01 23456 /run/a.sock";
        let at = |line: &str, path: &str| unix_listener(line, &[path.to_owned()]);
        assert_eq!((at(unix, "/run/a.sock"), at(unix, "/run/b.sock")), (Some(23456), None));
        assert_eq!(at(&unix.replace("00010000", "00000000"), "/run/a.sock"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_started_is_named_by_the_words_that_it_was_started_with() {
        let own = i32::try_from(std::process::id()).unwrap();
        let argv = ["sh", "-c", "serve --api-key hunter2hunter2\nwait"].map(str::to_owned);
        let mark = ProcessMark::started(own, &argv, &Redactor::new([("hunter2hunter2", "***")])).unwrap();
        assert!(mark.command.starts_with("sh -c serve --api-key "), "{mark}");
        assert!(mark.command.ends_with(" wait") && !mark.command.contains("hunter2"), "{mark}");
        assert_eq!(mark.ticks, ProcessMark::of(own).unwrap().ticks);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_and_no_other_is_taken_for_it() {
        let own = i32::try_from(std::process::id()).unwrap();
        let by = format!("{own}:{}:{}", started(own).unwrap(), boot().unwrap());
        assert!(is_running(&by) && !is_running(&format!("1{by}")) && !is_running("") && !is_running("1:2"));
        let mark = ProcessMark::of(own).unwrap();
        assert!(mark.since.starts_with("20"), "{mark}");
        let other = ProcessMark { ticks: mark.ticks + 1, ..mark };
        assert!(!other.alive(), "another process of the same number");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: BaseUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let sockets: BTreeSet<u64> = listeners(&url).into_iter().collect();
        assert!(sockets.len() == 1 && has_open(own, &sockets));
        drop(listener);
        assert!(listeners(&url).is_empty());
    }
}
