//! The TOML form of the table, and its conversion.

use super::startup::{BatchLimitsGiven, derive_limits};
use super::{Adapters, Deployment, Engine, Preset, Reasoning, Simulated, Speed, Vision};
use crate::batch::cost::Cost;
use crate::fault::Faults;
use goodput_core::units::{Fraction, Positive, Span};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// The TOML form of the table.
// A mirror of `Simulated`: the preset decides which of the keys exist and what their defaults are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "SimulatedTable")]
pub(super) struct Raw {
    /// Server to simulate.
    preset: Preset,
    /// Servers of `mmc`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::count::read")]
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
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::count::read")]
    max_num_seqs: Option<NonZeroU32>,
    /// Largest number of tokens in an iteration, of batching engines.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::count::read")]
    max_num_batched_tokens: Option<NonZeroU32>,
    /// Blocks of the KV cache, of batching engines; one is reserved, as in vLLM.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::count::read")]
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
    #[serde(default, deserialize_with = "super::count::read")]
    max_model_len: Option<NonZeroU32>,
    /// Seed of all randomness in the server.
    #[serde(default = "default_seed")]
    seed: u64,
    /// Factor on all of the engine's times: 1.15 is 15 % slower.
    #[serde(default = "normal_speed", skip_serializing_if = "is_normal_speed")]
    slow_down: Positive,
    /// Factors by which parts of the hardware are faster than those of the preset, of engines with a formula for their
    /// times: `{ memory = 2, compute = 1.5, host = 1 }`.
    #[serde(default, skip_serializing_if = "Speed::is_normal")]
    speed: Speed,
    /// Time that a request, and each event of its answer, spends between client and server, one way.
    #[serde(default = "no_time", skip_serializing_if = "is_no_time")]
    network: Span,
    /// Makes a part of each answer reasoning, which precedes its content. Without it all of the answer is content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    /// Makes the model take images: `{ token-time = "20us" }`, the time of its vision encoder for each token of an image. A token is a
    /// square of 28 pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vision: Option<Vision>,
    /// LoRA adapters beside the model: `{ names = ["sql"], load-time = "300ms" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapters: Option<Adapters>,
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

const fn is_no_time(span: &Span) -> bool {
    span.0.is_zero()
}

const fn no_time() -> Span {
    Span::secs(0)
}

pub(super) fn normal_speed() -> Positive {
    Positive::try_from(1.0).expect("one is positive")
}

pub(super) fn is_normal_speed(factor: &Positive) -> bool {
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
    pub(super) fn preset(preset: Preset) -> Self {
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
            speed: Speed::default(),
            network: no_time(),
            reasoning: None,
            vision: None,
            adapters: None,
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
        let batch_limits_given = BatchLimitsGiven {
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
        let has_parts = matches!(&engine, Engine::Batch { deployment, .. } if matches!(deployment.cost, Cost::Formula(_)));
        if !raw.speed.is_normal() && !has_parts {
            let name = raw.preset.name();
            return Err(format!(
                "speed: the times of the preset \"{name}\" have no parts for memory, compute and host; use slow-down"
            ));
        }
        let max_model_len = engine.max_model_len(raw.max_model_len)?;
        if let Engine::Batch { deployment, .. } = &mut engine {
            derive_limits(deployment, batch_limits_given, max_model_len)?;
        }
        Ok(Self {
            engine,
            model: raw.model,
            max_model_len,
            seed: raw.seed,
            slow_down: raw.slow_down,
            speed: raw.speed,
            network: raw.network,
            reasoning: raw.reasoning,
            vision: raw.vision,
            adapters: raw.adapters,
            faults: raw.fault,
            fault_after: raw.fault_after,
        })
    }
}

impl From<Simulated> for Raw {
    fn from(sim: Simulated) -> Self {
        let mut raw = Self::preset(sim.engine.preset());
        (raw.model, raw.max_model_len, raw.seed) = (sim.model, Some(sim.max_model_len), sim.seed);
        (raw.slow_down, raw.reasoning, raw.vision) = (sim.slow_down, sim.reasoning, sim.vision);
        (raw.speed, raw.network, raw.adapters) = (sim.speed, sim.network, sim.adapters);
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
