//! Caveats on how requests ended and what their answers held.

use super::Scope;
use super::number::number;
use crate::record::Failure;
use serde::{Deserialize, Serialize};

/// A caveat on how requests ended, or what their answers held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswersCaveat {
    /// Streams ended with `[DONE]` but no finish reason.
    NoFinishReason {
        /// Number of such streams.
        requests: u64,
    },
    /// The client's timeout ended requests.
    TimedOut {
        /// Number of such requests.
        requests: u64,
        /// Requests counted.
        of: u64,
        /// Timeout in seconds; where several applied, the shortest.
        #[serde(deserialize_with = "number")]
        after_s: f64,
        /// The plan sets the timeout, so that each of them is an error.
        is_error: bool,
    },
    /// Answers ended before any content came.
    NoContent {
        /// Number of such answers.
        requests: u64,
        /// Answers counted.
        of: u64,
    },
    /// The server counted reasoning tokens that it never sent.
    HiddenReasoning {
        /// Answers that had some.
        requests: u64,
        /// Answers counted.
        of: u64,
        /// Their share of the output tokens of these answers.
        #[serde(deserialize_with = "number")]
        share: f64,
    },
    /// Requests failed.
    Failures {
        /// Requests that failed in the measured windows.
        requests: u64,
        /// Requests counted.
        of: u64,
        /// The most frequent kind of failure.
        kind: Failure,
        /// True if that kind is more than half of the failures.
        #[serde(default)]
        most: bool,
    },
    /// Connections closed or were reset under many requests.
    Resets {
        /// Attempts whose connection closed or was reset before the answer was complete.
        resets: u64,
        /// Attempts counted.
        attempts: u64,
        /// Requests that were sent again for it. Where the second attempt was answered, no failure shows the first.
        retried: u64,
    },
}

impl AnswersCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::TimedOut { is_error: true, .. } => Scope::RUN.until_resumed().weakening(),
            Self::NoFinishReason { .. }
            | Self::TimedOut { is_error: false, .. }
            | Self::NoContent { .. }
            | Self::HiddenReasoning { .. } => Scope::RUN.until_resumed(),
            Self::Failures { .. } | Self::Resets { .. } => Scope::RUN.weakening(),
        }
    }
}
