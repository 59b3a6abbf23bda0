//! Caveats from comparing the server's counters with the client's.

use super::Scope;
use super::number::number;
use serde::{Deserialize, Serialize};

/// A disagreement between the server's counters and the client's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CountersCaveat {
    /// The server's counters moved by more than the client's own requests.
    OtherClients {
        /// The first step in which they did.
        step: u32,
        /// Prompt tokens that the server counted in it.
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// The most prompt tokens that the client's own requests can have had.
        #[serde(deserialize_with = "number")]
        own: f64,
        /// Number of such steps.
        steps: u32,
    },
    /// The client's mean TTFT and the server's are far apart.
    TtftDiffers {
        /// The step in which they are farthest apart.
        step: u32,
        /// Number of such steps.
        steps: u32,
        /// From sending to first token by the client, in milliseconds.
        #[serde(deserialize_with = "number")]
        client_ms: f64,
        /// TTFT by the server, its queue included, in milliseconds.
        #[serde(deserialize_with = "number")]
        server_ms: f64,
        /// The server's mean time in its queue, in milliseconds, where it reports it.
        queue_ms: Option<f64>,
    },
    /// Client and server count tokens differently.
    TokensDiffer {
        /// Tokens of prompts; else of answers.
        prompt: bool,
        /// The step in which they are farthest apart.
        step: u32,
        /// Number of such steps.
        steps: u32,
        /// Tokens by the client.
        #[serde(deserialize_with = "number")]
        client: f64,
        /// Tokens by the server.
        #[serde(deserialize_with = "number")]
        server: f64,
    },
    /// The server has more or fewer requests than the client has in flight.
    InFlightDiffers {
        /// The step in which they are farthest apart.
        step: u32,
        /// Number of such steps.
        steps: u32,
        /// Mean number in flight by the client.
        #[serde(deserialize_with = "number")]
        client: f64,
        /// Mean number running and waiting by the server.
        #[serde(deserialize_with = "number")]
        server: f64,
    },
}

impl CountersCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::OtherClients { .. } => Scope::RUN.weakening(),
            Self::TtftDiffers { .. } | Self::TokensDiffer { .. } | Self::InFlightDiffers { .. } => Scope::RUN,
        }
    }
}
