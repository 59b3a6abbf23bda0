//! Counts and verdict of one limit in one step.

use super::Verdict;
use crate::stats::co_misses::CoMisses;
use goodput_core::slo::{Metric, limit_key, split_limit_key};
use serde::Serialize;

/// Counts and verdict of one limit in one step: a row of `limits.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LimitRow {
    /// Tier of the SLO.
    pub tier: String,
    /// Class of requests; `all` if the workload has only one.
    pub class: String,
    /// Name of the limit: `ttft.p99`, `error-rate`, `joint`, `stability`.
    pub limit: String,
    /// The limit in milliseconds; `None` unless it is a latency.
    pub limit_ms: Option<f64>,
    /// Number of requests (gaps, for ITL) judged.
    pub n: u64,
    /// Number of misses among them.
    pub misses: u64,
    /// Number of requests cut off before they could be judged.
    pub censored: u64,
    /// Number of clusters of misses: misses that are close together in order of `due`.
    pub clusters: u64,
    /// Sum of the squared cluster sizes, or the scatter of misses over batches of the step if that is larger
    /// ([`crate::stats::cluster::scatter`]).
    pub cluster_sq: u64,
    /// How the misses coincide with those of each latency and error limit before this one in its tier; empty for other limits,
    /// and in folders of earlier versions.
    pub co_misses: Vec<CoMisses>,
    /// Share that met the limit, without the censored ones.
    pub attainment: Option<f64>,
    /// Lower bound of the true attainment, at the verdict's confidence.
    pub low: Option<f64>,
    /// Upper bound of the true attainment, at the verdict's confidence.
    pub high: Option<f64>,
    /// Verdict of these counts.
    pub verdict: Verdict,
}

impl LimitRow {
    /// Returns the name that identifies the row within its tier: `ttft.p99`, or `short/ttft.p99` for a limit of the class
    /// `short`.
    pub fn key(&self) -> String {
        limit_key(&self.class, &self.limit)
    }

    /// Returns true if the row has this key.
    pub fn is(&self, key: &str) -> bool {
        split_limit_key(key) == (&self.class, &self.limit)
    }

    /// Returns how many of the counted values belong to one of `due_n` requests: for ITL the gaps per request, since they stall
    /// together; 1 for a limit on requests.
    pub fn per_request(&self, due_n: u64) -> f64 {
        if Metric::of_limit(&self.limit).is_some_and(|m| !m.is_per_request()) {
            (self.n as f64 / due_n.max(1) as f64).max(1.0)
        } else {
            1.0
        }
    }
}
