//! The capacity as data.

use super::refused::Refused;
use goodput_stats::capacity::Demand;
use goodput_stats::capacity::fleet::Reserve;
use goodput_stats::capacity::limit::CostVerdict;
use goodput_stats::capacity::sizing::Sizing;

/// All that a report of a capacity may show.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// What is asked for.
    pub demand: Demand,
    /// What is held ready beyond it.
    pub reserve: Reserve,
    /// The candidates with what they take, the best for its money first.
    pub all: Vec<Sizing>,
    /// Answers without a rate to plan with.
    pub refused: Vec<Refused>,
    /// Whether every formula is shown.
    pub explain: bool,
}

impl Capacity {
    /// Whether the limit on the cost is kept by any candidate that has one; `None` where none has.
    pub fn cost_kept(&self) -> Option<bool> {
        let judged = || self.all.iter().filter_map(|s| s.cost_limit);
        judged().next()?;
        Some(judged().any(|kept| kept == CostVerdict::Accepted))
    }
}
