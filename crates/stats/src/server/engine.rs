//! The engines that are understood, and the names of their metrics: the only table of names.
//!
//! Sources: reference on server metrics, recorded pages of vLLM and llama.cpp, and the collectors of SGLang and TensorRT-LLM.
//! Names are compared without a prefix of the exporter (`ray_`), with `:` and `_` alike, and without `_total`, which exporters
//! drop or add.

use super::latency::Latency;
use super::prometheus::label;
use serde::{Deserialize, Serialize};

/// A serving engine, recognised by the names of its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
pub enum TokenCounting {
    /// Prompt tokens with the first token, output tokens as they come.
    AsTheyCome,
    /// Prompt tokens with the first token, output tokens when the request ends.
    PromptFirst,
    /// Both when the request ends.
    WhenOver,
}

impl Engine {
    /// Every engine; the first with any metric on a page is taken.
    pub const ALL: [Self; 6] =
        [Self::Vllm, Self::Sglang, Self::Tgi, Self::LlamaCpp, Self::TensorRtLlm, Self::Triton];

    /// Returns the name shown to users.
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

    /// Returns when the engine counts the tokens of a request.
    pub const fn token_counting(self) -> TokenCounting {
        match self {
            Self::Vllm => TokenCounting::AsTheyCome,
            Self::LlamaCpp => TokenCounting::PromptFirst,
            Self::Sglang | Self::Tgi | Self::TensorRtLlm | Self::Triton => TokenCounting::WhenOver,
        }
    }

    /// Returns the prefix of the names of its metrics.
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

    /// Returns the engine that has metrics of this name, and the name without prefix and `_total`.
    pub(super) fn of_name(name: &str) -> Option<(Self, &str)> {
        let name = name.strip_prefix("ray_").unwrap_or(name);
        Self::ALL.into_iter().find_map(|engine| {
            let rest = name.strip_prefix(engine.prefix())?.strip_prefix([':', '_'])?;
            Some((engine, rest.strip_suffix("_total").unwrap_or(rest)))
        })
    }

    /// Returns the metrics that are read of this engine.
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

/// A number that servers report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Running requests (gauge).
    Running,
    /// Waiting requests (gauge).
    Waiting,
    /// Share of the KV cache in use, of the fullest engine and rank (gauge).
    KvUse,
    /// Share of prompt tokens from the prefix cache, if only the share is reported (gauge).
    HitRate,
    /// Preemptions since the start.
    Preemptions,
    /// Prompt tokens (with some engines blocks) looked up in the prefix cache since the start.
    Queries,
    /// Prompt tokens (or blocks) found in the prefix cache since the start.
    Hits,
    /// Prompt tokens since the start, those from the cache included.
    PromptTokens,
    /// Output tokens since the start.
    GenerationTokens,
    /// Requests finished since the start.
    Finished,
    /// Drafts of speculative decoding since the start: each is checked in one iteration.
    Drafts,
    /// Tokens drafted since the start.
    DraftTokens,
    /// Drafted tokens that the model accepted since the start.
    AcceptedTokens,
    /// Tokens that an iteration writes with speculative decoding, those of its own included (gauge); 0 without it.
    AcceptedLength,
    /// Share of the drafted tokens that the model accepts (gauge).
    AcceptedShare,
}

impl Signal {
    /// Every signal, in the order of their index in a reading.
    pub const ALL: [Self; 15] = [
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
        Self::Drafts,
        Self::DraftTokens,
        Self::AcceptedTokens,
        Self::AcceptedLength,
        Self::AcceptedShare,
    ];

    /// Returns the name in `server-metrics.csv`.
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
            Self::Drafts => "drafts",
            Self::DraftTokens => "draft_tokens",
            Self::AcceptedTokens => "accepted_tokens",
            Self::AcceptedLength => "accepted_length",
            Self::AcceptedShare => "accepted_share",
        }
    }

    /// Returns true if it only grows while the server runs.
    pub const fn is_counter(self) -> bool {
        match self {
            Self::Running
            | Self::Waiting
            | Self::KvUse
            | Self::HitRate
            | Self::AcceptedLength
            | Self::AcceptedShare => false,
            Self::Preemptions
            | Self::Queries
            | Self::Hits
            | Self::PromptTokens
            | Self::GenerationTokens
            | Self::Finished
            | Self::Drafts
            | Self::DraftTokens
            | Self::AcceptedTokens => true,
        }
    }

    /// Returns true if it is a share between 0 and 1.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::KvUse | Self::HitRate | Self::AcceptedShare)
    }
}

/// Meaning of a source's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceKind {
    Value(Signal),
    /// Used blocks, the numerator of the share of the KV cache in use.
    Used,
    /// All blocks, the denominator of that share.
    All,
    /// Lookups that the prefix cache missed; the queries are these plus the hits.
    Missed,
    Histogram(Latency),
}

/// How samples with different labels are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregation {
    /// Sum over engines and replicas. Ranks that work on the same requests count once.
    Sum,
    /// Largest value: for shares, and for what every model of an ensemble counts by itself.
    Max,
}

