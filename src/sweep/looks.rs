//! When a running step is looked at, and what ends it early: the same on every clock.

use super::tally::StepTally;
use crate::level::Control;
use crate::search::{Ask, Ends};
use crate::stats::step::{Abort, StepKind};
use crate::stats::verdict::{GROSS_INFLATION, UNLOADED_INFLATION};
use std::time::Duration;

/// Looks for too many misses, evenly spread over the window.
const LOOKS: u32 = 16;

/// How often the director looks up from the records: progress, deadlines, early ends.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Requests of a step that failed by far are not waited for longer than this.
const DRAIN_AFTER_GROSS: Duration = Duration::from_secs(5);

/// How long the open requests of a step may go on after its last one was sent.
pub(crate) fn drain(ask: &Ask, abort: Option<Abort>) -> Duration {
    if matches!(abort, Some(Abort::Gross | Abort::Errors)) {
        ask.drain.min(DRAIN_AFTER_GROSS)
    } else {
        ask.drain
    }
}

/// The looks of one step that are still to come.
#[derive(Debug, Clone)]
pub(crate) struct Looks {
    ask: Ask,
    next: u32,
}

impl Looks {
    /// For a step that was asked for.
    pub(crate) fn new(ask: &Ask) -> Self {
        Self { ask: *ask, next: 1 }
    }

    /// The share of the window at which the next look is due. At its end there is none: the verdict is made there.
    pub(crate) fn due(&self) -> Option<f64> {
        (self.ask.ends != Ends::AtItsTime && self.next < LOOKS)
            .then(|| f64::from(self.next) / f64::from(LOOKS))
    }

    /// Takes the look that is due, if one is when `share` of the window is over: whether the step is to end for its misses.
    pub(crate) fn take(&mut self, share: f64, tally: &StepTally) -> bool {
        if self.due().is_none_or(|due| share < due * (1.0 - 1e-9)) {
            return false;
        }
        self.next += 1;
        match self.ask.ends {
            Ends::AtItsTime => false,
            Ends::WhenGross if self.ask.kind == StepKind::Baseline => tally.gross(UNLOADED_INFLATION),
            Ends::WhenGross => tally.gross(GROSS_INFLATION),
            Ends::WhenFarOver => {
                let level = self.ask.level;
                let planned = match level.control {
                    Control::Rate => level.value * self.ask.measure.as_secs_f64(),
                    // What a closed loop will come to shows as it goes.
                    _ => tally.measured() as f64 / share,
                };
                tally.far_over(planned)
            }
        }
    }
}
