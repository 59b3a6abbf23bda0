//! The facts that show a finding: the figures of one or two steps, with the steps' places.

mod cache;
mod drafting;
mod gpu;
mod hardware;
mod iteration;
mod latency;
mod server;
mod throughput;
pub use cache::CacheFact;
pub use drafting::DraftingFact;
pub use gpu::GpuFact;
pub use hardware::{GpusTpot, HardwareFact};
pub use iteration::IterationFact;
pub use latency::{LatencyFact, LengthTtft};
pub use server::ServerFact;
pub use throughput::ThroughputFact;

use super::altered::Altered;
use super::facts::StepFailures;
use super::forecast::Expected;
use super::subject::is_one;
use crate::stats::step::{Step, StepKind};
use goodput_core::caveat::OwnFault;
use goodput_core::level::Level;

/// A step and its load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Number of the step.
    pub step: u32,
    /// Its level; `None` for an unloaded step.
    pub level: Option<Level>,
}

impl Place {
    /// Returns the place of a step.
    pub fn of(step: &Step) -> Self {
        let level = (step.kind != StepKind::Baseline).then_some(step.level);
        Self { step: step.step, level }
    }
}

/// The step that another is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// Its place.
    pub place: Place,
    /// True if it had one request at a time.
    pub one_request: bool,
}

impl Reference {
    /// Returns a step as a reference.
    pub fn of(step: &Step) -> Self {
        Self { place: Place::of(step), one_request: is_one(step) }
    }
}

/// A fact that shows a finding, by topic. Times are in milliseconds; shares are parts of 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The client was the limit.
    ClientWasLimit {
        /// The step.
        at: Place,
        /// The limit of the client, if known.
        fault: Option<OwnFault>,
        /// Reason of the step's verdict.
        reason: String,
    },
    /// Requests failed.
    Failed {
        /// Number of failures.
        failed: u64,
        /// Requests due.
        due: u64,
        /// The failures by kind, if known.
        kinds: Vec<StepFailures>,
        /// The step.
        at: Place,
    },
    /// The server's counters.
    Server(ServerFact),
    /// The prefix cache.
    Cache(CacheFact),
    /// Latencies.
    Latency(LatencyFact),
    /// Iterations of the engine.
    Iteration(IterationFact),
    /// Throughput.
    Throughput(ThroughputFact),
    /// The hardware.
    Hardware(HardwareFact),
    /// The goodput of a model of the server, fitted to the run, under a change.
    Forecast {
        /// The change.
        altered: Altered,
        /// The goodput without and with it.
        expected: Expected,
    },
    /// Clocks, power and heat of GPUs.
    Gpu(GpuFact),
    /// Speculative decoding.
    Drafting(DraftingFact),
}
