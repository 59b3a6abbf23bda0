//! The time that a sweep has spent.

use std::time::Duration;
use tokio::time::Instant;

/// The clock of a sweep. It stops between an interruption and the resumption, and while servers start and stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweepClock {
    /// Time spent before `since`.
    spent: Duration,
    since: Instant,
}

impl SweepClock {
    /// Starts the clock at `spent`.
    pub(super) fn at(spent: Duration) -> Self {
        Self { spent, since: Instant::now() }
    }

    /// Returns the time that the sweep has spent.
    pub(super) fn now(&self) -> Duration {
        self.spent + self.since.elapsed()
    }

    /// Sets the clock back to the time at which it was started last.
    pub(super) fn rewind(&mut self) {
        self.since = Instant::now();
    }
}
