//! Calculates what fits: the memory of weights and KV cache, the sequences that the cache holds, and the floors of their times.
//!
//! vLLM takes a share of the memory that the driver reports, `gpu-memory-utilization`. In it are the weights, the memory that its
//! profiling run uses beside them (activations, CUDA and NCCL), and as many KV blocks as fit into the rest.

mod architecture;
mod config_json;
mod known;
mod refusal;
mod served;

pub use architecture::{Architecture, Attention, Cache, Count, Details, Entry, Experts, Share, Sliding};
pub use config_json::read as read_config;
pub use known::{Known, MODELS};
pub use refusal::{Refusal, Remedy};
pub use served::{Origin, Served, Storage};

use crate::roofline::{Decode, Machine, Prefill};
use serde::Serialize;

/// Bytes of a GiB.
pub const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Tokens of a KV block: vLLM's default on CUDA.
pub const BLOCK_TOKENS: u32 = 16;

/// Default share of memory: 0.9, vLLM's documented default (vllm-project/vllm issue 1298).
pub const UTILIZATION: f64 = 0.9;

/// Default memory of one GPU for activations, CUDA and NCCL, in bytes.
///
/// An assumption: the value with which Llama 70B in BF16 on four A100 of 80 GB has the 28,626 blocks of the published example at a
/// utilization of 0.9 (3.69 GB, 3.44 GiB). vLLM's own profile of Llama 3 8B on H100 lies on both sides of it: 1.79 + 1.26 GiB on one
/// GPU, 3.58 + 1.26 GiB on each of two (vllm-project/vllm pull request 10511).
pub const RESERVED: f64 = 3.69e9;

/// The input of a fit: a model on some GPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setup {
    /// The model.
    pub model: Served,
    /// The GPUs that hold one copy of it.
    pub machine: Machine,
    /// Number of copies.
    pub copies: u32,
    /// Memory of one GPU that the driver reports, in bytes.
    pub memory: f64,
    /// Share of it that the server takes.
    pub utilization: f64,
    /// Memory of one GPU for activations, CUDA and NCCL, in bytes.
    pub reserved: f64,
    /// Bytes per number in the KV cache.
    pub kv_bytes: f64,
    /// Tokens of a KV block.
    pub block_tokens: u32,
    /// Longest sequence, in tokens.
    pub max_model_len: u32,
    /// Mean tokens of a prompt.
    pub input_tokens: f64,
    /// Mean tokens of an answer.
    pub output_tokens: f64,
}

/// The figures of a fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Weights on one GPU, in bytes.
    pub weights: f64,
    /// Memory that the server takes of one GPU, in bytes.
    pub budget: f64,
    /// Memory left for the KV cache on one GPU, in bytes; below zero if not even the weights fit.
    pub kv_room: f64,
    /// One GPU's part of the KV cache.
    pub share: Share,
    /// Layers that a block spans.
    pub block_layers: u32,
    /// KV cache that a token takes on one GPU in these layers, in bytes.
    pub token_bytes: f64,
    /// KV cache that a block takes on one GPU, in bytes.
    pub block_bytes: f64,
    /// KV blocks.
    pub blocks: u64,
    /// Tokens that they hold, if all belong to one sequence.
    pub tokens: u64,
    /// Blocks of a sequence of the greatest length.
    pub longest_blocks: u64,
    /// Sequences of the greatest length that fit at once.
    pub longest: u64,
    /// Blocks of a sequence of mean length at its end.
    pub mean_blocks: u64,
    /// Sequences of mean length, each at its end, that fit at once: so many are never preempted.
    pub sequences: u64,
    /// Longest sequence that fits, in tokens.
    pub longest_tokens: u64,
    /// Floor of a token of one request, halfway through its answer.
    pub alone: Decode,
    /// Floor of a token with all `sequences` in the batch, halfway through their answers.
    pub full: Decode,
    /// Floor of the prompt.
    pub prefill: Prefill,
    /// Tokens/s of one request: 1,000 / the floor of its tokens.
    pub tokens_per_s: f64,
    /// Output tokens/s of a full batch of one copy at the floor, its prompts left out.
    pub full_tokens_per_s: f64,
}

