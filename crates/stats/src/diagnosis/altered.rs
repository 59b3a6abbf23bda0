//! The changes of a server that are simulated: their price, and the advice that each stands for.

use super::Kind;
use super::change::{BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange};
use serde::{Deserialize, Serialize};

/// One thing about a server that is changed in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Altered {
    /// Fewer concurrent sequences: this many.
    FewerSequences(u32),
    /// More concurrent sequences: this many.
    MoreSequences(u32),
    /// Fewer tokens in an iteration: this many.
    FewerTokens(u32),
    /// More tokens in an iteration: this many.
    MoreTokens(u32),
    /// A KV cache twice as large.
    TwiceTheKvCache,
    /// The prefix cache is on.
    PrefixCache,
    /// Prompts are read in chunks.
    ChunkedPrefill,
    /// Compute is twice as fast: prompts are read in half the time.
    FasterCompute,
    /// Memory is twice as fast: weights, keys and values are read in half the time.
    FasterMemory,
    /// The host's work for an iteration takes half the time.
    FasterHost,
    /// Prompts have half as many tokens.
    HalfThePrompts,
    /// Answers have half as many tokens.
    HalfTheAnswers,
}

/// The price of a change, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Price {
    /// A setting of the server at hand.
    Setting,
    /// Other hardware, or weights of fewer bits.
    Hardware,
    /// Other requests: not what the users ask for.
    Requests,
}

impl Price {
    pub(super) const ALL: [Self; 3] = [Self::Setting, Self::Hardware, Self::Requests];
}

impl Altered {
    pub(super) const fn price(self) -> Price {
        match self {
            Self::FewerSequences(_)
            | Self::MoreSequences(_)
            | Self::FewerTokens(_)
            | Self::MoreTokens(_)
            | Self::TwiceTheKvCache
            | Self::PrefixCache
            | Self::ChunkedPrefill => Price::Setting,
            Self::FasterCompute | Self::FasterMemory | Self::FasterHost => Price::Hardware,
            Self::HalfThePrompts | Self::HalfTheAnswers => Price::Requests,
        }
    }

    /// Returns the number to which a setting is changed; `None` for other changes.
    pub(super) const fn count(self) -> Option<u32> {
        match self {
            Self::FewerSequences(n) | Self::MoreSequences(n) | Self::FewerTokens(n) | Self::MoreTokens(n) => {
                Some(n)
            }
            Self::TwiceTheKvCache
            | Self::PrefixCache
            | Self::ChunkedPrefill
            | Self::FasterCompute
            | Self::FasterMemory
            | Self::FasterHost
            | Self::HalfThePrompts
            | Self::HalfTheAnswers => None,
        }
    }

    /// Returns true for what faster GPUs do, whichever part of them is faster.
    pub(super) const fn is_of_gpus(self) -> bool {
        matches!(self, Self::FasterCompute | Self::FasterMemory)
    }

    /// Returns true if it changes a setting less than another change of the same setting in the same direction.
    pub(super) const fn is_smaller(self, other: Self) -> bool {
        match (self, other) {
            (Self::MoreSequences(own), Self::MoreSequences(its))
            | (Self::MoreTokens(own), Self::MoreTokens(its)) => own < its,
            (Self::FewerSequences(own), Self::FewerSequences(its))
            | (Self::FewerTokens(own), Self::FewerTokens(its)) => own > its,
            _ => false,
        }
    }

    /// Returns true if both change the same thing in the same direction, whatever the number.
    pub(super) fn is_alike(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns the kind of finding whose cause the change removes, and the change that is advised for it.
    pub(super) const fn remedy(self) -> (Kind, Change) {
        match self {
            Self::FewerSequences(_) => (Kind::BatchTooLarge, Change::Batch(BatchChange::Cap)),
            Self::MoreSequences(_) => (Kind::BatchTooSmall, Change::Batch(BatchChange::AdmitMore)),
            Self::FewerTokens(_) => (Kind::PrefillStalls, Change::Batch(BatchChange::SmallerPrefillChunks)),
            Self::MoreTokens(_) => (Kind::SmallIterations, Change::Batch(BatchChange::MoreTokens)),
            Self::TwiceTheKvCache => (Kind::KvExhaustion, Change::Memory(MemoryChange::MoreKvCache)),
            Self::PrefixCache => (Kind::CacheMisses, Change::Memory(MemoryChange::PrefixCacheOn)),
            Self::ChunkedPrefill => (Kind::PrefillStalls, Change::Batch(BatchChange::ChunkedPrefill)),
            Self::FasterCompute => (Kind::PrefillBound, Change::Deployment(DeploymentChange::FasterCompute)),
            Self::FasterMemory => (Kind::DecodeBound, Change::Deployment(DeploymentChange::FasterMemory)),
            Self::FasterHost => (Kind::DecodeBound, Change::Deployment(DeploymentChange::CheckHost)),
            Self::HalfThePrompts => {
                (Kind::PrefillBound, Change::Deployment(DeploymentChange::ShorterPrompts))
            }
            Self::HalfTheAnswers => (Kind::DecodeBound, Change::Deployment(DeploymentChange::ShorterAnswers)),
        }
    }

    /// Returns the simulated change that an advised one comes nearest to, with any number; `None` if it was not simulated.
    pub const fn of(change: &Change) -> Option<Self> {
        match change {
            Change::Client { .. } | Change::Pool(_) => None,
            Change::Batch(change) => Some(match change {
                BatchChange::Cap => Self::FewerSequences(0),
                BatchChange::AdmitMore => Self::MoreSequences(0),
                BatchChange::MoreTokens => Self::MoreTokens(0),
                BatchChange::SmallerPrefillChunks => Self::FewerTokens(0),
                BatchChange::ChunkedPrefill => Self::ChunkedPrefill,
            }),
            Change::Memory(change) => Some(match change {
                MemoryChange::MoreKvCache
                | MemoryChange::RoomForPrefixes
                | MemoryChange::SmallerKvType
                | MemoryChange::MoreGpus => Self::TwiceTheKvCache,
                MemoryChange::PrefixCacheOn => Self::PrefixCache,
            }),
            Change::Compute(change) => match change {
                ComputeChange::EightBits | ComputeChange::MoreGpusForPrefill => Some(Self::FasterCompute),
                ComputeChange::SmallerWeights { .. } | ComputeChange::MoreGpusForDecode => {
                    Some(Self::FasterMemory)
                }
                ComputeChange::CaptureGraphs { .. } => Some(Self::FasterHost),
                ComputeChange::FewerGpusPerCopy | ComputeChange::NoDrafting => None,
            },
            Change::Deployment(change) => match change {
                DeploymentChange::FasterCompute => Some(Self::FasterCompute),
                DeploymentChange::FasterMemory | DeploymentChange::SpeculativeDecoding => {
                    Some(Self::FasterMemory)
                }
                DeploymentChange::CheckHost => Some(Self::FasterHost),
                DeploymentChange::ShorterPrompts => Some(Self::HalfThePrompts),
                DeploymentChange::ShorterAnswers => Some(Self::HalfTheAnswers),
                DeploymentChange::MoreReplicas
                | DeploymentChange::RouteByPrefix
                | DeploymentChange::CheckInterconnect
                | DeploymentChange::MendErrors
                | DeploymentChange::NearerClient
                | DeploymentChange::RaisePowerLimit
                | DeploymentChange::CoolGpus
                | DeploymentChange::FreeClocks
                | DeploymentChange::FewerDrafts
                | DeploymentChange::LimitAdmission
                | DeploymentChange::Capacity => None,
            },
        }
    }
}
