//! The client's own limits: what it may delay, what it did, and from where on a verdict is in doubt for it.
//!
//! A delay of the client is in every latency that counts from `due`. So a step that meets, meets; and one that does not is tried without
//! the delay, wherever the delay is large enough to matter ([`Own::doubt`]): *invalid* if the verdict would flip, else it stands.

use super::step::{Abort, Step};
use goodput_core::caveat::{Cause, Excess, OwnFault};
use goodput_core::level::{Control, Level};
use goodput_core::slo::{Metric, Slo};
use goodput_core::units::ms;
use serde::Serialize;

/// From this share of its time on a core on, a thread is said to have been busy where the client was slow.
const BUSY: f64 = 0.8;
/// A smaller share of its time without a core explains nothing.
const WAITED: f64 = 0.01;

/// How much delay of its own the client may have before a verdict is tried without it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowed {
    /// p99 of sent − due, as a share of the tightest limit that counts from `due`.
    pub lateness: f64,
    /// p99 of socket readable → stamp, as a share of the tightest limit that it touches.
    pub receive_lag: f64,
    /// Share of the window in which a sending thread waited for a core.
    pub starved: f64,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { lateness: 0.05, receive_lag: 0.05, starved: 0.1 }
    }
}

/// What the client did in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Own {
    /// What it may do.
    pub allowed: Allowed,
    /// Requests due in the measured window; `None` where nothing follows from their number: in a closed loop, and where a step was broken
    /// off.
    pub due: Option<u64>,
    /// Requests sent in the measured window.
    pub sent: u64,
    /// p99 of sent − due.
    pub lateness_ms: f64,
    /// p99 of socket readable → stamp.
    pub lag_ms: f64,
    /// Share of the window that the busiest sending thread was on a core, where known.
    pub busy: Option<f64>,
    /// Largest share of the window in which a sending thread waited for one, where known.
    pub waiting: Option<f64>,
}

impl Own {
    /// What the columns of a step tell.
    pub fn of(s: &Step, allowed: Allowed) -> Self {
        let lateness_ms = s.lateness_p99_ms.unwrap_or(0.0);
        Self {
            allowed,
            due: due(s.due_n, s.level, s.measure_s, lateness_ms, s.abort),
            sent: (s.sent_rate * s.measure_s).round() as u64,
            lateness_ms,
            lag_ms: s.receive_lag_p99_ms.unwrap_or(0.0),
            busy: s.client_busy,
            waiting: s.client_waiting,
        }
    }

    /// Whether fewer requests were sent than were due. One due at the very end may be sent just after it, so up to three are no shortfall.
    pub fn behind(&self) -> Option<OwnFault> {
        let due = self.due?;
        let short = due.saturating_sub(self.sent) as f64;
        let behind = short > (0.01 * due as f64).max(3.0);
        behind.then(|| OwnFault::Behind { sent: self.sent, due, cause: self.cause() })
    }

    /// Whether the client was so far beyond what it can do that its stamps tell nothing of the server, not even from `sent` on: it is
    /// behind, and its threads had no core to spare, or it came to less than half of what was due. (Also a client that was halted as a
    /// whole, by a virtual machine or a quota of CPU time, of which its threads know nothing.) A request then waits for its turn between being sent and
    /// being written, and its answer before it is read; the receive lag samples the last of these alone.
    pub(super) fn overwhelmed(&self) -> bool {
        let Some(due) = self.due.filter(|_| self.behind().is_some()) else { return false };
        2 * self.sent < due || !matches!(self.cause(), Cause::Unknown)
    }

    /// Why a verdict may rest on the client's delay, if it may: lateness above its share of `from_due`, or a receive lag above its share of
    /// `by_lag` (limits in ms; `None` where none is touched), or sending threads that were starved.
    ///
    /// A thread that waits for a core delays what it sends and what it stamps, so starvation is in the lateness and in the lag already, and
    /// those decide; where they do, it is told as their cause. But both are p99s of what was seen: of a thread that was away for a part of
    /// the time it is not known what the pacer did meanwhile, nor which requests it hit. So beyond its own limit starvation is a doubt by
    /// itself, and the verdict is tried without whatever lateness and lag there were, even below their limits.
    pub fn doubt(&self, from_due: Option<f64>, by_lag: Option<f64>) -> Option<OwnFault> {
        self.excess(self.lateness_ms, self.allowed.lateness, from_due)
            .map(OwnFault::Late)
            .or_else(|| self.excess(self.lag_ms, self.allowed.receive_lag, by_lag).map(OwnFault::Lagging))
            .or_else(|| {
                self.starved().map(|waiting| OwnFault::Starved { waiting, allowed: self.allowed.starved })
            })
    }

    fn excess(&self, p99_ms: f64, share: f64, limit: Option<f64>) -> Option<Excess> {
        let limit_ms = limit?;
        let allowed_ms = share * limit_ms;
        (p99_ms > allowed_ms).then(|| Excess { p99_ms, allowed_ms, limit_ms, cause: self.cause() })
    }

    fn starved(&self) -> Option<f64> {
        self.waiting.filter(|w| *w > self.allowed.starved)
    }

