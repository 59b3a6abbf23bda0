//! The reasons why a run has no forecast.

use serde::{Deserialize, Serialize};

/// A series without a forecast, with the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithoutForecast {
    /// Name of the series.
    pub series: String,
    /// The reason.
    pub reason: NoForecast,
}

/// The reason why no model of a server was believed, or none could be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoForecast {
    /// The load is a number of requests in flight.
    ClosedLoop,
    /// The load is conversations.
    Conversations,
    /// The load is the speed of a trace.
    TraceSpeed,
    /// Requests consist of items, which are answered without tokens.
    Items,
    /// Prompts have images, and only the server knows how many tokens these are.
    Images,
    /// No limit was missed, so that the goodput is not known.
    NothingMissed,
    /// The client was the limit.
    InvalidAnswer,
    /// The answer has no estimate of the goodput.
    NoEstimate,
    /// The simulated server is a queue, without iterations.
    Queue,
    /// Requests cannot be drawn without their text, or their files cannot be read.
    RequestsUnknown,
    /// The size of the KV cache is not known, although it filled.
    KvCacheUnknown {
        /// Largest share of it in use.
        most_used: f64,
    },
    /// No step had one request at a time with enough requests.
    FewUnloaded {
        /// Most requests of such a step.
        requests: u64,
        /// Least number for the model.
        least: u64,
    },
    /// The step with one request at a time lacks a TTFT or the tokens of its requests.
    UnloadedIncomplete,
    /// The model does not reproduce the measured latencies.
    Latencies {
        /// Mean absolute logarithm of simulated over measured latencies, of the better of the models.
        deviation: f64,
        /// Largest one that is believed.
        allowed: f64,
    },
    /// The goodput of the model is not near the measured one. Rates are in requests per second.
    Goodput {
        /// Goodput of the model.
        model: f64,
        /// Lowest goodput that counts as near.
        low: f64,
        /// Highest goodput that counts as near.
        high: f64,
    },
}

/// The settings of a server that its forecast had to assume, since they are not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Assumed {
    /// Largest number of concurrent sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u32>,
    /// Largest number of tokens in an iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
}

impl Assumed {
    /// Returns true if all settings were known.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
