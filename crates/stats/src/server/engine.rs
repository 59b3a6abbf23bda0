//! Which engines are understood, and under which names each tells what: the one table of names.
//!
//! Names: reference on server metrics, recorded pages of vLLM and llama.cpp, and the collectors of SGLang and TensorRT-LLM. They are
//! compared without a prefix of the exporter (`ray_`), with `:` and `_` alike, and without `_total`, which exporters drop or add.

use serde::{Deserialize, Serialize};

/// A server that is told by the names of its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// vLLM, v0 and v1.
    Vllm,
    /// SGLang, started with `--enable-metrics`.
    Sglang,
    /// Hugging Face's Text Generation Inference.
    Tgi,
    /// llama.cpp's llama-server, started with `--metrics`.
    LlamaCpp,
    /// TensorRT-LLM's own server.
    TensorRtLlm,
    /// Triton.
    Triton,
}

/// When an engine adds a request's tokens to its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// The prompt with the first token, output as it comes.
    AsTheyCome,
    /// The prompt with the first token, the output when the request is over.
    PromptFirst,
    /// Both when the request is over.
    WhenOver,
}

impl Engine {
    /// All of them; the first that has anything on a page is the one.
    pub const ALL: [Self; 6] =
        [Self::Vllm, Self::Sglang, Self::Tgi, Self::LlamaCpp, Self::TensorRtLlm, Self::Triton];

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Tgi => "TGI",
            Self::LlamaCpp => "llama.cpp",
            Self::TensorRtLlm => "TensorRT-LLM",
            Self::Triton => "Triton",
        }
    }

    /// When it counts the tokens of a request.
    pub const fn counts(self) -> Counts {
        match self {
            Self::Vllm => Counts::AsTheyCome,
            Self::LlamaCpp => Counts::PromptFirst,
            Self::Sglang | Self::Tgi | Self::TensorRtLlm | Self::Triton => Counts::WhenOver,
        }
    }

    /// What the names of its metrics begin with.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llamacpp",
            Self::TensorRtLlm => "trtllm",
            Self::Triton => "nv",
        }
    }

    /// The engine that has metrics of this name, and what is left of the name: without prefix and `_total`.
    pub(super) fn of_name(name: &str) -> Option<(Self, &str)> {
        let name = name.strip_prefix("ray_").unwrap_or(name);
        Self::ALL.into_iter().find_map(|engine| {
            let rest = name.strip_prefix(engine.prefix())?.strip_prefix([':', '_'])?;
            Some((engine, rest.strip_suffix("_total").unwrap_or(rest)))
        })
    }

    /// Where it tells what.
    pub(super) const fn sources(self) -> &'static [Source] {
        match self {
            Self::Vllm => VLLM,
            Self::Sglang => SGLANG,
            Self::Tgi => TGI,
            Self::LlamaCpp => LLAMACPP,
            Self::TensorRtLlm => TENSORRT_LLM,
            Self::Triton => TRITON,
        }
    }
}

/// A number that servers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Requests being worked on, now.
    Running,
    /// Requests waiting, now.
    Waiting,
    /// Share of the KV cache in use, now, of the fullest engine and rank.
    KvUse,
    /// Share of prompt tokens from the prefix cache, now, where only the share is told.
    HitRate,
    /// Preemptions since the start.
    Preemptions,
    /// Prompt tokens (with some engines blocks) looked up in the prefix cache since the start.
    Queries,
    /// Those found.
    Hits,
    /// Prompt tokens since the start, those from the cache included.
    PromptTokens,
    /// Output tokens since the start.
    GenerationTokens,
    /// Requests finished since the start.
    Finished,
}

impl Signal {
    /// All of them, in the order of their place in a reading.
    pub const ALL: [Self; 10] = [
        Self::Running,
        Self::Waiting,
        Self::KvUse,
        Self::HitRate,
        Self::Preemptions,
        Self::Queries,
        Self::Hits,
        Self::PromptTokens,
        Self::GenerationTokens,
        Self::Finished,
    ];

