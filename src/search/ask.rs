//! What the search asks the director for.

use crate::level::Level;
use crate::stats::step::StepKind;
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

/// When a step may end before its window is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Never: the step was asked for. It is extended where it is short of `min-requests`.
    AtItsTime,
    /// As soon as its misses are gross.
    WhenGross,
    /// As soon as its misses are gross, or it is hopeless, or it is decided at one of so many looks, evenly spread over the
    /// window and the last of them at its end.
    WhenDecided {
        /// How many looks; they share the error of the verdict.
        looks: u32,
    },
}

impl Ends {
    /// How often a verdict may be taken of the step, its end included.
    pub const fn looks(self) -> u32 {
        match self {
            Self::AtItsTime | Self::WhenGross => 1,
            Self::WhenDecided { looks } => looks,
        }
    }
}
