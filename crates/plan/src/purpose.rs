//! What a plan asks for, besides its levels.

use super::Plan;
use goodput_stats::search::config::Mode;
use serde::{Deserialize, Serialize};

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// The highest load within the SLO.
    #[default]
    Goodput,
    /// How fast requests are at a few levels of a closed loop, with no limit to keep: `goodput latency`.
    Latency,
    /// The most that the server completes however long it takes: `goodput throughput`.
    Throughput,
    /// Pairs of steps with one property of the workload moved: `goodput sensitivity` writes such plans.
    Sensitivity,
}

impl Purpose {
    /// Whether it is the one that a plan need not name.
    pub fn is_goodput(&self) -> bool {
        *self == Self::Goodput
    }

    /// The name in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Sensitivity => "sensitivity",
        }
    }

    /// What is wrong with the levels of a plan that asks for this, if anything.
    pub(super) fn problem(self, plan: &Plan) -> Option<String> {
        if self == Self::Goodput {
            return None;
        }
        let name = self.name();
        if self == Self::Sensitivity {
            let listed = matches!(plan.search.mode, Mode::Rates(_));
            return (!listed).then(|| {
                format!("purpose = \"{name}\" is that of the plans that `goodput sensitivity` writes: leave it out")
            });
        }
        let fits = match (self, &plan.search.mode) {
            (_, Mode::Concurrency(_)) | (Self::Throughput, Mode::Ladder(_) | Mode::Burst(_)) => true,
            (_, _) => false,
        };
        if !fits {
            let or = if self == Self::Throughput { ", ladder or burst" } else { "" };
            return Some(format!(
                "purpose = \"{name}\" is measured in a closed loop: it needs [search] concurrency{or}"
            ));
        }
        if plan.search.peak.is_some() {
            return Some(format!(
                "[search] peak is measured beside a search for the goodput, and purpose = \"{name}\" has none"
            ));
        }
        let several = !plan.rows.is_empty() || !plan.variants.is_empty() || plan.grid.is_some();
        (several || plan.series().len() > 1).then(|| {
            format!("purpose = \"{name}\" takes one kind of load: no [[row]], no [[variant]], no [grid], no cache = \"pair\", no alone = true")
        })
    }
}
