//! When a series is done: the stop rules, each with its words.

use crate::slo::Metric;
use crate::stats::step::{Abort, LimitRow, Step, Verdict};
use crate::stats::verdict::{GROSS, GROSS_INFLATION, gross};
use crate::units::{Percentile, Span, short};
use std::{fmt, time::Duration};

/// Why no further step is measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// Every level of the list is measured.
    ListDone {
        /// How many levels.
        levels: usize,
    },
    /// Every request of a step failed.
    AllFailed {
        /// The step's level.
        level: String,
    },
    /// The server went away.
    ServerGone {
        /// The step's level.
        level: String,
    },
    /// The client was the limit: a higher rate would show no more.
    ClientLimit {
        /// The step's level.
        level: String,
    },
    /// The plan's highest rate is reached.
    MaxRate {
        /// That rate.
        rate: f64,
    },
    /// Every tier is shown to miss its SLO.
    SloMissed {
        /// The step's level.
        level: String,
    },
    /// The backlog grew.
    Unstable {
        /// The step's level.
        level: String,
    },
    /// Misses were far beyond what is allowed.
    Gross {
        /// The step's level.
        level: String,
    },
    /// The unloaded server misses a limit.
    Unloaded(MissedUnloaded),
    /// Every rate of the ramp failed, however low.
    NothingHolds {
        /// The lowest.
        level: String,
    },
    /// The bracket is as narrow as was asked for.
    Width {
        /// Highest rate shown to meet.
        low: f64,
        /// Lowest rate shown to fail.
        high: f64,
    },
    /// The budget is spent.
    Budget {
        /// In seconds.
        budget_s: f64,
    },
    /// What is left of the budget can decide no further level.
    Resolution {
        /// Seconds left.
        left_s: f64,
        /// Seconds of the budget.
        budget_s: f64,
        /// Seconds that it takes, at the least, to show that a level somewhat below the likely boundary meets; `None` where
        /// one is shown to.
        needed_s: Option<f64>,
    },
    /// Two successive steps bought less than half of the added load in throughput.
    Plateau {
        /// Achieved requests/s of the last step.
        achieved: f64,
        /// Offered requests/s of the last step.
        offered: f64,
    },
}

/// A limit that one request at a time misses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedUnloaded {
    /// The limit.
    pub limit: String,
    /// Requests that missed it.
    pub misses: u64,
    /// Of how many.
    pub n: u64,
}

impl fmt::Display for MissedUnloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, misses, n } = self;
        write!(f, "one request at a time already misses {limit}: {misses} of {n} requests")
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListDone { levels: 1 } => f.write_str("the one level of the list is measured"),
            Self::ListDone { levels } => write!(f, "all {levels} levels of the list are measured"),
            Self::AllFailed { level } => write!(f, "every request failed at {level}"),
            Self::ServerGone { level } => write!(f, "the server went away at {level}"),
            Self::ClientLimit { level } => write!(f, "the client was the limit at {level}"),
            Self::MaxRate { rate } => write!(f, "max-rate, {} req/s, is reached", short(*rate)),
            Self::SloMissed { level } => write!(f, "the SLO is missed at {level}"),
            Self::Unstable { level } => write!(f, "the backlog grew at {level}"),
            Self::Gross { level } => write!(f, "misses were far beyond what is allowed at {level}"),
            Self::Unloaded(_) => f.write_str("no load makes an unloaded server faster"),
            Self::NothingHolds { level } => write!(f, "every rate failed, down to {level}"),
            Self::Width { low, high } => {
                write!(f, "the bracket is narrow enough: {:.1} %", (high / low - 1.0) * 100.0)
            }
            Self::Budget { budget_s } => write!(f, "the budget of {} is spent", seconds(*budget_s)),
            Self::Resolution { left_s, budget_s, needed_s } => {
                let (left, budget) = (seconds(*left_s), seconds(*budget_s));
                write!(f, "the {left} left of the budget of {budget} can decide no further level")?;
                needed_s
                    .map_or(Ok(()), |s| write!(f, "; to show that one meets takes {} or more", seconds(s)))
            }
            Self::Plateau { achieved, offered } => write!(
                f,
                "throughput levelled off: {} req/s achieved of {} offered, after two steps that bought less than half of \
                 the added load",
                short(*achieved),
                short(*offered)
            ),
        }
    }
}

fn seconds(s: f64) -> String {
    Span(Duration::from_secs(s.max(0.0).round() as u64)).to_string()
}

/// What ends any series at once: nothing answers any more.
pub fn dead(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last()?;
    let level = last.level.to_string();
    match last.abort {
        Some(Abort::AllFailed) => Some(Stop::AllFailed { level }),
        Some(Abort::ServerGone) => Some(Stop::ServerGone { level }),
        Some(Abort::Gross | Abort::Interrupted) | None => None,
    }
}

/// What shows the server, or the client, beyond its capacity: no higher rate may follow.
pub fn overloaded(steps: &[&Step]) -> Option<Stop> {
    let last = steps.last()?;
    let level = last.level.to_string();
    if last.stable == Some(false) {
        return Some(Stop::Unstable { level });
    }
    if last.abort == Some(Abort::Gross) || gross_in_every_tier(last) {
        return Some(Stop::Gross { level });
    }
    (last.verdict == Verdict::Invalid).then_some(Stop::ClientLimit { level })
}

/// Whether a latency limit of every tier was missed by far, as the rows of the whole step show it.
fn gross_in_every_tier(step: &Step) -> bool {
    let by_far = |r: &&LimitRow| {
        let share = r.limit.split_once('.').and_then(|(_, p)| p.parse::<Percentile>().ok());
        // All gaps of a request are worth one.
        let inflation = GROSS_INFLATION * (r.n as f64 / step.due_n.max(1) as f64).max(1.0);
        r.verdict == Verdict::Fails
            && share.is_some_and(|p| gross(r.misses, r.n, p.miss_share(), inflation) > GROSS)
    };
    let missed: Vec<&str> = step.limits.iter().filter(by_far).map(|r| r.tier.as_str()).collect();
    !missed.is_empty() && step.limits.iter().all(|r| missed.contains(&r.tier.as_str()))
}

/// Fewer requests than this in a step say nothing of its throughput.
const FEW: u64 = 30;

/// The knee while ramping: two successive steps whose added achieved rate is under half of the added offered rate.
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
