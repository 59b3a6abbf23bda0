//! Named engine presets. A preset of a batching engine is a [`Deployment`] fitted to published figures.

mod llama_70b;

use super::{Engine, memory::Memory};
use crate::batch::{
    Limits,
    cost::{Cost, Formula, PromptCost},
    noise::Drift,
};
use goodput_core::named_enum;
use goodput_core::units::Span;
use std::{borrow::Cow, num::NonZeroU32, str::FromStr, time::Duration};

named_enum! {
    /// Presets of the simulated server, in the order of the documentation.
    pub enum Preset {
        /// A small engine for a sweep of about a minute over a socket.
        Demo = "demo",
        /// Qwen3-0.6B on an A40.
        A40Qwen3 = "a40-qwen3-0.6b",
        /// BGE-large, which embeds and ranks texts, on an L4.
        L4Bge = "l4-bge-large",
        /// Whisper large-v3, which transcribes audio, on an L4.
        L4Whisper = "l4-whisper-large-v3",
        /// Llama 70B on four A100, for the effect of `max-num-seqs`.
        A100Llama70b = "4xa100-llama-70b",
        /// Llama 70B on four A100, for the effect of `gpu-memory-utilization`.
        A100Llama70bUtil = "4xa100-llama-70b-util",
        /// M/D/1: one server with a fixed holding time.
        Md1 = "md1",
        /// M/M/1: one server with exponential holding times.
        Mm1 = "mm1",
        /// M/M/c: several servers with exponential holding times.
        Mmc = "mmc",
        /// No queue: constant times at any load.
        Fixed = "fixed",
        /// Answers at once, for measuring the client.
        Null = "null",
    }
}

impl Preset {
    /// Returns the engine with the preset's settings.
    pub const fn engine(self) -> Engine {
        match self {
            Self::Demo => Engine::Batch { preset: self, deployment: demo() },
            Self::A40Qwen3 => Engine::Batch { preset: self, deployment: a40_qwen3() },
            Self::L4Bge => Engine::Batch { preset: self, deployment: l4_bge() },
            Self::L4Whisper => Engine::Batch { preset: self, deployment: l4_whisper() },
            Self::A100Llama70b => Engine::Batch { preset: self, deployment: llama_70b::max_num_seqs() },
            Self::A100Llama70bUtil => Engine::Batch { preset: self, deployment: llama_70b::utilization() },
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

/// A model served on some hardware with some flags: the contents of a batching engine's preset.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// Limits that a plan may override.
    pub limits: Limits,
    /// Tokens per block of the KV cache.
    pub block_size: NonZeroU32,
    /// Longest prompt and answer together, in tokens, if the KV cache holds as many.
    pub max_model_len: NonZeroU32,
    /// If set, blocks follow from a share of GPU memory: `gpu-memory-utilization` replaces `kv-blocks`, and the default
    /// of `max-num-seqs` is the number of requests of maximal length that the blocks hold.
    pub memory: Option<Memory>,
    /// Duration of an iteration as a function of its load.
    pub cost: Cost,
    /// Coefficient of variation of the noise on iteration times.
    pub cv: f64,
    /// Slow variation of the speed over many iterations.
    pub drift: Option<Drift>,
}

const fn millis(ms: u64) -> Span {
    Span(Duration::from_millis(ms))
}

const fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("no preset has a limit of zero")
}

/// `demo`: an engine of no particular hardware, fast enough that a sweep over a socket gives a narrow interval within a
/// minute. An iteration takes 4 ms with all 12 seats taken, so that requests of four tokens saturate it at 750 a
/// second.
///
/// All figures are chosen. Over a socket, tokio's timers are late by a millisecond or two. That delays delivery only:
/// arrivals are stamped as they come and iterations start and end at their exact times, so the engine is not slower for
/// it, and the delay is small against the limit of 50 ms. Four iterations per request leave enough time for a client on
/// the same two cores.
///
/// Its boundary at p99 TTFT ≤ 50 ms, with Poisson arrivals, 50 tokens in and 4 out, is 690.3 ± 0.3 req/s (one standard
/// error), by direct simulation of 80 million requests at five rates around it and batch means. There the share of
/// misses rises as the 55th power of the rate, and misses come in clusters: the variance of their count is 322 times
/// that of independent ones. Median and p99 TTFT are 3.8 and 8.2 ms at 345 req/s, 5.3 and 19 ms at 587, 7.9 and 42 ms
/// at 679, 15 and 93 ms at 718.
const fn demo() -> Deployment {
    const TIMES: &[(u32, Duration)] = &[(1, Duration::from_millis(2)), (12, Duration::from_millis(4))];
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
        memory: None,
        cost: Cost::Table(Cow::Borrowed(TIMES)),
        cv: 0.3,
        drift: None,
    }
}

