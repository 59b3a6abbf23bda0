//! The presets: engines by name. A batching engine is a name, a [`Deployment`], and the figures that it was fitted to.

use super::Engine;
use crate::sim::engine::batch::{
    Limits,
    cost::{Cost, Formula},
};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, num::NonZeroU32, str::FromStr, time::Duration};

/// The names that `preset` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// See [`demo`].
    Demo,
    /// See [`a40_qwen3`].
    #[serde(rename = "a40-qwen3-0.6b")]
    A40Qwen3,
    /// See [`super::Engine::Md1`].
    Md1,
    /// See [`super::Engine::Mm1`].
    Mm1,
    /// See [`super::Engine::Mmc`].
    Mmc,
    /// See [`super::Engine::Fixed`].
    Fixed,
    /// See [`super::Engine::Null`].
    Null,
}

impl Preset {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 7] =
        [Self::Demo, Self::A40Qwen3, Self::Md1, Self::Mm1, Self::Mmc, Self::Fixed, Self::Null];

    /// The name in plans and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::A40Qwen3 => "a40-qwen3-0.6b",
            Self::Md1 => "md1",
            Self::Mm1 => "mm1",
            Self::Mmc => "mmc",
            Self::Fixed => "fixed",
            Self::Null => "null",
        }
    }

    /// The engine as it is unless the plan says otherwise.
    pub const fn engine(self) -> Engine {
        match self {
            Self::Demo => Engine::Batch { preset: self, deployment: demo() },
            Self::A40Qwen3 => Engine::Batch { preset: self, deployment: a40_qwen3() },
            Self::Md1 => Engine::Md1 { service: millis(50), decode: millis(0) },
            Self::Mm1 => Engine::Mm1 { service: millis(50), decode: millis(0) },
            Self::Mmc => Engine::Mmc { servers: count(32), service: millis(2000), prefill: millis(50) },
            Self::Fixed => Engine::Fixed { ttft: millis(20), tpot: millis(5) },
            Self::Null => Engine::Null,
        }
    }
}

impl FromStr for Preset {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no preset \"{name}\" of the simulated server; the presets are {names}")
        })
    }
}

/// A model on some hardware, served with some flags: what a preset of a batching engine consists of.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// What a plan may change.
    pub limits: Limits,
    /// Tokens of a block of the KV cache.
    pub block_size: NonZeroU32,
    /// Longest prompt and answer together, in tokens, where the KV cache holds as many.
    pub max_model_len: NonZeroU32,
    /// The time of an iteration.
    pub cost: Cost,
    /// Coefficient of variation of the noise on it.
    pub cv: f64,
}

const fn millis(ms: u64) -> Span {
    Span(Duration::from_millis(ms))
}

const fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("no limit of a preset is zero")
}

/// `demo`: a small engine.
pub const fn demo() -> Deployment {
    const TIMES: &[(u32, Duration)] = &[(1, Duration::from_micros(2000)), (12, Duration::from_micros(4000))];
    Deployment {
        limits: Limits {
            max_num_seqs: count(12),
            max_num_batched_tokens: count(2048),
            kv_blocks: count(4096),
            prefix_cache: true,
            chunked_prefill: true,
        },
        block_size: count(16),
        max_model_len: count(32_768),
        cost: Cost::Table(Cow::Borrowed(TIMES)),
        cv: 0.0,
    }
}

/// `a40-qwen3-0.6b`: Qwen3-0.6B on one A40.
pub const fn a40_qwen3() -> Deployment {
    Deployment {
        limits: Limits {
            max_num_seqs: count(256),
            max_num_batched_tokens: count(2048),
            kv_blocks: count(21_000),
            prefix_cache: true,
            chunked_prefill: true,
        },
        block_size: count(16),
        max_model_len: count(40_960),
        cost: Cost::Formula(Formula {
            base_ns: 5.0e6,
            weights_ns: 1.7e6,
            token_ns: 20_000.0,
            sequence_ns: 40_000.0,
            kv_token_ns: 165.0,
            attention_ns: 5.0,
        }),
        cv: 0.0,
    }
}
