//! `[server.simulated]` of the plan: a preset by name, and what differs from it.

mod count;
pub mod memory;
pub mod presets;
pub mod reasoning;
mod start;

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

/// A simulated server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Simulated {
    /// The engine behind it, with every setting filled in.
    pub engine: Engine,
    /// The model name that it serves.
    pub model: String,
    /// Longest prompt and answer together, in tokens; never more than the KV cache holds. Where the plan gives none, as much as that and
    /// the preset allow, as with vLLM's `--max-model-len auto`.
    pub max_model_len: NonZeroU32,
    /// Seed of everything random in it.
    pub seed: u64,
    /// Everything that the engine does takes so many times as long: 1.15 is 15 % slower.
    pub slow_down: Positive,
    /// How much of each answer is reasoning, and what is shown of it.
    pub reasoning: Option<Reasoning>,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// Requests for tokens that are answered as they should be before the first fault.
    pub fault_after: u64,
}

/// The engines by preset, each with the settings that it uses.
#[derive(Debug, Clone, PartialEq)]
pub enum Engine {
    /// M/D/1: one server, a fixed holding time, after which the first token comes; then one each `decode`.
    Md1 {
        /// Holding time of the server.
        service: Span,
        /// From token to token after the first.
        decode: Span,
    },
    /// M/M/1: one server, an exponential holding time, after which the first token comes; then one each `decode`.
    Mm1 {
        /// Mean holding time of the server.
        service: Span,
        /// From token to token after the first.
        decode: Span,
    },
    /// M/M/c: exponential holding times; the first token after `prefill`, the others spread over the rest of the holding time.
    Mmc {
        /// Servers.
        servers: NonZeroU32,
        /// Mean holding time of a server.
        service: Span,
        /// From the start of service to the first token.
        prefill: Span,
    },
    /// No queue: the first token after `ttft`, then one each `tpot`, whatever the load.
    Fixed {
        /// From arrival to the first token.
        ttft: Span,
        /// From token to token.
        tpot: Span,
    },
    /// Everything at once: for measuring the client.
    Null,
    /// A batching engine.
    Batch {
        /// The preset that it is a case of.
        preset: Preset,
        /// The engine, with the limits that the plan gives it.
        deployment: Deployment,
    },
}