/// `a40-qwen3-0.6b`: Qwen3-0.6B in bf16 on one A40, served by vLLM.
///
/// - *Published* (project design, §8), for 600 tokens in, 30 out: 35 req/s, 1,050 output and 22,050 total tokens/s,
///   median TTFT 15–30 ms, p99 TTFT 50–100 ms. The model reproduces the rates, with a median of 26.3 ms and a p99 of
///   78.2 ms.
/// - *Data sheets*: 696 GB/s, 150 TFLOPS of dense bf16, 48 GB. Weights of 1.2 GB take 1.7 ms to read. A token has 28
///   layers × 8 heads × 128 × 2 (key and value) × 2 bytes = 112 KiB of KV, 165 ns to read; 0.9 × 48 GB minus the
///   weights and 2 GB of activations leave 40 GB, 21,800 blocks of 16. Attention takes 4 × 16 heads × 128 × 28
///   operations per token and preceding token: 6 ns at 40 TFLOPS.
/// - *vLLM's defaults* on such a card: 256 sequences, 2,048 tokens, prefix cache, chunked prefill.
/// - *Fitted*: 16 µs of matrix products per token (2 × 0.6·10⁹ operations at 75 TFLOPS, half of the peak), 4 ms of host
///   work per iteration and 40 µs per sequence, and noise of 15 % on the whole.
///
/// Its boundary at p99 TTFT ≤ 80 ms, with Poisson arrivals, 600 tokens in and 30 out, is 35.60 ± 0.02 req/s (one
/// standard error), by direct simulation of 40 million requests at five rates around it and batch means. There the
/// share of misses rises as the 7.1th power of the rate; the variance of their count is 5.1 times that of independent
/// ones.
const fn a40_qwen3() -> Deployment {
    Deployment {
        limits: Limits {
            max_num_seqs: count(256),
            max_num_batched_tokens: count(2048),
            kv_blocks: count(21_800),
            prefix_cache: true,
            chunked_prefill: true,
        },
        block_size: count(16),
        max_model_len: count(40_960),
        memory: None,
        cost: Cost::Formula(Formula {
            base_ns: 4.0e6,
            weights_ns: 1.7e6,
            token_ns: 16_000.0,
            prompt: None,
            sequence_ns: 40_000.0,
            kv_token_ns: 165.0,
            attention_ns: 6.0,
            eager: None,
        }),
        cv: 0.15,
        drift: None,
    }
}

/// `l4-bge-large`: an encoder of 335 million parameters (BGE-large: 24 layers, width 1,024, 512 tokens of context) in fp16 on one
/// L4. It embeds texts and ranks documents: each text is read in one piece, and its result is there at the end of that iteration.
///
/// - *Data sheets*: 300 GB/s, 121 TFLOPS of dense fp16. Weights of 0.67 GB take 2.2 ms to read. 303 million parameters beside the
///   embeddings are 0.61·10⁹ operations per token. Attention takes 4 × 1,024 × 24 operations for each pair of tokens, in both
///   directions, so twice as many as a causal model for each token before another: 4.9 ns at 40 TFLOPS.
/// - *An encoder under vLLM*: no prefix cache, and no chunked prefill, since every token attends to the whole text.
/// - *Chosen*: 12 µs of matrix products per token (50 TFLOPS, 40 % of the peak), 3 ms of host work per iteration and 20 µs per text,
///   8,192 tokens per iteration, and noise of 15 % on the whole. No published measurement was fitted.
const fn l4_bge() -> Deployment {
    Deployment {
        limits: Limits {
            max_num_seqs: count(256),
            max_num_batched_tokens: count(8192),
            kv_blocks: count(20_000),
            prefix_cache: false,
            chunked_prefill: false,
        },
        block_size: count(16),
        max_model_len: count(512),
        memory: None,
        cost: Cost::Formula(Formula {
            base_ns: 3.0e6,
            weights_ns: 2.2e6,
            token_ns: 12_000.0,
            prompt: None,
            sequence_ns: 20_000.0,
            kv_token_ns: 0.0,
            attention_ns: 4.9,
            eager: None,
        }),
        cv: 0.15,
        drift: None,
    }
}

/// `l4-whisper-large-v3`: Whisper large-v3 in fp16 on one L4. The encoder reads a window of 30 s of audio as 1,500 tokens (see
/// [`crate::audio`]), and each token of the text attends to all of them.
///
/// - *Data sheets*: 300 GB/s, 121 TFLOPS of dense fp16, 24 GB. The encoder has 32 layers of width 1,280, which are 629 million parameters;
///   the decoder has as many layers with 839 million, and an embedding of 66 million. A step of the decoder reads its 1.81 GB in 6.0 ms. A
///   token of the encoder takes 1.26·10⁹ operations, and 0.21·10⁹ for its keys and values in every layer of the decoder. These take
///   32 × 1,280 × 2 × 2 bytes = 160 KiB, 546 ns to read; 0.9 × 24 GB minus the weights of 3.1 GB and 1.5 GB of activations leave 17 GB, 6,480
///   blocks of 16. Attention of the encoder takes 4 × 1,280 × 32 operations for each pair of tokens, in both directions: 8.2 ns at 40 TFLOPS
///   for each token before another.
/// - *An encoder under vLLM*: no prefix cache, and no chunked prefill; 2,048 tokens per iteration, as on such a card by default, so one window.
/// - *Chosen*: 29 µs of matrix products per token of the encoder and 36 µs per token of the decoder (50 TFLOPS, 40 % of the peak), 4 ms of
///   host work per iteration and 40 µs per sequence, and noise of 15 % on the whole. No published measurement was fitted.
const fn l4_whisper() -> Deployment {
    Deployment {
        limits: Limits {
            max_num_seqs: count(256),
            max_num_batched_tokens: count(2048),
            kv_blocks: count(6_480),
            prefix_cache: false,
            chunked_prefill: false,
        },
        block_size: count(16),
        // The tokens of a window, and the 448 of the longest text.
        max_model_len: count(1_948),
        memory: None,
        cost: Cost::Formula(Formula {
            base_ns: 4.0e6,
            weights_ns: 6.0e6,
            token_ns: 36_000.0,
            prompt: Some(PromptCost { token_ns: 29_000.0, iteration_ns: 0.0 }),
            sequence_ns: 40_000.0,
            kv_token_ns: 546.0,
            attention_ns: 8.2,
            eager: None,
        }),
        cv: 0.15,
        drift: None,
    }
}

#[cfg(test)]
mod tests;
