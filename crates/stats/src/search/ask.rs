//! What the search asks the director for.

use crate::stats::step::StepKind;
use goodput_core::level::Level;
use std::time::Duration;

/// What to do next in a series.
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
    /// At this level.
    pub level: Level,
    /// For this purpose.
    pub kind: StepKind,
    /// Load before anything counts.
    pub settle: Duration,
    /// The measured window, as long as it may become.
    pub measure: Duration,
    /// Whether the window is extended where it is short of the plan's `min-requests`.
    pub extend: bool,
    /// How long the load may be kept on for measured requests.
    pub tail: Duration,
    /// How long requests that are still open then may take.
    pub drain: Duration,
    /// When the step may end before its time.
    pub ends: Ends,
    /// Confidence of its verdict, on each side.
    pub confidence: f64,
}

impl Ask {
    /// The same with a settling and a window of at least so long, up to the hour.
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

/// When a step may end before its window is over. None of these can make a step meet that would not have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Never: the step was asked for. It is extended where it is short of `min-requests`.
    AtItsTime,
    /// As soon as its misses are shown to be too many, by a value that may be looked at any time.
    WhenGross,
    /// As soon as its misses are shown to be too many *and* the server completes fewer requests than are due: it is beyond the knee, and
    /// more of it would only make the queue longer.
    WhenBehind,
    /// As soon as its misses are so many that it lies far above the boundary. One near the boundary tells most, and runs its time
    /// though it may fail.
    WhenFarOver,
}
