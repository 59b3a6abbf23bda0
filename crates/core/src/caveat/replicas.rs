//! Caveats on one of several replicas that is worse than the others.

use super::Scope;
use super::number::number;
use crate::slo::Metric;
use serde::{Deserialize, Serialize};

/// A caveat on one of several replicas that is worse than the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicasCaveat {
    /// A replica is far slower than the others.
    SlowReplica {
        /// Its URL.
        url: String,
        /// The slow metric: TTFT or TPOT.
        #[serde(with = "title")]
        metric: Metric,
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

/// A metric, written with its title: `TTFT`.
mod title {
    use crate::slo::Metric;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(metric: &Metric, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(metric.title())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Metric, D::Error> {
        let title = String::deserialize(from)?;
        let known = Metric::ALL.into_iter().find(|metric| metric.title() == title);
        known.ok_or_else(|| D::Error::custom(format!("{title:?} is not a metric")))
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
