//! `groups.csv`: one row per step and class of a mix, or per step and turn of conversations.

use super::latency::{GroupMetrics, InflationColumns, LatencyColumns, OnlyItl};
use super::{StepKey, TableRow};
use crate::rundir::GROUPS;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::Step;
use serde::{Deserialize, Serialize};

/// The columns of `groups.csv`, in order; for their meaning see the fields of [`Group`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupColumns {
    series: String,
    step: u32,
    by: GroupBy,
    name: String,
    n: u64,
    failed: u64,
    cut: u64,
    #[serde(flatten)]
    latency: LatencyColumns<GroupMetrics>,
    input_tokens_mean: Option<f64>,
    output_tokens_mean: Option<f64>,
    achieved_rate: f64,
    #[serde(flatten)]
    itl: LatencyColumns<OnlyItl>,
    #[serde(flatten)]
    inflation: InflationColumns<GroupMetrics>,
    #[serde(flatten)]
    itl_inflation: InflationColumns<OnlyItl>,
    /// 0 if timeouts were not distinguished from other failures.
    #[serde(default)]
    failed_timeout: u64,
}

impl TableRow for GroupColumns {
    const FILE: &'static str = GROUPS;
}

impl GroupColumns {
    pub(crate) fn new(step: &Step, group: &Group) -> Self {
        Self {
            series: step.series.clone(),
            step: step.step,
            by: group.by,
            name: group.name.clone(),
            n: group.n,
            failed: group.failed,
            cut: group.cut,
            latency: LatencyColumns::of(&group.latency),
            input_tokens_mean: group.input_tokens_mean,
            output_tokens_mean: group.output_tokens_mean,
            achieved_rate: group.achieved_rate,
            itl: LatencyColumns::of(&group.latency),
            inflation: InflationColumns::of(&group.latency),
            itl_inflation: InflationColumns::of(&group.latency),
            failed_timeout: group.failed_timeout,
        }
    }

    /// Returns the step of the row, and the group.
    pub(crate) fn into_group(self) -> (StepKey, Group) {
        let mut latency = self.latency.with(&self.inflation);
        latency.extend(self.itl.with(&self.itl_inflation));
        let group = Group {
            by: self.by,
            name: self.name,
            n: self.n,
            failed: self.failed,
            cut: self.cut,
            failed_timeout: self.failed_timeout,
            latency,
            input_tokens_mean: self.input_tokens_mean,
            output_tokens_mean: self.output_tokens_mean,
            achieved_rate: self.achieved_rate,
        };
        ((self.series, self.step), group)
    }
}
