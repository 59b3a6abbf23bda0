//! Facts from the server's counters and histograms.

use super::{Fact, Place};

/// A fact from the server's counters and histograms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerFact {
    /// Requests were preempted.
    Preempted {
        /// Number of preemptions.
        preemptions: f64,
        /// Requests finished.
        requests: f64,
        /// Preemptions per request.
        share: f64,
        /// The step.
        at: Place,
    },
    /// Use of the KV cache.
    KvUse {
        /// Largest share in use.
        most: f64,
        /// Mean share in use, if known.
        mean: Option<f64>,
        /// The step.
        at: Place,
    },
    /// Largest number of requests waiting in the server.
    WaitingMost {
        /// Number of requests.
        requests: f64,
        /// The step.
        at: Place,
    },
    /// Mean number of requests waiting in the server.
    WaitingMean {
        /// Number of requests.
        requests: f64,
        /// The step.
        at: Place,
    },
    /// Largest number of requests running.
    RunningMost {
        /// Number of requests.
        requests: f64,
    },
    /// Mean number of requests running, with the largest number that can run at a time.
    SeatsTaken {
        /// Requests running on average.
        running: f64,
        /// The largest number at a time.
        seats: f64,
        /// The step.
        at: Place,
    },
    /// The largest number of requests running, with the largest number that can run at a time.
    SeatsReached {
        /// Requests running at the most.
        running: f64,
        /// The largest number at a time.
        seats: f64,
        /// The step.
        at: Place,
    },
    /// Mean time in the server's queue, as part of its mean TTFT.
    Queue {
        /// Time in the queue.
        queue_ms: f64,
        /// TTFT by the server's clock.
        ttft_ms: f64,
        /// The step.
        at: Place,
    },
    /// Mean prefill by the server's clock, as part of its mean TTFT.
    Prefill {
        /// Time of the prefill.
        prefill_ms: f64,
        /// TTFT by the server's clock.
        ttft_ms: f64,
        /// The step.
        at: Place,
    },
}

impl From<ServerFact> for Fact {
    fn from(fact: ServerFact) -> Self {
        Self::Server(fact)
    }
}
