//! Facts about speculative decoding.

use super::{Fact, Place};

/// A fact about speculative decoding, by the server's counters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DraftingFact {
    /// The drafted tokens and those that the model accepted.
    Accepted {
        /// Mean tokens drafted before each check by the model.
        drafted: f64,
        /// Mean number of these that it accepted.
        accepted: f64,
        /// The step.
        at: Place,
    },
    /// The tokens that an iteration writes, with those from which on drafting gains.
    BreakEven {
        /// Mean tokens that an iteration writes: the accepted ones and one of its own.
        written: f64,
        /// Least number with which drafting is not slower.
        least: f64,
    },
    /// The least time that checking the drafts adds to an iteration.
    Checking {
        /// That time in milliseconds.
        added_ms: f64,
        /// Median TPOT in milliseconds.
        tpot_ms: f64,
    },
}

impl From<DraftingFact> for Fact {
    fn from(fact: DraftingFact) -> Self {
        Self::Drafting(fact)
    }
}
