//! Results of one of several servers in one step.

use super::{Quantiles, SomeColumns};
use goodput_core::named_enum;
use goodput_core::slo::Metric;
use serde::Serialize;
use std::collections::BTreeMap;

text_by_name!(OutlierMetric);

named_enum! {
    /// The metric in which one replica is much worse than the rest.
    #[derive(Hash, PartialOrd, Ord)]
    #[serde(try_from = "String")]
    pub enum OutlierMetric {
        /// Higher TTFT.
        Ttft = "ttft",
        /// Higher TPOT.
        Tpot = "tpot",
        /// A larger share of failed requests.
        Failures = "failures",
    }
}

/// Results of one of several servers of a service in one step, latencies in milliseconds: a row of `replicas.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Replica {
    /// Index of the server in `urls`, from 0.
    pub target: u16,
    /// URL of the server, without secrets.
    pub url: String,
    /// Measured requests dealt to it, without those that the client could not send.
    pub n: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Number of requests that were cut off.
    pub cut: u64,
    /// Percentiles by metric: TTFT, TPOT and e2e.
    #[serde(flatten, serialize_with = "by_column")]
    #[schemars(with = "SomeColumns")]
    pub latency: BTreeMap<Metric, Quantiles>,
    /// The metric in which this replica is much worse than the others; `None` if it is not.
    #[serde(rename = "apart")]
    pub outlier: Option<OutlierMetric>,
    /// Value of that metric for the other replicas: milliseconds, or the share of failed requests.
    pub others: Option<f64>,
}

impl OutlierMetric {
    /// Returns the name shown to users.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::Failures => "failures",
        }
    }
}

impl Replica {
    /// Returns the percentiles of a metric; empty if nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }

    /// Returns the share of its requests that failed.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / self.n.max(1) as f64
    }
}

/// Serialises the percentiles of each metric under its name with the unit, as everywhere in `result.json`.
pub fn by_column<S: serde::Serializer>(of: &BTreeMap<Metric, Quantiles>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(of.iter().map(|(metric, q)| (format!("{}_ms", metric.name()), q)))
}
