//! CPU use of this machine: how busy its cores were, and which processes used them.
//!
//! A server on this machine shares its cores with everything else that runs here. A compiler running at the same time
//! slows it down, and neither the server's counters nor the client's clocks show why. `/proc/stat` reports how long the
//! cores were busy, idle, or taken away by a hypervisor (steal). `/proc/PID/stat` reports how much of that was used by
//! the server's processes and by this one. `/proc/pressure/cpu` reports how long something runnable had no core (PSI).
//! If the kernel has no PSI, the number of runnable processes is sampled once a second. The server's processes are
//! those with its listening socket open, those of the started process group, and all of their descendants. Processes of
//! another user, or in a container, do not reveal their sockets, so the server's time cannot be separated from that of
//! others.

use super::process::{Process, own, processes};
use super::stale::{has_open, is_here, listeners};
use goodput_core::endpoint::BaseUrl;
use goodput_stats::stats::step::HostLoad;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;
use tokio::time::Instant;

/// Sampling interval of the number of runnable processes.
const LOOK: Duration = Duration::from_secs(1);

/// The processes whose CPU time counts as the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    /// Simulated, within this process.
    Within,
    /// These processes and their descendants; empty if they cannot be identified.
    Processes(BTreeSet<i32>),
}

/// A watch on the CPU use of this machine during a step.
#[derive(Debug)]
pub struct Watch {
    server: Server,
    from: Snapshot,
    to: Option<Snapshot>,
    /// Number of samples of the runnable processes, and number of samples with more of them than cores.
    looks: (u32, u32),
    next_look: Instant,
}

impl Watch {
    /// Begins to watch the cores of a server on this machine, which serves these addresses or runs in this process
    /// group. With neither, it is the simulated server, within this process. Returns `None` if the server is on another
    /// machine, or the system has no such counters.
    pub fn begin(urls: &[BaseUrl], group: Option<u32>) -> Option<Self> {
        let server = if urls.is_empty() && group.is_none() {
            Server::Within
        } else if group.is_some() || urls.iter().all(is_here) {
            Server::Processes(roots(urls, group))
        } else {
            return None;
        };
        let from = Snapshot::now(&server)?;
        Some(Self { server, from, to: None, looks: (0, 0), next_look: Instant::now() })
    }

    /// Restarts the count at the beginning of the measured window.
    pub fn window_begins(&mut self) {
        if let Some(from) = Snapshot::now(&self.server) {
            (self.from, self.looks) = (from, (0, 0));
        }
    }

    /// Samples the runnable processes, at most once a second, and only if the kernel has no PSI.
    pub fn look(&mut self) {
        let now = Instant::now();
        if self.to.is_some() || self.from.pressure.is_some() || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        if let Some(running) = fs::read_to_string("/proc/stat").ok().and_then(|text| runnable(&text)) {
            self.looks.0 += 1;
            self.looks.1 += u32::from(running > self.from.cores);
        }
    }

    /// Takes the final snapshot, at the end of the measured window.
    pub fn window_ends(&mut self) {
        if self.to.is_none() {
            self.to = Snapshot::now(&self.server);
        }
    }

    /// Returns the CPU use of the window; `None` if no CPU time was counted in it.
    pub fn end(mut self) -> Option<HostLoad> {
        self.window_ends();
        let cores = self.to.as_ref()?.since(&self.from)?;
        let (looks, crowded) = self.looks;
        let looked = (looks > 0).then(|| f64::from(crowded) / f64::from(looks));
        Some(HostLoad { waiting: cores.waiting.or(looked), ..cores })
    }
}

/// A snapshot of the system's counters.
#[derive(Debug, Clone, PartialEq)]
struct Snapshot {
    at: Instant,
    cores: u32,
    time: CoreTime,
    /// CPU ticks of this process.
    own: u64,
    /// CPU ticks of each of the server's processes; `None` if they cannot be identified.
    server: Option<BTreeMap<i32, u64>>,
    /// Total time in which something waited for a core.
    pressure: Option<Duration>,
}

/// CPU time of the cores, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CoreTime {
    all: u64,
    idle: u64,
    steal: u64,
}

