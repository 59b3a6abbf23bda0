//! Results of a calibration: how exact and how fast this machine's client is.

use serde::{Deserialize, Serialize};

/// Tokens of an answer, unless it is TTFT that is compared.
pub const TOKENS: u32 = 32;
/// Tokens of an answer whose tokens come one by one.
pub const ERROR_TOKENS: u32 = 16;
/// Slots of the closed loop.
pub const SLOTS: u32 = 32;
/// p99 lateness at the highest rate.
pub const EXACT_MS: f64 = 1.0;

/// Median and 99th percentile, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile, an order statistic.
    pub p99_ms: f64,
}

/// What was seen at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AtRate {
    /// Requests per second, Poisson arrivals.
    pub rate: f64,
    /// Requests that were measured.
    pub n: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Lateness (sent − due), or what TTFT from `due` is more than the server's own.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// What a closed loop reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// Slots.
    pub slots: u32,
    /// Requests per second.
    pub rate: f64,
    /// CPU time of this process for a request, in milliseconds.
    pub cpu_ms: f64,
}

/// How many streams were open at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// Streams tried.
    pub tried: u64,
    /// Most that the server had at once, by its own count.
    pub open: u64,
    /// Streams that failed.
    pub lost: u64,
    /// The process's memory at that time, in MiB, where the system tells.
    pub rss_mib: Option<f64>,
    /// Files that the process may open; `None` for any number.
    pub descriptors: Option<u64>,
    /// The same if its owner raised the soft limit to the hard one, which goodput does by itself.
    pub descriptors_hard: Option<u64>,
    /// Ports of its own for connections to one address, where the system tells.
    pub ports: Option<u64>,
}

/// What this machine's client can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Version of goodput.
    pub goodput_version: String,
    /// Operating system, architecture and cores, as in the meta of a run.
    pub host: String,
    /// When (RFC 3339).
    pub at: String,
    /// The null server's URL where it is not on this machine's own cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Threads that sent.
    pub threads: u64,
    /// Lateness by rate.
    pub lateness: Vec<AtRate>,
    /// TTFT against the server's own, by rate; empty where the server does not tell.
    pub ttft_error: Vec<AtRate>,
    /// The highest rate whose p99 lateness is below [`EXACT_MS`], in requests per second of [`TOKENS`] tokens in one write.
    pub ceiling: f64,
    /// The same where each of [`ERROR_TOKENS`] tokens comes in a write of its own.
    pub ceiling_streamed: f64,
    /// What a closed loop reaches.
    pub closed: Closed,
    /// Streams open at once; not tried against a server of others, which holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
}

impl Calibration {
    /// The highest rate that is thought to be exact for answers of so many tokens, each in a write of its own.
    ///
    /// A thread needs time for a request and for each token: 1 / rate = a + b·tokens, with a and b from the two ceilings (an answer
    /// in one write counts as a single token).
    pub fn ceiling_for(&self, tokens: f64) -> f64 {
        let (one, many) = (1.0 / self.ceiling.max(1e-9), 1.0 / self.ceiling_streamed.max(1e-9));
        let per_token = ((many - one) / f64::from(ERROR_TOKENS - 1)).max(0.0);
        1.0 / (one + per_token * (tokens - 1.0).max(0.0))
    }
}

/// Figures as this machine might have them, for tests.
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
    fn figures_are_kept_as_they_are() {
        let c = example();
        let text = serde_json::to_string(&c).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), c);
    }
}