impl Setup {
    /// Calculates what fits.
    ///
    /// # Errors
    /// Tensor parallelism does not divide the heads, or the weights leave no room for the KV cache.
    pub fn fit(&self) -> Result<Fit, Refusal> {
        let fit = self.unchecked()?;
        if fit.blocks < 2 {
            return Err(Refusal::too_large(self, &fit));
        }
        Ok(fit)
    }

    /// Calculates the figures, even if the weights do not fit.
    fn unchecked(&self) -> Result<Fit, Refusal> {
        let gpus = self.machine.tensor_parallel;
        let cache = &self.model.cache;
        let share = cache.share(gpus).map_err(|possible| Refusal::uneven_kv_heads(self, possible))?;
        if let Some(heads) = self.model.heads.filter(|heads| heads % gpus != 0) {
            return Err(Refusal::UnevenHeads { heads, tensor_parallel: gpus });
        }
        let weights = self.model.weights / f64::from(gpus);
        let budget = self.memory * self.utilization;
        let kv_room = budget - weights - self.reserved;
        let layer_bytes = cache.numbers_per_layer(share) * self.kv_bytes;
        let block_layers = cache.groups().0;
        let token_bytes = layer_bytes * f64::from(block_layers);
        let block_bytes = token_bytes * f64::from(self.block_tokens);
        // The cast saturates at zero.
        let blocks = (kv_room / block_bytes).floor() as u64;
        // vLLM keeps one block for itself.
        let free = blocks.saturating_sub(1);
        let of_block = u64::from(self.block_tokens);
        let longest_blocks = cache.blocks(u64::from(self.max_model_len), of_block);
        let mean_blocks = cache.blocks((self.input_tokens + self.output_tokens).ceil() as u64, of_block);
        let sequences = free / mean_blocks.max(1);
        let longest_tokens = self.longest_tokens(free);
        let decode = |batch: f64| self.decode(layer_bytes, batch);
        let (alone, full) = (decode(1.0), decode(sequences as f64));
        Ok(Fit {
            weights,
            budget,
            kv_room,
            share,
            block_layers,
            token_bytes,
            block_bytes,
            blocks,
            tokens: blocks * of_block,
            longest_blocks,
            longest: free / longest_blocks.max(1),
            mean_blocks,
            sequences,
            longest_tokens,
            alone,
            full,
            prefill: self.machine.prefill_bytes(
                self.model.read,
                self.model.model.flops_per_token(),
                self.input_tokens,
            ),
            tokens_per_s: 1e3 / alone.floor_ms,
            full_tokens_per_s: full.batch * 1e3 / full.floor_ms,
        })
    }

    /// Returns the mean tokens in the KV cache of a sequence halfway through its answer.
    pub fn mean_context(&self) -> f64 {
        self.input_tokens + self.output_tokens / 2.0
    }

    fn decode(&self, layer_bytes: f64, batch: f64) -> Decode {
        let context = self.mean_context();
        let layers = self.model.cache.layers_read(context);
        // Each GPU reads its own part, copies of heads included.
        let kv = layer_bytes * layers * context * f64::from(self.machine.tensor_parallel);
        self.machine.decode_bytes(
            self.model.read,
            Some(kv),
            self.model.model.flops_per_token(),
            batch,
            context,
        )
    }

    /// Returns the longest sequence that this many blocks hold.
    fn longest_tokens(&self, free: u64) -> u64 {
        let of_block = u64::from(self.block_tokens);
        let fits = |blocks: u64| self.model.cache.blocks(blocks * of_block, of_block) <= free;
        let (mut low, mut high) = (0, free + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle) { low = middle } else { high = middle }
        }
        low * of_block
    }
}

#[cfg(test)]
mod tests;
