//! Results of a calibration: how exact and how fast this machine's client is.

use serde::{Deserialize, Serialize};

/// Number of output tokens per answer, except when TTFT is compared.
pub const TOKENS: u32 = 32;
/// Number of output tokens per answer when tokens are streamed one by one.
pub const ERROR_TOKENS: u32 = 16;
/// Number of slots of the closed loop.
pub const SLOTS: u32 = 32;
/// Largest p99 lateness, in milliseconds, at which a rate counts as exact.
pub const EXACT_MS: f64 = 1.0;

/// Median and 99th percentile, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "CalibrationQuantiles")]
pub struct Quantiles {
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile, an order statistic.
    pub p99_ms: f64,
}

/// Results at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AtRate {
    /// Requests per second, Poisson arrivals.
    pub rate: f64,
    /// Number of measured requests.
    pub n: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Lateness (sent − due), or by how much TTFT from `due` exceeds the server's own.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// Throughput of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Closed {
    /// Number of slots.
    pub slots: u32,
    /// Requests per second.
    pub rate: f64,
    /// CPU time of this process per request, in milliseconds.
    pub cpu_ms: f64,
}

/// Number of streams open at once, and the limits of the process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Streams {
    /// Number of streams tried.
    pub tried: u64,
    /// Largest number of streams open at once, by the server's count.
    pub open: u64,
    /// Number of streams that failed.
    pub lost: u64,
    /// Resident memory of the process at that time, in MiB, if the system reports it.
    pub rss_mib: Option<f64>,
    /// Soft limit on open file descriptors; `None` if unlimited.
    pub descriptors: Option<u64>,
    /// Hard limit on open file descriptors, to which goodput raises the soft limit by itself.
    pub descriptors_hard: Option<u64>,
    /// Number of local ports for connections to one address, if the system reports it.
    pub ports: Option<u64>,
}

/// Limits of the client on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Calibration {
    /// Version of goodput.
    pub goodput_version: String,
    /// Operating system, architecture and cores, as in the meta of a run.
    pub host: String,
    /// Time of the calibration (RFC 3339).
    pub at: String,
    /// URL of the null server, unless it ran on this machine's own cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Number of sending threads.
    pub threads: u64,
    /// Lateness by rate.
    pub lateness: Vec<AtRate>,
    /// Error of TTFT against the server's own, by rate; empty if the server does not report it.
    pub ttft_error: Vec<AtRate>,
    /// Highest rate with a p99 lateness below [`EXACT_MS`], in requests per second, for answers of [`TOKENS`] tokens in one write.
    pub ceiling: f64,
    /// Highest such rate if each of [`ERROR_TOKENS`] tokens comes in a write of its own.
    pub ceiling_streamed: f64,
    /// Throughput of a closed loop.
    pub closed: Closed,
    /// Streams open at once; not measured with a server that is not goodput's own null server, since only that one holds streams
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
}

impl Calibration {
    /// Returns the highest rate at which answers of this many tokens, each in a write of its own, are expected to be timed exactly.
    ///
    /// A thread needs time for a request and for each token: 1 / rate = a + b·tokens, with a and b from the two ceilings (an answer
    /// in one write counts as a single token).
    pub fn ceiling_for(&self, tokens: f64) -> f64 {
        let (one, many) = (1.0 / self.ceiling.max(1e-9), 1.0 / self.ceiling_streamed.max(1e-9));
        let per_token = ((many - one) / f64::from(ERROR_TOKENS - 1)).max(0.0);
        1.0 / (one + per_token * (tokens - 1.0).max(0.0))
    }
}

/// Plausible calibration, for tests.
#[cfg(any(test, feature = "fixture"))]
pub fn example() -> Calibration {
    let quantiles = Quantiles { p50_ms: 0.05, p99_ms: 0.3 };
    let at = |rate| AtRate { rate, n: 600, failed: 0, quantiles };
    Calibration {
        goodput_version: "0.1.0".into(),
        host: "linux x86_64, 2 cores".into(),
        at: "2026-11-20T10:15:00Z".into(),
        url: None,
        threads: 2,
        lateness: [10.0, 100.0, 1_000.0, 10_000.0].map(at).to_vec(),
        ttft_error: [100.0, 400.0].map(at).to_vec(),
        ceiling: 12_000.0,
        ceiling_streamed: 3_000.0,
        closed: Closed { slots: SLOTS, rate: 29_000.0, cpu_ms: 0.05 },
        streams: Some(Streams {
            tried: 19_936,
            open: 19_936,
            lost: 0,
            rss_mib: Some(600.0),
            descriptors: Some(20_000),
            descriptors_hard: Some(20_000),
            ports: Some(28_232),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrations_round_trip() {
        let c = example();
        let text = serde_json::to_string(&c).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), c);
    }
}
