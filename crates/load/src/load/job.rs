//! What all threads that send a step's load have in common, and what the director sees of them.

use goodput_core::record::{Finished, Phase};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What the director may look at while a step runs.
#[derive(Debug, Default)]
pub struct Gauge {
    pub(super) in_flight: AtomicU64,
    pub(super) measured_open: AtomicU64,
    /// Threads whose next chain is due within the measured window.
    pub(super) to_come: AtomicU64,
    pub(super) client_limit: AtomicBool,
    /// Rung when the last measured request has finished after the window.
    pub(super) quiet: Notify,
}

impl Gauge {
    /// Requests in flight now.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Measured requests that have not finished.
    pub fn measured_open(&self) -> u64 {
        self.measured_open.load(Relaxed)
    }

    /// Whether `max-in-flight` was reached.
    pub fn client_limit(&self) -> bool {
        self.client_limit.load(Relaxed)
    }

    /// So many threads have chains that are due within the window.
    pub(super) fn begin(&self, threads: u64) {
        self.to_come.store(threads, Relaxed);
    }

    /// Counts a request as open that will be sent when it is due: the next turn of a conversation.
    pub(super) fn promise(&self, phase: Phase) {
        self.measured_open.fetch_add(u64::from(phase == Phase::Measure), Relaxed);
    }

    /// Counts a request in that was promised, and says how many there were before it.
    pub(super) fn enter(&self) -> u64 {
        self.in_flight.fetch_add(1, Relaxed)
    }

    /// Counts a request out, and says whether it was the last measured one.
    pub(super) fn leave(&self, phase: Phase) -> bool {
        self.in_flight.fetch_sub(1, Relaxed);
        phase == Phase::Measure && self.measured_open.fetch_sub(1, Relaxed) == 1
    }
}

/// What all threads that send one step's load have in common.
pub struct Job {
    /// Start of the step: all times of its records count from here.
    pub began: Instant,
    /// When the measured window begins.
    pub settle: Duration,
    /// Length of the measured window; the director may extend it.
    pub window: watch::Receiver<Duration>,
    /// Phase of every request where the step is none, as for warm-up requests.
    pub phase: Option<Phase>,
    /// Longest time from `due` to the last byte.
    pub timeout: Duration,
    /// Whether a request that the timeout ends has failed: see [`crate::client::Shot::timeout_is_error`].
    pub timeout_is_error: bool,
    /// True for one of several parts of a step. The measured requests of the other parts are not seen here, so that load continues after the
    /// window until `stop`.
    pub is_partial: bool,
    /// Most requests in flight.
    pub max_in_flight: u32,
    /// The tightest ITL limit, for `itl_over`.
    pub itl_limit: Option<Duration>,
    /// Whether the text of every answer is wanted at home.
    pub keep_text: bool,
    /// Where finished requests go. Bounded: a director that falls behind holds back the requests, never the loop.
    pub home: mpsc::Sender<Finished>,
    /// What the director may look at.
    pub gauge: Arc<Gauge>,
    /// Ends the sending; requests in flight go on.
    pub stop: CancellationToken,
    /// Cuts off the requests in flight.
    pub cut: CancellationToken,
}

impl Job {
    /// When the measured window ends, as the director has it now.
    pub(super) fn window_end(&self) -> Duration {
        self.settle + *self.window.borrow()
    }

    pub(super) fn phase_of(&self, due: Duration) -> Phase {
        self.phase.unwrap_or_else(|| {
            if due < self.settle {
                Phase::Settle
            } else if due < self.window_end() {
                Phase::Measure
            } else {
                Phase::Tail
            }
        })
    }

    /// Whether a request that is due at `due` would be sent for nobody's sake: beyond the window the load is kept on only for
    /// measured requests, those included that a late thread has not sent yet.
    pub(super) fn needless(&self, due: Duration) -> bool {
        // A thread counts its last measured request in before it says that none is to come, and is seen to.
        !self.is_partial
            && due >= self.window_end()
            && self.gauge.to_come.load(Acquire) == 0
            && self.gauge.measured_open() == 0
    }
}
