//! The cores of this machine while a server is measured on it.

use goodput_load::launch::cores::Watch;
use goodput_plan::Plan;
use goodput_plan::server::Target;
use goodput_stats::stats::step::HostLoad;
use std::time::Duration;

/// Watches the cores during a step, where the server runs on this machine and in its time.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    watch: Option<Watch>,
    /// True once the measured window has begun.
    measures: bool,
}

impl Neighbours {
    /// Begins to watch. `group` is the process group of a server that was started; watches nothing in simulated time and for a server elsewhere.
    pub(super) fn watch(plan: &Plan, group: Option<u32>, virtual_time: bool) -> Self {
        let target = &plan.server.target;
        let known = matches!(target, Target::Simulated(_)) || !target.urls().is_empty();
        let watch = (!virtual_time && known).then(|| Watch::begin(target.urls(), group)).flatten();
        Self { watch, measures: false }
    }

    /// Looks at the cores, and takes note of the beginning and the end of the measured window once they have passed.
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

    /// Returns how the cores were used: in the measured window, or in all of a step that ended before it.
    pub(super) fn end(&mut self) -> Option<HostLoad> {
        self.watch.take()?.end()
    }
}
