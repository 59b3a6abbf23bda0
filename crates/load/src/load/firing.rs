//! A load that is being fired: its finished requests, its state, and the means to stop it.

use super::finished::FinishedRequests;
use super::host::Sending;
use super::job::Gauge;
use super::lag::{OwnDelay, Samples, halts, worst};
use super::spec::Status;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A load that is being fired. It ends when this is dropped.
pub struct Firing {
    /// The requests that are over, in the order in which they finished. Closes when all are.
    pub finished: FinishedRequests,
    /// Start of the step: all times of its records count from here.
    pub began: Instant,
    /// The place in a trace at which the step begins.
    pub trace: Option<TraceStart>,
    pub(super) controls: Controls,
    pub(super) sending: Sending,
    pub(super) lag: LagSampler,
}

/// The place in a trace at which a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// Number of the request, from 0.
    pub from: u64,
    /// Number of requests in the trace.
    pub of: u64,
}

/// The director's ends of what the sending threads share with it.
pub(super) struct Controls {
    pub(super) window: watch::Sender<Duration>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) stop: CancellationToken,
    pub(super) cut: CancellationToken,
}

impl Firing {
    /// Returns the state of the load.
    pub fn status(&self) -> Status {
        let gauge = &self.controls.gauge;
        Status {
            in_flight: gauge.in_flight(),
            measured_open: gauge.measured_open(),
            to_come: gauge.to_come(),
            client_limit: gauge.client_limit(),
            sent_all: self.sending.sent_all.is_cancelled(),
        }
    }

    /// Returns how long after the start of the step the last thread was ready to send.
    pub fn start_late(&self) -> Duration {
        self.controls.gauge.start_late()
    }

    /// Completes when the last request has been sent.
    pub fn sent_all(&self) -> impl Future<Output = ()> + Send + use<> {
        self.sending.sent_all.clone().cancelled_owned()
    }

    /// Stops sending. Requests in flight go on.
    pub fn stop(&self) {
        self.controls.stop.cancel();
    }

    /// Cancels the requests in flight.
    pub fn cut(&self) {
        self.controls.cut.cancel();
    }

    /// Sets the length of the measured window.
    pub fn extend(&self, window: Duration) {
        self.controls.window.send_replace(window);
    }

    /// Waits until every request has finished, and returns the delays of the client itself. Requests that nobody takes
    /// from `finished` hold it up.
    ///
    /// # Errors
    /// A thread had no timer, its load panicked, or the receive lag could not be sampled.
    pub async fn ended(&mut self) -> Result<Delays> {
        self.sending.ended().await?;
        let threads = self.lag.end().await?;
        let began = self.began;
        let since = |at: Instant| at.saturating_duration_since(began);
        let halts = halts(&threads).into_iter().map(|h| since(h.start)..since(h.end)).collect();
        Ok(Delays { threads, halts })
    }
}

/// The delays of the client itself while a load was fired.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    threads: Vec<Samples>,
    /// Stretches in which the whole client stood still, in order, from the start of the step.
    pub halts: Vec<Range<Duration>>,
}

impl Delays {
    /// Returns the delay in a part of the step: that of the thread which was worst.
    pub fn within(&self, part: &Range<Duration>) -> OwnDelay {
        worst(&self.threads, part.start, part.end)
    }
}

/// Samples the receive lag of the threads that send.
pub(super) struct LagSampler {
    pub(super) stop: CancellationToken,
    /// One for each thread; none in simulated time, which knows no lag.
    pub(super) threads: JoinSet<io::Result<Samples>>,
}

impl LagSampler {
    async fn end(&mut self) -> Result<Vec<Samples>> {
        self.stop.cancel();
        let mut all = Vec::new();
        while let Some(thread) = self.threads.join_next().await {
            all.push(
                thread
                    .context("the receive-lag sampler failed")?
                    .context("the receive-lag sampler failed")?,
            );
        }
        Ok(all)
    }
}
