//! Settings that a server reports: on pages such as `/get_server_info`, or as labels of its metrics.

use super::super::flags::{Flags, Form, Knob};
use super::{Origin, Settings, Value};
use crate::server::Engine;
use crate::server::facts::Facts;

/// A setting by the name under which an engine reports it.
type Reported = (&'static str, Knob);

/// Labels of `vllm:cache_config_info`, and fields of `/server_info` in development mode.
const VLLM: &[Reported] = &[
    ("gpu_memory_utilization", Knob::Memory),
    ("kv_cache_memory_bytes", Knob::KvSize),
    ("num_gpu_blocks_override", Knob::KvBlocks),
    ("max_num_seqs", Knob::Sequences),
    ("max_num_batched_tokens", Knob::Tokens),
    ("enable_chunked_prefill", Knob::ChunkedPrefill),
    ("chunked_prefill_enabled", Knob::ChunkedPrefill),
    ("cache_dtype", Knob::KvType),
    ("kv_cache_dtype", Knob::KvType),
    ("quantization", Knob::Quantisation),
    ("tensor_parallel_size", Knob::TensorParallel),
    ("data_parallel_size", Knob::Replicas),
    ("enable_prefix_caching", Knob::PrefixCache),
    ("max_model_len", Knob::MaxLength),
    ("enforce_eager", Knob::Graphs),
];

/// Fields of `/get_server_info`, which are the server's arguments.
const SGLANG: &[Reported] = &[
    ("mem_fraction_static", Knob::Memory),
    ("max_running_requests", Knob::Sequences),
    ("chunked_prefill_size", Knob::Tokens),
    ("kv_cache_dtype", Knob::KvType),
    ("quantization", Knob::Quantisation),
    ("tp_size", Knob::TensorParallel),
    ("dp_size", Knob::Replicas),
    ("disable_radix_cache", Knob::PrefixCache),
    ("context_length", Knob::MaxLength),
];

/// Fields of `/info`.
const TGI: &[Reported] = &[
    ("max_batch_total_tokens", Knob::KvSize),
    ("max_batch_prefill_tokens", Knob::Tokens),
    ("max_total_tokens", Knob::MaxLength),
    ("max_concurrent_requests", Knob::MaxQueued),
];

/// Fields of `/props`.
const LLAMA_CPP: &[Reported] = &[("total_slots", Knob::Sequences), ("n_ctx", Knob::MaxLength)];

/// Labels of `trtllm_*_config_info`.
const TENSORRT_LLM: &[Reported] = &[("enable_block_reuse", Knob::PrefixCache)];

impl Settings {
    /// Adds the settings that servers report, if all of them report the same.
    pub fn read_facts(&mut self, servers: &[Facts]) {
        let Some(first) = servers.first() else { return };
        let same = |name: &str| {
            let value = first.flags.get(name)?;
            servers.iter().all(|f| f.flags.get(name) == Some(value)).then_some(value.as_str())
        };
        let Some(engine) = first.engine else { return };
        let flags = Flags::from(engine);
        for (name, knob) in names(engine) {
            let Some(text) = same(name) else { continue };
            if let Some(value) = value(flags, *knob, text) {
                self.set(*knob, value, Origin::Server);
            } else if (flags, *knob, text) == (Flags::Sglang, Knob::Tokens, "-1") {
                self.set(Knob::ChunkedPrefill, Value::Switch(false), Origin::Server);
            }
        }
        if servers.iter().all(|f| f.max_model_len == first.max_model_len)
            && let Some(tokens) = first.max_model_len
        {
            self.set(Knob::MaxLength, Value::Count(tokens.into()), Origin::Server);
        }
        let number = |name| same(name)?.parse::<u64>().ok().filter(|n| *n > 0);
        self.block_tokens =
            self.block_tokens.or_else(|| number("block_size").and_then(|n| n.try_into().ok()));
        let blocks = || number("num_gpu_blocks")?.checked_mul(number("block_size")?);
        let tokens = ["kv_cache_size_tokens", "max_total_num_tokens", "max_batch_total_tokens"];
        self.kv_tokens = self.kv_tokens.or_else(|| tokens.into_iter().find_map(number)).or_else(blocks);
        let engines = |f: &Facts| f.engines.unwrap_or(1).max(1) * (f.servers.len().max(1) as u32);
        self.copies = self.copies.or_else(|| Some(servers.iter().map(engines).sum()));
    }
}

const fn names(engine: Engine) -> &'static [Reported] {
    match engine {
        Engine::Vllm => VLLM,
        Engine::Sglang => SGLANG,
        Engine::Tgi => TGI,
        Engine::LlamaCpp => LLAMA_CPP,
        Engine::TensorRtLlm | Engine::Triton => TENSORRT_LLM,
    }
}

