//! The parts of a batching engine's times that other hardware would speed up.

use super::table::{is_normal_speed, normal_speed};
use crate::batch::cost::{Cost, Eager, Formula, PromptCost};
use goodput_core::units::Positive;
use serde::{Deserialize, Serialize};

/// Factors by which parts of the hardware are faster than the preset's: 2 halves the times of that part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Speed {
    /// Memory: reading the weights, and keys and values.
    #[serde(default = "normal_speed", skip_serializing_if = "is_normal_speed")]
    pub memory: Positive,
    /// Compute: matrix products of tokens, and attention of prompts.
    #[serde(default = "normal_speed", skip_serializing_if = "is_normal_speed")]
    pub compute: Positive,
    /// Host: work per iteration and per sequence that does not depend on the GPU.
    #[serde(default = "normal_speed", skip_serializing_if = "is_normal_speed")]
    pub host: Positive,
}

impl Default for Speed {
    fn default() -> Self {
        Self { memory: normal_speed(), compute: normal_speed(), host: normal_speed() }
    }
}

impl Speed {
    /// Returns true if all parts are as fast as the preset's.
    pub(super) fn is_normal(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the names and factors of the parts that differ from the preset.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let parts =
            [("speed.memory", self.memory), ("speed.compute", self.compute), ("speed.host", self.host)];
        parts.into_iter().filter(|(_, factor)| !is_normal_speed(factor)).map(|(name, x)| (name, x.get()))
    }

    /// Returns a cost with each part divided by its factor; `None` for a table of times, which has no parts.
    pub(super) fn of(&self, cost: &Cost) -> Option<Cost> {
        let Cost::Formula(f) = cost else { return None };
        let Self { memory, compute, host } = *self;
        Some(Cost::Formula(Formula {
            base_ns: f.base_ns / host.get(),
            weights_ns: f.weights_ns / memory.get(),
            token_ns: f.token_ns / compute.get(),
            prompt: f.prompt.map(|p| PromptCost {
                token_ns: p.token_ns / compute.get(),
                iteration_ns: p.iteration_ns / host.get(),
            }),
            sequence_ns: f.sequence_ns / host.get(),
            kv_token_ns: f.kv_token_ns / memory.get(),
            attention_ns: f.attention_ns / compute.get(),
            eager: f.eager.map(|e| Eager { launch_ns: e.launch_ns / host.get(), ..e }),
        }))
    }
}
