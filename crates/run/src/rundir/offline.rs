//! Results of `goodput latency` and `goodput throughput`: closed-loop levels or a burst. Neither is a capacity.

use super::Run;
use goodput_core::named_enum;
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_stats::stats::step::{Quantiles, SomeColumns, Step, StepKind, by_column};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures at one number of requests in flight, or of one burst. Latencies in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LevelFigures {
    /// Number of the step.
    pub step: u32,
    /// Requests in flight; for a burst, the number of requests sent at once.
    pub in_flight: f64,
    /// Requests measured.
    pub requests: u64,
    /// Failed requests.
    pub failed: u64,
    /// Measured seconds; for a burst, from its start to its last answer.
    pub seconds: f64,
    /// Requests completed per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: f64,
    /// Output and prompt tokens per second together.
    pub total_tokens_per_s: f64,
    /// Output tokens per second of a single request: mean answer length divided by median e2e.
    pub tokens_per_s_of_a_request: Option<f64>,
    /// Percentiles of the metrics that are shown without an SLO; for a burst, e2e is the completion time of its requests.
    #[serde(flatten, serialize_with = "by_column")]
    #[schemars(with = "SomeColumns")]
    pub latency: BTreeMap<Metric, Quantiles>,
    /// Requests and output tokens per second and GPU, if the plan declares the number of GPUs.
    pub per_gpu: Option<[f64; 2]>,
}

impl LevelFigures {
    /// Returns the percentiles of a metric; empty if nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }
}

/// Returns the metrics that are shown without an SLO.
pub fn shown() -> impl Iterator<Item = Metric> {
    Metric::ALL.into_iter().filter(|m| m.is_always_shown())
}

/// Returns the figures of all levels, ascending by requests in flight.
pub fn levels(run: &Run) -> Vec<LevelFigures> {
    let gpus = run.meta.gpus.filter(|n| *n > 0).map(f64::from);
    let figures = |s: &Step| {
        let e2e = s.quantiles(Metric::E2e);
        LevelFigures {
            step: s.step,
            in_flight: s.level.value,
            requests: s.due_n,
            failed: s.failed,
            seconds: s.measure_s,
            requests_per_s: s.achieved_rate,
            output_tokens_per_s: s.output_tokens_per_s,
            prompt_tokens_per_s: s.prompt_tokens_per_s,
            total_tokens_per_s: s.output_tokens_per_s + s.prompt_tokens_per_s,
            tokens_per_s_of_a_request: s.output_tokens_mean.zip(e2e.p50).map(|(n, ms)| 1e3 * n / ms),
            latency: shown().map(|m| (m, s.quantiles(m))).collect(),
            per_gpu: gpus.map(|n| [s.achieved_rate / n, s.output_tokens_per_s / n]),
        }
    };
    let mut all: Vec<LevelFigures> =
        run.steps.iter().filter(|s| s.kind != StepKind::Baseline).map(figures).collect();
    all.sort_by(|a, b| a.in_flight.total_cmp(&b.in_flight).then(a.step.cmp(&b.step)));
    all
}

/// Returns true if all requests were sent at once.
pub fn is_burst(run: &Run) -> bool {
    run.steps.iter().any(|s| s.kind == StepKind::Burst)
}

/// Returns the level with the most output tokens per second, or the most requests if tokens are unknown.
pub fn most(levels: &[LevelFigures]) -> Option<&LevelFigures> {
    let key = |l: &LevelFigures| (l.output_tokens_per_s, l.requests_per_s);
    levels.iter().max_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

named_enum! {
    /// How the requests of such a run were sent.
    pub enum Sending {
        /// A constant number of requests in flight, at one level after another.
        ClosedLoop = "closed-loop",
        /// All requests at once.
        AllAtOnce = "all-at-once",
    }
}

/// The section of `result.json` for such a run.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Offline {
    /// How the requests were sent.
    pub how: Sending,
    /// The level with the most output tokens per second; null for `goodput latency`.
    pub most: Option<LevelFigures>,
    /// All levels, ascending by requests in flight.
    pub levels: Vec<LevelFigures>,
}

/// Returns the section of `result.json` for such a run; `None` for other purposes.
pub(super) fn of(run: &Run) -> Option<Offline> {
    if matches!(run.purpose, Purpose::Goodput | Purpose::Sensitivity) {
        return None;
    }
    let levels = levels(run);
    Some(Offline {
        how: if is_burst(run) { Sending::AllAtOnce } else { Sending::ClosedLoop },
        most: most(&levels).filter(|_| run.purpose == Purpose::Throughput).cloned(),
        levels,
    })
}
