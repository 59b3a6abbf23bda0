//! What an engine starts with, and whether it does.

use super::{Deployment, Engine, Simulated};
use crate::batch::Limits;
use std::num::NonZeroU32;

/// Limits as vLLM starts with them, or why it does not. `given` says whether the plan gives the seats and the tokens of an iteration:
/// as in vLLM, one that it leaves open follows the others. Where the blocks follow from the memory, the seats follow from the blocks.
pub(super) fn fill(
    deployment: &mut Deployment,
    given: [bool; 2],
    max_model_len: NonZeroU32,
) -> Result<(), String> {
    let [seats_given, tokens_given] = given;
    let Deployment { limits, block_size, memory, .. } = deployment;
    let Limits { max_num_seqs: seats, max_num_batched_tokens: tokens, chunked_prefill, kv_blocks, .. } =
        limits;
    if !tokens_given && !*chunked_prefill {
        *tokens = max_model_len.max(*tokens);
    }
    if !seats_given && memory.is_some() {
        let longest = max_model_len.get().div_ceil(block_size.get());
        *seats = NonZeroU32::new((kv_blocks.get() - 1) / longest).unwrap_or(NonZeroU32::MIN);
    }
    if !seats_given && tokens_given {
        *seats = (*tokens).min(*seats);
    }
    if !*chunked_prefill && *tokens < max_model_len {
        return Err(format!(
            "max-num-batched-tokens ({tokens}) is below max-model-len ({max_model_len}): without chunked-prefill the longest prompt would fit into no iteration, and vLLM does not start"
        ));
    }
    if *tokens < *seats {
        return Err(format!(
            "max-num-batched-tokens ({tokens}) is below max-num-seqs ({seats}): not every sequence could have its token in an iteration, and vLLM does not start"
        ));
    }
    Ok(())
}

impl Simulated {
    /// Whether the server starts: where it does not, a real one would have ended with this error. Its plan is a good one, so that
    /// this is asked where it is started and not where it is read.
    ///
    /// # Errors
    /// The GPUs' memory does not do; the message says what to change.
    pub fn starts(&self) -> Result<(), String> {
        let Engine::Batch { deployment: Deployment { memory: Some(memory), .. }, .. } = &self.engine else {
            return Ok(());
        };
        memory.start().map_err(|why| format!("the simulated server did not start: {why}"))
    }
}
