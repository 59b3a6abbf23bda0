//! CPU time and run-queue wait of a thread.
//!
//! A client whose threads get no core sends late and timestamps late, and would mistake that for a slow server. Linux
//! reports both times for each thread (`schedstat` in `proc(5)`: time on a core, time runnable but waiting, both in
//! ns). On other systems, and on kernels without this file, only the time on a core is known. Time stolen by a
//! hypervisor is not reported separately: it counts as time on a core.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;

/// The clocks of one thread at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadClock {
    wall: Instant,
    /// Time on a core since the thread began.
    on_core: Duration,
    /// Time spent waiting for a core; `None` if the system does not report it.
    waited: Option<Duration>,
}

/// The use of a thread's time between two readings, as fractions of the wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Fraction of the time on a core.
    pub busy: f64,
    /// Fraction of the time runnable without a core; `None` if the system does not report it.
    pub waiting: Option<f64>,
}

impl ThreadClock {
    /// Reads the clocks of the calling thread. Takes some microseconds: too slow for every request.
    pub fn now() -> Self {
        Self { wall: Instant::now(), on_core: on_core(), waited: waited() }
    }

    /// Returns the use of the thread's time since `earlier`, a reading of this thread; `None` if no time has passed.
    pub fn since(&self, earlier: &Self) -> Option<Share> {
        let wall = self.wall.saturating_duration_since(earlier.wall).as_secs_f64();
        let share =
            |to: Duration, from: Duration| (to.saturating_sub(from).as_secs_f64() / wall).clamp(0.0, 1.0);
        (wall > 0.0).then(|| Share {
            busy: share(self.on_core, earlier.on_core),
            waiting: self.waited.zip(earlier.waited).map(|(to, from)| share(to, from)),
        })
    }
}

impl Share {
    /// Returns the larger of each value of two threads: the busiest and the most starved thread may differ.
    pub fn worse(self, other: Self) -> Self {
        let waiting = self.waiting.into_iter().chain(other.waiting).reduce(f64::max);
        Self { busy: self.busy.max(other.busy), waiting }
    }
}

fn on_core() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn waited() -> Option<Duration> {
    // Other systems have no such file.
    second(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Parses the second number of `schedstat`: ns runnable but waiting.
fn second(schedstat: &str) -> Option<Duration> {
    let [_, waited, _] = schedstat.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    waited.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a thread twice, `wall_ms` apart, in which it was on a core for `core_ms` and waited for one for
    /// `waited_ms`.
    fn share(wall_ms: u64, core_ms: u64, waited_ms: Option<u64>) -> Option<Share> {
        let ms = Duration::from_millis;
        let from =
            ThreadClock { wall: Instant::now(), on_core: ms(2_000), waited: waited_ms.map(|_| ms(500)) };
        let to = ThreadClock {
            wall: from.wall + ms(wall_ms),
            on_core: ms(2_000 + core_ms),
            waited: waited_ms.map(|w| ms(500 + w)),
        };
        to.since(&from)
    }

    #[test]
    fn shares_are_of_the_time_between_two_readings() {
        for (wall, core, waited, want) in [
            (1_000, 230, Some(100), Some((0.23, Some(0.1)))),
            (1_000, 230, None, Some((0.23, None))), // not Linux
            (1_000, 0, Some(0), Some((0.0, Some(0.0)))),
            (1_000, 1_003, Some(0), Some((1.0, Some(0.0)))), // the clocks are not read at the same instant
            (0, 0, Some(0), None),
        ] {
            let got = share(wall, core, waited).map(|s| (s.busy, s.waiting));
            let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
            let same = match (got, want) {
                (Some((b, w)), Some((wb, ww))) => {
                    near(b, wb) && w.is_some() == ww.is_some() && near(w.unwrap_or(0.0), ww.unwrap_or(0.0))
                }
                (got, want) => got.is_none() && want.is_none(),
            };
            assert!(same, "{core} of {wall} ms: {got:?}");
        }
    }

    #[test]
    fn of_two_threads_the_larger_counts() {
        let thread = |busy, waiting| Share { busy, waiting };
        for (a, b, want) in [
            (thread(0.9, Some(0.01)), thread(0.2, Some(0.3)), thread(0.9, Some(0.3))),
            (thread(0.1, None), thread(0.2, Some(0.3)), thread(0.2, Some(0.3))),
            (thread(0.1, None), thread(0.2, None), thread(0.2, None)),
        ] {
            assert_eq!((a.worse(b), b.worse(a)), (want, want));
        }
    }

    #[test]
    fn the_second_number_is_the_wait() {
        for (text, want) in [
            ("339215115 15593618 259\n", Some(15_593_618)),
            ("0 0 1\n", Some(0)),
            ("339215115 15593618\n", None), // another format
            ("", None),
            ("a b c\n", None),
        ] {
            assert_eq!(second(text), want.map(Duration::from_nanos), "{text:?}");
        }
    }

    #[test]
    fn a_thread_that_works_is_busy() {
        let from = ThreadClock::now();
        let mut x = 1_u64;
        // Spins until the thread's CPU clock has moved, on a machine of any speed.
        while ThreadClock::now().on_core < from.on_core + Duration::from_millis(5) {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let share = ThreadClock::now().since(&from).unwrap();
        assert!(share.busy > 0.0 && share.busy <= 1.0, "{share:?}");
        assert_eq!(share.waiting.is_some(), std::path::Path::new("/proc/thread-self/schedstat").exists());
    }
}
