//! `histograms.csv`: a row per step, class, metric and bucket.

use super::TableRow;
use crate::rundir::HISTOGRAMS;
use serde::{Deserialize, Serialize};

/// The columns of `histograms.csv`, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct HistogramColumns {
    /// The series.
    pub(crate) series: String,
    /// The step.
    pub(crate) step: u32,
    /// The class of requests; `all` where there is only one.
    pub(crate) class: String,
    /// The name of the latency: `itl`.
    pub(crate) metric: String,
    /// The lower end of the bucket, in microseconds.
    pub(crate) low_us: u64,
    /// The upper end of the bucket, in microseconds.
    pub(crate) high_us: u64,
    /// Number of values in the bucket.
    pub(crate) count: u64,
}

impl TableRow for HistogramColumns {
    const FILE: &'static str = HISTOGRAMS;
}
