//! Changes that a diagnosis can advise.

use super::flags::Knob;
use goodput_core::caveat::OwnFault;

/// A change that would help, by what is changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The client: mend the limit that it reached, where that is known.
    Client {
        /// The limit.
        fault: Option<OwnFault>,
        /// The client is another tool's.
        imported: bool,
    },
    /// How many sequences and tokens the server works on at a time.
    Batch(BatchChange),
    /// The memory of the server and its caches.
    Memory(MemoryChange),
    /// How the server computes.
    Compute(ComputeChange),
    /// The deployment and what is sent to it: no setting of the server.
    Deployment(DeploymentChange),
}

/// A change of how many sequences and tokens the server works on at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchChange {
    /// Admit fewer sequences than there is KV cache for.
    AdmitFewer {
        /// Sequences that ran on average.
        ran: Option<f64>,
    },
    /// Admit fewer sequences if requests are preempted.
    AdmitFewerIfPreempted {
        /// Sequences that ran on average.
        ran: Option<f64>,
    },
    /// Admit no more sequences than the limit on TPOT allows.
    Cap,
    /// Admit more sequences.
    AdmitMore,
    /// Admit more sequences, all places being taken.
    RaiseFull,
    /// Admit more sequences if requests wait while few run.
    RaiseIfFewRun,
    /// Allow more tokens in an iteration if more sequences do not help.
    MoreTokens,
    /// Let prompts take less of each iteration.
    SmallerPrefillChunks,
    /// Read more prompt tokens in an iteration.
    LargerPrefillChunks,
}

/// A change of the memory of the server and its caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryChange {
    /// Give the KV cache more memory.
    MoreKvCache,
    /// Give the KV cache room for more requests.
    RoomForMoreRequests,
    /// Give the prefix cache room beside the running requests.
    RoomForPrefixes,
    /// Store keys and values in fewer bits.
    SmallerKvType,
    /// Put the weights on more GPUs, so that each has more memory left.
    MoreGpus,
    /// Lower the longest prompt and answer.
    ShorterContext,
    /// Turn on the prefix cache.
    PrefixCacheOn,
    /// Let the prefix cache have what prompts share.
    CachePrefixes,
}

/// A change of how the server computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ComputeChange {
    /// Use fewer GPUs for a copy of the model.
    FewerGpusPerCopy,
    /// Let more GPUs read a prompt together.
    MoreGpusForPrefill,
    /// Let more GPUs read the weights together.
    MoreGpusForDecode,
    /// Compute in 8 bits.
    EightBits,
    /// Store weights in fewer bits.
    SmallerWeights {
        /// The least TPOT with weights of 8 bits, in milliseconds.
        floor_ms: Option<f64>,
    },
    /// Launch kernels together instead of one by one.
    CaptureGraphs {
        /// Share of a token's time that is not reading memory.
        share: f64,
    },
}

/// A change of the deployment or the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentChange {
    /// Spread the load over more replicas.
    MoreReplicas,
    /// Send requests with one prefix to one replica.
    RouteByPrefix,
    /// See that the GPUs are joined by NVLink.
    CheckInterconnect,
    /// Look at the host for work that every token waits for.
    CheckHost,
    /// Send shorter prompts.
    ShorterPrompts,
    /// Write several tokens at a time, or use a GPU with more memory bandwidth.
    SpeculativeDecoding,
    /// None: less load does not help.
    LessLoadIsNoHelp,
    /// None: this is the capacity.
    Capacity,
}

impl Change {
    /// Returns the setting that makes the change; `None` where no setting of the server does.
    pub const fn knob(&self) -> Option<Knob> {
        match self {
            Self::Batch(change) => Some(change.knob()),
            Self::Memory(change) => Some(change.knob()),
            Self::Compute(change) => Some(change.knob()),
            Self::Client { .. } | Self::Deployment(_) => None,
        }
    }

    /// Returns true if it lowers the number of sequences.
    pub(super) const fn lowers_sequences(&self) -> bool {
        match self {
            Self::Batch(change) => change.lowers_sequences(),
            Self::Memory(_) | Self::Compute(_) | Self::Client { .. } | Self::Deployment(_) => false,
        }
    }
}

impl BatchChange {
    const fn knob(&self) -> Knob {
        match self {
            Self::AdmitFewer { .. }
            | Self::AdmitFewerIfPreempted { .. }
            | Self::Cap
            | Self::AdmitMore
            | Self::RaiseFull
            | Self::RaiseIfFewRun => Knob::Sequences,
            Self::MoreTokens | Self::SmallerPrefillChunks | Self::LargerPrefillChunks => Knob::Tokens,
        }
    }

    const fn lowers_sequences(&self) -> bool {
        match self {
            Self::AdmitFewer { .. } | Self::AdmitFewerIfPreempted { .. } | Self::Cap => true,
            Self::AdmitMore
            | Self::RaiseFull
            | Self::RaiseIfFewRun
            | Self::MoreTokens
            | Self::SmallerPrefillChunks
            | Self::LargerPrefillChunks => false,
        }
    }
}

impl MemoryChange {
    const fn knob(self) -> Knob {
        match self {
            Self::MoreKvCache | Self::RoomForMoreRequests | Self::RoomForPrefixes => Knob::Memory,
            Self::SmallerKvType => Knob::KvType,
            Self::MoreGpus => Knob::TensorParallel,
            Self::ShorterContext => Knob::MaxLength,
            Self::PrefixCacheOn | Self::CachePrefixes => Knob::PrefixCache,
        }
    }
}

impl ComputeChange {
    const fn knob(&self) -> Knob {
        match self {
            Self::FewerGpusPerCopy | Self::MoreGpusForPrefill | Self::MoreGpusForDecode => {
                Knob::TensorParallel
            }
            Self::EightBits | Self::SmallerWeights { .. } => Knob::Quantisation,
            Self::CaptureGraphs { .. } => Knob::Graphs,
        }
    }
}

/// Implements `From` of each kind of change.
macro_rules! changes {
    ($($kind:ident($change:ident)),+ $(,)?) => {
        $(impl From<$change> for Change {
            fn from(change: $change) -> Self {
                Self::$kind(change)
            }
        })+
    };
}

changes!(Batch(BatchChange), Memory(MemoryChange), Compute(ComputeChange), Deployment(DeploymentChange));
