//! The first requests to each model of a server, before the sweep.

use serde::{Deserialize, Serialize};

/// The time that the first request to a model takes, and another one like it. The first to a LoRA adapter may wait until its weights are
/// loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FirstRequests {
    /// Name of the model or adapter.
    pub model: String,
    /// Seconds that the server took to load the adapter, if the plan had it loaded (`server.adapters`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_s: Option<f64>,
    /// Duration (e2e) of the first request in seconds; of a few tokens, with nothing else in flight.
    pub first_s: f64,
    /// Duration of the second request in seconds, of the same lengths.
    pub second_s: f64,
}
