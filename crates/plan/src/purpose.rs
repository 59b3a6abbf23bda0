//! The goal of a plan.

use super::Plan;
use goodput_core::named_enum;
use goodput_stats::search::config::Mode;

named_enum! {
    /// Goal of a measurement.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Purpose {
        /// Find the highest load within the SLO.
        #[default]
        Goodput = "goodput",
        /// Measure latency at a few levels of a closed loop, without an SLO, as `goodput latency` does.
        Latency = "latency",
        /// Measure peak throughput, ignoring latency, as `goodput throughput` does.
        Throughput = "throughput",
        /// Paired steps with one property of the workload changed; only for plans that `goodput sensitivity` writes.
        Sensitivity = "sensitivity",
    }
}

impl Purpose {
    /// Returns true for the default goal, which a plan may leave out.
    pub fn is_goodput(&self) -> bool {
        *self == Self::Goodput
    }

    /// Returns the first problem with the levels of a plan for this goal.
    pub(super) fn problem(self, plan: &Plan) -> Option<String> {
        if self == Self::Goodput {
            return None;
        }
        let name = self.name();
        if self == Self::Sensitivity {
            let listed = matches!(plan.search.mode, Mode::Rates(_));
            return (!listed).then(|| {
                format!(
                    "purpose = \"{name}\" is only for plans that `goodput sensitivity` writes: leave it out"
                )
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
                "[search] peak belongs to a search for the goodput, which purpose = \"{name}\" does not run: leave peak out"
            ));
        }
        let several = !plan.rows.is_empty() || !plan.variants.is_empty() || plan.grid.is_some();
        (several || plan.series().len() > 1).then(|| {
            format!(
                "purpose = \"{name}\" measures a single series: leave out [[row]], [[variant]], [grid], cache = \"pair\" and alone = true"
            )
        })
    }
}
