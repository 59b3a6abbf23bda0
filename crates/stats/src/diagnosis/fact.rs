//! The facts that show a finding: the figures of one or two steps, with the steps' places.

mod drafting;
mod gpu;
pub use drafting::DraftingFact;
pub use gpu::GpuFact;

use super::facts::StepFailures;
use super::forecast::{Altered, Expected};
use super::settings::Origin;
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

/// Median TTFT of prompts of about one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthTtft {
    /// Mean tokens of the prompts.
    pub tokens: f64,
    /// Median TTFT in milliseconds.
    pub ttft_ms: f64,
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

/// A fact about the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CacheFact {
    /// The prefix cache is off.
    Off {
        /// The source of that.
        origin: Origin,
    },
    /// Share of the prompt tokens that are shared.
    Shared {
        /// The share.
        share: f64,
    },
    /// Share of the prompt tokens that came from the prefix cache.
    Hits {
        /// The share.
        share: f64,
        /// The step.
        at: Place,
    },
    /// Share of the prompt tokens that came from the prefix cache under load, reported after that of the unloaded step.
    HitsLoaded {
        /// The share.
        share: f64,
        /// The step.
        at: Place,
    },
    /// Median TTFT with a warm and with a cold cache.
    WarmAndCold {
        /// TTFT with a warm cache.
        warm_ms: f64,
        /// Its step.
        warm: Place,
        /// TTFT with a cold cache.
        cold_ms: f64,
        /// Its step.
        cold: Place,
    },
}

impl From<CacheFact> for Fact {
    fn from(fact: CacheFact) -> Self {
        Self::Cache(fact)
    }
}

/// A fact about latencies as the client measured them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyFact {
    /// A percentile of TTFT under load and that of a reference.
    SlowerTtft {
        /// The percentile: `p99`.
        percentile: &'static str,
        /// Its value.
        now_ms: f64,
        /// The step.
        at: Place,
        /// Its value in the reference.
        before_ms: f64,
        /// The reference.
        reference: Reference,
    },
    /// The median of TTFT, reported after its tail.
    MedianTtft {
        /// Its value.
        now_ms: f64,
        /// Its value in the reference.
        before_ms: f64,
    },
    /// Share of waiting in a percentile of TTFT.
    WaitOfTail {
        /// The share.
        share: f64,
        /// The percentile: `p99`.
        percentile: &'static str,
    },
    /// Share, in a percentile of TTFT, of the time reported just before.
    ShareOfTail {
        /// The share.
        share: f64,
        /// The percentile: `p99`.
        percentile: &'static str,
        /// TTFT at that percentile.
        tail_ms: f64,
        /// The step.
        at: Place,
    },
    /// The median TPOT of the only step, an unloaded one.
    TpotUnloaded {
        /// Its value.
        tpot_ms: f64,
        /// The step.
        at: Place,
    },
    /// The median TPOT of a reference, and its share of the median under load.
    TpotOfReference {
        /// Its value in the reference.
        before_ms: f64,
        /// The reference.
        reference: Reference,
        /// The value in the reference divided by the one under load.
        share: f64,
        /// Its value under load.
        now_ms: f64,
        /// The step.
        at: Place,
    },
    /// The rise of the median TPOT over that of a step with less load, reported after that of the output tokens.
    TpotRise {
        /// Its value.
        now_ms: f64,
        /// Its value under less load.
        before_ms: f64,
    },
    /// Share of TPOT that load adds.
    TpotAdded {
        /// The share.
        share: f64,
    },
    /// Mean TTFT by the clocks of client and server.
    BetweenClocks {
        /// TTFT by the client's clock, from sending.
        client_ms: f64,
        /// TTFT by the server's clock.
        server_ms: f64,
        /// The step.
        at: Place,
    },
    /// TTFT by the length of the prompt, one request at a time.
    TtftByLength {
        /// The shortest prompts.
        shortest: LengthTtft,
        /// The longest prompts.
        longest: LengthTtft,
        /// Milliseconds per token.
        per_token_ms: f64,
        /// Median TTFT of the unloaded step.
        ttft_ms: f64,
        /// The unloaded step.
        at: Place,
        /// Share of that TTFT that grows with the length.
        share: f64,
    },
}

