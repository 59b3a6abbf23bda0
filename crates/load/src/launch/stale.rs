//! Servers that were left behind: started by a goodput that was killed (`kill -9`) before it could stop them.
//!
//! What is started is written down beside its log, and removed from there when it is stopped; and it has a variable in its environment
//! that says for which run it was started. So it is found again by its run folder, by the address that it was to serve, or by the port
//! that it holds. All of it by `/proc`: where there is none, nothing is found.

use super::group;
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

/// The variable in the environment of what is started: the run folder.
pub(super) const RUN: &str = "GOODPUT_RUN";
/// That of who started it: number and start of the process.
const BY: &str = "GOODPUT_STARTED_BY";
/// That of the addresses which it was to serve.
const SERVES: &str = "GOODPUT_SERVES";
/// Command lines are shown up to so many characters.
const SHOWN: usize = 160;

/// A process, so that it is not taken for another one that has its number later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its number, which is that of its group.
    pub pid: i32,
    /// When it started, in ticks since the system did.
    pub ticks: u64,
    /// Which start of the system.
    pub boot: String,
    /// Its command line, secrets masked.
    pub command: String,
    /// When it started, for people.
    pub since: String,
}

impl Mark {
    /// Of a process that was started with these words just now, without these secrets and any that is known; `None` where the system does
    /// not tell when. The system is not asked for the words: while a program is being loaded, it has none to tell.
    pub(super) fn started(pid: i32, argv: &[String], secrets: &Redactor) -> Option<Self> {
        Self::new(pid, &in_a_line(&argv.join(" "), secrets))
    }

    /// Of a process that runs, without any secret that is known; `None` where the system does not tell.
    fn of(pid: i32) -> Option<Self> {
        Self::new(pid, &command(pid)?)
    }

    fn new(pid: i32, command: &str) -> Option<Self> {
        let ticks = ticks(pid)?;
        Some(Self { pid, ticks, boot: boot()?, command: command.to_owned(), since: since(ticks)? })
    }

    /// Whether it, or another process of its group, is still there.
    pub fn alive(&self) -> bool {
        let leader = ticks(self.pid);
        // A number that is a group's is given to no other process while the group is there.
        boot().as_deref() == Some(&*self.boot)
            && leader.is_none_or(|ticks| ticks == self.ticks)
            && group::members(self.pid) == Some(true)
    }

    /// Writes it down.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).context("failed to write a process as JSON")?;
        fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One that was written down by another process may hold what is known here alone.
        let Self { pid, since, .. } = self;
        match registered().redact(&self.command) {
            // One whose program is being loaded, or that has thrown its words away.
            nothing if nothing.is_empty() => write!(f, "process {pid} (since {since})"),
            command => write!(f, "process {pid} (`{command}`, since {since})"),
        }
    }
}

/// What was written down in a folder of logs and is still there: the name of each, and the process.
pub fn left_in(logs: &Path) -> Vec<(String, Mark)> {
    let entries = fs::read_dir(logs).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    let one = |path: std::path::PathBuf| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        // One that was torn as it was written says nothing.
        let mark: Mark = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some((name, mark))
    };
    let mut all: Vec<_> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "pid")).filter_map(one).collect();
    all.retain(|(_, mark)| mark.alive());
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// A process in the place of a server that is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTheWay {
    process: Mark,
    whose: Whose,
}

/// Who has started a process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    /// A goodput that is gone, for a run; its group.
    Left { group: i32, run: String },
    /// A goodput that still runs.
    Running { run: String },
    /// Somebody else.
    Other,
}

impl InTheWay {
    /// Whether it was left behind by a goodput, so that it is in the way even before it answers.
    pub const fn is_left(&self) -> bool {
        matches!(self.whose, Whose::Left { .. })
    }
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = &self.process;
        match &self.whose {
            Whose::Left { group, run } => write!(
                f,
                "{process} was started for the run {run}, and goodput was killed before it could stop it; end it, and all that it started, \
                 with: kill -- -{group}"
            ),
            Whose::Running { run } => write!(f, "{process} belongs to the sweep {run}, which still runs"),
            Whose::Other => write!(f, "{process}; end it with: kill {}", process.pid),
        }
    }
}

/// Who is in the way of a server that is to be started at these addresses: processes of this machine that listen there, and those that were
/// started for one of them by a goodput that is gone, though they do not listen yet.
pub fn in_the_way(urls: &[BaseUrl]) -> Vec<InTheWay> {
    let sockets: BTreeSet<u64> = urls.iter().flat_map(listeners).collect();
    let served: Vec<String> = urls.iter().map(ToString::to_string).collect();
    let mut found: Vec<InTheWay> = Vec::new();
    for pid in processes() {
        let environment = environment(pid);
        let of = |name: &str| environment.iter().find_map(|v| v.strip_prefix(name)?.strip_prefix('='));
        let whose = match (of(RUN), of(BY), group::of(pid)) {
            (Some(run), Some(by), _) if is_there(by) => Whose::Running { run: run.to_owned() },
            (Some(run), Some(_), Some(group)) => Whose::Left { group, run: run.to_owned() },
            _ => Whose::Other,
        };
        let serves =
            of(SERVES).is_some_and(|urls| urls.split(' ').any(|url| served.iter().any(|s| s == url)));
        let left = serves && matches!(whose, Whose::Left { .. });
        if !left && (sockets.is_empty() || !holds(pid, &sockets)) {
            continue;
        }
        // Of a group its first process stands for all.
        if let Some(process) = Mark::of(pid)
            && (whose == Whose::Other || !found.iter().any(|f| f.whose == whose))
        {
            found.push(InTheWay { process, whose });
        }
    }
    found
}