impl Snapshot {
    /// Takes a snapshot of the counters now; `None` if the system has none.
    fn now(server: &Server) -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let (time, cores) =
            core_time(&fs::read_to_string("/proc/stat").ok()?, &allowed.map(cores_of).unwrap_or_default())?;
        let own = own()?.1.ticks;
        let server = match server {
            Server::Within => Some(BTreeMap::new()),
            Server::Processes(roots) if roots.is_empty() => None,
            Server::Processes(roots) => {
                Some(descendants(&processes().map(|(pid, p)| (pid, (p.parent, p.ticks))).collect(), roots))
            }
        };
        let pressure = fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| stalled(&text));
        Some(Self { at: Instant::now(), cores, time, own, server, pressure })
    }

    /// Returns the CPU use since an earlier snapshot; `None` if no tick has passed.
    fn since(&self, from: &Self) -> Option<HostLoad> {
        let all = self.time.all.checked_sub(from.time.all).filter(|n| *n > 0)? as f64;
        let grown = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        let (idle, steal) = (grown(self.time.idle, from.time.idle), grown(self.time.steal, from.time.steal));
        let busy = (1.0 - idle - steal).clamp(0.0, 1.0);
        let server = self.server.as_ref().zip(from.server.as_ref()).map(|(now, then)| {
            // A process that is new since then used all of its time since.
            now.iter().map(|(pid, ticks)| grown(*ticks, then.get(pid).copied().unwrap_or(0))).sum::<f64>()
        });
        let own = grown(self.own, from.own);
        let wall = self.at.saturating_duration_since(from.at).as_secs_f64();
        let stalled = self.pressure.zip(from.pressure).filter(|_| wall > 0.0);
        Some(HostLoad {
            cores: self.cores,
            busy,
            server,
            others: server.map(|server| (busy - own - server).clamp(0.0, 1.0)),
            steal,
            waiting: stalled.map(|(now, then)| (now.saturating_sub(then).as_secs_f64() / wall).min(1.0)),
        })
    }
}

/// Returns the processes with a listening socket of these addresses open, and those of the process group.
fn roots(urls: &[BaseUrl], group: Option<u32>) -> BTreeSet<i32> {
    let sockets: BTreeSet<u64> = urls.iter().flat_map(listeners).collect();
    let group = group.and_then(|group| i32::try_from(group).ok());
    let is_root = |(pid, process): &(i32, Process)| {
        Some(process.group) == group || (!sockets.is_empty() && has_open(*pid, &sockets))
    };
    processes().filter(is_root).map(|(pid, _)| pid).collect()
}

/// Returns the CPU ticks of `roots` and of all of their descendants. `table` has the parent and the ticks of each process.
fn descendants(table: &BTreeMap<i32, (i32, u64)>, roots: &BTreeSet<i32>) -> BTreeMap<i32, u64> {
    let is_own = |pid: i32| {
        // Guards against a cycle: no process has more ancestors than there are processes.
        let line = std::iter::successors(Some(pid), |pid| table.get(pid).map(|(parent, _)| *parent))
            .take(table.len());
        line.into_iter().any(|pid| roots.contains(&pid))
    };
    table.iter().filter(|(pid, _)| is_own(**pid)).map(|(pid, (_, ticks))| (*pid, *ticks)).collect()
}

/// Adds up the lines of `/proc/stat` for the `allowed` cores, or for all if empty. Returns the sum and the number of
/// cores.
fn core_time(stat: &str, allowed: &BTreeSet<u32>) -> Option<(CoreTime, u32)> {
    let mut sum = (CoreTime::default(), 0);
    for line in stat.lines() {
        let mut fields = line.split_whitespace();
        let Some(core) = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok()) else {
            continue;
        };
        if !allowed.is_empty() && !allowed.contains(&core) {
            continue;
        }
        // user nice system idle iowait irq softirq steal. Guest time is already part of user and nice.
        let ticks: Vec<u64> = fields.take(8).map(|f| f.parse().ok()).collect::<Option<_>>()?;
        let [_, _, _, idle, iowait, _, _, steal] = ticks[..] else { return None };
        sum.0.all += ticks.iter().sum::<u64>();
        sum.0.idle += idle + iowait;
        sum.0.steal += steal;
        sum.1 += 1;
    }
    (sum.1 > 0).then_some(sum)
}

