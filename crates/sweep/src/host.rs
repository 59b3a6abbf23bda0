//! The load of this machine's cores while a server on it is measured.

use goodput_load::launch::cores::Watch;
use goodput_plan::Plan;
use goodput_plan::server::Target;
use goodput_stats::stats::step::HostLoad;
use std::time::Duration;

/// A watch on the cores during a step, if the server runs on this machine and in real time.
#[derive(Debug, Default)]
pub(super) struct HostWatch {
    watch: Option<Watch>,
    /// True once the measured window has begun.
    measures: bool,
}

impl HostWatch {
    /// Starts the watch. `group` is the process group of a started server. Does nothing in simulated time or for a
    /// remote server.
    pub(super) fn watch(plan: &Plan, group: Option<u32>, virtual_time: bool) -> Self {
        let target = &plan.server.target;
        let known = matches!(target, Target::Simulated(_)) || !target.urls().is_empty();
        let watch = (!virtual_time && known).then(|| Watch::begin(target.urls(), group)).flatten();
        Self { watch, measures: false }
    }

    /// Samples the cores, and marks the beginning and the end of the measured window after they have passed.
    pub(super) fn look(&mut self, elapsed: Duration, settle: Duration, window_end: Duration) {
        let Some(watch) = &mut self.watch else { return };
        if elapsed >= settle && !self.measures {
            self.measures = true;
            watch.window_begins();
        }
        watch.look();
        if elapsed >= window_end {
            watch.window_ends();
        }
    }

    /// Returns the use of the cores in the measured window, or in the whole step if it ended before its window.
    pub(super) fn end(&mut self) -> Option<HostLoad> {
        self.watch.take()?.end()
    }
}
