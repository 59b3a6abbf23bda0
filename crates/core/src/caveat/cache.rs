//! Caveats on the server's prefix cache: it was not as cold, as warm or as steady as the plan assumes.

use super::Scope;
use super::number::number;
use serde::{Deserialize, Serialize};

/// A caveat on the server's prefix cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheCaveat {
    /// A cold workload was served from the cache: noted by earlier versions of a sweep as a whole.
    ColdCacheHits {
        /// Share of the prompt tokens that came from the cache.
        #[serde(deserialize_with = "number")]
        share: f64,
    },
    /// Steps of a cold series had more from the cache than the chat template explains.
    ColdHits {
        /// The step with the most.
        step: u32,
        /// Number of such steps.
        steps: u32,
        /// Share of the prompt tokens that came from the cache in it.
        #[serde(deserialize_with = "number")]
        hit_rate: f64,
    },
    /// Steps of a warm series had far less from the cache than the prompts share.
    WarmMisses {
        /// The step with the least.
        step: u32,
        /// Number of such steps.
        steps: u32,
        /// Share of the prompt tokens that came from the cache in it.
        #[serde(deserialize_with = "number")]
        hit_rate: f64,
        /// Share of the prompt tokens that lies in shared prefixes.
        #[serde(deserialize_with = "number")]
        shared: f64,
    },
    /// Steps that are read together had different shares of their prompts from the cache.
    HitRatesDiffer {
        /// Smallest share of the prompt tokens.
        #[serde(deserialize_with = "number")]
        low: f64,
        /// The step that had it.
        low_step: u32,
        /// Largest share.
        #[serde(deserialize_with = "number")]
        high: f64,
        /// The step that had it.
        high_step: u32,
    },
}

impl CacheCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::ColdCacheHits { .. } => Scope::RUN.until_resumed(),
            Self::ColdHits { step, .. } | Self::WarmMisses { step, .. } => Scope::step(*step),
            Self::HitRatesDiffer { .. } => Scope::RUN,
        }
    }
}
