//! Caveats on token counts and on the lengths of prompts and answers.

use super::Scope;
use super::number::number;
use crate::record::Failure;
use serde::{Deserialize, Serialize};

/// The requests of a sweep whose lengths are off: all of them where neither series nor class is named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LengthsOf {
    /// The series, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The class, where there are several kinds of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// The cause of a failed calibration of input lengths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationFailure {
    /// A request failed.
    RequestFailed {
        /// Kind of the failure.
        kind: Failure,
        /// Beginning of the answer's body, if there was one.
        body: Option<String>,
    },
    /// The server sends no usage.
    NoUsage,
    /// The server's token counts do not grow with the prompt.
    ConstantCounts,
    /// The server counted none of the natural texts.
    TextsNotCounted {
        /// The class of the texts, where there are several kinds of requests.
        class: Option<String>,
    },
    /// A clause that an earlier version wrote.
    #[serde(untagged)]
    Text(String),
}

/// A caveat on token counts, or on the lengths of prompts and answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LengthsCaveat {
    /// The server refused `ignore_eos` or `min_tokens`.
    PinningRefused {
        /// The field that it refused.
        field: String,
        /// Its message.
        message: String,
        /// The other field still pins the lengths.
        held: bool,
    },
    /// Answers came back shorter or longer than asked for.
    LengthsNotPinned {
        /// Mean output tokens asked for.
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// Mean output tokens received.
        #[serde(deserialize_with = "number")]
        got: f64,
        /// The requests that these are means of.
        #[serde(default, flatten)]
        of: LengthsOf,
    },
    /// The server refused `stream_options`.
    UsageRefused {
        /// Its message.
        message: String,
    },
    /// Output tokens were counted by events.
    TokensEstimated {
        /// Requests counted that way.
        requests: u64,
    },
    /// Answers in one piece came without usage, so that their tokens are unknown.
    TokensUnknown {
        /// Number of such answers.
        requests: u64,
    },
    /// The mean input length is not what the plan asks for.
    InputLengthOff {
        /// Mean tokens asked for.
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// Mean tokens by the server's usage.
        #[serde(deserialize_with = "number")]
        got: f64,
        /// The requests that these are means of.
        #[serde(default, flatten)]
        of: LengthsOf,
    },
    /// Input lengths could not be calibrated.
    InputNotCalibrated {
        /// Cause.
        reason: CalibrationFailure,
    },
}

impl LengthsCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::PinningRefused { .. } | Self::UsageRefused { .. } | Self::InputNotCalibrated { .. } => {
                Scope::RUN
            }
            Self::LengthsNotPinned { .. }
            | Self::TokensEstimated { .. }
            | Self::TokensUnknown { .. }
            | Self::InputLengthOff { .. } => Scope::RUN.until_resumed(),
        }
    }

    /// Returns the requests whose mean length it gives, if it gives one.
    pub const fn of(&self) -> Option<&LengthsOf> {
        match self {
            Self::LengthsNotPinned { of, .. } | Self::InputLengthOff { of, .. } => Some(of),
            Self::PinningRefused { .. }
            | Self::UsageRefused { .. }
            | Self::TokensEstimated { .. }
            | Self::TokensUnknown { .. }
            | Self::InputNotCalibrated { .. } => None,
        }
    }
}
