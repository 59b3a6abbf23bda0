//! The present settings of a run's server: from the plan, the command that starts it, and what it reports.

use super::super::Run;
use goodput_engine::config::{Deployment, Engine, Simulated};
use goodput_plan::server::Target;
use goodput_plan::{Plan, Series};
use goodput_stats::diagnosis::settings::Range;
use goodput_stats::diagnosis::{Flags, Knob, Origin, Settings, Value};
use std::num::NonZeroU32;

/// Key of the plan's `[environment]` that holds the command line of the server.
const COMMANDS: [&str; 3] = ["command", "command-line", "cmd"];

/// Returns the flags of the server of a series, if its engine is known, and its settings.
pub(super) fn of(one: &Series, part: &Run) -> (Option<Flags>, Settings) {
    let plan = &one.plan;
    let (flags, mut settings) = match &plan.server.target {
        Target::Simulated(_) => simulated(plan).unwrap_or_default(),
        Target::Url(_) | Target::Urls(_) => of_real(one, part),
    };
    (settings.longest_request, settings.longest_prompt) = longest(one, part);
    (flags, settings)
}

/// Returns the settings of a plan's simulated server, with the kind of their keys; `None` for another server.
pub fn simulated(plan: &Plan) -> Option<(Option<Flags>, Settings)> {
    let Target::Simulated(table) = &plan.server.target else { return None };
    let simulated = plan.simulated().ok()??;
    Some(of_simulated(&simulated, &|key| table.contains_key(key)))
}

fn of_real(one: &Series, part: &Run) -> (Option<Flags>, Settings) {
    let plan = &one.plan;
    let mut settings = Settings::default();
    let start = one.variant.as_ref().and_then(|v| v.start());
    let started = start.and_then(|start| settings.read_command(&start.command, Origin::CommandLine));
    let declared = plan.environment.iter().find(|(key, _)| COMMANDS.contains(key));
    let declared = declared.and_then(|(_, line)| settings.read_command_line(line, Origin::Declared));
    settings.read_facts(&part.meta.facts);
    if let Some(gpus) = plan.hardware.tensor_parallel().filter(|_| plan.hardware.gpu_count().is_some()) {
        settings.set(Knob::TensorParallel, Value::Count(gpus.into()), Origin::Declared);
    }
    let reported = part.meta.facts.iter().find_map(|f| f.engine).map(Flags::from);
    (reported.or(started).or(declared), settings)
}

/// Returns the settings that the preset of a simulated server takes, with the values that it accepts. `given` returns
/// true for the keys that the plan sets.
fn of_simulated(simulated: &Simulated, given: &dyn Fn(&str) -> bool) -> (Option<Flags>, Settings) {
    let mut settings = Settings::default();
    settings.copies = Some(1);
    let mut set = |knob, key, value| {
        settings.set(knob, value, if given(key) { Origin::Plan } else { Origin::Preset });
    };
    let count = |n: NonZeroU32| Value::Count(n.get().into());
    let deployment = match &simulated.engine {
        Engine::Batch { deployment, .. } => deployment,
        Engine::Mmc { servers, .. } => {
            set(Knob::Sequences, "servers", count(*servers));
            return (Some(Flags::SimulatedQueue), settings);
        }
        Engine::Md1 { .. } | Engine::Mm1 { .. } | Engine::Fixed { .. } | Engine::Null => {
            return (Some(Flags::SimulatedQueue), settings);
        }
    };
    let Deployment { limits, memory, block_size, .. } = deployment;
    set(Knob::Sequences, "max-num-seqs", count(limits.max_num_seqs));
    set(Knob::Tokens, "max-num-batched-tokens", count(limits.max_num_batched_tokens));
    match memory {
        Some(memory) => set(Knob::Memory, "gpu-memory-utilization", Value::Share(memory.utilization)),
        None => set(Knob::KvSize, "kv-blocks", count(limits.kv_blocks)),
    }
    set(Knob::PrefixCache, "prefix-cache", Value::Switch(limits.prefix_cache));
    set(Knob::ChunkedPrefill, "chunked-prefill", Value::Switch(limits.chunked_prefill));
    set(Knob::MaxLength, "max-model-len", count(simulated.max_model_len));
    settings.block_tokens = Some(block_size.get());
    settings.kv_tokens = Some(u64::from(limits.kv_blocks.get() - 1) * u64::from(block_size.get()));
    limit(&mut settings, simulated, deployment, given);
    (Some(Flags::Simulated), settings)
}

/// Limits the settings of a simulated batching engine to the values with which it starts.
fn limit(
    settings: &mut Settings,
    simulated: &Simulated,
    deployment: &Deployment,
    given: &dyn Fn(&str) -> bool,
) {
    let Deployment { limits, memory, block_size, .. } = deployment;
    let number = |n: NonZeroU32| f64::from(n.get());
    let (tokens, length) = (number(limits.max_num_batched_tokens), number(simulated.max_model_len));
    let block = number(*block_size);
    // One block is reserved. A length that the plan leaves out follows the blocks.
    let blocks = if given("max-model-len") { (length / block).ceil() + 1.0 } else { 2.0 };
    settings.limit(Knob::KvSize, Range { min: Some(blocks), max: None });
    if let Some((min, max)) = memory.map(|memory| memory.startup_range(blocks as u32)) {
        settings.limit(Knob::Memory, Range { min: Some(min), max: Some(max) });
    }
    let tokens_given = given("max-num-batched-tokens");
    let whole = (!limits.chunked_prefill && tokens_given).then_some(tokens);
    let usable = f64::from(limits.kv_blocks.get() - 1) * block;
    let most = whole.map_or(usable, |tokens| usable.min(tokens));
    settings.limit(Knob::MaxLength, Range { min: Some(1.0), max: Some(most) });
    // Without chunks the longest prompt has to fit into one iteration.
    if limits.chunked_prefill && tokens_given && tokens < length {
        settings.limit(Knob::ChunkedPrefill, Range { min: Some(1.0), max: None });
    }
}

/// Returns the input and output tokens of the longest request, and the tokens of the longest prompt, if the lengths that were
/// sent are known.
fn longest(one: &Series, part: &Run) -> (Option<u64>, Option<u64>) {
    let own = || part.meta.sent.iter().filter(|sent| sent.series == one.name || sent.series.is_empty());
    let prompt = |sent: &super::super::Sent| Some(sent.input.as_ref()?.max);
    let both = |sent: &super::super::Sent| Some(prompt(sent)? + sent.output.as_ref()?.max);
    (own().filter_map(both).max(), own().filter_map(prompt).max())
}

#[cfg(test)]
mod tests;
