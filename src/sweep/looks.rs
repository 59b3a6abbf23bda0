//! When a running step is looked at, and what is decided there: the same on every clock.

use super::ended::StepSoFar;
use super::tally::StepTally;
use crate::search::{Ask, Ends};
use crate::stats::look::{Look, look};
use crate::stats::step::{Abort, StepKind};
use crate::stats::verdict::{GROSS_INFLATION, UNLOADED_INFLATION};
use std::time::Duration;

/// Looks for gross misses, in parts of the window, where nothing else is decided at a look.
const GROSS_LOOKS: u32 = 8;
/// Looks, for gross misses and hopeless steps, up to one at which a step may be decided.
const BETWEEN: u32 = 6;

/// How often the director looks up from the records: progress, deadlines, early ends.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Requests of a step that failed by far are not waited for longer than this.
const DRAIN_AFTER_GROSS: Duration = Duration::from_secs(5);

/// How long the open requests of a step may go on after its last one was sent.
pub(crate) fn drain(ask: &Ask, abort: Option<Abort>) -> Duration {
    if abort == Some(Abort::Gross) { ask.drain.min(DRAIN_AFTER_GROSS) } else { ask.drain }
}

/// What a look leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The step ends at once: its misses are gross.
    Gross,
    /// The window ends here: it is decided, or more of it would decide nothing.
    Enough,
    /// It goes on.
    GoOn,
}

/// The looks of one step that are still to come.
#[derive(Debug, Clone)]
pub(crate) struct Looks {
    ends: Ends,
    parts: u32,
    next: u32,
}

impl Looks {
    /// For a step that may end so.
    pub(crate) fn new(ends: Ends) -> Self {
        let parts = match ends {
            Ends::AtItsTime => 0,
            Ends::WhenGross => GROSS_LOOKS,
            Ends::WhenDecided { looks } => looks * BETWEEN,
        };
        Self { ends, parts, next: 1 }
    }

    /// The share of the window at which the next look is due.
    pub(crate) fn due(&self) -> Option<f64> {
        (self.next <= self.parts).then(|| f64::from(self.next) / f64::from(self.parts))
    }

    /// Whether a look is due when `share` of the window is over.
    pub(crate) fn is_due(&self, share: f64) -> bool {
        self.due().is_some_and(|due| share >= due * (1.0 - 1e-9))
    }

    /// Takes the look that is due, when `share` of the window is over.
    pub(crate) fn take(&mut self, share: f64, so_far: &StepSoFar<'_>, tally: &StepTally, open: u64) -> Found {
        let number = self.next;
        self.next += 1;
        let inflation = match so_far.ask.kind {
            StepKind::Baseline => UNLOADED_INFLATION,
            _ => GROSS_INFLATION,
        };
        if tally.gross(inflation) {
            return Found::Gross;
        }
        // The last look is the end of the window itself: the verdict is made there.
        if !matches!(self.ends, Ends::WhenDecided { .. }) || number == self.parts {
            return Found::GoOn;
        }
        // To give a step up costs no error, so that is asked more often than whether it is decided.
        let over = StepSoFar { window: so_far.window.mul_f64(share), ..so_far.clone() };
        match look(&over.input(tally, open), share) {
            Look::Futile => Found::Enough,
            Look::Decided if number.is_multiple_of(BETWEEN) => Found::Enough,
            Look::Decided | Look::GoOn => Found::GoOn,
        }
    }
}
