//! Caveats on the replayed trace.

use super::Scope;
use super::number::number;
use serde::{Deserialize, Serialize};

/// A caveat on the replayed trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceCaveat {
    /// Less than half of the trace was replayed.
    TracePart {
        /// Requests of it that were sent at least once.
        sent: u64,
        /// Requests that it has.
        of: u64,
    },
    /// A step replayed the trace several times.
    TraceRepeated {
        /// The step that did so most often.
        step: u32,
        /// Number of times.
        #[serde(deserialize_with = "number")]
        times: f64,
        /// Requests of the trace.
        of: u64,
    },
}

impl TraceCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::TracePart { .. } => Scope::RUN,
            Self::TraceRepeated { step, .. } => Scope::step(*step),
        }
    }
}
