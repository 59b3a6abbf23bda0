//! The stop rules, which end a series.

use super::answer::Knee;
use crate::stats::step::{Abort, LimitRow, Step, Verdict};
use crate::stats::verdict::{GROSS, GROSS_INFLATION, gross};
use goodput_core::level::{Control, Level};
use goodput_core::slo::{Metric, limit_percentile};
use serde::{Deserialize, Serialize};

/// The reason why no further step is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Every level of the list was measured.
    ListDone {
        /// Number of levels in the list.
        levels: usize,
    },
    /// Every request of a step failed.
    AllFailed {
        /// The step's level.
        level: Level,
    },
    /// More requests of a step failed than the plan allows.
    Errors {
        /// The step's level.
        level: Level,
    },
    /// The server refused requests, and may accept a lower load.
    Refused {
        /// The step's level.
        level: Level,
    },
    /// The server is gone.
    ServerGone {
        /// The step's level.
        level: Level,
    },
    /// The client was the limit: a higher rate would show no more of the server.
    ClientLimit {
        /// The step's level.
        level: Level,
    },
    /// The server was restarted during steps.
    Restarted {
        /// The last step's level.
        level: Level,
    },
    /// The plan's highest level was reached, or shown to meet.
    Highest {
        /// The key of the plan that sets it.
        key: HighestKey,
        /// The plan's highest level.
        level: Level,
    },
    /// Every tier was shown to miss its SLO.
    SloMissed {
        /// The step's level.
        level: Level,
    },
    /// The backlog grew.
    Unstable {
        /// The step's level.
        level: Level,
    },
    /// Misses were far beyond the allowed share.
    Gross {
        /// The step's level.
        level: Level,
    },
    /// The unloaded server misses a limit.
    Unloaded(MissedUnloaded),
    /// No limit allows a miss, so there is no curve to fit.
    NoCurve,
    /// The soak has finished.
    Soaked {
        /// Its level.
        level: Level,
    },
    /// Every rate of the ramp failed, however low.
    NothingHolds {
        /// The lowest rate tried.
        level: Level,
    },
    /// The interval is as narrow as the plan asks.
    Width {
        /// Its lower end.
        low: Level,
        /// Its upper end.
        high: Level,
    },
    /// The budget is spent.
    Budget {
        /// The budget, in seconds.
        budget_s: f64,
    },
    /// No level from this one on meets the SLO.
    Infeasible {
        /// The level.
        level: Level,
    },
    /// Doubling the requests in flight raised the throughput by too little.
    Flat {
        /// The step's level.
        level: Level,
        /// Relative growth of the throughput (0.05 is 5 %).
        growth: f64,
    },
    /// A ramp passed the knee and returned to locate it.
    Knee {
        /// The knee that was found.
        knee: Knee,
        /// The quantity that the ramp steps through.
        control: Control,
    },
    /// Throughput stopped growing with the load.
    Plateau {
        /// Achieved requests/s of the last step.
        achieved: f64,
        /// Offered requests/s of the last step.
        offered: f64,
    },
}

/// The key of a plan that bounds the levels of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HighestKey {
    /// `search.max-rate`.
    MaxRate,
    /// `step.max-in-flight`.
    MaxInFlight,
    /// `search.ladder.max`.
    LadderMax,
}

/// A limit that one request at a time misses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MissedUnloaded {
    /// Key of the limit.
    pub limit: String,
    /// Number of requests that missed it.
    pub misses: u64,
    /// Number of requests counted.
    pub n: u64,
}

impl Stop {
    /// Returns the reason to stop after an invalid step: a restart of the server, or else the client.
    pub fn invalid(step: &Step) -> Self {
        let level = step.level;
        if step.server.restarted { Self::Restarted { level } } else { Self::ClientLimit { level } }
    }
}

/// Returns the reason to end any series at once, because the server no longer answers. A server that refuses requests
/// is alive, and one that failed only a few requests may be.
pub fn dead(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last()?;
    let level = last.level;
    match last.abort {
        Some(Abort::AllFailed) => (!last.mostly_refused()).then_some(Stop::AllFailed { level }),
        Some(Abort::ServerGone) => Some(Stop::ServerGone { level }),
        Some(
            Abort::NoAnswer
            | Abort::Gross
            | Abort::Errors
            | Abort::Interrupted
            | Abort::Deadline
            | Abort::Disk
            | Abort::WorkerLost,
        )
        | None => None,
    }
}

/// Returns the reason to end a rising series if so many requests failed that the server must get no more load. No level
/// as high may follow.
pub fn failing(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last().filter(|s| is_failing(s))?;
    let level = last.level;
    Some(if last.mostly_refused() { Stop::Refused { level } } else { Stop::Errors { level } })
}

/// Returns true if so many requests failed, or were refused, that no level as high may follow.
pub(super) fn is_failing(step: &Step) -> bool {
    step.abort == Some(Abort::Errors) || (step.abort == Some(Abort::AllFailed) && step.mostly_refused())
}

/// Returns the reason to stop if the last step exceeded the capacity of the server or of the client. No higher rate may
/// follow.
pub fn overloaded(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last()?;
    let level = last.level;
    if last.stable == Some(false) {
        return Some(Stop::Unstable { level });
    }
    // Also if the step was aborted for gross misses: the client caused them.
    if last.verdict == Verdict::Invalid {
        return Some(Stop::invalid(last));
    }
    if let Some(stop) = failing(steps) {
        return Some(stop);
    }
    (last.abort == Some(Abort::Gross) || by_far(last)).then_some(Stop::Gross { level })
}

/// Returns true if every tier has a latency limit that was missed by far, by the rows of the whole step.
pub(super) fn by_far(step: &Step) -> bool {
    let missed = |r: &&LimitRow| {
        let share = limit_percentile(&r.limit);
        let inflation = GROSS_INFLATION * r.per_request(step.due_n);
        r.verdict == Verdict::Fails
            && share.is_some_and(|p| gross(r.misses, r.n, p.miss_share(), inflation) > GROSS)
    };
    let tiers: Vec<&str> = step.limits.iter().filter(missed).map(|r| r.tier.as_str()).collect();
    !tiers.is_empty() && step.limits.iter().all(|r| tiers.contains(&r.tier.as_str()))
}

/// A step with fewer requests does not show its throughput.
const FEW: u64 = 30;

/// Returns a plateau seen while the adaptive search ramps: two successive steps whose added achieved rate is under half
/// of the added offered rate.
///
/// The achieved rate counts completions within the window. If half of the answers take longer than the settling period
/// before it, the window has too few answers to requests of that period, whatever the server does, and the rule does
/// not apply. It does not apply either if requests were cut off or hardly any were due, because then the achieved rate
/// depends on chance.
pub fn plateau(steps: &[&Step]) -> Option<Stop> {
    let [.., a, b, c] = steps else { return None };
    let settled =
        |s: &Step| s.cut == 0 && s.quantiles(Metric::E2e).p50.is_some_and(|ms| ms <= s.settle_s * 1e3);
    if ![a, b, c].into_iter().all(|s| settled(s) && s.due_n >= FEW) {
        return None;
    }
    let flat = |low: &Step, high: &Step| {
        let added = high.offered_rate - low.offered_rate;
        added > 0.0 && high.achieved_rate - low.achieved_rate < 0.5 * added
    };
    (flat(a, b) && flat(b, c)).then_some(Stop::Plateau { achieved: c.achieved_rate, offered: c.offered_rate })
}
