//! The answer of `goodput capacity`: what a demand takes, for one candidate or several beside one another, as a table, Markdown, JSON
//! and a chart, and every formula with its numbers.

pub mod candidate;
mod explain;
mod json;
mod markdown;
mod pick;
pub mod refused;
mod rows;
mod terminal;
mod words;

pub use json::json;
pub use markdown::render;
pub use terminal::print;

use goodput_stats::capacity::Demand;
use goodput_stats::capacity::fleet::Reserve;
use goodput_stats::capacity::limit::CostVerdict;
use goodput_stats::capacity::sizing::Sizing;
use refused::Refused;

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

    /// One line for above a chart or a report.
    pub fn headline(&self) -> String {
        words::headline(self)
    }

    /// The answer in a line that fits above a chart.
    pub fn chart_headline(&self) -> String {
        words::chart_headline(self)
    }

    /// What the demand is, in one line.
    pub fn about(&self) -> String {
        words::demand(&self.demand, &self.reserve)
    }
}

#[cfg(test)]
mod tests;
