//! Changes that a diagnosis can advise.

use super::flags::Knob;
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
}

/// A change of the number of concurrent sequences and tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchChange {
    /// Admit fewer sequences than the KV cache has room for.
    AdmitFewer {
        /// Mean number of running sequences.
        ran: Option<f64>,
    },
    /// Admit fewer sequences if requests are preempted.
    AdmitFewerIfPreempted {
        /// Mean number of running sequences.
        ran: Option<f64>,
    },
    /// Admit no more sequences than the limit on TPOT allows.
    Cap,
    /// Admit more sequences.
    AdmitMore,
    /// Admit more sequences, because all seats are taken.
    RaiseFull,
    /// Admit more sequences if requests wait while few run.
    RaiseIfFewRun,
    /// Allow more tokens per iteration if more sequences do not help.
    MoreTokens,
    /// Give prompts a smaller part of each iteration.
    SmallerPrefillChunks,
    /// Read more prompt tokens per iteration.
    LargerPrefillChunks,
}

/// A change of the memory of the server and its caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryChange {
    /// Give the KV cache more memory.
    MoreKvCache,
    /// Give the KV cache room for more requests.
    RoomForMoreRequests,
    /// Give the prefix cache room in addition to the running requests.
    RoomForPrefixes,
    /// Store keys and values in fewer bits.
    SmallerKvType,
    /// Put the weights on more GPUs, so that each has more memory left.
    MoreGpus,
    /// Lower the largest length of prompt and answer.
    ShorterContext,
    /// Turn on the prefix cache.
    PrefixCacheOn,
    /// Cache the common parts of prompts.
    CachePrefixes,
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
    /// Send shorter prompts.
    ShorterPrompts,
    /// Write several tokens at a time, or use a GPU with more memory bandwidth.
    SpeculativeDecoding,
    /// No change: less load does not help.
    LessLoadIsNoHelp,
    /// No change: this is the capacity.
    Capacity,
}

impl Change {
    /// Returns the setting for the change with the direction in which it moves; `None` if it is not a setting of the
    /// server.
    pub const fn setting(&self) -> Option<(Knob, Direction)> {
        match self {
            Self::Batch(change) => Some((change.knob(), change.direction())),
            Self::Memory(change) => Some((change.knob(), change.direction())),
            Self::Compute(change) => Some((change.knob(), change.direction())),
            Self::Client { .. } | Self::Deployment(_) => None,
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

    const fn direction(&self) -> Direction {
        match self {
            Self::AdmitFewer { .. }
            | Self::AdmitFewerIfPreempted { .. }
            | Self::Cap
            | Self::SmallerPrefillChunks => Direction::Lower,
            Self::AdmitMore
            | Self::RaiseFull
            | Self::RaiseIfFewRun
            | Self::MoreTokens
            | Self::LargerPrefillChunks => Direction::Raise,
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

    const fn direction(self) -> Direction {
        match self {
            Self::MoreKvCache | Self::RoomForMoreRequests | Self::RoomForPrefixes | Self::MoreGpus => {
                Direction::Raise
            }
            Self::ShorterContext => Direction::Lower,
            Self::SmallerKvType | Self::PrefixCacheOn | Self::CachePrefixes => Direction::On,
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

    const fn direction(&self) -> Direction {
        match self {
            Self::FewerGpusPerCopy => Direction::Lower,
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

changes!(Batch(BatchChange), Memory(MemoryChange), Compute(ComputeChange), Deployment(DeploymentChange));
