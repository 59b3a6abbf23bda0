//! Changes that a diagnosis can advise.

use super::flags::Knob;
use super::pool::PoolSize;
use super::suggestion::Direction;
use goodput_core::caveat::OwnFault;

/// A change that would help.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Remove the limit that the client reached, if it is known.
    Client {
        /// The limit of the client.
        fault: Option<OwnFault>,
        /// True if another tool was the client.
        imported: bool,
    },
    /// The number of concurrent sequences and tokens.
    Batch(BatchChange),
    /// The memory of the server and its caches.
    Memory(MemoryChange),
    /// The computation.
    Compute(ComputeChange),
    /// The deployment and its workload: no setting of the server.
    Deployment(DeploymentChange),
    /// Read long prompts on servers of their own.
    Pool(PoolSize),
}

/// A change of the number of concurrent sequences and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchChange {
    /// Admit no more sequences than the limit on TPOT allows.
    Cap,
    /// Admit more sequences.
    AdmitMore,
    /// Allow more tokens per iteration.
    MoreTokens,
    /// Read prompts in chunks beside the decoding.
    ChunkedPrefill,
    /// Give prompts a smaller part of each iteration.
    SmallerPrefillChunks,
}

/// A change of the memory of the server and its caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryChange {
    /// Give the KV cache more memory.
    MoreKvCache,
    /// Give the prefix cache room in addition to the running requests.
    RoomForPrefixes,
    /// Store keys and values in fewer bits.
    SmallerKvType,
    /// Put the weights on more GPUs, so that each has more memory left.
    MoreGpus,
    /// Turn on the prefix cache.
    PrefixCacheOn,
}

/// A change of the computation.
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
    /// Leave out speculative decoding.
    NoDrafting,
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
    /// Check that the GPUs are connected by NVLink.
    CheckInterconnect,
    /// Check the host for work that every token waits for.
    CheckHost,
    /// Find out why requests fail.
    MendErrors,
    /// Measure and serve from nearer to the server.
    NearerClient,
    /// Use GPUs that compute faster.
    FasterCompute,
    /// Use GPUs with more memory bandwidth.
    FasterMemory,
    /// Refuse requests beyond the safe rate.
    LimitAdmission,
    /// Send shorter prompts.
    ShorterPrompts,
    /// Ask for shorter answers.
    ShorterAnswers,
    /// Write several tokens at a time, or use a GPU with more memory bandwidth.
    SpeculativeDecoding,
    /// No change: this is the capacity.
    Capacity,
    /// Raise the power limit of the GPUs.
    RaisePowerLimit,
    /// Cool the GPUs better.
    CoolGpus,
    /// Take back clocks that were set.
    FreeClocks,
    /// Draft fewer tokens at a time, or with another draft model.
    FewerDrafts,
}

impl Change {
    /// Returns the setting for the change with the direction in which it moves; `None` if it is not a setting of the
    /// server.
    pub const fn setting(&self) -> Option<(Knob, Direction)> {
        match self {
            Self::Batch(change) => Some((change.knob(), change.direction())),
            Self::Memory(change) => Some((change.knob(), change.direction())),
            Self::Compute(change) => Some((change.knob(), change.direction())),
            Self::Client { .. } | Self::Deployment(_) | Self::Pool(_) => None,
        }
    }
}

impl BatchChange {
    const fn knob(self) -> Knob {
        match self {
            Self::Cap | Self::AdmitMore => Knob::Sequences,
            Self::MoreTokens | Self::SmallerPrefillChunks => Knob::Tokens,
            Self::ChunkedPrefill => Knob::ChunkedPrefill,
        }
    }

    const fn direction(self) -> Direction {
        match self {
            Self::Cap | Self::SmallerPrefillChunks => Direction::Lower,
            Self::AdmitMore | Self::MoreTokens => Direction::Raise,
            Self::ChunkedPrefill => Direction::On,
        }
    }
}

impl MemoryChange {
    const fn knob(self) -> Knob {
        match self {
            Self::MoreKvCache | Self::RoomForPrefixes => Knob::Memory,
            Self::SmallerKvType => Knob::KvType,
            Self::MoreGpus => Knob::TensorParallel,
            Self::PrefixCacheOn => Knob::PrefixCache,
        }
    }

    const fn direction(self) -> Direction {
        match self {
            Self::MoreKvCache | Self::RoomForPrefixes | Self::MoreGpus => Direction::Raise,
            Self::SmallerKvType | Self::PrefixCacheOn => Direction::On,
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
            Self::NoDrafting => Knob::Speculative,
        }
    }

    const fn direction(&self) -> Direction {
        match self {
            Self::FewerGpusPerCopy => Direction::Lower,
            Self::NoDrafting => Direction::Off,
            Self::MoreGpusForPrefill | Self::MoreGpusForDecode => Direction::Raise,
            Self::EightBits | Self::SmallerWeights { .. } | Self::CaptureGraphs { .. } => Direction::On,
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

changes!(
    Batch(BatchChange),
    Memory(MemoryChange),
    Compute(ComputeChange),
    Deployment(DeploymentChange),
    Pool(PoolSize),
);
