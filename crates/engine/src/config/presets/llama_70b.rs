//! `4xa100-llama-70b` and `4xa100-llama-70b-util`: Llama 70B on four A100 of 80 GB, fitted to two published tables
//! (project design, §8) and to the published times of prefill.
//!
//! Both are one engine; its constants are fitted to the first table and to the times of prefill. The tables were
//! measured in a closed loop of twice as many requests as sequences, with the workloads of `docs/presets.md` and of the
//! tests: 40 tokens in and about 2,950 out, and 480 in and 472 to 544 out.
//!
//! # The engine
//!
//! - *Published*, for `max-num-seqs` N from 8 to 512: output tokens/s and the median TPOT t. N / t is within 2 % of the
//!   former everywhere: nearly all time goes into decoding. Hence prompts are short and answers long.
//! - t is about 2.5 ms + 0.175 ms · N from 32 to 128, and flatter below (roofline). *Fitted*: 138 µs of matrix products
//!   per token (140·10⁹ operations at 81 % of the 4 × 312 TFLOPS of dense bf16, optimistic but possible), 20 ns to read
//!   a token's keys and values (80 layers × 8 heads × 128 × 2 in 8 bits are 164 kB; four A100 read 8.2 TB/s), 5 µs per
//!   sequence, 2.7 ms of host work, and a floor of 3.25 ms for reading the weights. The floor is what the table needs,
//!   not what the hardware does: 140 GB in bf16 take 17 ms to read.
//! - *Prefill*, published by the same source: 512, 2,048 and 4,096 prompt tokens take 28, 95 and 198 ms. An iteration with
//!   nothing but n prompt tokens takes t0 + p + b + a′·n + q·n²/2. Three times give t0 + p, a′ and q: 7.5 ms, 38.3 µs and
//!   3.67 ns, each divided by 1.015, since the median of the engine's noise and drift is that far above 1 (√(1.04 / 1.01),
//!   see `noise`). Attention takes 2.6·10⁶ operations per token and preceding token, so q is 57 % of the peak. a′ is 2.9
//!   times as fast as the hardware: as with the floor, the published times are shorter than it allows. Hence a prompt
//!   token has a cost of its own, below that of a decoded one.
//! - *Recomputation* after a preemption costs a per token, not a′: the rows of 256 and 512 need it. With a′ they had 5,180
//!   and 4,030 tokens/s, and 256 seats a higher raw peak than 128.
//! - *KV cache*: 28,626 blocks of 16 tokens (design). They hold 128 sequences of 3,500 tokens but not 256 of 1,800.
//!   Sequences with answers of 2,950 tokens occupy half of that on average, so that 256 fit on average but not always,
//!   and 512 never.
//! - *Preemption* explains the rest without a constant: with 512 seats, prompts of 40 tokens are admitted into whatever
//!   the last answer freed. About 310 sequences run and 130 wait preempted; each is preempted seven times, and 40 % of
//!   all tokens are computed again.
//! - *Fitted*: 20 ms more for batches of more than 256 sequences, for which vLLM captured no CUDA graph: 80 layers of
//!   about ten launches of 20 µs.
//! - *Spread*: the published p99 of TPOT is 1.3 to 1.5 times the median. Answers of thousands of tokens average out the
//!   noise between iterations (10 % here, chosen), so the engine's speed drifts: by 20 %, over 8 s (fitted).
//! - The prefix cache is off, as by default before vLLM's v1; with it, a preempted request would find its blocks again.
//! # Reached
//!
//! By the bare model: means of eight windows of an hour, after ten minutes.
//!
//! | max-num-seqs | output tokens/s: published | reached | p50 TPOT, ms: published | reached | p99 TPOT, ms: published | reached |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 8 | 1280 | 1288 | 6.2 | 6.2 | 8.1 | 8.3 |
//! | 16 | 2410 | 2458 | 6.6 | 6.5 | 9.5 | 8.7 |
//! | 32 | 3780 | 3870 | 8.4 | 8.2 | 12.8 | 10.8 |
//! | 64 | 4650 | 4574 | 13.7 | 14.0 | 19.2 | 17.2 |
//! | 128 | 5120 | 5038 | 24.9 | 25.5 | 35.1 | 30.0 |
//! | 256 | 4890 | 4702 | 52.3 | 52.4 | 78.4 | 69.5 |
//! | 512 | 3200 | 3080 | 159.8 | 150.0 | 245 | 195.0 |
//!
//! | prompt tokens in one iteration | time, ms: published | reached |
//! | --- | --- | --- |
//! | 512 | 28 | 28.0 |
//! | 2048 | 95 | 95.0 |
//! | 4096 | 198 | 198.0 |
//!
//! # Shares of memory
//!
//! The second table has blocks, sequences and output tokens/s for four shares. The blocks are exactly 1,842 + 5,260 ·
//! (share − 0.80), which also interpolates. Each sequence has 64 to 65 blocks in every row: 1,024 tokens in vLLM's
//! blocks of 16, which are therefore this preset's block size and `max-model-len`. (By memory, a block would have 186
//! tokens: 5 % of 320 GB are 263 blocks of 61 MB, and a token takes 328 kB. The two columns disagree, and sequences are
//! what is served.) `max-num-seqs` defaults to the number of sequences of maximal length that the blocks hold, so that
//! none is preempted.
//!
//! The line reaches zero blocks at 45 %: 144 GB, the weights in bf16 and 4 GB. The published run at 0.95 does not
//! start, so 4 GB per GPU are too little for the memory outside the share; the run at 0.92 starts, so 6.4 GB are
//! enough. 5.2 GB, halfway, is chosen.
//!
//! The source does not give the lengths of the requests of this table. Prompts of 480 tokens are chosen: with shorter ones
//! prefill takes too little time for the published rates.
//!
//! | gpu-memory-utilization | blocks | sequences | output tokens/s: published | reached |
//! | --- | --- | --- | --- | --- |
//! | 0.80 | 1842 | 28 | 3150 | 3339 |
//! | 0.85 | 2105 | 32 | 3480 | 3473 |
//! | 0.90 | 2368 | 36 | 3780 | 3601 |
//! | 0.92 | 2473 | 38 | 3850 | 3644 |

