//! The parts of a latency, with their names.

use goodput_run::rundir::matrix::Parts;

/// A part of a latency, in the order of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatencyComponent {
    Overhead,
    Prefill,
    Queue,
    Decode,
    Batching,
}

impl LatencyComponent {
    pub(crate) const ALL: [Self; 5] =
        [Self::Overhead, Self::Prefill, Self::Queue, Self::Decode, Self::Batching];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Overhead => "overhead",
            Self::Prefill => "reading the prompt",
            Self::Queue => "waiting",
            Self::Decode => "writing alone",
            Self::Batching => "slowed down by others",
        }
    }

    /// Returns its duration in milliseconds; 0 if it is unknown.
    pub(crate) fn duration_ms(self, p: &Parts) -> f64 {
        match self {
            Self::Overhead => p.overhead.unwrap_or(0.0),
            Self::Prefill => p.prefill,
            Self::Queue => p.queue,
            Self::Decode => p.decode,
            Self::Batching => p.batching,
        }
    }
}
