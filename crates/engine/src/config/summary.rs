//! A simulated server as results keep it.

use super::table::is_normal_speed;
use super::{Adapters, Engine, Preset, Reasoning, Simulated, Vision};
use crate::fault::Faults;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A simulated server as results keep it: its preset, and what differs from that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SimulatedSummary {
    /// The preset.
    pub preset: Preset,
    /// Names and values of settings, as written in a plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(String, String)>,
    /// How much of each answer is reasoning; `None` where all of it is content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// The vision encoder; `None` for a model that takes no images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vision: Option<Vision>,
    /// LoRA adapters beside the model; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Adapters>,
    /// The faults that it plays.
    #[serde(default, skip_serializing_if = "Faults::is_empty")]
    pub faults: Faults,
}

impl Simulated {
    /// Returns what a result keeps of the server.
    pub fn summary(&self) -> SimulatedSummary {
        let preset = self.engine.preset();
        // Only settings of an engine that differ from its preset. A decode time of zero is the default and is left out.
        let defaults = match self.engine {
            Engine::Batch { preset, .. } => preset.engine().settings(),
            Engine::Md1 { .. }
            | Engine::Mm1 { .. }
            | Engine::Mmc { .. }
            | Engine::Fixed { .. }
            | Engine::Null => Vec::new(),
        };
        let differs = |setting: &(&'static str, String)| {
            !defaults.contains(setting) && (setting.0 != "decode" || setting.1 != "0s")
        };
        let mut settings: Vec<_> = self.engine.settings().into_iter().filter(differs).collect();
        if preset.engine().max_model_len(None) != Ok(self.max_model_len) {
            settings.push(("max-model-len", self.max_model_len.to_string()));
        }
        if !is_normal_speed(&self.slow_down) {
            settings.push(("slow-down", self.slow_down.get().to_string()));
        }
        settings.extend(self.speed.parts().map(|(name, factor)| (name, factor.to_string())));
        if !self.network.0.is_zero() {
            settings.push(("network", self.network.to_string()));
        }
        SimulatedSummary {
            preset,
            settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            reasoning: self.reasoning,
            vision: self.vision,
            adapters: self.adapters.clone(),
            faults: self.faults.clone(),
        }
    }
}

impl fmt::Display for SimulatedSummary {
    /// `simulated mmc (servers 4, service 1s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated {}", self.preset.name())?;
        let mut settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        settings.extend(self.reasoning.map(|reasoning| reasoning.to_string()));
        settings.extend(self.vision.map(|vision| vision.to_string()));
        settings.extend(self.adapters.as_ref().map(ToString::to_string));
        if !self.faults.is_empty() {
            settings.push(format!("faults: {}", self.faults));
        }
        if settings.is_empty() { Ok(()) } else { write!(f, " ({})", settings.join(", ")) }
    }
}
