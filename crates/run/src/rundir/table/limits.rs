//! `limits.csv`: one row per step, tier, class and limit.

use super::co_misses::CoMissCell;
use super::{StepKey, TableRow};
use crate::rundir::LIMITS;
use goodput_stats::stats::step::{LimitRow, Step, Verdict};
use serde::{Deserialize, Serialize};

/// The columns of `limits.csv`, in order; for their meaning see the fields of [`LimitRow`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LimitColumns {
    series: String,
    step: u32,
    tier: String,
    class: String,
    limit: String,
    limit_ms: Option<f64>,
    n: u64,
    misses: u64,
    censored: u64,
    clusters: u64,
    cluster_sq: u64,
    attainment: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    verdict: Verdict,
    /// Empty if co-misses were not counted.
    #[serde(default)]
    co_misses: CoMissCell,
}

impl TableRow for LimitColumns {
    const FILE: &'static str = LIMITS;
}

impl LimitColumns {
    pub(crate) fn new(step: &Step, row: &LimitRow) -> Self {
        Self {
            series: step.series.clone(),
            step: step.step,
            tier: row.tier.clone(),
            class: row.class.clone(),
            limit: row.limit.clone(),
            limit_ms: row.limit_ms,
            n: row.n,
            misses: row.misses,
            censored: row.censored,
            clusters: row.clusters,
            cluster_sq: row.cluster_sq,
            attainment: row.attainment,
            low: row.low,
            high: row.high,
            verdict: row.verdict,
            co_misses: CoMissCell(row.co_misses.clone()),
        }
    }

    /// Returns the step of the row, and the counts.
    pub(crate) fn into_limit(self) -> (StepKey, LimitRow) {
        let row = LimitRow {
            tier: self.tier,
            class: self.class,
            limit: self.limit,
            limit_ms: self.limit_ms,
            n: self.n,
            misses: self.misses,
            censored: self.censored,
            clusters: self.clusters,
            cluster_sq: self.cluster_sq,
            co_misses: self.co_misses.0,
            attainment: self.attainment,
            low: self.low,
            high: self.high,
            verdict: self.verdict,
        };
        ((self.series, self.step), row)
    }
}
