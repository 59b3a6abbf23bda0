//! The changes that an operator could make, and what each gains in the model.

use crate::case::{Case, Workload};
use anyhow::{Context, Result};
use goodput::sim::config::Engine;

/// A thing that an operator can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Knob {
    Seats,
    Tokens,
    KvCache,
    PrefixCache,
    ChunkedPrefill,
    Errors,
    Network,
    ShorterPrompts,
    ShorterAnswers,
    FasterMemory,
    FasterCompute,
    FasterHost,
}

/// The price of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Price {
    /// A setting of the server at hand, or a repair.
    Free,
    /// Other hardware, or weights of fewer bits.
    Hardware,
    /// Other requests: not what the users ask for.
    Requests,
}

/// A change of one knob: a case that differs in it alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Intervention {
    pub(crate) knob: Knob,
    /// The new value, in words.
    pub(crate) label: String,
    pub(crate) case: Case,
}

impl Knob {
    pub(crate) const ALL: [Self; 12] = [
        Self::Seats,
        Self::Tokens,
        Self::KvCache,
        Self::PrefixCache,
        Self::ChunkedPrefill,
        Self::Errors,
        Self::Network,
        Self::ShorterPrompts,
        Self::ShorterAnswers,
        Self::FasterMemory,
        Self::FasterCompute,
        Self::FasterHost,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Seats => "seats",
            Self::Tokens => "tokens an iteration",
            Self::KvCache => "KV cache",
            Self::PrefixCache => "prefix cache",
            Self::ChunkedPrefill => "chunked prefill",
            Self::Errors => "errors",
            Self::Network => "network",
            Self::ShorterPrompts => "shorter prompts",
            Self::ShorterAnswers => "shorter answers",
            Self::FasterMemory => "faster memory",
            Self::FasterCompute => "faster compute",
            Self::FasterHost => "faster host",
        }
    }

    /// Returns what the change takes.
    pub(crate) const fn price(self) -> Price {
        match self {
            Self::Seats
            | Self::Tokens
            | Self::KvCache
            | Self::PrefixCache
            | Self::ChunkedPrefill
            | Self::Errors
            | Self::Network => Price::Free,
            Self::FasterMemory | Self::FasterCompute | Self::FasterHost => Price::Hardware,
            Self::ShorterPrompts | Self::ShorterAnswers => Price::Requests,
        }
    }

    /// Returns the changes of this knob with which the server starts, in order of the value.
    pub(crate) fn interventions(self, case: &Case) -> Result<Vec<Intervention>> {
        let mut all = self.all_interventions(case)?;
        all.retain(|i| i.case.plan(&[]).is_ok());
        Ok(all)
    }

    fn all_interventions(self, case: &Case) -> Result<Vec<Intervention>> {
        let sim = case.plan(&[])?.simulated()?.context("a case has a simulated server")?;
        let of = |label: String, case: Case| Intervention { knob: self, label, case };
        let set = |key: &'static str, value: String| of(value.clone(), case.clone().set(key, value));
        let scaled = |key: &'static str, now: u32, factors: &[f64], least: u32, most: u32| {
            let mut all: Vec<u32> =
                factors.iter().map(|f| ((f64::from(now) * f).round() as u32).clamp(least, most)).collect();
            all.dedup();
            all.into_iter().filter(|n| *n != now).map(|n| set(key, n.to_string())).collect()
        };
        let requests = |label: &str, change: fn(Workload) -> Workload| {
            vec![of(label.into(), Case { workload: change(case.workload), ..case.clone() })]
        };
        let faster = |part: usize| {
            let mut speed = case.speed;
            speed[part] *= 2.0;
            vec![of("twice".into(), Case { speed, ..case.clone() })]
        };
        let Engine::Batch { deployment, .. } = &sim.engine else { anyhow::bail!("{}: no engine", case.name) };
        let limits = deployment.limits;
        Ok(match self {
            Self::Seats => scaled(
                "max-num-seqs",
                limits.max_num_seqs.get(),
                &[1.0 / 16.0, 0.125, 0.25, 0.5, 2.0, 4.0, 16.0],
                1,
                1024,
            ),
            Self::Tokens => {
                let now = limits.max_num_batched_tokens.get();
                // vLLM does not start with fewer tokens than seats, nor with whole prompts that do not fit.
                let least =
                    if limits.chunked_prefill { limits.max_num_seqs.get() } else { sim.max_model_len.get() };
                scaled("max-num-batched-tokens", now, &[1.0 / 16.0, 0.25, 2.0, 4.0], least.min(now), 65_536)
            }
            Self::KvCache if deployment.memory.is_some() => Vec::new(),
            Self::KvCache => scaled("kv-blocks", limits.kv_blocks.get(), &[2.0], 64, 10_000_000),
            Self::PrefixCache => vec![set("prefix-cache", (!limits.prefix_cache).to_string())],
            Self::ChunkedPrefill => vec![set("chunked-prefill", (!limits.chunked_prefill).to_string())],
            Self::Errors if case.failed <= 0.0 => Vec::new(),
            Self::Errors => vec![of("none".into(), Case { failed: 0.0, ..case.clone() })],
            Self::Network if case.network_ms <= 0.0 => Vec::new(),
            Self::Network => vec![of("none".into(), Case { network_ms: 0.0, ..case.clone() })],
            Self::ShorterPrompts => requests("half", |w| Workload {
                input: w.input / 2.0,
                long: w.long.map(|(share, tokens)| (share, tokens / 2)),
                shared: w.shared.map(|n| n / 2),
                ..w
            }),
            Self::ShorterAnswers => requests("half", |w| Workload { output: (w.output / 2.0).max(1.0), ..w }),
            Self::FasterMemory => faster(0),
            Self::FasterCompute => faster(1),
            Self::FasterHost => faster(2),
        })
    }
}