/// Returns a reported value in the form of the setting; `None` if it is none.
fn value(flags: Flags, knob: Knob, text: &str) -> Option<Value> {
    // A length per slot, which no flag of llama-server sets.
    let form = flags.spelling(knob).map_or(Form::Count, |s| s.form);
    let on = match text.to_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    match form {
        Form::On | Form::Elsewhere => on.map(Value::Switch),
        Form::Off => on.map(|on| Value::Switch(!on)),
        Form::Count | Form::Share | Form::Word(_) | Form::OnWith | Form::Sizes => form.read(Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Current;
    use super::*;

    fn facts(engine: Engine, flags: &[(&str, &str)]) -> Facts {
        let flags = flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Facts { engine: Some(engine), flags, ..Facts::default() }
    }

    #[test]
    fn the_metrics_of_vllm_tell_its_cache() {
        let mut facts = facts(Engine::Vllm, &[]);
        facts.read_metrics(include_str!("../../../../../tests/fixtures/metrics/vllm-preempt-after.txt"));
        let mut settings = Settings::default();
        settings.read_facts(&[facts]);
        let of = |knob| settings.get(knob).cloned();
        let told = |value| Some(Current { value, origin: Origin::Server });
        assert_eq!(of(Knob::Memory), told(Value::Share(0.92)));
        assert_eq!(of(Knob::PrefixCache), told(Value::Switch(true)));
        assert_eq!(of(Knob::KvType), told(Value::Word("auto".into())));
        assert_eq!((settings.block_tokens, settings.kv_tokens), (Some(128), Some(2560)));
        assert_eq!(of(Knob::KvBlocks), told(Value::Count(20)));
        assert_eq!(of(Knob::Sequences), None, "that page does not tell it");
    }

    #[test]
    fn pages_of_other_engines_are_read() {
        let of = |engine, flags: &[(&str, &str)], knob| {
            let mut settings = Settings::default();
            settings.read_facts(&[facts(engine, flags)]);
            settings.get(knob).map(|c| c.value.clone())
        };
        let sglang = [("disable_radix_cache", "false"), ("chunked_prefill_size", "-1"), ("tp_size", "2")];
        assert_eq!(of(Engine::Sglang, &sglang, Knob::PrefixCache), Some(Value::Switch(true)));
        assert_eq!(of(Engine::Sglang, &sglang, Knob::ChunkedPrefill), Some(Value::Switch(false)));
        assert_eq!(of(Engine::Sglang, &sglang, Knob::TensorParallel), Some(Value::Count(2)));
        let llama = [("total_slots", "4"), ("n_ctx", "4096")];
        assert_eq!(of(Engine::LlamaCpp, &llama, Knob::Sequences), Some(Value::Count(4)));
        assert_eq!(of(Engine::LlamaCpp, &llama, Knob::MaxLength), Some(Value::Count(4096)));
        let tgi = [("max_concurrent_requests", "128"), ("max_batch_total_tokens", "64000")];
        assert_eq!(of(Engine::Tgi, &tgi, Knob::MaxQueued), Some(Value::Count(128)));
        assert_eq!(
            of(Engine::Triton, &[("enable_block_reuse", "True")], Knob::PrefixCache),
            Some(Value::Switch(true))
        );
    }

    #[test]
    fn servers_that_differ_tell_nothing_of_what_differs() {
        let mut settings = Settings::default();
        let one = facts(Engine::Vllm, &[("max_num_seqs", "8"), ("block_size", "16")]);
        let two = facts(Engine::Vllm, &[("max_num_seqs", "16"), ("block_size", "16")]);
        settings.read_facts(&[one, two]);
        assert_eq!(settings.get(Knob::Sequences), None);
        assert_eq!((settings.block_tokens, settings.copies), (Some(16), Some(2)));
    }

    #[test]
    fn a_command_line_outranks_a_page() {
        let mut settings = Settings::default();
        settings.read_facts(&[facts(Engine::Vllm, &[("max_num_seqs", "8")])]);
        settings.read_command_line("vllm serve m --max-num-seqs 16", Origin::CommandLine);
        let seats = settings.get(Knob::Sequences).cloned();
        assert_eq!(seats, Some(Current { value: Value::Count(16), origin: Origin::CommandLine }));
    }
}