/// What a process that is started is told, so that it is found again: name and value.
pub(super) fn told(log: &Path, serves: &[BaseUrl]) -> Vec<(&'static str, String)> {
    let run = log.parent().and_then(Path::parent).unwrap_or(log);
    let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    let own = i32::try_from(std::process::id()).ok();
    let by = own.and_then(|own| Some(format!("{own}:{}:{}", ticks(own)?, boot()?)));
    let urls: Vec<String> = serves.iter().map(ToString::to_string).collect();
    vec![(RUN, run.display().to_string()), (BY, by.unwrap_or_default()), (SERVES, urls.join(" "))]
}

/// Whether the process `number:start:boot` is there.
fn is_there(by: &str) -> bool {
    let mut parts = by.splitn(3, ':');
    let (pid, then) =
        (parts.next().and_then(|p| p.parse().ok()), parts.next().and_then(|t| t.parse::<u64>().ok()));
    match (pid.and_then(ticks), parts.next()) {
        (Some(now), Some(of)) => Some(now) == then && boot().as_deref() == Some(of),
        _ => false,
    }
}

/// Every process of this machine but this one.
pub(super) fn processes() -> impl Iterator<Item = i32> {
    let own = i32::try_from(std::process::id()).ok();
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    all.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(move |pid| Some(*pid) != own)
}

/// When a process started, in ticks; `None` where it is gone, or has ended and nobody has asked about it.
fn ticks(pid: i32) -> Option<u64> {
    started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The start of a line of `/proc/PID/stat`: its field 22.
fn started(stat: &str) -> Option<u64> {
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?;
    (!matches!(state, "Z" | "X" | "x")).then(|| rest.nth(18)?.parse().ok())?
}

/// Which start of the system this is.
fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// When so many ticks had gone, to the second.
fn since(ticks: u64) -> Option<String> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let at = boot + ticks / rustix::param::clock_ticks_per_second().max(1);
    let at = jiff::Timestamp::from_second(i64::try_from(at).ok()?).ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// The command line of a process that runs, in one line. It is empty while its program is being loaded.
fn command(pid: i32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ");
    Some(in_a_line(&text, &Redactor::default()))
}

/// A command line in one line, without secrets: these, those that are known, and what looks like one.
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

/// Whether a process has one of these sockets open. Those of other users are not told.
pub(super) fn holds(pid: i32, sockets: &BTreeSet<u64>) -> bool {
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

/// The sockets that listen at an address, by their numbers.
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

/// `  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 …`
fn tcp_listener(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let own = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
    (own == port && *fields.get(3)? == "0A").then(|| fields.get(9)?.parse().ok())?
}

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
        let stat = "12 (a) b) S 1 10 10 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 20";
        assert_eq!(
            (started(stat), started(&stat.replace(" S ", " Z ")), started("12 (x) S")),
            (Some(98765), None, None)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_started_is_named_by_the_words_that_it_was_started_with() {
        let own = i32::try_from(std::process::id()).unwrap();
        let argv = ["sh", "-c", "serve --api-key hunter2hunter2\nwait"].map(str::to_owned);
        let mark = Mark::started(own, &argv, &Redactor::new([("hunter2hunter2", "***")])).unwrap();
        assert!(mark.command.starts_with("sh -c serve --api-key "), "{mark}");
        assert!(mark.command.ends_with(" wait") && !mark.command.contains("hunter2"), "{mark}");
        assert_eq!(mark.ticks, Mark::of(own).unwrap().ticks);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_and_no_other_is_taken_for_it() {
        let own = i32::try_from(std::process::id()).unwrap();
        let by = format!("{own}:{}:{}", ticks(own).unwrap(), boot().unwrap());
        assert!(is_there(&by) && !is_there(&format!("1{by}")) && !is_there("") && !is_there("1:2"));
        let mark = Mark::of(own).unwrap();
        assert!(mark.since.starts_with("20"), "{mark}");
        let other = Mark { ticks: mark.ticks + 1, ..mark };
        assert!(!other.alive(), "another process of the same number");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: BaseUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let sockets: BTreeSet<u64> = listeners(&url).into_iter().collect();
        assert!(sockets.len() == 1 && holds(own, &sockets));
        drop(listener);
        assert!(listeners(&url).is_empty());
    }
}