    fn cause(&self) -> Cause {
        // A thread that has little to do is never without a core for long, and is late all the same.
        let waited_more = |w: &f64| self.busy.is_some_and(|busy| *w > busy.max(WAITED));
        let waiting = self.starved().or_else(|| self.waiting.filter(waited_more));
        match (waiting, self.busy) {
            (Some(waiting), busy) => Cause::Starved { waiting, busy },
            (None, Some(busy)) if busy >= BUSY => Cause::Busy(busy),
            (None, _) => Cause::Unknown,
        }
    }
}

/// Requests due in the window, where a shortfall of sends would be the client's own.
///
/// Of what a client far beyond its ceiling never comes to there is no record. So where fewer were due than the rate asks for, by more than
/// chance does (ten standard deviations of Poisson arrivals), and the last were late by the time that they take (their p99 by half of it,
/// which rules out the chance of bursts), the rate itself says how many.
pub(super) fn due(
    due: u64,
    level: Level,
    measure_s: f64,
    lateness_p99_ms: f64,
    abort: Option<Abort>,
) -> Option<u64> {
    let rate = level.per_s().unwrap_or(0.0);
    let asked = rate * measure_s;
    let missing = asked - due as f64;
    let late = lateness_p99_ms / 1e3 * rate > 0.5 * missing;
    let lost = due > 0 && missing > 10.0 * asked.sqrt() && late;
    let open = level.control != Control::Concurrency && abort.is_none();
    open.then_some(if lost { asked.round() as u64 } else { due })
}

/// The smallest limit that counts from `due`, in ms: lateness and lag are in it.
pub fn tightest_from_due(slo: &Slo) -> Option<f64> {
    slo.tightest_from_due().map(ms)
}

/// The smallest limit on time between tokens, in ms: the lag is in it.
pub fn tightest_by_lag(slo: &Slo) -> Option<f64> {
    [Metric::Tpot, Metric::Itl].into_iter().filter_map(|m| slo.smallest(m)).min().map(ms)
}

/// The smaller of two limits, of which there may be none.
pub fn tighter(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::min)
}

/// The smallest limits, in ms, of all tiers together: that counts from `due`, and that has the lag in it.
pub fn tightest_of(tiers: &[Slo]) -> (Option<f64>, Option<f64>) {
    let from_due = tiers.iter().filter_map(tightest_from_due).reduce(f64::min);
    (from_due, tighter(from_due, tiers.iter().filter_map(tightest_by_lag).reduce(f64::min)))
}

/// How far the client was from its own limits over the steps of a run: the most that any step had of each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Margin {
    /// p99 of sent − due, in ms.
    pub lateness_p99_ms: Option<Most>,
    /// p99 of socket readable → stamp, in ms.
    pub receive_lag_p99_ms: Option<Most>,
    /// Share of the time that a sending thread was on a core.
    pub busy: Option<Most>,
    /// Share of the time that one waited for a core.
    pub waiting: Option<Most>,
    /// Requests in flight.
    pub in_flight: Option<Most>,
}

/// The most of something.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Most {
    /// How much.
    pub most: f64,
    /// The step that had it; of several the first.
    pub step: u32,
    /// How much is allowed; `None` where nothing limits it.
    pub allowed: Option<f64>,
}

impl Most {
    /// Whether it is more than is allowed.
    pub fn is_over(&self) -> bool {
        self.allowed.is_some_and(|allowed| self.most > allowed)
    }
}

