//! Staying awake before a deadline, where a core would idle anyway.
//!
//! An idle core takes some 0.1 ms to wake, which is most of a request's lateness at low rates. A thread that looks at its sockets and the clock in
//! turn, instead of sleeping, is on time; but it must not take the core from the server or from another client. The kernel's count of runnable
//! threads says whether another core idles; it is read each time, and a thread never spends more than a tenth of its time this way.
//! `docs/timing.md` has the effect.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use tokio::time::Instant;

/// How long before a deadline a thread is awake: a little more than most idle cores take to wake.
pub(super) const AHEAD: Duration = Duration::from_micros(150);
/// Shortest time between two such waits.
const APART: Duration = Duration::from_micros(1_500);

/// Decides whether a thread may stay awake before a deadline.
#[derive(Debug)]
pub(super) struct Spin {
    /// `/proc/loadavg`, whose fourth field is the number of runnable threads, and that of all.
    loads: File,
    cores: usize,
    /// When it last stayed awake.
    last: Option<Instant>,
}

impl Spin {
    /// Makes one for the calling machine; `None` if it has only one core, or does not count its runnable threads.
    pub(super) fn new() -> Option<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let loads = File::open("/proc/loadavg").ok()?;
        (cores > 1).then_some(Self { loads, cores, last: None })
    }

    /// Returns true if the calling thread may stay awake before a deadline at `at`: another core idles, and the last time is long enough ago.
    pub(super) fn begin(&mut self, at: Instant) -> bool {
        let is_apart = self.last.is_none_or(|last| last == at || at.saturating_duration_since(last) >= APART);
        let may = is_apart && self.runnable().is_some_and(|threads| threads < self.cores);
        if may {
            self.last = Some(at);
        }
        may
    }

    /// Returns the number of runnable threads, the calling one included.
    fn runnable(&self) -> Option<usize> {
        let mut text = [0; 128];
        let length = self.loads.read_at(&mut text, 0).ok()?;
        runnable(std::str::from_utf8(&text[..length]).ok()?)
    }
}

/// Reads the number of runnable threads from the text of `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206` (proc(5)).
fn runnable(text: &str) -> Option<usize> {
    text.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the file, and the number of runnable threads.
    #[test]
    fn runnable_threads_are_counted() {
        for (text, threads) in [
            ("0.20 0.18 0.12 1/80 11206\n", Some(1)),
            ("31.96 31.64 31.52 33/1155 14016\n", Some(33)),
            ("0.20 0.18 0.12", None),
            ("0.20 0.18 0.12 1 11206", Some(1)),
            ("", None),
            ("a b c d/e", None),
        ] {
            assert_eq!(runnable(text), threads, "{text}");
        }
    }

    /// Rows: the number of cores, the time since the last wait in µs, and whether the thread may stay awake.
    #[tokio::test(start_paused = true)]
    async fn it_is_rare_and_needs_a_core_that_idles() {
        let Some(spin) = Spin::new() else { return };
        let at = Instant::now() + APART;
        for (cores, since, may) in [
            (usize::MAX, None, true),
            (usize::MAX, Some(1_500), true),
            (usize::MAX, Some(1_400), false),
            (usize::MAX, Some(0), true),
            (0, None, false),
        ] {
            let last = since.map(|us| at - Duration::from_micros(us));
            let mut spin = Spin { loads: spin.loads.try_clone().unwrap(), cores, last };
            assert_eq!(spin.begin(at), may, "{cores} {since:?}");
            assert_eq!(spin.last == Some(at), may, "{cores} {since:?}");
        }
    }
}
