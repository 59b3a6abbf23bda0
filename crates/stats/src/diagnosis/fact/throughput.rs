//! Facts about throughput.

use super::{Fact, Place, Reference};

/// A fact about throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThroughputFact {
    /// Output tokens per second, with those of a step with less load.
    OutputTokens {
        /// Tokens per second.
        now: f64,
        /// The step.
        at: Place,
        /// Tokens per second of the reference.
        before: f64,
        /// The reference.
        reference: Reference,
    },
    /// The number of requests in flight grows.
    BacklogGrows {
        /// Requests per second by which it grows, if known.
        per_second: Option<f64>,
        /// The step.
        at: Place,
    },
    /// Requests per second completed in the measured window.
    Completed {
        /// Completed per second.
        completed: f64,
        /// Offered per second.
        offered: f64,
    },
}

impl From<ThroughputFact> for Fact {
    fn from(fact: ThroughputFact) -> Self {
        Self::Throughput(fact)
    }
}