    /// The name in `server-metrics.csv`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::KvUse => "kv_use",
            Self::HitRate => "hit_rate",
            Self::Preemptions => "preemptions",
            Self::Queries => "prefix_queries",
            Self::Hits => "prefix_hits",
            Self::PromptTokens => "prompt_tokens",
            Self::GenerationTokens => "generation_tokens",
            Self::Finished => "finished",
        }
    }

    /// Whether it only ever grows, from the server's start on.
    pub const fn is_counter(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting | Self::KvUse | Self::HitRate)
    }

    /// Whether it is a share between 0 and 1.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::KvUse | Self::HitRate)
    }
}

/// A histogram of latencies that servers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Arrival at the server to first token; its queue is included with every engine that tells it.
    Ttft,
    /// Waiting for a place in the batch.
    Queue,
    /// From the first iteration to the first token.
    Prefill,
    /// From the first to the last token.
    Decode,
    /// Between two tokens.
    Itl,
    /// Whole requests.
    E2e,
}

impl Latency {
    /// All of them, in the order of their place in a reading.
    pub const ALL: [Self; 6] = [Self::Ttft, Self::Queue, Self::Prefill, Self::Decode, Self::Itl, Self::E2e];

    /// The names of sum (in seconds) and count in `server-metrics.csv`.
    pub const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Ttft => ["ttft_sum_s", "ttft_count"],
            Self::Queue => ["queue_sum_s", "queue_count"],
            Self::Prefill => ["prefill_sum_s", "prefill_count"],
            Self::Decode => ["decode_sum_s", "decode_count"],
            Self::Itl => ["itl_sum_s", "itl_count"],
            Self::E2e => ["e2e_sum_s", "e2e_count"],
        }
    }
}

/// What a source tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Value(Signal),
    /// A share whose parts are told: used over all.
    Used,
    /// See [`What::Used`].
    All,
    /// What the cache did not have, where the queries are this and the hits together.
    Missed,
    Histogram(Latency),
}

/// How samples with different labels become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Engines and replicas add up. Ranks that work on the same requests count once.
    Sum,
    /// The largest: shares, and what every model of an ensemble counts for itself.
    Max,
}

/// A metric, by the names that it has had; the first that is on the page counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) what: What,
    pub(super) how: How,
    /// Without the engine's prefix and `_total`.
    pub(super) names: &'static [&'static str],
    /// Only samples with this label.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// No samples with this label.
    pub(super) but: Option<(&'static str, &'static str)>,
}

const fn value(signal: Signal, names: &'static [&'static str]) -> Source {
    let how = if signal.is_share() { How::Max } else { How::Sum };
    Source { what: What::Value(signal), how, names, only: None, but: None }
}

const fn histogram(span: Latency, names: &'static [&'static str]) -> Source {
    Source { what: What::Histogram(span), how: How::Sum, names, only: None, but: None }
}

const fn part(what: What, names: &'static [&'static str]) -> Source {
    Source { what, how: How::Sum, names, only: None, but: None }
}

impl Source {
    const fn with(self, label: &'static str, value: &'static str) -> Self {
        Self { only: Some((label, value)), ..self }
    }

    const fn without(self, label: &'static str, value: &'static str) -> Self {
        Self { but: Some((label, value)), ..self }
    }

    const fn max(self) -> Self {
        Self { how: How::Max, ..self }
    }
}

/// Versions up to 0.8 have `gpu_` in front of the caches; up to 0.10 a time per output token stands for the gaps.
const VLLM: &[Source] = &[
    value(Signal::Running, &["num_requests_running"]),
    value(Signal::Waiting, &["num_requests_waiting"]),
    value(Signal::KvUse, &["kv_cache_usage_perc", "gpu_cache_usage_perc"]),
    value(Signal::Preemptions, &["num_preemptions"]),
    value(Signal::Queries, &["prefix_cache_queries", "gpu_prefix_cache_queries"]),
    value(Signal::Hits, &["prefix_cache_hits", "gpu_prefix_cache_hits"]),
    value(Signal::PromptTokens, &["prompt_tokens"]),
    value(Signal::GenerationTokens, &["generation_tokens"]),
    value(Signal::Finished, &["request_success"]).without("finished_reason", "abort"),
    histogram(Latency::Ttft, &["time_to_first_token_seconds"]),
    histogram(Latency::Queue, &["request_queue_time_seconds"]),
    histogram(Latency::Prefill, &["request_prefill_time_seconds"]),
    histogram(Latency::Decode, &["request_decode_time_seconds"]),
    histogram(Latency::Itl, &["inter_token_latency_seconds", "time_per_output_token_seconds"]),
    histogram(Latency::E2e, &["e2e_request_latency_seconds"]),
];

