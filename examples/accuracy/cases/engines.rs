//! The servers of the cases.

use super::Engine;
use goodput::sim::engine::batch::{
    self, Limits,
    cost::{Cost, Formula},
};
use goodput::sim::engine::queue::{self, Dist};
use std::num::NonZeroU32;
use std::time::Duration;

fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("no limit of a case is zero")
}

/// A fixed service time in milliseconds.
pub(super) fn fixed(ms: f64) -> Dist {
    Dist::Fixed(millis(ms))
}

pub(super) fn exponential(ms: f64) -> Dist {
    Dist::Exponential(millis(ms))
}

pub(super) fn lognormal(ms: f64, cv: f64) -> Dist {
    Dist::Lognormal { mean: millis(ms), cv }
}

/// Mostly short service times, with a small share of long ones.
pub(super) fn two_sizes(short_ms: f64, long_ms: f64, share: f64) -> Dist {
    Dist::TwoSizes { short: millis(short_ms), long: millis(long_ms), share }
}

/// Points of the standard normal distribution with 10 %, 5 % and 1 % above them.
pub(super) const P90: f64 = 1.281_6;
pub(super) const P95: f64 = 1.644_9;
pub(super) const P99: f64 = 2.326_3;

/// Returns the quantile of a lognormal distribution that corresponds to the point `z` of the standard normal
/// distribution.
pub(super) fn quantile(mean: f64, cv: f64, z: f64) -> f64 {
    let sigma = (cv * cv).ln_1p().sqrt();
    mean * (sigma * z - sigma * sigma / 2.0).exp()
}

/// A single server. The first token comes at the end of the service time.
pub(super) fn single(service: Dist) -> Engine {
    Engine::Queue(queue::Settings { servers: 1, service, prefill: None, decode: Duration::ZERO, seed: 0 })
}

/// Several servers. The first token comes after `prefill_ms`, the last at the end of the service time.
pub(super) fn several(servers: u32, service: Dist, prefill_ms: f64) -> Engine {
    let prefill = Some(millis(prefill_ms));
    Engine::Queue(queue::Settings { servers, service, prefill, decode: Duration::ZERO, seed: 0 })
}

/// A batching engine: its iteration times in microseconds, seats, tokens per iteration, and tokens of KV cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gpu {
    pub(super) base_us: f64,
    pub(super) weights_us: f64,
    pub(super) token_us: f64,
    pub(super) sequence_us: f64,
    pub(super) kv_token_ns: f64,
    pub(super) attention_ns: f64,
    pub(super) seats: u32,
    pub(super) batched_tokens: u32,
    pub(super) kv_tokens: u32,
    pub(super) cv: f64,
}

impl Gpu {
    /// An 8B model in bf16 on an H100 or similar: 16 GB of weights at 3.3 TB/s; 16 TFLOP per 1,000 tokens at 400
    /// TFLOPS; 128 KiB of KV per token.
    pub(super) const B8: Self = Self {
        base_us: 2000.0,
        weights_us: 5000.0,
        token_us: 40.0,
        sequence_us: 30.0,
        kv_token_ns: 40.0,
        attention_ns: 1.3,
        seats: 256,
        batched_tokens: 2048,
        kv_tokens: 400_000,
        cv: 0.1,
    };

    /// A 70B model on four older cards: a slow engine.
    pub(super) const B70: Self = Self {
        base_us: 5000.0,
        weights_us: 28_000.0,
        token_us: 220.0,
        sequence_us: 60.0,
        kv_token_ns: 70.0,
        attention_ns: 4.0,
        seats: 64,
        batched_tokens: 2048,
        kv_tokens: 200_000,
        cv: 0.1,
    };

    /// A model of half a billion parameters on a fast card.
    pub(super) const B05: Self = Self {
        base_us: 1200.0,
        weights_us: 400.0,
        token_us: 3.0,
        sequence_us: 6.0,
        kv_token_ns: 4.0,
        attention_ns: 0.2,
        seats: 512,
        batched_tokens: 8192,
        kv_tokens: 2_000_000,
        cv: 0.15,
    };

    pub(super) fn engine(self) -> Engine {
        self.with_cache(false)
    }

    /// Returns the engine, with or without a prefix cache.
    pub(super) fn with_cache(self, prefix_cache: bool) -> Engine {
        const BLOCK: u32 = 16;
        Engine::Batch(batch::Settings {
            limits: Limits {
                max_num_seqs: count(self.seats),
                max_num_batched_tokens: count(self.batched_tokens),
                kv_blocks: count(self.kv_tokens / BLOCK + 1),
                prefix_cache,
                chunked_prefill: true,
            },
            block_size: count(BLOCK),
            cost: Cost::Formula(Formula {
                base_ns: self.base_us * 1e3,
                weights_ns: self.weights_us * 1e3,
                token_ns: self.token_us * 1e3,
                prompt: None,
                sequence_ns: self.sequence_us * 1e3,
                kv_token_ns: self.kv_token_ns,
                attention_ns: self.attention_ns,
                eager: None,
            }),
            cv: self.cv,
            drift: None,
            seed: 0,
        })
    }
}
