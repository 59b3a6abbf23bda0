//! `histograms.csv`: one row per step, class, metric and bucket.

use super::TableRow;
use crate::rundir::HISTOGRAMS;
use serde::{Deserialize, Serialize};

/// The columns of `histograms.csv`, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct HistogramColumns {
    /// Name of the series.
    pub(crate) series: String,
    /// Number of the step.
    pub(crate) step: u32,
    /// Class of requests; `all` if there is only one.
    pub(crate) class: String,
    /// Name of the latency: `itl`.
    pub(crate) metric: String,
    /// Lower end of the bucket, in microseconds.
    pub(crate) low_us: u64,
    /// Upper end of the bucket, in microseconds.
    pub(crate) high_us: u64,
    /// Number of values in the bucket.
    pub(crate) count: u64,
}

impl TableRow for HistogramColumns {
    const FILE: &'static str = HISTOGRAMS;
}
