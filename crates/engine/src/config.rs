//! The plan's `[server.simulated]` table: a preset and overrides of its settings.

mod adapters;
mod count;
mod memory;
mod presets;
mod reasoning;
mod speed;
mod startup;
mod summary;
mod table;
mod vision;

use crate::fault::Faults;
use crate::{
    Model,
    batch::{self, Batch, cost::Cost},
    queue::{self, Dist, Queue},
};
pub use adapters::Adapters;
use goodput_core::units::{Positive, Span};
pub use presets::{Deployment, Preset};
pub use reasoning::Reasoning;
use serde::{Deserialize, Serialize};
pub use speed::Speed;
use std::{fmt, num::NonZeroU32, time::Duration};
pub use summary::SimulatedSummary;
pub use table::DEFAULT_SEED;
use table::{Raw, is_normal_speed};
pub use vision::{PATCH, Vision, image_tokens};

/// Configuration of a simulated server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Simulated {
    /// Engine model, with every setting filled in.
    pub engine: Engine,
    /// Name of the served model.
    pub model: String,
    /// Longest prompt and answer together, in tokens; at most as many as the KV cache holds. By default as many as the
    /// KV cache and the preset allow, as with vLLM's `--max-model-len auto`.
    pub max_model_len: NonZeroU32,
    /// Seed of all randomness in the server.
    pub seed: u64,
    /// Factor on all of the engine's times: 1.15 is 15 % slower.
    pub slow_down: Positive,
    /// Factors by which parts of the hardware are faster than the preset's.
    pub speed: Speed,
    /// Time that a request, and each event of its answer, spends between client and server, one way.
    pub network: Span,
    /// Share of each answer that is reasoning, and its visibility; `None` for answers without reasoning.
    pub reasoning: Option<Reasoning>,
    /// The vision encoder; `None` for a model that takes no images.
    pub vision: Option<Vision>,
    /// LoRA adapters beside the model.
    pub adapters: Option<Adapters>,
    /// Fault types with their probabilities.
    pub faults: Faults,
    /// Number of requests for tokens that are answered without faults before the first fault.
    pub fault_after: u64,
}

/// Engine models, each with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Engine {
    /// M/D/1: one server with a fixed holding time. The first token comes at its end, then one every `decode`.
    Md1 {
        /// Holding time of the server.
        service: Span,
        /// Time between tokens after the first.
        decode: Span,
    },
    /// M/M/1: one server with an exponential holding time. The first token comes at its end, then one every `decode`.
    Mm1 {
        /// Mean holding time of the server.
        service: Span,
        /// Time between tokens after the first.
        decode: Span,
    },
    /// M/M/c: exponential holding times. The first token comes after `prefill`, the others evenly over the rest of the
    /// holding time.
    Mmc {
        /// Number of servers.
        servers: NonZeroU32,
        /// Mean holding time of a server.
        service: Span,
        /// Time from the start of service to the first token.
        prefill: Span,
    },
    /// No queue: the first token after `ttft`, then one every `tpot`, at any load.
    Fixed {
        /// Time from arrival to the first token.
        ttft: Span,
        /// Time between tokens.
        tpot: Span,
    },
    /// Answers at once, for measuring the client.
    Null,
    /// A continuous-batching engine.
    Batch {
        /// Preset that the engine is derived from.
        preset: Preset,
        /// Deployment with the plan's overrides applied.
        deployment: Deployment,
    },
}

impl Engine {
    /// Returns the preset that the engine is derived from.
    pub const fn preset(&self) -> Preset {
        match self {
            Self::Md1 { .. } => Preset::Md1,
            Self::Mm1 { .. } => Preset::Mm1,
            Self::Mmc { .. } => Preset::Mmc,
            Self::Fixed { .. } => Preset::Fixed,
            Self::Null => Preset::Null,
            Self::Batch { preset, .. } => *preset,
        }
    }

