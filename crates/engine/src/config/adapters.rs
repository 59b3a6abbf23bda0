//! LoRA adapters of the simulated server.

use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// LoRA adapters that the server has beside its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Adapters {
    /// Names of the adapters that are there from the start. More come with `/v1/load_lora_adapter`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Time to load the weights of an adapter: at its first request, or in `/v1/load_lora_adapter`; 0 by default. Other requests go on
    /// meanwhile.
    #[serde(default = "at_once")]
    pub load_time: Span,
}

const fn at_once() -> Span {
    Span::secs(0)
}

impl fmt::Display for Adapters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoRA adapters {}, each loaded in {}", self.names.join(" "), self.load_time)
    }
}
