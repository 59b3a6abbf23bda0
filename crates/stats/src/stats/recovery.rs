//! Recovery from a surge of load: how long a server takes to return to its earlier state, and whether its misses depend on its
//! history.
//!
//! One step holds a rate, then a higher one, then the first again, without a pause. Its time is cut into windows, and each window
//! has its mean number of requests in flight, the 90th percentile of the response time, and its misses. The *band* is the highest
//! value of any window of the first hold. The server has recovered at the first window after the surge from which on [`IN_A_ROW`]
//! consecutive windows are within the band of both figures. Of N + 1 like windows the last is the highest with probability 1/(N +
//! 1), so a server in its earlier state is found outside the band in few of them, since the first hold has at least
//! [`MIN_WINDOWS`].
//!
//! *History*: compares the misses in the second half of the last hold, by which time a server that recovers has done so, with
//! those of the first hold, by an exact permutation test over blocks of time (Fisher; Good, Permutation Tests, 2000, ch. 3).
//! Blocks that are long compared with the memory of a queue are exchangeable if history does not matter, so the test rejects in
//! at most [`LEVEL`] of such cases, however misses cluster within a block.

use serde::{Deserialize, Serialize};

/// Number of consecutive windows within the band that make a recovery.
pub const IN_A_ROW: usize = 3;
/// Smallest number of windows of the first hold.
pub const MIN_WINDOWS: f64 = 12.0;
/// Significance level of the test for history, one-sided.
pub const LEVEL: f64 = 0.05;
/// Target number of requests per window, if the hold has that many.
const PER_WINDOW: f64 = 20.0;
/// Number of blocks of the first hold for the test; the second half of the last hold has half as many.
const BLOCKS: usize = 8;

/// Course of the load, in seconds since the start of the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Course {
    /// Start of the first hold, after the settling time.
    pub from_s: f64,
    /// Length of each hold.
    pub hold_s: f64,
    /// Length of the surge.
    pub surge_s: f64,
}

impl Course {
    /// Returns the start of the surge.
    pub fn surge_from(&self) -> f64 {
        self.from_s + self.hold_s
    }

    /// Returns the end of the surge.
    pub fn surge_to(&self) -> f64 {
        self.surge_from() + self.surge_s
    }

    /// Returns the end of the last hold.
    pub fn to_s(&self) -> f64 {
        self.surge_to() + self.hold_s
    }
}

/// Times and result of one request of the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedRequest {
    /// When it was due, in seconds since the start of the step.
    pub due_s: f64,
    /// When it was sent, in seconds since the start of the step.
    pub sent_s: f64,
    /// When it ended, in seconds since the start of the step.
    pub end_s: f64,
    /// Response time in milliseconds: TTFT, or e2e for answers in one piece. Infinite if no token came.
    pub response_ms: f64,
    /// True if it missed a limit of the SLO.
    pub missed: bool,
}

/// Figures of one window of the step.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Window {
    /// Start, in seconds since the start of the step.
    pub from_s: f64,
    /// Mean requests in flight.
    pub in_flight: f64,
    /// 90th percentile of the response time of the requests due in the window, in milliseconds; `None` without requests, or if a
    /// tenth of them had no answer.
    pub response_p90_ms: Option<f64>,
    /// Number of requests due in the window.
    pub n: u64,
    /// Misses among them.
    pub misses: u64,
}

/// The two figures by which windows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Values {
    /// Mean requests in flight.
    pub in_flight: f64,
    /// 90th percentile of the response time in milliseconds; `None` if it is not finite.
    pub response_p90_ms: Option<f64>,
}

/// Number of requests, and of the misses among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MissCounts {
    /// Number of requests.
    pub n: u64,
    /// Number of misses.
    pub misses: u64,
}

/// Response of a server to a surge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Recovered {
    /// Length of a window in seconds.
    pub window_s: f64,
    /// Highest values of the first hold.
    pub band: Values,
    /// Highest values from the start of the surge on.
    pub worst: Values,
    /// Seconds from the end of the surge until the server was back within the band; `None` if it was not before the last hold
    /// ended.
    pub recovery_s: Option<f64>,
    /// Misses in the first hold.
    pub before: MissCounts,
    /// Misses during the surge.
    pub surge: MissCounts,
    /// Misses in the second half of the last hold.
    pub late: MissCounts,
    /// One-sided p value of the test that `late` has a larger share of misses than `before`; `None` if a part has no requests.
    pub history_p: Option<f64>,
    /// The windows.
    pub windows: Vec<Window>,
}

