//! The plan's `[server.simulated]` table: a preset and overrides of its settings.

mod count;
pub mod memory;
pub mod presets;
pub mod reasoning;
mod startup;

use crate::fault::Faults;
use crate::{
    Model,
    batch::{self, Batch},
    queue::{self, Dist, Queue},
};
use goodput_core::units::{Fraction, Positive, Span};
pub use presets::{Deployment, Preset};
pub use reasoning::Reasoning;
use serde::{Deserialize, Serialize};
use std::{fmt, num::NonZeroU32, time::Duration};

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
    /// Share of each answer that is reasoning, and its visibility; `None` for answers without reasoning.
    pub reasoning: Option<Reasoning>,
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

/// The TOML form of the table.
// A mirror of `Simulated`: the preset decides which of the keys exist and what their defaults are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "SimulatedTable")]
struct Raw {
    /// Server to simulate.
    preset: Preset,
    /// Servers of `mmc`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    servers: Option<NonZeroU32>,
    /// Holding time of a server, of `md1`, `mm1` and `mmc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<Span>,
    /// Time from the start of service to the first token, of `mmc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefill: Option<Span>,
    /// Time between tokens after the first, of `md1` and `mm1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decode: Option<Span>,
    /// Time from arrival to the first token, of `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft: Option<Span>,
    /// Time between tokens, of `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tpot: Option<Span>,
    /// Largest number of requests in a batch, of batching engines.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    max_num_seqs: Option<NonZeroU32>,
    /// Largest number of tokens in an iteration, of batching engines.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    max_num_batched_tokens: Option<NonZeroU32>,
    /// Blocks of the KV cache, of batching engines; one is reserved, as in vLLM.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    kv_blocks: Option<NonZeroU32>,
    /// Share of GPU memory that the engine may take, of `4xa100-llama-70b-util`, which derives `kv-blocks` from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpu_memory_utilization: Option<Fraction>,
    /// Enables the prefix cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix_cache: Option<bool>,
    /// Computes prompts in chunks, next to the decoding of other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunked_prefill: Option<bool>,
    /// Name of the served model.
    #[serde(default = "default_model")]
    model: String,
    /// Longest prompt and answer together, in tokens.
    #[serde(default, deserialize_with = "count::read")]
    max_model_len: Option<NonZeroU32>,
    /// Seed of all randomness in the server.
    #[serde(default = "default_seed")]
    seed: u64,
    /// Factor on all of the engine's times: 1.15 is 15 % slower.
    #[serde(default = "normal_speed", skip_serializing_if = "is_normal_speed")]
    slow_down: Positive,
    /// Makes a part of each answer reasoning, which precedes its content. Without it all of the answer is content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    /// Faults injected into requests for tokens, each with its probability: `{ stall = 0.02, status-500 = 0.01 }`. They
    /// add up to at most 1. `docs/faults.md` describes each fault and how a client sees it.
    #[serde(default, skip_serializing_if = "Faults::is_empty")]
    fault: Faults,
    /// Requests for tokens that are answered without faults before the first fault, so that a sweep gets past its first
    /// questions.
    #[serde(default, skip_serializing_if = "is_zero")]
    fault_after: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn normal_speed() -> Positive {
    Positive::try_from(1.0).expect("one is positive")
}

fn is_normal_speed(factor: &Positive) -> bool {
    *factor == normal_speed()
}

fn default_model() -> String {
    "simulated".into()
}

/// Default seed.
pub const DEFAULT_SEED: u64 = 1;

const fn default_seed() -> u64 {
    DEFAULT_SEED
}

/// Overrides a default with a setting, if given, and takes the setting out.
fn override_with<T>(default: &mut T, setting: &mut Option<T>) {
    if let Some(value) = setting.take() {
        *default = value;
    }
}

impl Raw {
    /// Returns the preset without overrides.
    fn preset(preset: Preset) -> Self {
        Self {
            preset,
            servers: None,
            service: None,
            prefill: None,
            decode: None,
            ttft: None,
            tpot: None,
            max_num_seqs: None,
            max_num_batched_tokens: None,
            kv_blocks: None,
            gpu_memory_utilization: None,
            prefix_cache: None,
            chunked_prefill: None,
            model: default_model(),
            max_model_len: None,
            seed: default_seed(),
            slow_down: normal_speed(),
            reasoning: None,
            fault: Faults::default(),
            fault_after: 0,
        }
    }

    /// Returns the engine, and takes the settings that it uses out of the table.
    fn engine(&mut self) -> Engine {
        let mut engine = self.preset.engine();
        match &mut engine {
            Engine::Md1 { service, decode } | Engine::Mm1 { service, decode } => {
                override_with(service, &mut self.service);
                override_with(decode, &mut self.decode);
            }
            Engine::Mmc { servers, service, prefill } => {
                override_with(servers, &mut self.servers);
                override_with(service, &mut self.service);
                override_with(prefill, &mut self.prefill);
            }
            Engine::Fixed { ttft, tpot } => {
                override_with(ttft, &mut self.ttft);
                override_with(tpot, &mut self.tpot);
            }
            Engine::Null => {}
            Engine::Batch { deployment: Deployment { limits, memory, .. }, .. } => {
                override_with(&mut limits.max_num_seqs, &mut self.max_num_seqs);
                override_with(&mut limits.max_num_batched_tokens, &mut self.max_num_batched_tokens);
                match memory {
                    None => override_with(&mut limits.kv_blocks, &mut self.kv_blocks),
                    Some(memory) => {
                        override_with(
                            &mut memory.utilization,
                            &mut self.gpu_memory_utilization.take().map(Fraction::get),
                        );
                        // A share too small for any block parses; the server then fails at startup.
                        override_with(&mut limits.kv_blocks, &mut NonZeroU32::new(memory.blocks().max(2)));
                    }
                }
                override_with(&mut limits.prefix_cache, &mut self.prefix_cache);
                override_with(&mut limits.chunked_prefill, &mut self.chunked_prefill);
            }
        }
        engine
    }

