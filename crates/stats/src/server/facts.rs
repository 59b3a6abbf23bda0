//! How a server was started, as far as it reports it: version, lengths, flags. Only settings known to be harmless are read, since
//! a page of settings may contain keys as well.

use super::engine::Engine;
use super::exposed::exposed_names;
use super::prometheus::{labels, samples};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Reported settings of one server, or of several identical ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Facts {
    /// URLs of the servers; empty for the simulated one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// The engine, recognised by the names of its metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Version of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model by the server's own name, often a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Longest context in tokens, prompt and answer together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// Number of engines (data-parallel ranks).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<u32>,
    /// Flags and sizes, under the server's own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, String>,
    /// Description of the metrics that are read, or the reason why none are.
    pub metrics: String,
    /// Names of the metrics on the server's page, by goodput's names of them: [`exposed_names`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exposed: BTreeMap<String, String>,
}

/// Pages with settings, besides `/v1/models` and the metrics.
pub const PAGES: [&str; 6] =
    ["/version", "/server_info?config_format=json", "/get_server_info", "/server_info", "/props", "/info"];

/// The settings that are read, by the names that engines give them.
const FLAGS: &[&str] = &[
    // vLLM: /server_info (in development mode), labels of vllm:cache_config_info
    "block_size",
    "cache_dtype",
    "chunked_prefill_enabled",
    "data_parallel_size",
    "dtype",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_seq_len",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
    "pipeline_parallel_size",
    "quantization",
    "tensor_parallel_size",
    // SGLang: /get_server_info, newer ones /server_info
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
    "disable_radix_cache",
    "dp_size",
    "ep_size",
    "max_prefill_tokens",
    "max_running_requests",
    "max_total_num_tokens",
    "mem_fraction_static",
    "num_pages",
    "page_size",
    "pp_size",
    "schedule_policy",
    "tp_size",
    // TGI: /info
    "max_batch_prefill_tokens",
    "max_batch_total_tokens",
    "max_concurrent_requests",
    "max_input_length",
    "max_input_tokens",
    "max_total_tokens",
    "max_waiting_tokens",
    "model_dtype",
    "waiting_served_ratio",
    // llama.cpp: /props
    "n_ctx",
    "total_slots",
    // TensorRT-LLM: labels of its *_config_info
    "enable_block_reuse",
    "gpu_type",
];

/// Settings that depend on the free memory when the server starts.
const MEMORY_DEPENDENT: &[&str] = &[
    "kv_cache_size_tokens",
    "max_total_num_tokens",
    "num_gpu_blocks",
    "num_pages",
    "max_batch_total_tokens",
];

/// Longest value of a setting.
const MAX_VALUE_LEN: usize = 120;
/// Deepest nesting at which settings are looked for.
const MAX_DEPTH: usize = 4;

impl Facts {
    /// Reads the settings on a page of [`PAGES`]; settings already known are kept.
    pub fn read_page(&mut self, page: &str) {
        let Ok(value) = serde_json::from_str::<Value>(page) else { return };
        let top = |names: &[&str]| names.iter().find_map(|n| plain(value.get(*n)?));
        self.version = self.version.take().or_else(|| top(&["version", "build_info"]));
        self.model = self.model.take().or_else(|| top(&["model_path", "model_id"]));
        self.walk(&value, MAX_DEPTH);
    }

    fn walk(&mut self, value: &Value, deep: usize) {
        let below = |facts: &mut Self, v: &Value| {
            if deep > 0 {
                facts.walk(v, deep - 1);
            }
        };
        match value {
            Value::Object(map) => {
                for (name, v) in map {
                    match plain(v) {
                        Some(text) if FLAGS.contains(&name.as_str()) => self.flag(name, text),
                        // vLLM may report all of its settings in one text.
                        None if v.is_string() => self.pairs(v.as_str().unwrap_or_default()),
                        _ => below(self, v),
                    }
                }
            }
            Value::Array(all) => all.iter().for_each(|v| below(self, v)),
            _ => {}
        }
    }

