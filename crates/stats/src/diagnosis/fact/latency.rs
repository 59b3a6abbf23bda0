//! Facts about latencies as the client measured them.

use super::{Fact, Place, Reference};

/// Median TTFT of prompts of about one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthTtft {
    /// Mean tokens of the prompts.
    pub tokens: f64,
    /// Median TTFT in milliseconds.
    pub ttft_ms: f64,
}

/// A fact about latencies as the client measured them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyFact {
    /// A percentile of TTFT under load and that of a reference.
    SlowerTtft {
        /// The percentile: `p99`.
        percentile: &'static str,
        /// Its value.
        now_ms: f64,
        /// The step.
        at: Place,
        /// Its value in the reference.
        before_ms: f64,
        /// The reference.
        reference: Reference,
    },
    /// The median of TTFT, reported after its tail.
    MedianTtft {
        /// Its value.
        now_ms: f64,
        /// Its value in the reference.
        before_ms: f64,
    },
    /// Share of waiting in a percentile of TTFT.
    WaitOfTail {
        /// The share.
        share: f64,
        /// The percentile: `p99`.
        percentile: &'static str,
    },
    /// Share, in a percentile of TTFT, of the time reported just before.
    ShareOfTail {
        /// The share.
        share: f64,
        /// The percentile: `p99`.
        percentile: &'static str,
        /// TTFT at that percentile.
        tail_ms: f64,
        /// The step.
        at: Place,
    },
    /// The median TPOT of the only step, an unloaded one.
    TpotUnloaded {
        /// Its value.
        tpot_ms: f64,
        /// The step.
        at: Place,
    },
    /// The median TPOT of a reference, and its share of the median under load.
    TpotOfReference {
        /// Its value in the reference.
        before_ms: f64,
        /// The reference.
        reference: Reference,
        /// The value in the reference divided by the one under load.
        share: f64,
        /// Its value under load.
        now_ms: f64,
        /// The step.
        at: Place,
    },
    /// The rise of the median TPOT over that of a step with less load, reported after that of the output tokens.
    TpotRise {
        /// Its value.
        now_ms: f64,
        /// Its value under less load.
        before_ms: f64,
    },
    /// Share of TPOT that load adds.
    TpotAdded {
        /// The share.
        share: f64,
    },
    /// Mean TTFT by the clocks of client and server.
    BetweenClocks {
        /// TTFT by the client's clock, from sending.
        client_ms: f64,
        /// TTFT by the server's clock.
        server_ms: f64,
        /// The step.
        at: Place,
    },
    /// TTFT by the length of the prompt, one request at a time.
    TtftByLength {
        /// The shortest prompts.
        shortest: LengthTtft,
        /// The longest prompts.
        longest: LengthTtft,
        /// Milliseconds per token.
        per_token_ms: f64,
        /// Median TTFT of the unloaded step.
        ttft_ms: f64,
        /// The unloaded step.
        at: Place,
        /// Share of that TTFT that grows with the length.
        share: f64,
    },
}

impl From<LatencyFact> for Fact {
    fn from(fact: LatencyFact) -> Self {
        Self::Latency(fact)
    }
}
