//! What a server that refuses the load, or dies under it, leads to.

use super::number::number;
use crate::units::short;
use serde::{Deserialize, Serialize};

/// How a step was kept from being measured as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// It was stopped since too many of its requests failed.
    TooManyErrors {
        /// Measured requests that failed.
        failed: u64,
        /// Of how many that were due.
        of: u64,
    },
    /// Many of its requests were refused: a limit of requests, at the server or before it.
    RateLimited {
        /// Measured requests that were refused.
        refused: u64,
        /// Of how many that were due.
        of: u64,
    },
    /// It began late: the server had refused the step before, and asked to be left alone.
    AskedToWait {
        /// For how long it asked, in seconds from the end of the step before.
        #[serde(deserialize_with = "number")]
        asked_s: f64,
        /// How long it was left alone.
        #[serde(deserialize_with = "number")]
        waited_s: f64,
    },
}

impl Refusal {
    /// In a sentence, of the step of that number.
    pub fn text(&self, step: u32) -> String {
        match self {
            Self::TooManyErrors { failed, of } => format!(
                "Step {step} was stopped, since {failed} of its {of} requests failed: no level as high was tried after it."
            ),
            Self::RateLimited { refused, of } => format!(
                "The server refused {refused} of the {of} requests of step {step} (429, or 503 with Retry-After): a limit of requests, which says \
                 nothing of how fast it serves."
            ),
            Self::AskedToWait { asked_s, waited_s } => format!(
                "The server refused requests and asked to be left alone for {} s (Retry-After): step {step} began after {} s.",
                short(asked_s.ceil()),
                short(waited_s.ceil())
            ),
        }
    }

    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::TooManyErrors { .. } => {
                "See failures.csv for the kinds; step.max-error-share says how many are put up with."
            }
            Self::RateLimited { .. } | Self::AskedToWait { .. } => {
                "A limit of requests before the server is part of what was measured: raise it where the server itself is in question."
            }
        }
    }
}