    /// Reads `name=value` pairs of a text.
    fn pairs(&mut self, text: &str) {
        for pair in text.split([',', ' ', '(', ')']) {
            if let Some((name, v)) = pair.trim().split_once('=')
                && FLAGS.contains(&name)
                && let Some(v) = plain(&Value::from(v.trim_matches(['\'', '"'])))
            {
                self.flag(name, v);
            }
        }
    }

    fn flag(&mut self, name: &str, value: String) {
        self.flags.entry(name.to_owned()).or_insert(value);
    }

    /// Reads the settings on a page of metrics, labels of the gauges that carry them, and the names of the metrics.
    pub fn read_metrics(&mut self, page: &str) {
        self.exposed = exposed_names(page);
        for sample in samples(page) {
            if sample.name.ends_with("config_info") {
                for (name, v) in labels(sample.labels).filter(|(name, _)| FLAGS.contains(name)) {
                    if let Some(v) = plain(&Value::from(v)) {
                        self.flag(name, v);
                    }
                }
            } else if sample.name == "sglang:max_total_num_tokens" && sample.value.is_finite() {
                self.flag("max_total_num_tokens", sample.value.to_string());
            }
        }
    }

    /// Cleans the texts that the server reported about itself, so that no secret is written.
    pub fn redact(&mut self, clean: impl Fn(&str) -> String) {
        let own = self.version.iter_mut().chain(&mut self.model).chain(self.flags.values_mut());
        own.for_each(|text| *text = clean(text));
    }

    /// Merges the facts of identical servers.
    pub fn merge_identical(all: Vec<Self>) -> Vec<Self> {
        let mut out: Vec<Self> = Vec::new();
        for mut facts in all {
            let servers = std::mem::take(&mut facts.servers);
            let like = out.iter_mut().find(|o| {
                let named = Self { servers: o.servers.clone(), ..facts.clone() };
                **o == named
            });
            match like {
                Some(like) => like.servers.extend(servers),
                None => out.push(Self { servers, ..facts }),
            }
        }
        out
    }

    /// Returns the settings that differ from `then`, among those known in both.
    pub fn changed(&self, then: &Self) -> Vec<ChangedSetting> {
        let number = |n: Option<u32>| n.map(|n| n.to_string());
        let engine = |f: &Self| f.engine.map(|e| e.title().to_owned());
        let own = [
            ("engine", engine(then), engine(self)),
            ("version", then.version.clone(), self.version.clone()),
            ("model path", then.model.clone(), self.model.clone()),
            ("max_model_len", number(then.max_model_len), number(self.max_model_len)),
            ("engines", number(then.engines), number(self.engines)),
        ];
        let own = own.into_iter().filter_map(|(what, was, is)| Some((what.to_owned(), was?, is?)));
        let flag = |(name, was): (&String, &String)| {
            Some((name.clone(), was.clone(), self.flags.get(name)?.clone()))
        };
        let all = own.chain(then.flags.iter().filter_map(flag)).filter(|(_, was, is)| was != is);
        all.map(|(what, was, is)| ChangedSetting {
            memory_dependent: MEMORY_DEPENDENT.contains(&what.as_str()),
            what,
            was,
            is,
        })
        .collect()
    }
}

/// A setting that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSetting {
    /// Name of the setting.
    pub what: String,
    /// Earlier value.
    pub was: String,
    /// Current value.
    pub is: String,
    /// True if it may change whenever the same server is started, since it depends on the free memory.
    pub memory_dependent: bool,
}