impl Recovered {
    /// Returns true if the misses are shown to depend on the history of the load.
    pub fn depends_on_history(&self) -> bool {
        self.history_p.is_some_and(|p| p <= LEVEL)
    }
}

/// Analyses the requests of a step with this course of load.
pub fn analyse(requests: &[TimedRequest], course: &Course) -> Recovered {
    let first = |r: &&TimedRequest| r.due_s >= course.from_s && r.due_s < course.surge_from();
    let rate = requests.iter().filter(first).count() as f64 / course.hold_s;
    let window_s = (PER_WINDOW / rate.max(1e-9)).clamp(1.0, (course.hold_s / MIN_WINDOWS).max(1.0));
    let windows = windows(requests, course, window_s);
    let before: Vec<&Window> =
        windows.iter().filter(|w| w.from_s + window_s <= course.surge_from() + 1e-9).collect();
    let after: Vec<&Window> = windows.iter().filter(|w| w.from_s >= course.surge_to() - 1e-9).collect();
    let band = highest(before.iter().copied());
    let within = |w: &Window| {
        let fast = match (w.response_p90_ms, band.response_p90_ms) {
            (Some(ms), Some(most)) => ms <= most,
            (None, _) => w.n == 0,
            (Some(_), None) => true,
        };
        fast && w.in_flight <= band.in_flight.max(1.0)
    };
    let back = after.windows(IN_A_ROW).position(|some| some.iter().all(|w| within(w)));
    let counts = |from: f64, to: f64| {
        let own = requests.iter().filter(|r| r.due_s >= from && r.due_s < to);
        own.fold(MissCounts::default(), |c, r| MissCounts {
            n: c.n + 1,
            misses: c.misses + u64::from(r.missed),
        })
    };
    let late_from = course.to_s() - course.hold_s / 2.0;
    Recovered {
        window_s,
        band,
        worst: highest(windows.iter().filter(|w| w.from_s >= course.surge_from() - 1e-9)),
        recovery_s: back.map(|i| (after[i].from_s - course.surge_to()).max(0.0)),
        before: counts(course.from_s, course.surge_from()),
        surge: counts(course.surge_from(), course.surge_to()),
        late: counts(late_from, course.to_s()),
        history_p: history(requests, course, late_from),
        windows,
    }
}

/// Returns the highest values of several windows; the response time is `None` if it is not finite in any window with requests.
fn highest<'a>(windows: impl Iterator<Item = &'a Window>) -> Values {
    let mut highest = Values { in_flight: 0.0, response_p90_ms: Some(0.0) };
    for w in windows {
        highest.in_flight = highest.in_flight.max(w.in_flight);
        highest.response_p90_ms = match (highest.response_p90_ms, w.response_p90_ms) {
            (Some(most), Some(own)) => Some(most.max(own)),
            (most, None) if w.n == 0 => most,
            _ => None,
        };
    }
    highest
}

/// Cuts each part of the course into windows that begin and end with it.
fn windows(requests: &[TimedRequest], course: &Course, length: f64) -> Vec<Window> {
    let parts = [
        (course.from_s, course.hold_s),
        (course.surge_from(), course.surge_s),
        (course.surge_to(), course.hold_s),
    ];
    let mut edges: Vec<(f64, f64)> = Vec::new();
    for (from, span) in parts {
        let n = (span / length).round().max(1.0);
        edges.extend((0..n as usize).map(|i| (from + span / n * i as f64, span / n)));
    }
    edges.iter().map(|(from, span)| window(requests, *from, *span)).collect()
}