/// The gauge `num_retracted_reqs` is of the last batch alone, so only the newer counter is read.
const SGLANG: &[Source] = &[
    value(Signal::Running, &["num_running_reqs"]),
    value(Signal::Waiting, &["num_queue_reqs"]),
    value(Signal::KvUse, &["token_usage"]),
    value(Signal::HitRate, &["cache_hit_rate"]),
    value(Signal::Preemptions, &["num_retracted_requests"]),
    value(Signal::Queries, &["prompt_tokens"]),
    value(Signal::Hits, &["cached_tokens"]),
    value(Signal::PromptTokens, &["prompt_tokens"]),
    value(Signal::GenerationTokens, &["generation_tokens"]),
    value(Signal::Finished, &["num_requests"]),
    histogram(Latency::Ttft, &["time_to_first_token_seconds"]),
    histogram(Latency::Queue, &["queue_time_seconds"]),
    histogram(Latency::Itl, &["inter_token_latency_seconds", "time_per_output_token_seconds"]),
    histogram(Latency::E2e, &["e2e_request_latency_seconds"]),
];

/// Its time per token is a mean of each request, first token included: no gap between tokens, so it is left out.
const TGI: &[Source] = &[
    value(Signal::Running, &["batch_current_size"]),
    value(Signal::Waiting, &["queue_size"]),
    value(Signal::PromptTokens, &["request_input_length_sum"]),
    value(Signal::GenerationTokens, &["request_generated_tokens_sum"]),
    value(Signal::Finished, &["request_success"]),
    histogram(Latency::Queue, &["request_queue_duration"]),
    histogram(Latency::E2e, &["request_duration"]),
];

/// `prompt_tokens` are those that were computed, without those from the cache.
const LLAMACPP: &[Source] = &[
    value(Signal::Running, &["requests_processing"]),
    value(Signal::Waiting, &["requests_deferred"]),
    value(Signal::KvUse, &["kv_cache_usage_ratio"]),
    part(What::Missed, &["prompt_tokens"]),
    value(Signal::Hits, &["prompt_tokens_cached"]),
    value(Signal::GenerationTokens, &["tokens_predicted"]),
];

/// At `/prometheus/metrics`; its `/metrics` is JSON. The cache counts in blocks.
const TENSORRT_LLM: &[Source] = &[
    value(Signal::Running, &["num_requests_running"]),
    value(Signal::Waiting, &["num_requests_waiting"]),
    value(Signal::KvUse, &["kv_cache_utilization"]),
    value(Signal::HitRate, &["kv_cache_hit_rate"]),
    part(What::Missed, &["kv_cache_missed_blocks"]),
    value(Signal::Hits, &["kv_cache_reused_blocks"]),
    value(Signal::PromptTokens, &["prompt_tokens"]),
    value(Signal::GenerationTokens, &["generation_tokens"]),
    value(Signal::Finished, &["request_success"]),
    histogram(Latency::Ttft, &["time_to_first_token_seconds"]),
    histogram(Latency::Queue, &["request_queue_time_seconds"]),
    histogram(Latency::Prefill, &["request_prefill_time_seconds"]),
    histogram(Latency::Decode, &["request_decode_time_seconds"]),
    histogram(Latency::Itl, &["time_per_output_token_seconds"]),
    histogram(Latency::E2e, &["e2e_request_latency_seconds"]),
];

/// Every model of an ensemble counts the same requests.
const TRITON: &[Source] = &[
    value(Signal::Running, &["trt_llm_request_metrics"]).with("request_type", "scheduled").max(),
    value(Signal::Waiting, &["trt_llm_request_metrics"]).with("request_type", "waiting").max(),
    value(Signal::Waiting, &["inference_pending_request_count"]).max(),
    value(Signal::KvUse, &["trt_llm_kv_cache_block_metrics"]).with("kv_cache_block_type", "fraction"),
    part(What::Used, &["trt_llm_kv_cache_block_metrics"]).with("kv_cache_block_type", "used").max(),
    part(What::All, &["trt_llm_kv_cache_block_metrics"]).with("kv_cache_block_type", "max").max(),
    value(Signal::Finished, &["inference_request_success"]).max(),
];
