//! Caveats on the sweep as a whole: how it ended, was resumed, or left files incomplete.

use super::Scope;
use super::number::number;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A caveat on how the sweep ended, was resumed, or left its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SweepCaveat {
    /// The budget ended the sweep.
    BudgetSpent {
        /// The level that would have come next.
        #[serde(deserialize_with = "number")]
        next: f64,
    },
    /// The sweep was interrupted.
    Interrupted,
    /// The sweep reached its deadline before its search was done.
    Deadline {
        /// Seconds from the start to the deadline.
        #[serde(deserialize_with = "number")]
        deadline_s: f64,
        /// The plan names the deadline; else it was computed from the longest that the plan can take.
        named: bool,
    },
    /// The disk of the run folder was nearly full before the search was done.
    DiskLow {
        /// Bytes that were free.
        free: u64,
        /// Bytes that are kept free for the reports.
        reserve: u64,
    },
    /// The sweep ended early and was resumed later.
    Resumed {
        /// Number of times.
        times: u32,
        /// Time of the last resumption (RFC 3339).
        at: String,
        /// The first step measured after it.
        step: u32,
    },
    /// The sweep was resumed although its plan had changed.
    PlanChanged {
        /// The changed keys.
        differences: Vec<PlanDifference>,
    },
    /// An attempt at a step was aborted; its requests stand in a file of their own.
    BrokenOff {
        /// The step, which is measured again.
        step: u32,
        /// Requests on disk.
        requests: u64,
    },
    /// A step has requests on disk but never finished.
    PartialStep {
        /// The step.
        step: u32,
        /// Requests on disk.
        requests: u64,
    },
    /// The last row of a file was torn and dropped.
    TornRow {
        /// Name of the file.
        file: String,
    },
}

/// One key of a plan that was changed before a sweep was resumed. Its text is `seed was 1 and is 2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanDifference {
    /// A key with other values.
    Key {
        /// Dotted key.
        key: String,
        /// Value before, as JSON; `None` if the key was not there.
        was: Option<String>,
        /// Value now, as JSON; `None` if the key is not there.
        is: Option<String>,
    },
    /// The text of a change, from a folder of an earlier version.
    #[serde(untagged)]
    Text(String),
}

impl fmt::Display for PlanDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key, was, is } => {
                let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "not there".into());
                write!(f, "{key} was {} and is {}", shown(was), shown(is))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl SweepCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::BudgetSpent { .. } | Self::Interrupted | Self::Deadline { .. } | Self::DiskLow { .. } => {
                Scope::RUN.weakening().until_resumed()
            }
            Self::PlanChanged { .. } => Scope::RUN.weakening(),
            Self::PartialStep { step, .. } => Scope::step(*step).weakening(),
            Self::BrokenOff { step, .. } => Scope::step(*step),
            Self::Resumed { .. } | Self::TornRow { .. } => Scope::RUN,
        }
    }

    /// Returns true if the sweep was ended from outside before its search was done.
    pub const fn ends_sweep(&self) -> bool {
        match self {
            Self::Interrupted | Self::Deadline { .. } | Self::DiskLow { .. } => true,
            Self::BudgetSpent { .. }
            | Self::Resumed { .. }
            | Self::PlanChanged { .. }
            | Self::BrokenOff { .. }
            | Self::PartialStep { .. }
            | Self::TornRow { .. } => false,
        }
    }
}
