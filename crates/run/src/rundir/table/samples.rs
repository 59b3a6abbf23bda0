//! `server-metrics.csv`: one row per sample of the server's own counters and of the series of `[[metrics]]`.

use super::TableRow;
use crate::rundir::{METRICS, Sample};
use serde::{Deserialize, Serialize};

/// The columns of `server-metrics.csv`, in order; for their meaning see the fields of [`Sample`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct SampleColumns {
    series: String,
    step: u32,
    time_s: f64,
    name: String,
    value: f64,
    /// Empty in files of earlier versions, which sampled one server.
    #[serde(default)]
    source: String,
}

impl TableRow for SampleColumns {
    const FILE: &'static str = METRICS;
}

impl SampleColumns {
    pub(crate) fn new(series: &str, step: u32, sample: &Sample) -> Self {
        Self {
            series: series.to_owned(),
            step,
            time_s: sample.time_s,
            name: sample.name.clone(),
            value: sample.value,
            source: sample.source.clone(),
        }
    }
}