/// Parses a list of cores such as `0-3,8`.
fn cores_of(list: &str) -> BTreeSet<u32> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.trim().parse().ok()?..=high.trim().parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Parses the number of runnable processes, including those on a core, from `/proc/stat`.
fn runnable(stat: &str) -> Option<u32> {
    stat.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}

/// Parses the total time in which something waited for a core: `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`
/// (µs).
fn stalled(pressure: &str) -> Option<Duration> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    Some(Duration::from_micros(line.rsplit_once("total=")?.1.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  400 0 100 400 60 10 20 10 0 0\ncpu0 300 0 50 100 30 5 10 5 0 0\ncpu1 100 0 50 300 30 5 10 5 0 0\n\
                        intr 1 2\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn the_time_of_the_allowed_cores_is_added_up() {
        let time = |all, idle, steal| CoreTime { all, idle, steal };
        for (allowed, want) in [
            ("0-1", Some((time(1000, 460, 10), 2))),
            ("1", Some((time(500, 330, 5), 1))),
            ("", Some((time(1000, 460, 10), 2))),
            ("5", None),
        ] {
            assert_eq!(core_time(STAT, &cores_of(allowed)), want, "{allowed}");
        }
        assert_eq!(core_time("cpu0 1 2 3", &BTreeSet::new()), None, "an old kernel");
        assert_eq!(cores_of("0-2,8\n"), BTreeSet::from([0, 1, 2, 8]));
        assert_eq!((runnable(STAT), runnable("")), (Some(3), None));
    }

    #[test]
    fn pressure_is_the_line_of_some() {
        let text = "some avg10=33.92 avg60=58.90 avg300=48.55 total=247480425\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(stalled(text), Some(Duration::from_micros(247_480_425)));
        assert_eq!((stalled(""), stalled("some total=x")), (None, None));
    }

    #[test]
    fn a_servers_processes_are_its_roots_and_all_below_them() {
        let p = |parent| (parent, 5);
        let table =
            BTreeMap::from([(1, p(0)), (10, p(1)), (11, p(10)), (12, p(11)), (20, p(1)), (30, p(30))]);
        let own = descendants(&table, &BTreeSet::from([10, 99]));
        assert_eq!(own.keys().copied().collect::<Vec<_>>(), [10, 11, 12]);
    }

    /// Two seconds on two cores, at 100 ticks per second each.
    #[tokio::test(start_paused = true)]
    async fn what_neither_server_nor_client_had_was_anothers() {
        let at = Instant::now();
        let from = Snapshot {
            at,
            cores: 2,
            time: CoreTime { all: 1000, idle: 500, steal: 10 },
            own: 100,
            server: Some(BTreeMap::from([(10, 50)])),
            pressure: Some(Duration::from_secs(9)),
        };
        let to = Snapshot {
            at: at + Duration::from_secs(2),
            time: CoreTime { all: 1400, idle: 540, steal: 50 },
            own: 120,
            server: Some(BTreeMap::from([(10, 110), (11, 20)])),
            pressure: Some(Duration::from_secs(10)),
            ..from.clone()
        };
        let cores = to.since(&from).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(cores.busy, 0.8) && near(cores.steal, 0.1), "{cores:?}");
        // 320 ticks busy: 20 of this process, 80 of the server, of which 20 of a process that is new.
        assert!(near(cores.server.unwrap(), 0.2) && near(cores.others.unwrap(), 0.55), "{cores:?}");
        assert!(near(cores.waiting.unwrap(), 0.5));
        let unknown = Snapshot { server: None, ..to.clone() }.since(&from).unwrap();
        assert_eq!((unknown.server, unknown.others), (None, None));
        assert_eq!(from.since(&from), None, "no time has passed");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_servers_on_this_machine_are_watched() {
        let far: BaseUrl = "http://192.0.2.1:8000".parse().unwrap();
        assert!(Watch::begin(&[far], None).is_none());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near: BaseUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        assert!(Watch::begin(&[near], None).is_some() && Watch::begin(&[], None).is_some());
    }
}