impl Margin {
    /// Over all steps, those under overload and invalid ones with the others: it is about the client, not about the server.
    pub fn of(steps: &[Step], tiers: &[Slo], allowed: Allowed, max_in_flight: u32) -> Self {
        let (from_due, any) = tightest_of(tiers);
        let most = |of: fn(&Step) -> Option<f64>, allowed: Option<f64>| {
            let each = steps.iter().filter_map(|s| Some(Most { most: of(s)?, step: s.step, allowed }));
            each.reduce(|a, b| if b.most > a.most { b } else { a })
        };
        Self {
            lateness_p99_ms: most(|s| s.lateness_p99_ms, from_due.map(|l| l * allowed.lateness)),
            receive_lag_p99_ms: most(|s| s.receive_lag_p99_ms, any.map(|l| l * allowed.receive_lag)),
            busy: most(|s| s.client_busy, None),
            waiting: most(|s| s.client_waiting, Some(allowed.starved)),
            in_flight: most(|s| Some(s.in_flight_max as f64), Some(f64::from(max_in_flight))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Own = Own {
        allowed: Allowed { lateness: 0.05, receive_lag: 0.05, starved: 0.1 },
        due: Some(6000),
        sent: 6000,
        lateness_ms: 0.3,
        lag_ms: 0.1,
        busy: Some(0.3),
        waiting: Some(0.01),
    };

    fn name(fault: Option<OwnFault>) -> &'static str {
        match fault {
            None => "none",
            Some(OwnFault::Behind { .. }) => "behind",
            Some(OwnFault::Late(_)) => "late",
            Some(OwnFault::Lagging(_)) => "lagging",
            Some(OwnFault::Starved { .. }) => "starved",
            Some(OwnFault::Halted { .. }) => "halted",
            Some(OwnFault::MaxInFlight { .. } | OwnFault::Exhausted { .. }) => "limited",
        }
    }

    /// Rows: what the client did, against limits of 100 ms from `due` and 20 ms by lag.
    #[test]
    fn a_doubt_begins_where_the_plan_says() {
        let strict = Allowed { lateness: 0.001, receive_lag: 0.001, starved: 0.001 };
        let lenient = Allowed { lateness: 1.0, receive_lag: 1.0, starved: 1.0 };
        for (what, own, want) in [
            ("well", WELL, "none"),
            ("at 5 % of 100 ms", Own { lateness_ms: 5.0, ..WELL }, "none"),
            ("above it", Own { lateness_ms: 5.1, ..WELL }, "late"),
            ("lag above 5 % of 20 ms", Own { lag_ms: 1.1, ..WELL }, "lagging"),
            ("both: lateness comes first", Own { lateness_ms: 6.0, lag_ms: 2.0, ..WELL }, "late"),
            ("a tenth of the time without a core", Own { waiting: Some(0.1), ..WELL }, "none"),
            ("more than that", Own { waiting: Some(0.11), ..WELL }, "starved"),
            ("not known", Own { waiting: None, ..WELL }, "none"),
            (
                "starved and late: the delay decides",
                Own { lateness_ms: 6.0, waiting: Some(0.5), ..WELL },
                "late",
            ),
            ("busy alone is no fault", Own { busy: Some(0.99), ..WELL }, "none"),
            ("a strict plan", Own { allowed: strict, ..WELL }, "late"),
            (
                "a lenient one",
                Own { allowed: lenient, lateness_ms: 99.0, lag_ms: 19.0, waiting: Some(0.9), ..WELL },
                "none",
            ),
        ] {
            assert_eq!(name(own.doubt(Some(100.0), Some(20.0))), want, "{what}");
        }
        let slow = Own { lateness_ms: 6.0, lag_ms: 2.0, ..WELL };
        assert_eq!(name(slow.doubt(None, Some(20.0))), "lagging", "no limit counts from due");
        assert_eq!(name(slow.doubt(None, None)), "none", "no limit at all");
    }

    #[test]
    fn threads_tell_why() {
        for (busy, waiting, want) in [
            (Some(0.9), Some(0.01), Cause::Busy(0.9)),
            (Some(0.9), Some(0.3), Cause::Starved { waiting: 0.3, busy: Some(0.9) }), // what it had was too little
            (None, Some(0.3), Cause::Starved { waiting: 0.3, busy: None }),
            (Some(0.024), Some(0.052), Cause::Starved { waiting: 0.052, busy: Some(0.024) }), // seldom awake, and late each time
            (Some(0.001), Some(0.009), Cause::Unknown), // too little to tell
            (Some(0.3), Some(0.01), Cause::Unknown),
            (Some(0.9), None, Cause::Busy(0.9)),
            (None, None, Cause::Unknown),
        ] {
            let own = Own { busy, waiting, lateness_ms: 6.0, ..WELL };
            let Some(OwnFault::Late(e)) = own.doubt(Some(100.0), None) else { panic!("{own:?}") };
            assert_eq!(e.cause, want, "{busy:?} {waiting:?}");
        }
    }

    /// Rows: requests due, and sent.
    #[test]
    fn sends_below_offered() {
        for (due, sent, want) in [
            (Some(6000), 6000, "none"),
            (Some(6000), 5940, "none"), // 1 %
            (Some(6000), 5939, "behind"),
            (Some(100), 97, "none"), // three at the end of the window
            (Some(100), 96, "behind"),
            (Some(100), 104, "none"), // the window before had some left
            (None, 0, "none"),        // a closed loop, or broken off
            (Some(0), 0, "none"),
        ] {
            assert_eq!(name(Own { due, sent, ..WELL }.behind()), want, "{sent} of {due:?}");
        }
    }

    /// Rows: the level, requests due in 60 s, p99 of their lateness in s, why the step ended, and how many count as due.
    #[test]
    fn what_the_client_never_came_to_was_due() {
        for (level, n, late_s, abort, want) in [
            (Level::rate(100.0), 6000, 0.0, None, Some(6000)),
            (Level::rate(100.0), 5300, 9.0, None, Some(5300)), // chance may do that
            (Level::rate(100.0), 5200, 9.0, None, Some(6000)), // 8 s of the schedule, and late by 9
            (Level::rate(100.0), 5200, 0.1, None, Some(5200)), // sent in time: bursts that did not come
            (Level::rate(30_000.0), 1_500_000, 9.9, None, Some(1_800_000)),
            (Level::rate(30_000.0), 1_500_000, 9.9, Some(Abort::Gross), None), // it had no time to
            (Level::rate(100.0), 0, 0.0, None, Some(0)),                       // nothing was measured
            (Level::concurrency(8), 9, 0.0, None, None),
        ] {
            assert_eq!(due(n, level, 60.0, late_s * 1e3, abort), want, "{n} at {level}");
        }
    }
}
