//! Delays of the load client itself: how much the plan tolerates, how much there was, and when they make a verdict doubtful.
//!
//! Every latency that counts from `due` includes the client's delay. So a step that meets its limits would also meet them without
//! the delay. A verdict other than *meets* is checked without the delay if the delay is large enough to matter
//! ([`ClientTiming::doubt`]): if that changes the verdict, the step is *invalid*, else the verdict stands.

use super::step::{Abort, Step};
use goodput_core::caveat::{Cause, Excess, OwnFault};
use goodput_core::level::{Control, Level};
use goodput_core::slo::Slo;
use goodput_core::units::ms;
use serde::Serialize;

/// Share of time on a core from which a thread counts as busy when the client was slow.
const BUSY: f64 = 0.8;
/// Share of time without a core below which waiting explains nothing.
const WAITED: f64 = 0.01;

/// How much delay the client may add before a verdict is checked without it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientTolerance {
    /// p99 of sent − due, as a share of the tightest limit that counts from `due`.
    pub lateness: f64,
    /// p99 of the delay between "socket readable" and the timestamp, as a share of the tightest limit that it affects.
    pub receive_lag: f64,
    /// Share of the window in which a sending thread was runnable but had no core.
    pub starved: f64,
}

impl Default for ClientTolerance {
    fn default() -> Self {
        Self { lateness: 0.05, receive_lag: 0.05, starved: 0.1 }
    }
}

/// Delays of the client in one step, and the use of its threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientTiming {
    /// The delays that the plan tolerates.
    pub allowed: ClientTolerance,
    /// Requests due in the measured window; `None` where their number means nothing: in a closed loop, and for a step that ended
    /// early.
    pub due: Option<u64>,
    /// Requests sent in the measured window.
    pub sent: u64,
    /// p99 of sent − due, in milliseconds.
    pub lateness_ms: f64,
    /// p99 of the delay between "socket readable" and the timestamp (the receive lag), in milliseconds.
    pub lag_ms: f64,
    /// Share of the window that the busiest sending thread spent on a core, if known.
    pub busy: Option<f64>,
    /// Largest share of the window in which a sending thread was runnable but had no core, if known.
    pub waiting: Option<f64>,
}

impl ClientTiming {
    /// Reads the delays from the columns of a step.
    pub fn of(s: &Step, allowed: ClientTolerance) -> Self {
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

    /// Returns a fault if fewer requests were sent than were due. A request due at the very end may be sent just after the
    /// window, so up to three are no shortfall.
    pub fn behind(&self) -> Option<OwnFault> {
        let due = self.due?;
        let short = due.saturating_sub(self.sent) as f64;
        let behind = short > (0.01 * due as f64).max(3.0);
        behind.then(|| OwnFault::Behind { sent: self.sent, due, cause: self.cause() })
    }

    /// Returns true if the client was so overloaded that its timestamps say nothing about the server, not even counted from
    /// `sent`: it is behind, and either its threads had no core to spare, or it sent less than half of what was due. (The latter
    /// also covers a client halted as a whole, by a virtual machine or a quota of CPU time, which its threads cannot notice.)
    ///
    /// In that state a request waits between being stamped as sent and being written, and its answer waits before it is read; the
    /// receive lag measures only the last of these.
    pub(super) fn overwhelmed(&self) -> bool {
        let Some(due) = self.due.filter(|_| self.behind().is_some()) else { return false };
        2 * self.sent < due || !matches!(self.cause(), Cause::Unknown)
    }

    /// Returns a fault of the client that makes a verdict doubtful: lateness above its tolerated share of `from_due`, receive lag
    /// above its share of `by_lag` (limits in ms; `None` if no limit is affected), or starved sending threads.
    ///
    /// A thread that waits for a core delays what it sends and what it stamps, so starvation is included in lateness and lag.
    /// Those decide first, and starvation is then reported as their cause. But both are p99s over observed requests: while a
    /// thread was without a core, it is unknown what the pacer did and which requests it affected. So starvation beyond its own
    /// tolerance is a doubt by itself, and the verdict is checked without the lateness and lag there were, even if they are
    /// within their tolerances.
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
        // A thread with little to do is rarely without a core for long, but is late all the same.
        let waited_more = |w: &f64| self.busy.is_some_and(|busy| *w > busy.max(WAITED));
        let waiting = self.starved().or_else(|| self.waiting.filter(waited_more));
        match (waiting, self.busy) {
            (Some(waiting), busy) => Cause::Starved { waiting, busy },
            (None, Some(busy)) if busy >= BUSY => Cause::Busy(busy),
            (None, _) => Cause::Unknown,
        }
    }
}

/// Returns the number of requests due in the window, if sending fewer would be the client's fault.
///
/// A client far beyond its ceiling never gets to some requests and keeps no record of them. So the number follows from the rate
/// instead, if two conditions hold: fewer requests were due than the rate asks for, by more than chance (ten standard deviations
/// of Poisson arrivals), and the last ones were late by the time that the missing ones would take (p99 lateness above half of it,
/// which rules out chance bursts).
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

/// Returns the smallest limit that counts from `due`, in ms. Lateness and receive lag both affect it.
pub fn tightest_from_due(slo: &Slo) -> Option<f64> {
    slo.tightest_from_due().map(ms)
}

/// Returns the smallest limit on the time between tokens, in ms. Only the receive lag affects it.
pub fn tightest_by_lag(slo: &Slo) -> Option<f64> {
    slo.tightest_pace().map(ms)
}

/// Returns the smaller of two optional limits.
pub fn tighter(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::min)
}