/// A fact about the iterations of the engine, as latencies and settings tell them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IterationFact {
    /// An iteration that reads as many prompt tokens as it can take.
    IterationOfPrompts {
        /// Tokens of the iteration.
        tokens: f64,
        /// Time of an iteration that reads none.
        base_ms: f64,
        /// Time to read these tokens.
        reading_ms: f64,
        /// True if that time is an upper bound, since it includes what every request costs.
        at_most: bool,
    },
    /// An iteration that reads a chunk of a long prompt.
    Chunk {
        /// Prompt tokens of the chunk.
        tokens: f64,
        /// Time of the iteration.
        chunk_ms: f64,
        /// True if that time is an upper bound, since it includes what every request costs.
        at_most: bool,
        /// The limit on TPOT or ITL.
        limit_ms: f64,
    },
    /// The tail of TPOT with its median.
    TpotTail {
        /// TPOT at the percentile.
        tail_ms: f64,
        /// The percentile: `p99`.
        percentile: &'static str,
        /// The median.
        median_ms: f64,
        /// The step.
        at: Place,
    },
    /// The longest prompt.
    LongestPrompt {
        /// Its tokens.
        tokens: f64,
        /// Those of a mean prompt.
        mean: f64,
    },
    /// Sequences that can run within a limit.
    SequencesWithin {
        /// As many as keep the limit.
        within: f64,
        /// As many as can run.
        seats: f64,
        /// The limit on TPOT or ITL.
        limit_ms: f64,
    },
    /// Share of the time in which the engine reads prompts.
    PrefillOfTime {
        /// The share.
        share: f64,
        /// True if the share is an upper bound, since it includes what every request costs.
        at_most: bool,
        /// The step.
        at: Place,
    },
}

impl From<IterationFact> for Fact {
    fn from(fact: IterationFact) -> Self {
        Self::Iteration(fact)
    }
}

impl From<LatencyFact> for Fact {
    fn from(fact: LatencyFact) -> Self {
        Self::Latency(fact)
    }
}

/// A fact about throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThroughputFact {
    /// Output tokens per second, with those of a step with less load.
    OutputTokens {
        /// Tokens per second.
        now: f64,
        /// The step.
        at: Place,
        /// Tokens per second of the reference.
        before: f64,
        /// The reference.
        reference: Reference,
    },
    /// The number of requests in flight grows.
    BacklogGrows {
        /// Requests per second by which it grows, if known.
        per_second: Option<f64>,
        /// The step.
        at: Place,
    },
    /// Requests per second completed in the measured window.
    Completed {
        /// Completed per second.
        completed: f64,
        /// Offered per second.
        offered: f64,
    },
}

impl From<ThroughputFact> for Fact {
    fn from(fact: ThroughputFact) -> Self {
        Self::Throughput(fact)
    }
}

/// A fact about the limits of the hardware.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HardwareFact {
    /// The least time to read weights and KV cache, as part of a TPOT.
    Floor {
        /// The least time.
        floor_ms: f64,
        /// TPOT.
        tpot_ms: f64,
        /// The step.
        at: Place,
    },
    /// Number of GPUs that hold one copy of the model.
    GpusTogether {
        /// Number of GPUs.
        gpus: u32,
    },
    /// Median TPOT of one request alone with more and with fewer GPUs.
    TpotByGpus {
        /// With more GPUs.
        more: GpusTpot,
        /// With fewer GPUs.
        fewer: GpusTpot,
    },
    /// Time beyond the floor with more and with fewer GPUs.
    BeyondFloor {
        /// Time with more GPUs.
        more_ms: f64,
        /// Time with fewer GPUs.
        fewer_ms: f64,
        /// Number of the fewer GPUs.
        fewer: u32,
    },
}

impl From<HardwareFact> for Fact {
    fn from(fact: HardwareFact) -> Self {
        Self::Hardware(fact)
    }
}

/// TPOT of one request alone on a number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpusTpot {
    /// GPUs that hold one copy of the model.
    pub gpus: u32,
    /// Median TPOT in milliseconds.
    pub tpot_ms: f64,
    /// The step.
    pub step: u32,
}