use super::{Deployment, count};
use crate::batch::{
    Limits,
    cost::{Cost, Eager, Formula, PromptCost},
    noise::Drift,
};
use crate::config::memory::Memory;
use std::time::Duration;

/// Deployment of the table over `max-num-seqs`; its default is the best raw throughput.
pub(super) const fn max_num_seqs() -> Deployment {
    Deployment {
        limits: LIMITS,
        block_size: count(16),
        max_model_len: count(8192),
        memory: None,
        cost: COST,
        cv: 0.1,
        drift: DRIFT,
    }
}

/// Deployment of the table over `gpu-memory-utilization`.
pub(super) const fn utilization() -> Deployment {
    Deployment {
        // `max-num-seqs` and `kv-blocks` follow from the share.
        limits: Limits { max_num_seqs: count(36), kv_blocks: count(2368), ..LIMITS },
        max_model_len: count(1024),
        memory: Some(Memory {
            utilization: 0.9,
            gpu_gb: 80.0,
            outside_gb: 5.2,
            reference: (0.8, 1842),
            blocks_per_utilization: 5260.0,
        }),
        block_size: count(16),
        cost: COST,
        cv: 0.1,
        drift: DRIFT,
    }
}

const LIMITS: Limits = Limits {
    max_num_seqs: count(128),
    max_num_batched_tokens: count(8192),
    kv_blocks: count(28_626),
    prefix_cache: false,
    chunked_prefill: true,
};

const COST: Cost = Cost::Formula(Formula {
    base_ns: 2.7e6,
    weights_ns: 3.25e6,
    token_ns: 138_000.0,
    prompt: Some(PromptCost { token_ns: 38_280.0, iteration_ns: 4.803e6 }),
    sequence_ns: 5_000.0,
    kv_token_ns: 20.0,
    attention_ns: 3.67,
    eager: Some(Eager { captured: 256, launch_ns: 20.0e6 }),
});

const DRIFT: Option<Drift> = Some(Drift { cv: 0.2, over: Duration::from_secs(8) });

#[cfg(test)]
mod tests;