    /// Returns the keys and values of the engine's settings, as written in a plan.
    fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Md1 { service, decode } | Self::Mm1 { service, decode } => {
                vec![("service", service.to_string()), ("decode", decode.to_string())]
            }
            Self::Mmc { servers, service, prefill } => vec![
                ("servers", servers.to_string()),
                ("service", service.to_string()),
                ("prefill", prefill.to_string()),
            ],
            Self::Fixed { ttft, tpot } => vec![("ttft", ttft.to_string()), ("tpot", tpot.to_string())],
            Self::Null => vec![],
            Self::Batch { deployment: Deployment { limits, memory, .. }, .. } => vec![
                ("max-num-seqs", limits.max_num_seqs.to_string()),
                ("max-num-batched-tokens", limits.max_num_batched_tokens.to_string()),
                match memory {
                    None => ("kv-blocks", limits.kv_blocks.to_string()),
                    Some(memory) => ("gpu-memory-utilization", memory.utilization.to_string()),
                },
                ("prefix-cache", limits.prefix_cache.to_string()),
                ("chunked-prefill", limits.chunked_prefill.to_string()),
            ],
        }
    }

    /// Returns the longest prompt and answer together: as requested, or the preset's as far as it fits into the KV
    /// cache.
    fn max_model_len(&self, requested: Option<NonZeroU32>) -> Result<NonZeroU32, String> {
        const QUEUE_DEFAULT: NonZeroU32 = NonZeroU32::new(131_072).expect("it is not zero");
        let Self::Batch { deployment: Deployment { limits, block_size, max_model_len, memory, .. }, .. } =
            self
        else {
            return Ok(requested.unwrap_or(QUEUE_DEFAULT));
        };
        let usable = limits.kv_blocks.get() - 1;
        let Some(most) = NonZeroU32::new(usable.saturating_mul(block_size.get())) else {
            return Err("kv-blocks is 1, but vLLM reserves one block: set it to at least 2".into());
        };
        match requested {
            // If the blocks follow from the memory, it is the start that shows whether they are enough.
            Some(requested) if requested > most && memory.is_none() => Err(format!(
                "max-model-len ({requested}) exceeds the KV cache: {usable} of kv-blocks ({}) are usable (one is the null block) and hold {most} tokens",
                limits.kv_blocks
            )),
            Some(requested) => Ok(requested),
            None => Ok(most.min(*max_model_len)),
        }
    }
}

impl Simulated {
    /// Returns the configuration of a preset without overrides.
    ///
    /// # Errors
    /// The preset does not exist; the message lists those that do.
    pub fn named(preset: &str) -> Result<Self, String> {
        Raw::preset(preset.parse()?).try_into()
    }

    /// Returns true if a one-token answer takes time.
    pub fn takes_time(&self) -> bool {
        match &self.engine {
            Engine::Md1 { service, .. } | Engine::Mm1 { service, .. } | Engine::Mmc { service, .. } => {
                !service.0.is_zero()
            }
            Engine::Fixed { ttft, .. } => !ttft.0.is_zero(),
            Engine::Null => false,
            Engine::Batch { .. } => true,
        }
    }

    /// Returns the cost of an iteration at this server's speed.
    fn cost(&self, preset: &Cost) -> Cost {
        let cost = self.speed.of(preset).unwrap_or_else(|| preset.clone());
        if is_normal_speed(&self.slow_down) { cost } else { cost.times(self.slow_down.get()) }
    }

    /// Builds the engine model, idle at time zero.
    pub fn build(&self) -> Model {
        let factor = self.slow_down.get();
        let scaled = |d: Duration| if is_normal_speed(&self.slow_down) { d } else { d.mul_f64(factor) };
        let queue = |servers, service: Dist, prefill: Option<Duration>, decode: Span| {
            let (service, prefill, decode) = (service.map(scaled), prefill.map(scaled), scaled(decode.0));
            Model::Queue(Box::new(Queue::new(queue::Settings {
                servers,
                service,
                prefill,
                decode,
                seed: self.seed,
            })))
        };
        match &self.engine {
            Engine::Md1 { service, decode } => queue(1, Dist::Fixed(service.0), None, *decode),
            Engine::Mm1 { service, decode } => queue(1, Dist::Exponential(service.0), None, *decode),
            Engine::Mmc { servers, service, prefill } => {
                queue(servers.get(), Dist::Exponential(service.0), Some(prefill.0), Span::secs(0))
            }
            Engine::Fixed { ttft, tpot } => queue(u32::MAX, Dist::Fixed(ttft.0), None, *tpot),
            Engine::Null => queue(u32::MAX, Dist::Fixed(Duration::ZERO), None, Span::secs(0)),
            Engine::Batch { deployment: d, .. } => Model::Batch(Box::new(Batch::new(batch::Settings {
                limits: d.limits,
                block_size: d.block_size,
                cost: self.cost(&d.cost),
                cv: d.cv,
                drift: d.drift,
                seed: self.seed,
            }))),
        }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

#[cfg(test)]
mod tests;
