//! The capacity as data.

use super::refused::Refused;
use goodput_stats::capacity::Demand;
use goodput_stats::capacity::fleet::Reserve;
use goodput_stats::capacity::limit::CostVerdict;
use goodput_stats::capacity::sizing::Sizing;

/// The complete content of a capacity report.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// The demand.
    pub demand: Demand,
    /// The capacity reserved beyond it.
    pub reserve: Reserve,
    /// The candidates with their fleets, the most cost-effective first.
    pub all: Vec<Sizing>,
    /// Answers without a rate to plan with.
    pub refused: Vec<Refused>,
    /// True to show every formula.
    pub explain: bool,
}

impl Capacity {
    /// Returns true if any candidate with a cost limit meets it; `None` if no candidate has one.
    pub fn cost_kept(&self) -> Option<bool> {
        let judged = || self.all.iter().filter_map(|s| s.cost_limit);
        judged().next()?;
        Some(judged().any(|kept| kept == CostVerdict::Accepted))
    }
}
