//! Checks that vLLM makes when it starts: limits that follow from others, and reasons not to start.

use super::{Deployment, Engine, Simulated};
use crate::batch::Limits;
use std::num::NonZeroU32;

/// Limits that the plan sets explicitly.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimitsGiven {
    pub(super) max_num_seqs: bool,
    pub(super) max_num_batched_tokens: bool,
}

/// Derives the limits that the plan leaves open from the others, as vLLM does. If the blocks follow from the memory,
/// `max-num-seqs` follows from the blocks.
///
/// # Errors
/// vLLM would not start with these limits.
pub(super) fn derive_limits(
    deployment: &mut Deployment,
    given: BatchLimitsGiven,
    max_model_len: NonZeroU32,
) -> Result<(), String> {
    let Deployment { limits, block_size, memory, .. } = deployment;
    let Limits { max_num_seqs: seats, max_num_batched_tokens: tokens, chunked_prefill, kv_blocks, .. } =
        limits;
    if !given.max_num_batched_tokens && !*chunked_prefill {
        *tokens = max_model_len.max(*tokens);
    }
    if !given.max_num_seqs && memory.is_some() {
        let longest = max_model_len.get().div_ceil(block_size.get());
        *seats = NonZeroU32::new((kv_blocks.get() - 1) / longest).unwrap_or(NonZeroU32::MIN);
    }
    if !given.max_num_seqs && given.max_num_batched_tokens {
        *seats = (*tokens).min(*seats);
    }
    if !*chunked_prefill && *tokens < max_model_len {
        return Err(format!(
            "max-num-batched-tokens ({tokens}) is below max-model-len ({max_model_len}): without chunked-prefill the longest prompt fits into no iteration, and vLLM does not start; raise max-num-batched-tokens"
        ));
    }
    if *tokens < *seats {
        return Err(format!(
            "max-num-batched-tokens ({tokens}) is below max-num-seqs ({seats}): an iteration could not decode a token of every sequence, and vLLM does not start; raise max-num-batched-tokens"
        ));
    }
    Ok(())
}

impl Simulated {
    /// Checks that the GPUs' memory is enough for the server to start, and that its KV cache holds one request of
    /// `max-model-len`. Called when the server is launched rather than when the plan is read, since such a plan is
    /// valid: a real server, too, fails only at startup.
    ///
    /// # Errors
    /// The memory is not enough; the message says what to change.
    pub fn check_startup(&self) -> Result<(), String> {
        let Engine::Batch { deployment: Deployment { memory: Some(memory), limits, block_size, .. }, .. } =
            &self.engine
        else {
            return Ok(());
        };
        let tokens = (limits.kv_blocks.get() - 1).saturating_mul(block_size.get());
        let longest = self.max_model_len.get();
        let holds = || {
            (longest <= tokens).then_some(()).ok_or_else(|| {
                format!(
                    "one request of max-model-len ({longest} tokens) does not fit into the KV cache, which holds {tokens} tokens; raise \
                     gpu-memory-utilization or lower max-model-len"
                )
            })
        };
        let checked = memory.check_startup().and_then(|()| holds());
        checked.map_err(|why| format!("the simulated server did not start: {why}"))
    }
}
