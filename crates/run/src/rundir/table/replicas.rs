//! `replicas.csv`: one row per step and replica, if the plan names several.

use super::latency::{InflationColumns, LatencyColumns, ReplicaMetrics};
use super::{StepKey, TableRow};
use crate::rundir::REPLICAS;
use goodput_stats::stats::step::{OutlierMetric, Replica, Step};
use serde::{Deserialize, Serialize};

/// The columns of `replicas.csv`, in order; for their meaning see the fields of [`Replica`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReplicaColumns {
    series: String,
    step: u32,
    target: u16,
    url: String,
    n: u64,
    failed: u64,
    cut: u64,
    #[serde(flatten)]
    latency: LatencyColumns<ReplicaMetrics>,
    apart: Option<OutlierMetric>,
    others: Option<f64>,
    #[serde(flatten)]
    inflation: InflationColumns<ReplicaMetrics>,
}

impl TableRow for ReplicaColumns {
    const FILE: &'static str = REPLICAS;
}

impl ReplicaColumns {
    pub(crate) fn new(step: &Step, replica: &Replica) -> Self {
        Self {
            series: step.series.clone(),
            step: step.step,
            target: replica.target,
            url: replica.url.clone(),
            n: replica.n,
            failed: replica.failed,
            cut: replica.cut,
            latency: LatencyColumns::of(&replica.latency),
            apart: replica.outlier,
            others: replica.others,
            inflation: InflationColumns::of(&replica.latency),
        }
    }

    /// Returns the step of the row, and the replica.
    pub(crate) fn into_replica(self) -> (StepKey, Replica) {
        let replica = Replica {
            target: self.target,
            url: self.url,
            n: self.n,
            failed: self.failed,
            cut: self.cut,
            latency: self.latency.with(&self.inflation),
            outlier: self.apart,
            others: self.others,
        };
        ((self.series, self.step), replica)
    }
}
