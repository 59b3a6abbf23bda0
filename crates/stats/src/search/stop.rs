//! When a series is done: the stop rules.

use super::answer::Knee;
use crate::stats::step::{Abort, LimitRow, Step, Verdict};
use crate::stats::verdict::{GROSS, GROSS_INFLATION, gross};
use goodput_core::level::{Control, Level};
use goodput_core::slo::Metric;
use goodput_core::units::Percentile;
use serde::{Deserialize, Serialize};

/// Why no further step is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Every level of the list is measured.
    ListDone {
        /// How many levels.
        levels: usize,
    },
    /// Every request of a step failed.
    AllFailed {
        /// The step's level.
        level: Level,
    },
    /// More requests of a step failed than the plan puts up with.
    Errors {
        /// The step's level.
        level: Level,
    },
    /// The server refused requests, and may take fewer.
    Refused {
        /// The step's level.
        level: Level,
    },
    /// The server went away.
    ServerGone {
        /// The step's level.
        level: Level,
    },
    /// The client was the limit: a higher rate would show no more.
    ClientLimit {
        /// The step's level.
        level: Level,
    },
    /// The server was started anew within steps.
    Restarted {
        /// The last step's level.
        level: Level,
    },
    /// The plan's highest level is reached, or shown to meet.
    Highest {
        /// The key of the plan that sets it.
        key: HighestKey,
        /// That level.
        level: Level,
    },
    /// Every tier is shown to miss its SLO.
    SloMissed {
        /// The step's level.
        level: Level,
    },
    /// The backlog grew.
    Unstable {
        /// The step's level.
        level: Level,
    },
    /// Misses were far beyond what is allowed.
    Gross {
        /// The step's level.
        level: Level,
    },
    /// The unloaded server misses a limit.
    Unloaded(MissedUnloaded),
    /// No limit allows a miss, so there is no curve to fit.
    NoCurve,
    /// The soak is over.
    Soaked {
        /// Its level.
        level: Level,
    },
    /// Every rate of the ramp failed, however low.
    NothingHolds {
        /// The lowest.
        level: Level,
    },
    /// The interval is as narrow as was asked for.
    Width {
        /// Its lower end.
        low: Level,
        /// Its upper end.
        high: Level,
    },
    /// The budget is spent.
    Budget {
        /// In seconds.
        budget_s: f64,
    },
    /// No level from this one on meets the SLO.
    Infeasible {
        /// The level.
        level: Level,
    },
    /// A doubling of the requests in flight added too little to the throughput.
    Flat {
        /// The step's level.
        level: Level,
        /// The share that it added.
        growth: f64,
    },
    /// A ramp went past the knee and came back to place it.
    Knee {
        /// Where it lies.
        knee: Knee,
        /// What the ramp steps through.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedUnloaded {
    /// The limit.
    pub limit: String,
    /// Requests that missed it.
    pub misses: u64,
    /// Requests counted.
    pub n: u64,
}

impl Stop {
    /// After a step that is invalid.
    pub fn invalid(step: &Step) -> Self {
        let level = step.level;
        if step.server.restarted { Self::Restarted { level } } else { Self::ClientLimit { level } }
    }
}

/// What ends any series at once: nothing answers any more. A server that refuses requests is there, and one of which few were asked may be.
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
            | Abort::Disk,
        )
        | None => None,
    }
}

/// What ends a series that goes upwards: so many requests failed that the server is to be left alone. No level as high may follow.
pub fn failing(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last().filter(|s| is_failing(s))?;
    let level = last.level;
    Some(if last.mostly_refused() { Stop::Refused { level } } else { Stop::Errors { level } })
}

/// Whether a step had so many failures, or refusals, that no level as high is to follow.
pub(super) fn is_failing(step: &Step) -> bool {
    step.abort == Some(Abort::Errors) || (step.abort == Some(Abort::AllFailed) && step.mostly_refused())
}

/// What shows the server, or the client, beyond its capacity: no higher rate may follow.
pub fn overloaded(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last()?;
    let level = last.level;
    if last.stable == Some(false) {
        return Some(Stop::Unstable { level });
    }
    // Also where it was broken off since it missed by far: those misses were the client's own.
    if last.verdict == Verdict::Invalid {
        return Some(Stop::invalid(last));
    }
    if let Some(stop) = failing(steps) {
        return Some(stop);
    }
    (last.abort == Some(Abort::Gross) || by_far(last)).then_some(Stop::Gross { level })
}

/// Whether a latency limit of every tier was missed by far, as the rows of the whole step show it.
pub(super) fn by_far(step: &Step) -> bool {
    let missed = |r: &&LimitRow| {
        let share = r.limit.split_once('.').and_then(|(_, p)| p.parse::<Percentile>().ok());
        let inflation = GROSS_INFLATION * r.per_request(step.due_n);
        r.verdict == Verdict::Fails
            && share.is_some_and(|p| gross(r.misses, r.n, p.miss_share(), inflation) > GROSS)
    };
    let tiers: Vec<&str> = step.limits.iter().filter(missed).map(|r| r.tier.as_str()).collect();
    !tiers.is_empty() && step.limits.iter().all(|r| tiers.contains(&r.tier.as_str()))
}

/// Fewer requests than this in a step say nothing of its throughput.
const FEW: u64 = 30;

/// A plateau while the adaptive search ramps: two successive steps whose added achieved rate is under half of the added offered rate.
///
/// Achieved counts completions within the window. Where half of the answers take longer than the settling before it, those
/// of the load that came before are too few in it, whatever the server does, and the rule does not apply. Nor does it where
/// requests were cut off, or hardly any were due: then achieved is a matter of chance.
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
