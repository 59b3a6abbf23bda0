//! The measurement of the workers' clocks before a step.

use goodput_cluster::clock::{Offset, RoundTrip};
use goodput_cluster::message::{Answer, Reply};
use goodput_cluster::step::Failure;
use goodput_cluster::worker::LEASE;
use std::time::Duration;

/// Round trips of an estimate. As many as the real leader makes would take long on a slow bus.
const ROUND_TRIPS: usize = 3;

/// The round trips so far.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    trips: Vec<Vec<RoundTrip>>,
    /// When a worker was heard of last.
    heard: Duration,
}

/// What follows from the end of a request.
pub(crate) enum Reading {
    /// The clock is to be asked for again.
    Again,
    /// The worker is lost.
    Failed,
    /// There is nothing more to ask this worker.
    Enough,
    /// Nor the others.
    All(Vec<Offset>),
}

impl Clocks {
    pub(crate) fn new(n: usize, now: Duration) -> Self {
        Self { trips: vec![Vec::new(); n], heard: now }
    }

    /// Adds the result of a request to a worker, which was sent at `asked`.
    pub(crate) fn add(
        &mut self,
        (worker, asked): (usize, Duration),
        now: Duration,
        result: Result<Answer, Failure>,
        returned: Option<Duration>,
    ) -> Reading {
        let is_returning = returned.is_some_and(|at| now < at + LEASE);
        let worker_ns = match result.map(|answer| answer.reply) {
            Ok(Reply::Clock { at_ns }) => at_ns,
            // The bus is away, or the worker is not yet back on it.
            Err(failure) if (failure == Failure::NoBus || is_returning) && now < self.heard + LEASE => {
                return Reading::Again;
            }
            Ok(_) | Err(_) => return Reading::Failed,
        };
        self.heard = now;
        let ns = |time: Duration| time.as_nanos() as u64;
        self.trips[worker].push(RoundTrip { asked_ns: ns(asked), answered_ns: ns(now), worker_ns });
        if self.trips[worker].len() < ROUND_TRIPS {
            return Reading::Again;
        }
        if self.trips.iter().any(|trips| trips.len() < ROUND_TRIPS) {
            return Reading::Enough;
        }
        Reading::All(self.trips.iter().map(|trips| Offset::estimate(trips).unwrap()).collect())
    }
}
