//! What the server's own counters say of a step.

use serde::Serialize;

/// One of the server's own latency histograms over the measured window, in milliseconds.
///
/// The mean is exact (the histogram carries sum and count); percentiles are read off its buckets, linear within the bucket, so
/// they are as coarse as the buckets are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServerLatency {
    /// Observations within the window.
    pub n: f64,
    /// Their mean.
    pub mean_ms: f64,
    /// Median; `None` where the page has no buckets.
    pub p50_ms: Option<f64>,
    /// 99th percentile; `None` also where it lies in the bucket without an upper end.
    pub p99_ms: Option<f64>,
}

/// The server's own counters over the measured window, summed over its engines and all of the plan's servers; `None` where it
/// does not tell. Gauges are sampled; counters are differences between the readings nearest to both ends of the window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ServerSide {
    /// Seconds between the two readings that counters are differences of.
    pub seconds: Option<f64>,
    /// Mean of requests being worked on.
    pub running_mean: Option<f64>,
    /// Most requests being worked on.
    pub running_max: Option<f64>,
    /// Mean of requests waiting.
    pub waiting_mean: Option<f64>,
    /// Most requests waiting.
    pub waiting_max: Option<f64>,
    /// Mean share of the KV cache in use, of the fullest engine.
    pub kv_mean: Option<f64>,
    /// Largest share of the KV cache in use.
    pub kv_max: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// Requests that it finished.
    pub finished: Option<f64>,
    /// Prompt tokens that it counted, those from the cache included.
    pub prompt_tokens: Option<f64>,
    /// Output tokens that it counted.
    pub generation_tokens: Option<f64>,
    /// Share of prompt tokens taken from the prefix cache.
    pub hit_rate: Option<f64>,
    /// Arrival at the server to first token, its queue included.
    pub ttft: Option<ServerLatency>,
    /// Waiting for a place in the batch.
    pub queue: Option<ServerLatency>,
    /// From the first iteration to the first token.
    pub prefill: Option<ServerLatency>,
    /// From the first to the last token.
    pub decode: Option<ServerLatency>,
    /// Between two tokens.
    pub itl: Option<ServerLatency>,
    /// Whole requests.
    pub e2e: Option<ServerLatency>,
    /// A counter went back: the server was started anew within the step.
    pub restarted: bool,
}
