//! The simulated server's metrics at `/metrics`, under vLLM's names.

use goodput_engine::{KvCache, PrefixCounts};
use std::{fmt::Write, time::Duration};

/// Counters of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counters {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) kv_cache_usage: f64,
    pub(super) preemptions: u64,
    pub(super) prefix: PrefixCounts,
    /// Prompt tokens of requests that have sent their first token.
    pub(super) prompt_tokens: u64,
    pub(super) generation_tokens: u64,
    /// Requests answered in full.
    pub(super) finished: u64,
    /// Requests whose client disconnected.
    pub(super) aborted: u64,
    /// Time from arrival to first token.
    pub(super) ttft: Histogram,
    /// Time between tokens.
    pub(super) itl: Histogram,
    /// Time from arrival to last token. This and the next three count requests answered in full.
    pub(super) e2e: Histogram,
    /// Time from arrival to first iteration.
    pub(super) queue: Histogram,
    /// Time from first iteration to first token.
    pub(super) prefill: Histogram,
    /// Time from first to last token.
    pub(super) decode: Histogram,
    /// Time per output token after the first, of whole requests.
    pub(super) tpot: Histogram,
}

impl Counters {
    /// Makes the counters of a new server.
    pub(super) fn new() -> Self {
        Self {
            running: 0,
            waiting: 0,
            kv_cache_usage: 0.0,
            preemptions: 0,
            prefix: PrefixCounts::default(),
            prompt_tokens: 0,
            generation_tokens: 0,
            finished: 0,
            aborted: 0,
            ttft: Histogram::new(TTFT_BOUNDS),
            itl: Histogram::new(ITL_BOUNDS),
            e2e: Histogram::new(E2E_BOUNDS),
            queue: Histogram::new(E2E_BOUNDS),
            prefill: Histogram::new(E2E_BOUNDS),
            decode: Histogram::new(E2E_BOUNDS),
            tpot: Histogram::new(ITL_BOUNDS),
        }
    }
}

/// Upper bounds of vLLM's buckets, in seconds.
const TTFT_BOUNDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const ITL_BOUNDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const E2E_BOUNDS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

/// A histogram of latencies with fixed buckets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// Number of values by bucket; the last is for values beyond all bounds.
    counts: Vec<u64>,
    /// Exact sum, so that small values are not lost even over years.
    sum: Duration,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: Duration::ZERO }
    }

    /// Counts a value; one equal to a bound belongs to the bucket below it.
    pub(super) fn record(&mut self, value: Duration) {
        self.record_many(value, 1);
    }

    /// Counts a value `times` times.
    pub(super) fn record_many(&mut self, value: Duration, times: u32) {
        let seconds = value.as_secs_f64();
        self.counts[self.bounds.partition_point(|bound| *bound < seconds)] += u64::from(times);
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
    }
}

/// Formats the counters in Prometheus' text format.
pub(super) fn prometheus(c: &Counters, kv_cache: Option<KvCache>, model: &str) -> String {
    let model = model.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut out = Page { out: String::with_capacity(8192), model: &model };
    out.one(
        "num_requests_running",
        "gauge",
        "Number of requests in model execution batches.",
        c.running as f64,
    );
    out.one("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", c.waiting as f64);
    out.one("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", c.kv_cache_usage);
    let mut counter = |name, help, value: u64| out.one(name, "counter", help, value as f64);
    counter(
        "prefix_cache_queries_total",
        "Prefix cache queries, in terms of number of queried tokens.",
        c.prefix.queries,
    );
    counter(
        "prefix_cache_hits_total",
        "Prefix cache hits, in terms of number of cached tokens.",
        c.prefix.hits,
    );
    counter("num_preemptions_total", "Cumulative number of preemption from the engine.", c.preemptions);
    counter("prompt_tokens_total", "Number of prefill tokens processed.", c.prompt_tokens);
    counter("generation_tokens_total", "Number of generation tokens processed.", c.generation_tokens);
    let reasons = [
        ("finished_reason=\"stop\",", 0.0),
        ("finished_reason=\"length\",", c.finished as f64),
        ("finished_reason=\"abort\",", c.aborted as f64),
        ("finished_reason=\"error\",", 0.0),
        ("finished_reason=\"repetition\",", 0.0),
    ];
    out.head("request_success_total", "counter", "Count of successfully processed requests.");
    for (label, value) in reasons {
        out.value("request_success_total", label, value);
    }
    out.histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", &c.ttft);
    out.histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &c.itl);
    out.histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &c.e2e);
    out.histogram(
        "request_time_per_output_token_seconds",
        "Histogram of time_per_output_token_seconds per request.",
        &c.tpot,
    );
    for (name, phase, histogram) in [
        ("request_queue_time_seconds", "WAITING", &c.queue),
        ("request_prefill_time_seconds", "PREFILL", &c.prefill),
        ("request_decode_time_seconds", "DECODE", &c.decode),
    ] {
        out.histogram(name, &format!("Histogram of time spent in {phase} phase for request."), histogram);
    }
    if let Some(KvCache { block_size, blocks, prefix_cache }) = kv_cache {
        out.head("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig");
        let enabled = if prefix_cache { "True" } else { "False" };
        let _ = writeln!(
            out.out,
            "vllm:cache_config_info{{block_size=\"{block_size}\",enable_prefix_caching=\"{enabled}\",engine=\"0\",num_gpu_blocks=\"{blocks}\"}} 1.0"
        );
    }
    out.out
}

/// The text written so far.
struct Page<'a> {
    out: String,
    /// The model's name, escaped.
    model: &'a str,
}

impl Page<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}\n");
    }

    fn value(&mut self, name: &str, label: &str, value: f64) {
        // `{:?}` prints whole numbers with a decimal point, as vLLM does.
        let _ =
            writeln!(self.out, "vllm:{name}{{engine=\"0\",{label}model_name=\"{}\"}} {value:?}", self.model);
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.value(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}")).chain(["+Inf".into()]);
        let mut below = 0;
        for (bound, count) in bounds.zip(&histogram.counts) {
            below += count;
            self.value(&bucket, &format!("le=\"{bound}\","), below as f64);
        }
        self.value(&format!("{name}_count"), "", below as f64);
        self.value(&format!("{name}_sum"), "", histogram.sum.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_closed_above() {
        let mut counters = Counters::new();
        for ms in [1, 2, 60, 3_000_000] {
            counters.ttft.record(Duration::from_millis(ms));
        }
        let text = prometheus(&counters, None, "a \"b\"");
        for (le, n) in [("0.001", 1), ("0.005", 2), ("0.04", 2), ("0.06", 3), ("2560.0", 3), ("+Inf", 4)] {
            let line = format!(
                "vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"{le}\",model_name=\"a \\\"b\\\"\"}} {n}.0\n"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.contains("first_token_seconds_sum{engine=\"0\",model_name=\"a \\\"b\\\"\"} 3000.063\n"));
        assert!(!text.contains("cache_config_info"), "there is no cache");
    }
}
