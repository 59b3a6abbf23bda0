//! `metrics.csv`: one row per step and series of `[[metrics]]`.

use super::{StepKey, TableRow};
use crate::rundir::SUMMARIES;
use goodput_stats::stats::step::{MetricRow, Step};
use serde::{Deserialize, Serialize};

/// The columns of `metrics.csv`, in order; for their meaning see the fields of [`MetricRow`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MetricColumns {
    series: String,
    step: u32,
    source: String,
    name: String,
    #[serde(default)]
    labels: String,
    n: u64,
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    per_s: Option<f64>,
}

impl TableRow for MetricColumns {
    const FILE: &'static str = SUMMARIES;
}

impl MetricColumns {
    pub(crate) fn new(step: &Step, row: &MetricRow) -> Self {
        Self {
            series: step.series.clone(),
            step: step.step,
            source: row.source.clone(),
            name: row.name.clone(),
            labels: row.labels.clone(),
            n: row.n,
            min: row.min,
            mean: row.mean,
            max: row.max,
            per_s: row.per_s,
        }
    }

    /// Returns the step of the row, and the summary of the series.
    pub(crate) fn into_metric(self) -> (StepKey, MetricRow) {
        let Self { series, step, source, name, labels, n, min, mean, max, per_s } = self;
        ((series, step), MetricRow { source, name, labels, n, min, mean, max, per_s })
    }
}