    /// Returns the first setting that is still in the table.
    fn first_unused(&self) -> Option<&'static str> {
        let keys = [
            ("servers", self.servers.is_some()),
            ("service", self.service.is_some()),
            ("prefill", self.prefill.is_some()),
            ("decode", self.decode.is_some()),
            ("ttft", self.ttft.is_some()),
            ("tpot", self.tpot.is_some()),
            ("max-num-seqs", self.max_num_seqs.is_some()),
            ("max-num-batched-tokens", self.max_num_batched_tokens.is_some()),
            ("kv-blocks", self.kv_blocks.is_some()),
            ("gpu-memory-utilization", self.gpu_memory_utilization.is_some()),
            ("prefix-cache", self.prefix_cache.is_some()),
            ("chunked-prefill", self.chunked_prefill.is_some()),
        ];
        keys.into_iter().find(|(_, set)| *set).map(|(key, _)| key)
    }
}

impl TryFrom<Raw> for Simulated {
    type Error = String;
    fn try_from(mut raw: Raw) -> Result<Self, String> {
        let batch_limits_given = startup::BatchLimitsGiven {
            max_num_seqs: raw.max_num_seqs.is_some(),
            max_num_batched_tokens: raw.max_num_batched_tokens.is_some(),
        };
        let mut engine = raw.engine();
        if let Some(key) = raw.first_unused() {
            let name = raw.preset.name();
            let settings = match engine.settings() {
                s if s.is_empty() => "it has no settings".into(),
                s => format!("it has {}", s.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ")),
            };
            return Err(format!("the preset \"{name}\" does not use {key}; {settings}"));
        }
        if raw.model.trim().is_empty() {
            return Err("model is empty: give the name of the served model".into());
        }
        let max_model_len = engine.max_model_len(raw.max_model_len)?;
        if let Engine::Batch { deployment, .. } = &mut engine {
            startup::derive_limits(deployment, batch_limits_given, max_model_len)?;
        }
        Ok(Self {
            engine,
            model: raw.model,
            max_model_len,
            seed: raw.seed,
            slow_down: raw.slow_down,
            reasoning: raw.reasoning,
            faults: raw.fault,
            fault_after: raw.fault_after,
        })
    }
}

impl From<Simulated> for Raw {
    fn from(sim: Simulated) -> Self {
        let mut raw = Self::preset(sim.engine.preset());
        (raw.model, raw.max_model_len, raw.seed) = (sim.model, Some(sim.max_model_len), sim.seed);
        (raw.slow_down, raw.reasoning) = (sim.slow_down, sim.reasoning);
        (raw.fault, raw.fault_after) = (sim.faults, sim.fault_after);
        match sim.engine {
            Engine::Md1 { service, decode } | Engine::Mm1 { service, decode } => {
                (raw.service, raw.decode) = (Some(service), Some(decode));
            }
            Engine::Mmc { servers, service, prefill } => {
                (raw.servers, raw.service, raw.prefill) = (Some(servers), Some(service), Some(prefill));
            }
            Engine::Fixed { ttft, tpot } => (raw.ttft, raw.tpot) = (Some(ttft), Some(tpot)),
            Engine::Null => {}
            Engine::Batch { deployment: Deployment { limits, memory, .. }, .. } => {
                raw.max_num_seqs = Some(limits.max_num_seqs);
                raw.max_num_batched_tokens = Some(limits.max_num_batched_tokens);
                match memory {
                    None => raw.kv_blocks = Some(limits.kv_blocks),
                    Some(memory) => raw.gpu_memory_utilization = Fraction::try_from(memory.utilization).ok(),
                }
                raw.prefix_cache = Some(limits.prefix_cache);
                raw.chunked_prefill = Some(limits.chunked_prefill);
            }
        }
        raw
    }
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
        let Self::Batch { deployment: Deployment { limits, block_size, max_model_len, .. }, .. } = self
        else {
            return Ok(requested.unwrap_or(QUEUE_DEFAULT));
        };
        let usable = limits.kv_blocks.get() - 1;
        let Some(most) = NonZeroU32::new(usable.saturating_mul(block_size.get())) else {
            return Err("kv-blocks is 1, but vLLM reserves one block: set it to at least 2".into());
        };
        match requested {
            Some(requested) if requested > most => Err(format!(
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
                cost: if is_normal_speed(&self.slow_down) { d.cost.clone() } else { d.cost.times(factor) },
                cv: d.cv,
                drift: d.drift,
                seed: self.seed,
            }))),
        }
    }
}

/// A simulated server as results keep it: its preset, and what differs from that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulatedSummary {
    /// The preset.
    pub preset: Preset,
    /// Names and values of settings, as written in a plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(String, String)>,
    /// How much of each answer is reasoning; `None` where all of it is content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
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
        SimulatedSummary {
            preset,
            settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            reasoning: self.reasoning,
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
        if !self.faults.is_empty() {
            settings.push(format!("faults: {}", self.faults));
        }
        if settings.is_empty() { Ok(()) } else { write!(f, " ({})", settings.join(", ")) }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

#[cfg(test)]
mod tests;