/// A metric with all names it has had; the first one on the page counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) what: SourceKind,
    pub(super) how: Aggregation,
    /// Names without the engine's prefix and `_total`.
    pub(super) names: &'static [&'static str],
    /// Label that a sample must have.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// Label that a sample must not have.
    pub(super) except: Option<(&'static str, &'static str)>,
}

const fn value(signal: Signal, names: &'static [&'static str]) -> Source {
    let how = if signal.is_share() { Aggregation::Max } else { Aggregation::Sum };
    Source { what: SourceKind::Value(signal), how, names, only: None, except: None }
}

const fn histogram(span: Latency, names: &'static [&'static str]) -> Source {
    Source { what: SourceKind::Histogram(span), how: Aggregation::Sum, names, only: None, except: None }
}

const fn part(what: SourceKind, names: &'static [&'static str]) -> Source {
    Source { what, how: Aggregation::Sum, names, only: None, except: None }
}

impl Source {
    const fn with(self, label: &'static str, value: &'static str) -> Self {
        Self { only: Some((label, value)), ..self }
    }

    const fn without(self, label: &'static str, value: &'static str) -> Self {
        Self { except: Some((label, value)), ..self }
    }

    const fn max(self) -> Self {
        Self { how: Aggregation::Max, ..self }
    }

    /// Returns the index of the metric's name among those that it has had; `None` for other metrics, and for samples without the
    /// labels that count.
    pub(super) fn rank(&self, base: &str, labels: &str) -> Option<usize> {
        let rank = self.names.iter().position(|n| *n == base)?;
        let is = |(key, value)| label(labels, key) == Some(value);
        (self.only.is_none_or(is) && !self.except.is_some_and(is)).then_some(rank)
    }
}

/// Versions up to 0.8 have `gpu_` in front of the caches; versions up to 0.10 report a time per output token instead of the gaps.
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
    value(Signal::Drafts, &["spec_decode_num_drafts"]),
    value(Signal::DraftTokens, &["spec_decode_num_draft_tokens"]),
    value(Signal::AcceptedTokens, &["spec_decode_num_accepted_tokens"]),
    histogram(Latency::Ttft, &["time_to_first_token_seconds"]),
    histogram(Latency::Queue, &["request_queue_time_seconds"]),
    histogram(Latency::Prefill, &["request_prefill_time_seconds"]),
    histogram(Latency::Decode, &["request_decode_time_seconds"]),
    histogram(Latency::Itl, &["inter_token_latency_seconds", "time_per_output_token_seconds"]),
    histogram(Latency::E2e, &["e2e_request_latency_seconds"]),
    histogram(Latency::Tpot, &["request_time_per_output_token_seconds"]),
];

/// The gauge `num_retracted_reqs` covers the last batch only, so only the newer counter is read. Speculative decoding has gauges
/// alone, of each data-parallel rank; the length includes the token that the model writes itself.
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
    value(Signal::AcceptedLength, &["spec_accept_length"]).max(),
    value(Signal::AcceptedShare, &["spec_accept_rate"]),
    histogram(Latency::Ttft, &["time_to_first_token_seconds"]),
    histogram(Latency::Queue, &["queue_time_seconds"]),
    histogram(Latency::Itl, &["inter_token_latency_seconds", "time_per_output_token_seconds"]),
    histogram(Latency::E2e, &["e2e_request_latency_seconds"]),
];

/// TGI's time per token is a mean per request, first token included, and no gap between tokens, so it is left out.
const TGI: &[Source] = &[
    value(Signal::Running, &["batch_current_size"]),
    value(Signal::Waiting, &["queue_size"]),
    value(Signal::PromptTokens, &["request_input_length_sum"]),
    value(Signal::GenerationTokens, &["request_generated_tokens_sum"]),
    value(Signal::Finished, &["request_success"]),
    histogram(Latency::Queue, &["request_queue_duration"]),
    histogram(Latency::E2e, &["request_duration"]),
];

/// `prompt_tokens` counts computed tokens, without those from the cache.
const LLAMACPP: &[Source] = &[
    value(Signal::Running, &["requests_processing"]),
    value(Signal::Waiting, &["requests_deferred"]),
    value(Signal::KvUse, &["kv_cache_usage_ratio"]),
    part(SourceKind::Missed, &["prompt_tokens"]),
    value(Signal::Hits, &["prompt_tokens_cached"]),
    value(Signal::GenerationTokens, &["tokens_predicted"]),
];

/// From `/prometheus/metrics`; TensorRT-LLM's `/metrics` is JSON. The cache counts blocks.
const TENSORRT_LLM: &[Source] = &[
    value(Signal::Running, &["num_requests_running"]),
    value(Signal::Waiting, &["num_requests_waiting"]),
    value(Signal::KvUse, &["kv_cache_utilization"]),
    value(Signal::HitRate, &["kv_cache_hit_rate"]),
    part(SourceKind::Missed, &["kv_cache_missed_blocks"]),
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
    part(SourceKind::Used, &["trt_llm_kv_cache_block_metrics"]).with("kv_cache_block_type", "used").max(),
    part(SourceKind::All, &["trt_llm_kv_cache_block_metrics"]).with("kv_cache_block_type", "max").max(),
    value(Signal::Finished, &["inference_request_success"]).max(),
];
