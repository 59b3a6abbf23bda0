//! The state that the sending threads of a step share, and the part of it that the director can read.

use goodput_core::record::{Finished, Phase};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Counters of a running step that the director can read.
#[derive(Debug, Default)]
pub struct Gauge {
    pub(super) in_flight: AtomicU64,
    pub(super) measured_open: AtomicU64,
    /// Threads whose next chain is due within the measured window.
    pub(super) to_come: AtomicU64,
    pub(super) client_limit: AtomicBool,
    /// Time after the start of the step at which the last thread was ready to send, in microseconds.
    start_late_us: AtomicU64,
    /// Notified when the last measured request has finished after the window.
    pub(super) quiet: Notify,
}

impl Gauge {
    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Returns the number of measured requests that have not finished.
    pub fn measured_open(&self) -> u64 {
        self.measured_open.load(Relaxed)
    }

    /// Returns true while a thread's next chain is due within the measured window.
    pub fn to_come(&self) -> bool {
        self.to_come.load(Acquire) > 0
    }

    /// Returns how long after the start of the step the last thread was ready to send.
    pub fn start_late(&self) -> Duration {
        Duration::from_micros(self.start_late_us.load(Relaxed))
    }

    /// Notes that a thread is ready to send, so long after the start of the step.
    pub(super) fn ready(&self, late: Duration) {
        self.start_late_us.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns true if `max-in-flight` was reached.
    pub fn client_limit(&self) -> bool {
        self.client_limit.load(Relaxed)
    }

    /// Sets the number of threads with chains due in the window.
    pub(super) fn begin(&self, threads: u64) {
        self.to_come.store(threads, Relaxed);
    }

    /// Counts a request as open that will be sent when it is due: the next turn of a conversation.
    pub(super) fn promise(&self, phase: Phase) {
        self.measured_open.fetch_add(u64::from(phase == Phase::Measure), Relaxed);
    }

    /// Adds a promised request to those in flight. Returns their number before it.
    pub(super) fn enter(&self) -> u64 {
        self.in_flight.fetch_add(1, Relaxed)
    }

    /// Removes a request from those in flight. Returns true if it was the last measured one.
    pub(super) fn leave(&self, phase: Phase) -> bool {
        self.in_flight.fetch_sub(1, Relaxed);
        phase == Phase::Measure && self.measured_open.fetch_sub(1, Relaxed) == 1
    }
}

/// The settings and shared state of one step's sending threads.
pub struct Job {
    /// Start of the step: all times of its records count from here.
    pub began: Instant,
    /// Start of the measured window.
    pub settle: Duration,
    /// Length of the measured window; the director may extend it.
    pub window: watch::Receiver<Duration>,
    /// Phase of every request, if it does not depend on the due time, as for warm-up requests.
    pub phase: Option<Phase>,
    /// Maximum time from `due` to the last byte.
    pub timeout: Duration,
    /// If true, a request that times out has failed: see [`crate::client::Shot::timeout_is_error`].
    pub timeout_is_error: bool,
    /// True for one of several parts of a step. The measured requests of the other parts are not seen here, so that
    /// load continues after the window until `stop`.
    pub is_partial: bool,
    /// Maximum number of requests in flight.
    pub max_in_flight: u32,
    /// The tightest ITL limit, against which `itl_over` counts.
    pub itl_limit: Option<Duration>,
    /// Number of choices that requests of each class ask for; one beyond the end.
    pub choices: Arc<[NonZeroU8]>,
    /// If true, the text of every answer is sent to the director.
    pub keep_text: bool,
    /// Channel for finished requests. It is bounded: a director that falls behind blocks the tasks of single requests,
    /// never the loop.
    pub results: mpsc::Sender<Finished>,
    /// Counters that the director can read.
    pub gauge: Arc<Gauge>,
    /// Stops the sending; requests in flight continue.
    pub stop: CancellationToken,
    /// Cancels the requests in flight.
    pub cut: CancellationToken,
}

impl Job {
    /// Returns the end of the measured window, as currently set by the director.
    pub(super) fn window_end(&self) -> Duration {
        self.settle + *self.window.borrow()
    }

    /// Returns the number of choices that requests of a class ask for.
    pub(super) fn choices_of(&self, class: u16) -> NonZeroU8 {
        self.choices.get(usize::from(class)).copied().unwrap_or(NonZeroU8::MIN)
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

    /// Returns true if a request due at `due` is no longer needed: after the measured window, load continues only until
    /// every measured request has finished, including those that a late thread has yet to send.
    pub(super) fn is_after_tail(&self, due: Duration) -> bool {
        // A thread registers its last measured request before it lowers `to_come` (release/acquire), so both counts are
        // zero only at the end.
        !self.is_partial
            && due >= self.window_end()
            && self.gauge.to_come.load(Acquire) == 0
            && self.gauge.measured_open() == 0
    }
}