/// Returns a short text, a number or a Boolean as text; `None` for anything else, and for empty or null values.
fn plain(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(s) => s.trim().to_owned(),
        Value::Number(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let fit = text.len() <= MAX_VALUE_LEN && !text.chars().any(char::is_control);
    (fit && !["", "None", "null"].contains(&text.as_str())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts_of(pages: &[&str]) -> Facts {
        let mut facts = Facts::default();
        pages.iter().for_each(|p| facts.read_page(p));
        facts
    }

    #[test]
    fn settings_of_every_engine_are_read_without_keys() {
        let vllm = facts_of(&[
            r#"{"version":"0.32.0"}"#,
            r#"{"vllm_config":{"cache_config":{"gpu_memory_utilization":0.92,"block_size":16},"scheduler_config":{"max_num_seqs":256},
                "model_config":{"hf_token":"hf_secret","quantization":null}},"vllm_env":{"VLLM_API_KEY":"hunter2"}}"#,
        ]);
        assert_eq!(vllm.version.as_deref(), Some("0.32.0"));
        assert_eq!(vllm.flags.get("max_num_seqs").map(String::as_str), Some("256"));
        assert_eq!(vllm.flags.len(), 3, "{vllm:?}");
        let long = "x".repeat(200);
        let text = facts_of(&[&format!(
            r#"{{"vllm_config":"model='m', tensor_parallel_size=4, enable_prefix_caching=True, api_key='hunter2', {long}"}}"#
        )]);
        assert_eq!(text.flags.get("tensor_parallel_size").map(String::as_str), Some("4"));
        let sglang = facts_of(&[
            r#"{"api_key":"hunter2","admin_api_key":"x","model_path":"/m","tp_size":2,"mem_fraction_static":0.88,
                "internal_states":[{"max_total_num_tokens":4000}],"version":"0.5.2"}"#,
        ]);
        assert_eq!((sglang.model.as_deref(), sglang.flags.len()), (Some("/m"), 3), "{sglang:?}");
        let tgi = facts_of(&[
            r#"{"model_id":"org/m","model_dtype":"float16","max_total_tokens":4096,"version":"3.0.0"}"#,
        ]);
        assert_eq!((tgi.version.as_deref(), tgi.flags.len()), (Some("3.0.0"), 2));
        let llama = facts_of(&[
            r#"{"default_generation_settings":{"n_ctx":4096,"params":{"seed":1}},"total_slots":4,"model_path":"/m.gguf","build_info":"b6789"}"#,
        ]);
        assert_eq!((llama.version.as_deref(), llama.flags.len()), (Some("b6789"), 2));
        for facts in [&vllm, &text, &sglang] {
            assert!(!serde_json::to_string(facts).unwrap().contains("hunter2"));
        }
        for junk in ["", "<html>", "[]", "7", "{\"version\":{}}"] {
            assert_eq!(facts_of(&[junk]), Facts::default(), "{junk}");
        }
    }

    #[test]
    fn settings_are_read_from_labels() {
        let mut facts = Facts::default();
        facts.read_metrics(include_str!("../../../../tests/fixtures/metrics/vllm-preempt-after.txt"));
        for (name, value) in
            [("block_size", "128"), ("enable_prefix_caching", "True"), ("gpu_memory_utilization", "0.92")]
        {
            assert_eq!(facts.flags.get(name).map(String::as_str), Some(value), "{facts:?}");
        }
        assert!(!facts.flags.contains_key("sliding_window") && facts.flags.contains_key("num_gpu_blocks"));
    }

    #[test]
    fn identical_servers_are_merged() {
        let of = |server: &str, version: &str| Facts {
            servers: vec![server.into()],
            version: Some(version.into()),
            ..Facts::default()
        };
        let all = Facts::merge_identical(vec![of("a", "1"), of("b", "2"), of("c", "1")]);
        assert_eq!((all.len(), all[0].servers.join(" ")), (2, "a c".into()));
        let version = ChangedSetting {
            what: "version".into(),
            was: "1".into(),
            is: "2".into(),
            memory_dependent: false,
        };
        assert_eq!(all[1].changed(&all[0]), [version]);
        assert_eq!(all[0].changed(&all[0]), []);
        assert_eq!(all[0].changed(&Facts::default()), [], "what was not known did not change");
    }
}
