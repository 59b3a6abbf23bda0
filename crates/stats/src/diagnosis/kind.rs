//! The kinds of findings, and their place among one another.

use serde::Serialize;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "FindingKind")]
pub enum Kind {
    /// The client was the limit, not the server.
    ClientLimited,
    /// Requests fail, and their failures are the misses.
    Errors,
    /// Requests are evicted from the KV cache and computed again.
    Preemption,
    /// The KV cache is full.
    KvExhaustion,
    /// The server runs few requests at a time, although others wait and it has room.
    BatchTooSmall,
    /// More sequences run at a time than the limit on TPOT allows, and nothing forbids requests to wait.
    BatchTooLarge,
    /// A prefix cache that should be warm is not, or is off.
    CacheMisses,
    /// Time passes between the clocks of client and server.
    Network,
    /// The clocks of a GPU are held down by power, heat or a setting.
    Throttled,
    /// The GPUs run nothing for most of the time, although requests are in flight: they wait for their host.
    IdleGpus,
    /// Speculative decoding takes longer than the tokens gain that it drafts.
    DraftingCosts,
    /// An iteration has tokens for few prompts, and takes a large fixed time.
    SmallIterations,
    /// Tokens wait while prompts of other requests are read.
    PrefillStalls,
    /// GPUs that compute one token together wait for one another.
    CommunicationBound,
    /// Reading the prompt determines the time to the first token.
    PrefillBound,
    /// A token takes as long as for one request alone.
    DecodeBound,
    /// Total throughput is higher, and each token takes longer.
    BatchingTradeOff,
    /// Requests wait for one another before their first token.
    Queueing,
    /// More requests arrive than the server completes.
    Unstable,
}

impl Kind {
    /// All kinds; with equal weight, causes come before their effects.
    pub const ALL: [Self; 19] = [
        Self::ClientLimited,
        Self::Errors,
        Self::Preemption,
        Self::KvExhaustion,
        Self::BatchTooSmall,
        Self::BatchTooLarge,
        Self::CacheMisses,
        Self::Network,
        Self::Throttled,
        Self::IdleGpus,
        Self::DraftingCosts,
        Self::SmallIterations,
        Self::PrefillStalls,
        Self::CommunicationBound,
        Self::PrefillBound,
        Self::DecodeBound,
        Self::BatchingTradeOff,
        Self::Queueing,
        Self::Unstable,
    ];

    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientLimited => "client-limited",
            Self::Errors => "errors",
            Self::Preemption => "preemption",
            Self::KvExhaustion => "kv-exhaustion",
            Self::BatchTooSmall => "batch-too-small",
            Self::BatchTooLarge => "batch-too-large",
            Self::CacheMisses => "cache-misses",
            Self::Network => "network",
            Self::Throttled => "throttled",
            Self::IdleGpus => "idle-gpus",
            Self::DraftingCosts => "drafting-costs",
            Self::SmallIterations => "small-iterations",
            Self::PrefillStalls => "prefill-stalls",
            Self::CommunicationBound => "communication-bound",
            Self::PrefillBound => "prefill-bound",
            Self::DecodeBound => "decode-bound",
            Self::BatchingTradeOff => "batching-trade-off",
            Self::Queueing => "queueing",
            Self::Unstable => "unstable",
        }
    }
}

/// The place of a kind in the chain from a cause to what it looks like, in ascending order of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A sign of any overload: another finding may be its cause.
    Symptom,
    /// A part of the latency, which can be made shorter but not switched off.
    Part,
    /// A resource that runs out, or a setting that costs.
    Cause,
    /// The requests themselves failed, or were not sent in time: latencies say little.
    Broken,
}

impl Kind {
    /// Returns true for a kind that any server may show; the others need a setting or a workload that few have.
    pub(super) const fn is_usual(self) -> bool {
        match self {
            Self::ClientLimited
            | Self::Errors
            | Self::Preemption
            | Self::KvExhaustion
            | Self::BatchTooSmall
            | Self::PrefillBound
            | Self::DecodeBound
            | Self::BatchingTradeOff
            | Self::Queueing
            | Self::Unstable => true,
            Self::BatchTooLarge
            | Self::CacheMisses
            | Self::Network
            | Self::Throttled
            | Self::IdleGpus
            | Self::DraftingCosts
            | Self::SmallIterations
            | Self::PrefillStalls
            | Self::CommunicationBound => false,
        }
    }

    pub(super) const fn rank(self) -> Rank {
        match self {
            Self::ClientLimited | Self::Errors => Rank::Broken,
            Self::Preemption
            | Self::KvExhaustion
            | Self::BatchTooSmall
            | Self::BatchTooLarge
            | Self::CacheMisses
            | Self::Network
            | Self::Throttled
            | Self::IdleGpus
            | Self::DraftingCosts
            | Self::SmallIterations
            | Self::PrefillStalls
            | Self::CommunicationBound => Rank::Cause,
            Self::PrefillBound | Self::DecodeBound | Self::BatchingTradeOff => Rank::Part,
            Self::Queueing | Self::Unstable => Rank::Symptom,
        }
    }
}
