//! Refusals of the load.

use super::number::number;
use serde::{Deserialize, Serialize};

/// A refusal of the server that kept a step from being measured as asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The step was stopped because too many of its requests failed.
    TooManyErrors {
        /// Measured requests that failed.
        failed: u64,
        /// Measured requests that were due.
        of: u64,
    },
    /// Many requests were refused: a rate limit, at the server or before it.
    RateLimited {
        /// Measured requests that were refused.
        refused: u64,
        /// Measured requests that were due.
        of: u64,
    },
    /// The step began late: the server had refused the step before and asked the client to wait.
    AskedToWait {
        /// Wait that it asked for, in seconds from the end of the step before.
        #[serde(deserialize_with = "number")]
        asked_s: f64,
        /// Wait that it got, in seconds.
        #[serde(deserialize_with = "number")]
        waited_s: f64,
    },
}
