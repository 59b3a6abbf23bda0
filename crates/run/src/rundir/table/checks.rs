//! `checks.csv`: one row per step, class and check of the plan.

use super::{StepKey, TableRow};
use crate::rundir::CHECKS;
use goodput_stats::stats::step::{CheckRow, Step};
use serde::{Deserialize, Serialize};

/// The columns of `checks.csv`, in order; for their meaning see the fields of [`CheckRow`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckColumns {
    series: String,
    step: u32,
    class: String,
    check: String,
    n: u64,
    failed: u64,
    #[serde(default)]
    sample: String,
}

impl TableRow for CheckColumns {
    const FILE: &'static str = CHECKS;
}

impl CheckColumns {
    pub(crate) fn new(step: &Step, row: &CheckRow) -> Self {
        Self {
            series: step.series.clone(),
            step: step.step,
            class: row.class.clone(),
            check: row.check.clone(),
            n: row.n,
            failed: row.failed,
            sample: row.sample.clone(),
        }
    }

    /// Returns the step of the row, and the counts of the check.
    pub(crate) fn into_check(self) -> (StepKey, CheckRow) {
        let Self { series, step, class, check, n, failed, sample } = self;
        ((series, step), CheckRow { class, check, n, failed, sample })
    }
}
