//! Facts about the iterations of the engine, as latencies and settings tell them.

use super::{Fact, Place};

/// A fact about the iterations of the engine, as latencies and settings tell them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IterationFact {
    /// An iteration that reads as many prompt tokens as it can take.
    IterationOfPrompts {
        /// Tokens of the iteration.
        tokens: f64,
        /// Time of an iteration that reads none.
        base_ms: f64,
        /// Time to read these tokens.
        reading_ms: f64,
        /// True if that time is an upper bound, since it includes what every request costs.
        at_most: bool,
    },
    /// An iteration that reads a mean prompt.
    Prompt {
        /// Tokens of the prompt that are not in the cache.
        tokens: f64,
        /// Time of an iteration that reads none.
        base_ms: f64,
        /// Time to read these tokens.
        reading_ms: f64,
        /// True if that time is an upper bound, since it includes what every request costs.
        at_most: bool,
    },
    /// An iteration that reads a chunk of a long prompt.
    Chunk {
        /// Prompt tokens of the chunk.
        tokens: f64,
        /// Time of the iteration.
        chunk_ms: f64,
        /// True if that time is an upper bound, since it includes what every request costs.
        at_most: bool,
        /// The limit on TPOT or ITL.
        limit_ms: f64,
    },
    /// The tail of TPOT with its median.
    TpotTail {
        /// TPOT at the percentile.
        tail_ms: f64,
        /// The percentile: `p99`.
        percentile: &'static str,
        /// The median.
        median_ms: f64,
        /// The step.
        at: Place,
    },
    /// The longest prompt.
    LongestPrompt {
        /// Its tokens.
        tokens: f64,
        /// Those of a mean prompt.
        mean: f64,
    },
    /// Sequences that can run within a limit.
    SequencesWithin {
        /// As many as keep the limit.
        within: f64,
        /// As many as can run.
        seats: f64,
        /// The limit on TPOT or ITL.
        limit_ms: f64,
    },
    /// Share of the time in which the engine reads prompts.
    PrefillOfTime {
        /// The share.
        share: f64,
        /// True if the share is an upper bound, since it includes what every request costs.
        at_most: bool,
        /// The step.
        at: Place,
    },
}

impl From<IterationFact> for Fact {
    fn from(fact: IterationFact) -> Self {
        Self::Iteration(fact)
    }
}