/// The table as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "SimulatedTable")]
struct Raw {
    /// Which server is simulated.
    preset: Preset,
    /// Servers of the queue `mmc`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    servers: Option<NonZeroU32>,
    /// Holding time of a server, of the queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<Span>,
    /// From the start of service to the first token, of `mmc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefill: Option<Span>,
    /// From token to token after the first, of `md1` and `mm1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decode: Option<Span>,
    /// From arrival to the first token, of `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft: Option<Span>,
    /// From token to token, of `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tpot: Option<Span>,
    /// Requests in a batch at most, of the engines.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    max_num_seqs: Option<NonZeroU32>,
    /// Tokens of an iteration at most, of the engines.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    max_num_batched_tokens: Option<NonZeroU32>,
    /// Blocks of the KV cache, of the engines; one is kept back, as in vLLM.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count::read")]
    kv_blocks: Option<NonZeroU32>,
    /// Share of the memory that the engine may take, of `4xa100-llama-70b-util` in place of `kv-blocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpu_memory_utilization: Option<Fraction>,
    /// Whether the engine has a prefix cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix_cache: Option<bool>,
    /// Whether prompts are read in pieces beside other requests' answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunked_prefill: Option<bool>,
    /// The model name that it serves.
    #[serde(default = "default_model")]
    model: String,
    /// Longest prompt and answer together, in tokens.
    #[serde(default, deserialize_with = "count::read")]
    max_model_len: Option<NonZeroU32>,
    /// Seed of everything random in it.
    #[serde(default = "default_seed")]
    seed: u64,
    /// Everything that the engine does takes so many times as long: 1.15 is a server that is 15 % slower.
    #[serde(default = "as_it_is", skip_serializing_if = "is_as_it_is")]
    slow_down: Positive,
    /// Makes a part of each answer reasoning, which comes before its content. All of it is content where this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    /// Faults that it plays on requests for tokens, each with its probability: `{ stall = 0.02, status-500 = 0.01 }`. They add up to 1 at
    /// the most. What each does, and what a client makes of it, stands in docs/faults.md.
    #[serde(default, skip_serializing_if = "Faults::is_empty")]
    fault: Faults,
    /// Requests for tokens that it answers as it should before the first fault, so that a sweep gets past its first questions.
    #[serde(default, skip_serializing_if = "is_zero")]
    fault_after: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn as_it_is() -> Positive {
    Positive::try_from(1.0).expect("one is positive")
}

fn is_as_it_is(factor: &Positive) -> bool {
    *factor == as_it_is()
}

fn default_model() -> String {
    "simulated".into()
}

/// The seed where none is set.
pub const DEFAULT_SEED: u64 = 1;

const fn default_seed() -> u64 {
    DEFAULT_SEED
}

/// Puts a setting in place where there is one.
fn set<T>(place: &mut T, setting: &mut Option<T>) {
    if let Some(value) = setting.take() {
        *place = value;
    }
}

impl Raw {
    /// The preset as it stands.
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
            slow_down: as_it_is(),
            reasoning: None,
            fault: Faults::default(),
            fault_after: 0,
        }
    }

    /// The engine; what it uses is taken out.
    fn engine(&mut self) -> Engine {
        let mut engine = self.preset.engine();
        match &mut engine {
            Engine::Md1 { service, decode } | Engine::Mm1 { service, decode } => {
                set(service, &mut self.service);
                set(decode, &mut self.decode);
            }
            Engine::Mmc { servers, service, prefill } => {
                set(servers, &mut self.servers);
                set(service, &mut self.service);
                set(prefill, &mut self.prefill);
            }
            Engine::Fixed { ttft, tpot } => {
                set(ttft, &mut self.ttft);
                set(tpot, &mut self.tpot);
            }
            Engine::Null => {}
            Engine::Batch { deployment: Deployment { limits, memory, .. }, .. } => {
                set(&mut limits.max_num_seqs, &mut self.max_num_seqs);
                set(&mut limits.max_num_batched_tokens, &mut self.max_num_batched_tokens);
                match memory {
                    None => set(&mut limits.kv_blocks, &mut self.kv_blocks),
                    Some(memory) => {
                        set(
                            &mut memory.utilization,
                            &mut self.gpu_memory_utilization.take().map(Fraction::get),
                        );
                        // With too little memory for any the plan parses, and the server does not start.
                        set(&mut limits.kv_blocks, &mut NonZeroU32::new(memory.blocks().max(2)));
                    }
                }
                set(&mut limits.prefix_cache, &mut self.prefix_cache);
                set(&mut limits.chunked_prefill, &mut self.chunked_prefill);
            }
        }
        engine
    }

    /// A setting that is there.
    fn left(&self) -> Option<&'static str> {
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
        let given = [raw.max_num_seqs.is_some(), raw.max_num_batched_tokens.is_some()];
        let mut engine = raw.engine();
        if let Some(key) = raw.left() {
            let name = raw.preset.name();
            let uses = match engine.settings() {
                s if s.is_empty() => "it has no settings".into(),
                s => format!("it has {}", s.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ")),
            };
            return Err(format!("the preset \"{name}\" has no use for {key}; {uses}"));
        }
        if raw.model.trim().is_empty() {
            return Err("model is empty".into());
        }
        let max_model_len = engine.longest(raw.max_model_len)?;
        if let Engine::Batch { deployment, .. } = &mut engine {
            start::fill(deployment, given, max_model_len)?;
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
    /// The preset that it is a case of.
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

    /// The keys of its settings and their values, as written in a plan.
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

    /// The longest prompt and answer together: what the plan asks for, or what is usual and fits into the KV cache.
    fn longest(&self, asked: Option<NonZeroU32>) -> Result<NonZeroU32, String> {
        const QUEUE: NonZeroU32 = NonZeroU32::new(131_072).expect("it is not zero");
        let Self::Batch { deployment: Deployment { limits, block_size, max_model_len, .. }, .. } = self
        else {
            return Ok(asked.unwrap_or(QUEUE));
        };
        let usable = limits.kv_blocks.get() - 1;
        let Some(most) = NonZeroU32::new(usable.saturating_mul(block_size.get())) else {
            return Err("kv-blocks is 1, and vLLM keeps one block for itself: at least 2 are needed".into());
        };
        match asked {
            Some(asked) if asked > most => Err(format!(
                "max-model-len ({asked}) is more than kv-blocks ({}) hold: {usable} of them, the null block aside, have {most} tokens",
                limits.kv_blocks
            )),
            Some(asked) => Ok(asked),
            None => Ok(most.min(*max_model_len)),
        }
    }
}

impl Simulated {
    /// The preset of this name as it stands.
    ///
    /// # Errors
    /// There is no such preset; the message lists them.
    pub fn named(preset: &str) -> Result<Self, String> {
        Raw::preset(preset.parse()?).try_into()
    }

    /// Whether an answer of one token takes time.
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

    /// The engine model, empty, at time zero.
    pub fn build(&self) -> Model {
        let factor = self.slow_down.get();
        let slower = |d: Duration| if is_as_it_is(&self.slow_down) { d } else { d.mul_f64(factor) };
        let queue = |servers, service: Dist, prefill: Option<Duration>, decode: Span| {
            let (service, prefill, decode) = (service.map(slower), prefill.map(slower), slower(decode.0));
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
                cost: if is_as_it_is(&self.slow_down) { d.cost.clone() } else { d.cost.times(factor) },
                cv: d.cv,
                drift: d.drift,
                seed: self.seed,
            }))),
        }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated {}", self.engine.preset().name())?;
        // Of an engine, what differs from its preset: the rest goes by its name. A decode time of zero is the rule and would
        // only be in the way.
        let known = match self.engine {
            Engine::Batch { preset, .. } => preset.engine().settings(),
            _ => Vec::new(),
        };
        let told = |setting: &(&'static str, String)| {
            !known.contains(setting) && (setting.0 != "decode" || setting.1 != "0s")
        };
        let settings = self.engine.settings().into_iter().filter(told);
        let mut settings: Vec<String> = settings.map(|(key, value)| format!("{key} {value}")).collect();
        if self.engine.preset().engine().longest(None) != Ok(self.max_model_len) {
            settings.push(format!("max-model-len {}", self.max_model_len));
        }
        if !is_as_it_is(&self.slow_down) {
            settings.push(format!("slow-down {}", self.slow_down.get()));
        }
        settings.extend(self.reasoning.map(|reasoning| reasoning.to_string()));
        if !self.faults.is_empty() {
            settings.push(format!("faults: {}", self.faults));
        }
        if settings.is_empty() { Ok(()) } else { write!(f, " ({})", settings.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
