//! The latencies that servers report as histograms.

/// A histogram of latencies that servers report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Time from arrival at the server to the first token; includes its queue in every engine that reports it.
    Ttft,
    /// Time spent waiting for a place in the batch.
    Queue,
    /// Time from the first iteration to the first token.
    Prefill,
    /// Time from the first to the last token.
    Decode,
    /// Time between two tokens.
    Itl,
    /// Time of whole requests.
    E2e,
    /// Time per output token after the first, a value for each request.
    Tpot,
}

impl Latency {
    /// Every latency, in the order of their index in a reading.
    pub const ALL: [Self; 7] =
        [Self::Ttft, Self::Queue, Self::Prefill, Self::Decode, Self::Itl, Self::E2e, Self::Tpot];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Itl => "itl",
            Self::E2e => "e2e",
            Self::Tpot => "tpot",
        }
    }

    /// Returns the names of sum (in seconds) and count in `server-metrics.csv`.
    pub const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Ttft => ["ttft_sum_s", "ttft_count"],
            Self::Queue => ["queue_sum_s", "queue_count"],
            Self::Prefill => ["prefill_sum_s", "prefill_count"],
            Self::Decode => ["decode_sum_s", "decode_count"],
            Self::Itl => ["itl_sum_s", "itl_count"],
            Self::E2e => ["e2e_sum_s", "e2e_count"],
            Self::Tpot => ["tpot_sum_s", "tpot_count"],
        }
    }
}