fn window(requests: &[TimedRequest], from: f64, span: f64) -> Window {
    let to = from + span;
    let mut all = Window { from_s: from, ..Window::default() };
    let (mut busy, mut times) = (0.0, Vec::new());
    for r in requests {
        busy += (r.end_s.min(to) - r.sent_s.max(from)).max(0.0);
        if r.due_s >= from && r.due_s < to {
            all.n += 1;
            all.misses += u64::from(r.missed);
            times.push(r.response_ms);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    let rank = (0.9 * times.len() as f64).ceil() as usize;
    all.in_flight = busy / span;
    all.response_p90_ms = times.get(rank.max(1) - 1).copied().filter(|ms| ms.is_finite());
    all
}

/// Returns the one-sided p value of the permutation test: of all ways to choose the late blocks among all blocks, the share whose
/// sum of miss shares is at least the observed one.
fn history(requests: &[TimedRequest], course: &Course, late_from: f64) -> Option<f64> {
    let length = course.hold_s / BLOCKS as f64;
    let late = BLOCKS / 2;
    let starts = (0..BLOCKS).map(|i| course.from_s + length * i as f64);
    let starts = starts.chain((0..late).map(|i| late_from + length * i as f64));
    let share = |from: f64| {
        let own = requests.iter().filter(|r| r.due_s >= from && r.due_s < from + length);
        let (n, misses) = own.fold((0_u64, 0_u64), |(n, k), r| (n + 1, k + u64::from(r.missed)));
        (n > 0).then(|| misses as f64 / n as f64)
    };
    let shares: Vec<f64> = starts.map(share).collect::<Option<_>>()?;
    let observed: f64 = shares[BLOCKS..].iter().sum();
    let (mut all, mut as_much) = (0_u32, 0_u32);
    for chosen in 0_u32..1 << shares.len() {
        if chosen.count_ones() as usize == late {
            let sum: f64 =
                shares.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, s)| s).sum();
            all += 1;
            as_much += u32::from(sum >= observed - 1e-12);
        }
    }
    Some(f64::from(as_much) / f64::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const COURSE: Course = Course { from_s: 10.0, hold_s: 120.0, surge_s: 60.0 };

    /// Simulates an M/D/1 queue at 8 requests/s, and 1.4 times that in the surge. The service time is `service` seconds, and
    /// `late` from the end of the surge on.
    fn served(service: f64, late: f64, seed: u64) -> Vec<TimedRequest> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut now, mut free, mut all) = (0.0_f64, 0.0_f64, Vec::new());
        while now < COURSE.to_s() {
            let surge = now >= COURSE.surge_from() && now < COURSE.surge_to();
            now -= (1.0 - rng.random::<f64>()).ln() / if surge { 11.2 } else { 8.0 };
            free = free.max(now) + if now < COURSE.surge_to() { service } else { late };
            let response_ms = 1e3 * (free - now);
            all.push(TimedRequest {
                due_s: now,
                sent_s: now,
                end_s: free,
                response_ms,
                missed: response_ms > 600.0,
            });
        }
        all
    }

    #[test]
    fn a_queue_recovers_as_fast_as_it_drains() {
        // Ten a second can be served: in a minute at 11.2 about 72 pile up, which drain at 2 a second in about 36 s.
        let r = analyse(&served(0.1, 0.1, 1), &COURSE);
        let took = r.recovery_s.unwrap();
        assert!((15.0..75.0).contains(&took), "{took}");
        assert!(r.worst.in_flight > 2.0 * r.band.in_flight && r.surge.misses > r.before.misses, "{r:?}");
        let n: u64 = r.windows.iter().map(|w| w.n).sum();
        assert!(r.before.n + r.surge.n < n && r.windows.len() > 30);
    }

    #[test]
    fn a_server_that_stays_slow_does_not_recover_and_depends_on_history() {
        let r = analyse(&served(0.1, 0.13, 1), &COURSE);
        assert_eq!(r.recovery_s, None);
        assert!(r.depends_on_history(), "{:?}", r.history_p);
    }

    #[test]
    fn a_surge_within_capacity_needs_no_recovery() {
        let r = analyse(&served(0.02, 0.02, 3), &COURSE);
        assert!(r.recovery_s.unwrap() <= 4.0 * r.window_s, "{r:?}");
        assert_eq!((r.history_p, r.depends_on_history()), (Some(1.0), false), "no miss in either");
    }

    /// Constant service and a surge that is over in seconds: history does not matter, and the test may reject in at most 5 % of
    /// runs.
    #[test]
    fn the_history_test_keeps_its_level() {
        let found = (0..200).filter(|seed| analyse(&served(0.07, 0.07, *seed), &COURSE).depends_on_history());
        let n = found.count();
        assert!(n <= 18, "{n} of 200");
    }

    #[test]
    fn unanswered_requests_are_outside_the_band() {
        let mut all = served(0.02, 0.02, 3);
        let gone = |r: &&mut TimedRequest| r.due_s > COURSE.surge_to();
        all.iter_mut().filter(gone).for_each(|r| (r.response_ms, r.missed) = (f64::INFINITY, true));
        let r = analyse(&all, &COURSE);
        assert_eq!((r.recovery_s, r.worst.response_p90_ms), (None, None));
        assert!(r.depends_on_history());
    }
}
