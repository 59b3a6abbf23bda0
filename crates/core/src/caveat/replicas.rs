//! Caveats on one of several replicas that is worse than the others.

use super::Scope;
use super::number::number;
use crate::named_enum;
use serde::{Deserialize, Serialize};

/// A caveat on one of several replicas that is worse than the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicasCaveat {
    /// A replica is far slower than the others.
    SlowReplica {
        /// Its URL.
        url: String,
        /// The slow metric.
        metric: SlowMetric,
        /// Its p99 in one step, in milliseconds.
        #[serde(deserialize_with = "number")]
        p99_ms: f64,
        /// Lower median of the p99 of the others, in milliseconds.
        #[serde(deserialize_with = "number")]
        others_ms: f64,
        /// The step.
        step: u32,
        /// Number of steps in which it is the slower one.
        steps: u32,
        /// Number of steps counted.
        of: u32,
    },
    /// A replica fails more requests than the others.
    FailingReplica {
        /// Its URL.
        url: String,
        /// Share of its requests that failed in one step.
        #[serde(deserialize_with = "number")]
        share: f64,
        /// Lower median of the shares of the others.
        #[serde(deserialize_with = "number")]
        others: f64,
        /// The step.
        step: u32,
        /// Number of steps in which it failed more.
        steps: u32,
        /// Number of steps counted.
        of: u32,
    },
}

named_enum! {
    /// The metric in which a replica is slow.
    pub enum SlowMetric {
        /// The time to the first token.
        Ttft = "TTFT",
        /// The time per output token.
        Tpot = "TPOT",
    }
}

impl ReplicasCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::SlowReplica { step, .. } => Scope::step(*step),
            Self::FailingReplica { step, .. } => Scope::step(*step).weakening(),
        }
    }

    /// Returns the URL of the replica.
    pub fn url(&self) -> &str {
        match self {
            Self::SlowReplica { url, .. } | Self::FailingReplica { url, .. } => url,
        }
    }
}