/// Returns the smallest limits of all tiers together, in ms: those that count from `due`, and those that the receive lag affects.
pub fn tightest_of(tiers: &[Slo]) -> (Option<f64>, Option<f64>) {
    let from_due = tiers.iter().filter_map(tightest_from_due).reduce(f64::min);
    (from_due, tighter(from_due, tiers.iter().filter_map(tightest_by_lag).reduce(f64::min)))
}

/// How close the client came to its limits over the steps of a run: the largest value of each over all steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Margin {
    /// p99 of sent − due, in ms.
    pub lateness_p99_ms: Option<Maximum>,
    /// p99 of the receive lag, in ms.
    pub receive_lag_p99_ms: Option<Maximum>,
    /// Share of time that a sending thread spent on a core.
    pub busy: Option<Maximum>,
    /// Share of time that a sending thread was runnable but had no core.
    pub waiting: Option<Maximum>,
    /// Requests in flight.
    pub in_flight: Option<Maximum>,
}

/// Largest value of one measure over the steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Maximum {
    /// The value.
    pub most: f64,
    /// The step with that value; the first if there are several.
    pub step: u32,
    /// The tolerated value; `None` if there is no limit.
    pub allowed: Option<f64>,
}

impl Maximum {
    /// Returns true if the value exceeds the tolerated one.
    pub fn is_over(&self) -> bool {
        self.allowed.is_some_and(|allowed| self.most > allowed)
    }
}

impl Margin {
    /// Computes the margin over all steps, including overloaded and invalid ones, since it is about the client and not the
    /// server.
    pub fn of(steps: &[Step], tiers: &[Slo], allowed: ClientTolerance, max_in_flight: u32) -> Self {
        let (from_due, any) = tightest_of(tiers);
        let maximum = |of: fn(&Step) -> Option<f64>, allowed: Option<f64>| {
            let each = steps.iter().filter_map(|s| Some(Maximum { most: of(s)?, step: s.step, allowed }));
            each.reduce(|a, b| if b.most > a.most { b } else { a })
        };
        Self {
            lateness_p99_ms: maximum(|s| s.lateness_p99_ms, from_due.map(|l| l * allowed.lateness)),
            receive_lag_p99_ms: maximum(|s| s.receive_lag_p99_ms, any.map(|l| l * allowed.receive_lag)),
            busy: maximum(|s| s.client_busy, None),
            waiting: maximum(|s| s.client_waiting, Some(allowed.starved)),
            in_flight: maximum(|s| Some(s.in_flight_max as f64), Some(f64::from(max_in_flight))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: ClientTiming = ClientTiming {
        allowed: ClientTolerance { lateness: 0.05, receive_lag: 0.05, starved: 0.1 },
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

    /// Rows: the client's delays, against limits of 100 ms from `due` and 20 ms by lag.
    #[test]
    fn delays_beyond_the_tolerance_raise_a_doubt() {
        let strict = ClientTolerance { lateness: 0.001, receive_lag: 0.001, starved: 0.001 };
        let lenient = ClientTolerance { lateness: 1.0, receive_lag: 1.0, starved: 1.0 };
        for (what, own, want) in [
            ("well", WELL, "none"),
            ("at 5 % of 100 ms", ClientTiming { lateness_ms: 5.0, ..WELL }, "none"),
            ("above it", ClientTiming { lateness_ms: 5.1, ..WELL }, "late"),
            ("lag above 5 % of 20 ms", ClientTiming { lag_ms: 1.1, ..WELL }, "lagging"),
            ("both: lateness comes first", ClientTiming { lateness_ms: 6.0, lag_ms: 2.0, ..WELL }, "late"),
            ("a tenth of the time without a core", ClientTiming { waiting: Some(0.1), ..WELL }, "none"),
            ("more than that", ClientTiming { waiting: Some(0.11), ..WELL }, "starved"),
            ("not known", ClientTiming { waiting: None, ..WELL }, "none"),
            (
                "starved and late: the delay decides",
                ClientTiming { lateness_ms: 6.0, waiting: Some(0.5), ..WELL },
                "late",
            ),
            ("busy alone is no fault", ClientTiming { busy: Some(0.99), ..WELL }, "none"),
            ("a strict plan", ClientTiming { allowed: strict, ..WELL }, "late"),
            (
                "a lenient one",
                ClientTiming {
                    allowed: lenient,
                    lateness_ms: 99.0,
                    lag_ms: 19.0,
                    waiting: Some(0.9),
                    ..WELL
                },
                "none",
            ),
        ] {
            assert_eq!(name(own.doubt(Some(100.0), Some(20.0))), want, "{what}");
        }
        let slow = ClientTiming { lateness_ms: 6.0, lag_ms: 2.0, ..WELL };
        assert_eq!(name(slow.doubt(None, Some(20.0))), "lagging", "no limit counts from due");
        assert_eq!(name(slow.doubt(None, None)), "none", "no limit at all");
    }

    #[test]
    fn use_of_the_threads_explains_the_delay() {
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
            let own = ClientTiming { busy, waiting, lateness_ms: 6.0, ..WELL };
            let Some(OwnFault::Late(e)) = own.doubt(Some(100.0), None) else { panic!("{own:?}") };
            assert_eq!(e.cause, want, "{busy:?} {waiting:?}");
        }
    }

    /// Rows: requests due, and sent.
    #[test]
    fn fewer_sent_than_due_is_a_fault() {
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
            assert_eq!(name(ClientTiming { due, sent, ..WELL }.behind()), want, "{sent} of {due:?}");
        }
    }

    /// Rows: the level, requests due in 60 s, p99 of their lateness in s, why the step ended, and how many count as due.
    #[test]
    fn requests_the_client_never_got_to_count_as_due() {
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
