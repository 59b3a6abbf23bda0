//! The requests of the search to the director.

use crate::stats::step::StepKind;
use goodput_core::level::Level;
use std::time::Duration;

/// The next action in a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Measure a step.
    Measure(Ask),
    /// The series is done.
    Done,
}

/// One step to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Level of the step.
    pub level: Level,
    /// Purpose of the step.
    pub kind: StepKind,
    /// Duration of load before anything is counted.
    pub settle: Duration,
    /// The measured window, at its longest.
    pub measure: Duration,
    /// True if the window is extended when it has fewer than the plan's `min-requests`.
    pub extend: bool,
    /// Longest time for which load continues after the window until the measured requests have finished.
    pub tail: Duration,
    /// Longest wait after that for requests still open.
    pub drain: Duration,
    /// Condition under which the step may end early.
    pub ends: Ends,
    /// Confidence of the verdict, on each side.
    pub confidence: f64,
}

impl Ask {
    /// Returns the step with at least this settling period and window, capped at one hour each.
    #[must_use]
    pub fn lasting(self, (settle, measure): (Duration, Duration)) -> Self {
        let most = Duration::from_secs(3600);
        Self {
            settle: self.settle.max(settle.min(most)),
            measure: self.measure.max(measure.min(most)),
            ..self
        }
    }
}

/// The condition under which a step may end before its window is over. An early end never makes a step meet that would
/// not have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Never: the step runs its full time. It is extended when it has fewer than `min-requests`.
    AtItsTime,
    /// As soon as its misses are shown to be too many, by a statistic that is valid at any time it is looked at.
    WhenGross,
    /// As soon as its misses are shown to be too many *and* the server completes fewer requests than are due. The step
    /// is then beyond the knee, and continuing would only lengthen the queue.
    WhenBehind,
    /// As soon as it has so many misses that it lies far above the boundary. A step near the boundary is the most
    /// informative, and runs its full time even if it may fail.
    WhenFarOver,
}
