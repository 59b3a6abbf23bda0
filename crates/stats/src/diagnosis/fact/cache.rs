//! Facts about the prefix cache.

use super::super::settings::Origin;
use super::{Fact, Place};

/// A fact about the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CacheFact {
    /// The prefix cache is off.
    Off {
        /// The source of that.
        origin: Origin,
    },
    /// Share of the prompt tokens that are shared.
    Shared {
        /// The share.
        share: f64,
    },
    /// Share of the prompt tokens that came from the prefix cache.
    Hits {
        /// The share.
        share: f64,
        /// The step.
        at: Place,
    },
    /// Share of the prompt tokens that came from the prefix cache under load, reported after that of the unloaded step.
    HitsLoaded {
        /// The share.
        share: f64,
        /// The step.
        at: Place,
    },
    /// Median TTFT with a warm and with a cold cache.
    WarmAndCold {
        /// TTFT with a warm cache.
        warm_ms: f64,
        /// Its step.
        warm: Place,
        /// TTFT with a cold cache.
        cold_ms: f64,
        /// Its step.
        cold: Place,
    },
}

impl From<CacheFact> for Fact {
    fn from(fact: CacheFact) -> Self {
        Self::Cache(fact)
    }
}
