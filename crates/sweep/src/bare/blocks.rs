//! Identifiers of the tokens of a prompt, for the prefix cache of an engine without text.

use super::{Lengths, tokens_of};
use goodput_core::hash::mix;
use goodput_engine::KvCache;
use goodput_engine::blocks::blocks_of;
use goodput_load::sim::dialect::{TEMPLATE_TOKEN, template_tokens};
use goodput_plan::Plan;
use goodput_workload::chain::{Recipe, Text, Turn};
use goodput_workload::config::{Cache, Source};
use goodput_workload::sources::Prompts;
use std::sync::Arc;

/// Returns the blocks of the last of these turns of a chain, where each prompt contains all earlier turns and answers:
/// the tokens that it would have over HTTP, in their order, each identified by a number. Empty without a prefix cache.
pub(super) fn blocks(
    plan: &Plan,
    lengths: Lengths,
    kv: Option<KvCache>,
    step: u32,
    turns: &[Turn],
) -> Arc<[u64]> {
    let Some(kv) = kv.filter(|kv| kv.prefix_cache) else { return Arc::default() };
    let (Source::Prompts(Prompts::Synthetic(s)), Some((first, further))) =
        (&plan.workload.source, turns.split_first())
    else {
        return Arc::default();
    };
    let first = &first.request;
    let (Text::Words { group } | Text::Illustrated { group, .. }) = first.text else { return Arc::default() };
    let template = template_tokens(plan.server.api);
    let shared = s.shared_prefix.filter(|_| plan.workload.cache == Cache::Warm);
    // A prompt that is too short for the whole prefix consists of its beginning and one unique word.
    let room = u64::from(first.input_tokens).saturating_sub(template as u64 + 1);
    let shared = shared.map_or(0, |p| ((f64::from(p.tokens.get()) * lengths.prompts) as u64).min(room));
    // A prompt has at least one unique word, and its answer is unique as well.
    let least = template as u64 + shared + u64::from(shared > 0);
    // Images are new in every conversation, as with a cold cache.
    let images = |recipe: &Recipe| u64::from(recipe.images().map_or(0, |images| tokens_of(images.added())));
    let all = u64::from(first.input_tokens).max(least) + images(first) + u64::from(first.output_tokens);
    let of_group = (0..shared).map(|i| (1 << 62) | (u64::from(group) << 32) | i);
    let head = std::iter::repeat_n(TEMPLATE_TOKEN, template).chain(of_group);
    let further = further.iter().map(|turn| {
        let words = if let Text::FollowUp { tokens, .. } = turn.request.text { tokens } else { 0 };
        u64::from(words) + images(&turn.request) + u64::from(turn.request.output_tokens)
    });
    let tokens = all + further.sum::<u64>();
    // All blocks beyond the common ones are those of this conversation alone, in whichever turn they are filled.
    let common = blocks_of(head, kv.block_size);
    let own = common.len() as u64..tokens / u64::from(kv.block_size.max(1));
    let own = own.map(|i| mix((u64::from(step) << 52) ^ (first.id << 22) ^ i));
    common.iter().copied().chain(own).collect()
}
