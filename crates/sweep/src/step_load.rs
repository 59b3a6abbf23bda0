//! The load of a step: fired by this machine, or by workers.

use futures_util::future::Either;
use goodput_cluster::firing::{FleetEnd, FleetFiring};
use goodput_cluster::step::Fault;
use goodput_core::record::Finished;
use goodput_load::load::firing::{Delays, Firing, TraceStart};
use goodput_load::load::lag::OwnDelay;
use goodput_load::load::spec::Status;
use goodput_stats::stats::workers::WorkerReport;
use std::future::Future;
use std::ops::Range;
use std::time::Duration;
use tokio::time::Instant;

/// A load that is being fired.
pub(super) enum StepLoad {
    /// By this machine.
    Local(Box<Firing>),
    /// By workers.
    Fleet(Box<FleetFiring>),
}

/// The end of a load.
pub(super) struct LoadEnd {
    /// The delays of this machine; `None` if workers sent.
    delays: Option<Delays>,
    /// The workers' reports; empty if this machine sent.
    pub(super) reports: Vec<WorkerReport>,
    /// The fault of a worker that ended the load.
    pub(super) fault: Option<Fault>,
}

impl StepLoad {
    /// Returns the start of the step: all times of its records count from here.
    pub(super) fn began(&self) -> Instant {
        match self {
            Self::Local(firing) => firing.began,
            Self::Fleet(firing) => firing.began,
        }
    }

    /// Returns the place in a trace at which the step begins.
    pub(super) fn trace(&self) -> Option<TraceStart> {
        match self {
            Self::Local(firing) => firing.trace,
            Self::Fleet(firing) => firing.trace,
        }
    }

    /// Returns the next request that is over; `None` when all are.
    pub(super) async fn finished(&mut self) -> Option<Finished> {
        match self {
            Self::Local(firing) => firing.finished.recv().await,
            Self::Fleet(firing) => firing.finished.recv().await,
        }
    }

    /// Returns the state of the load.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Local(firing) => firing.status(),
            Self::Fleet(firing) => firing.status(),
        }
    }

    /// Returns the state of each worker's part, with its name; empty if this machine sends.
    pub(super) fn workers(&self) -> Vec<(String, Status)> {
        match self {
            Self::Local(_) => Vec::new(),
            Self::Fleet(firing) => firing.each_status(),
        }
    }

    /// Completes when the last request has been sent.
    pub(super) fn sent_all(&self) -> impl Future<Output = ()> + Send + use<> {
        match self {
            Self::Local(firing) => Either::Left(firing.sent_all()),
            Self::Fleet(firing) => Either::Right(firing.sent_all()),
        }
    }

    /// Stops sending. Requests in flight go on.
    pub(super) fn stop(&self) {
        match self {
            Self::Local(firing) => firing.stop(),
            Self::Fleet(firing) => firing.stop(),
        }
    }

    /// Cancels the requests in flight.
    pub(super) fn cut(&self) {
        match self {
            Self::Local(firing) => firing.cut(),
            Self::Fleet(firing) => firing.cut(),
        }
    }

    /// Sets the length of the measured window.
    pub(super) fn extend(&self, window: Duration) {
        match self {
            Self::Local(firing) => firing.extend(window),
            Self::Fleet(firing) => firing.extend(window),
        }
    }

    /// Waits until every request has finished.
    ///
    /// # Errors
    /// The load failed on this machine, or following the workers did.
    pub(super) async fn ended(&mut self) -> anyhow::Result<LoadEnd> {
        match self {
            Self::Local(firing) => {
                let delays = Some(firing.ended().await?);
                Ok(LoadEnd { delays, reports: Vec::new(), fault: None })
            }
            Self::Fleet(firing) => {
                let FleetEnd { reports, fault } = firing.ended().await?;
                Ok(LoadEnd { delays: None, reports, fault })
            }
        }
    }

    /// Returns the delay that the client itself added in a part of the step, and the stretches in which it stood still.
    pub(super) async fn delays(
        &self,
        end: &LoadEnd,
        counted: &Range<Duration>,
    ) -> (OwnDelay, Vec<Range<Duration>>) {
        match (self, &end.delays) {
            (_, Some(delays)) => (delays.within(counted), delays.halts.clone()),
            (Self::Fleet(firing), None) => {
                let delays = firing.delays(counted).await;
                (delays.own, delays.halts)
            }
            (Self::Local(_), None) => Default::default(),
        }
    }
}
