//! The figures that rules compare: each a number of a step, or of a step compared with another, with the fact that
//! shows it.

mod counters;
pub(super) use counters::seats;
mod drafting;
pub(super) use drafting::is_drafting;
mod gpu;
mod latency;
mod together;

use super::fact::Fact;
use super::subject::Subject;
use serde::Serialize;

/// The value of a figure, as evidence of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "FindingEvidence")]
pub struct Evidence {
    /// The figure.
    pub figure: Figure,
    /// Value of the figure: a ratio or a share if the name says so, else a count.
    pub value: f64,
    /// Numbers of the steps that it comes from.
    pub steps: Vec<u32>,
    /// The fact that shows it, which reports put into words.
    #[serde(skip)]
    pub fact: Fact,
}

/// The source that a figure needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The measured steps.
    Steps,
    /// A longer step, for the growth of its backlog.
    LongerStep,
    /// An unloaded step.
    UnloadedStep,
    /// More requests in an unloaded step: those there are do not suffice for a median.
    UnloadedRequests {
        /// Requests that it answered.
        requests: u64,
        /// Least number for a median.
        least: u64,
        /// The key of the plan by which an unloaded step lasts longer.
        by: LongerBy,
    },
    /// A step near the boundary that is not overloaded: where the backlog grows, latencies have no steady value.
    SteadyStep {
        /// The examined step.
        step: u32,
    },
    /// A step with less load.
    LighterStep,
    /// The server's counters.
    Counters,
    /// The server's histograms of queue and prefill times.
    ServerTimes,
    /// The server's prefix cache hits.
    CacheHits,
    /// The share of the prompts that a warm cache holds.
    SharedPrompts,
    /// Prompts of different lengths with one request at a time.
    Lengths,
    /// The server's limit on concurrent sequences.
    SequenceLimit,
    /// The plan's `[model]` and `[hardware]`.
    Hardware,
    /// The plan's `hardware.tensor-parallel`.
    TensorParallel,
    /// Steps with another number of GPUs per copy of the model.
    OtherGpuCount,
    /// Clocks and power of the GPUs, from `[[metrics]]`.
    GpuMetrics,
}

/// The key of the plan by which an unloaded step lasts longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LongerBy {
    /// The time budget of an adaptive search, of which its baseline takes a share.
    Budget,
    /// The length of each step.
    StepLength,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident = $text:literal from $source:ident, $of:path;)+) => {
        /// A figure of a step, or of a step compared with another.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
        pub enum Figure { $($(#[$doc])* #[serde(rename = $text)] $name),+ }

        impl Figure {
            /// All figures.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name used in files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// Returns the source that it needs.
            pub const fn source(self) -> Source {
                match self { $(Self::$name => Source::$source),+ }
            }

            /// Returns the value with the fact that shows it; `None` if it is unknown.
            pub(super) fn of(self, subject: &Subject<'_>) -> Option<Reading> {
                let found = match self { $(Self::$name => $of(subject)),+ };
                found.filter(|found| found.value.is_finite())
            }
        }
    };
}

figures! {
    /// 1 if the client was the limit, else 0.
    ClientWasLimit = "client-was-limit" from Steps, counters::client_was_limit;
    /// Preemptions per finished request.
    Preempted = "preemptions-per-request" from Counters, counters::preempted;
    /// Largest share of the KV cache in use.
    KvMost = "kv-max" from Counters, counters::kv_most;
    /// Largest number of requests waiting.
    WaitingMost = "waiting-max" from Counters, counters::waiting_most;
    /// Mean number of requests waiting.
    WaitingMean = "waiting-mean" from Counters, counters::waiting_mean;
    /// Failed requests as a share of those due, divided by the misses that the limit allows.
    FailedOfAllowed = "failed-of-allowed" from Steps, counters::failed_of_allowed;
    /// Failed requests as a share of the misses of the limit.
    FailedOfMisses = "failed-of-misses" from Steps, counters::failed_of_misses;
    /// Largest number of requests running, divided by the largest number that can run.
    SeatsReached = "running-max-of-seats" from Counters, counters::seats_reached;
    /// Sequences that can run within the limit on TPOT, divided by the largest number that can run.
    SeatsWithinTpot = "sequences-within-tpot-of-seats" from UnloadedStep, together::seats_within_tpot;
    /// Tail of TPOT divided by its limit; 0 without one.
    TpotOfLimit = "tpot-tail-of-limit" from Steps, latency::tpot_of_limit;
    /// 1 if the time to the first token, or of the whole answer, is limited; else 0.
    FirstIsLimited = "first-token-is-limited" from Steps, latency::first_is_limited;
    /// 1 if the server says that its prefix cache is off, else 0.
    CacheIsOff = "prefix-cache-is-off" from CacheHits, counters::cache_is_off;
    /// Time between the clocks of client and server, as a share of the client's TTFT.
    NetworkOfTtft = "network-of-ttft" from ServerTimes, latency::network_of_ttft;
    /// Time between the clocks of client and server, divided by the TTFT that misses.
    NetworkOfMissed = "network-of-missed-ttft" from ServerTimes, latency::network_of_missed;
    /// Time of an iteration without prompts, divided by that of reading all the prompt tokens that it can take.
    BaseOfChunk = "iteration-base-over-reading" from UnloadedStep, together::base_of_chunk;
    /// Tokens that an iteration has to take at the examined step, or of a mean prompt if that has more, divided by those that it can.
    IterationFilled = "iteration-filled" from Steps, together::iteration_filled;
    /// Time to read a mean prompt, divided by that of an iteration without prompts.
    ReadingOverBase = "reading-over-iteration" from UnloadedStep, together::reading_over_base;
    /// Tail of TPOT divided by its median.
    TpotTailTimesMedian = "tpot-tail-over-median" from Steps, latency::tpot_tail_over_median;
    /// Tokens of the longest prompt, divided by those of a mean one.
    LongestTimesMean = "longest-prompt-over-mean" from Lengths, together::longest_over_mean;
    /// Time to read a part of the longest prompt, divided by the limit on TPOT.
    ReadingOfLimit = "reading-of-tpot-limit" from UnloadedStep, together::reading_of_limit;
    /// TPOT of one request alone divided by its limit; 0 without one.
    TpotAloneOfLimit = "tpot-unloaded-of-limit" from UnloadedStep, together::base_of_limit;
    /// Time of a token that waits for a part of the longest prompt, divided by the limit on TPOT.
    ChunkOfLimit = "chunk-over-tpot-limit" from UnloadedStep, together::chunk_of_limit;
    /// Prompt tokens that an iteration can read within the limit on TPOT, divided by those that it may take.
    ChunkWithinLimit = "chunk-within-limit-over-chunk" from UnloadedStep, together::chunk_within_limit;
    /// Share of the time in which prompts are read.
    PrefillBusy = "prefill-share-of-time" from UnloadedStep, together::prefill_busy;
    /// Largest number of requests running.
    RunningMost = "running-max" from Counters, counters::running_most;
    /// Mean number of requests running, divided by the largest number that can run.
    SeatsTaken = "running-of-seats" from Counters, counters::seats_taken;
    /// 1 if the server's limit on sequences is known and not only inferred.
    SeatsTold = "seats-told" from SequenceLimit, counters::seats_told;
    /// Share of the prompt tokens that a warm cache holds.
    SharedByPrompts = "shared-share" from SharedPrompts, counters::shared;
    /// Share of the shared prompt tokens that came from the cache.
    HitsOfShared = "hits-of-shared" from CacheHits, counters::hits_of_shared;
    /// Share of the prompt tokens from the cache, unloaded.
    HitsAlone = "hit-rate-unloaded" from CacheHits, counters::hits_alone;
    /// Share of the prompt tokens from the cache under load, divided by that of the unloaded step.
    HitsTimesAlone = "hit-rate-over-unloaded" from CacheHits, counters::hits_times_alone;
    /// Time in the server's queue as a share of its TTFT.
    ServerQueueOfTtft = "server-queue-of-ttft" from ServerTimes, counters::queue_of_ttft;
    /// Time of the server's prefill as a share of its TTFT, unloaded.
    ServerPrefillOfTtft = "server-prefill-of-ttft" from ServerTimes, counters::prefill_of_ttft;
    /// Time of the server's prefill, unloaded, divided by the TTFT that misses.
    ServerPrefillOfMissed = "server-prefill-of-missed-ttft" from ServerTimes, counters::prefill_of_missed;
    /// Tail of TTFT, divided by that of one request alone.
    TtftTailTimesAlone = "ttft-tail-over-unloaded" from UnloadedStep, latency::ttft_tail;
    /// Growth factor of the tail of TTFT, divided by that of its median.
    TailTimesMedian = "ttft-tail-growth-over-median-growth" from UnloadedStep, latency::tail_over_median;
    /// Wait in the tail of TTFT beyond the unloaded one, as a share of the tail.
    WaitOfMissed = "wait-of-missed-ttft" from UnloadedStep, latency::wait_of_missed;
    /// TPOT of one request alone, divided by that under load.
    TpotAloneOfLoaded = "tpot-unloaded-over-loaded" from UnloadedStep, latency::tpot_alone_of_loaded;
    /// TPOT added by load, as a share of TPOT.
    TpotAddedByLoad = "tpot-added-by-load" from LighterStep, latency::tpot_added;
    /// TPOT divided by that of a step with less load.
    TpotTimesLow = "tpot-over-lighter-load" from LighterStep, latency::tpot_times_low;
    /// Output tokens per second, divided by those of a step with less load.
    TokensTimesLow = "output-tokens-over-lighter-load" from LighterStep, latency::tokens_times_low;
    /// 1 if the backlog grows, else 0.
    BacklogGrows = "backlog-grows" from LongerStep, latency::backlog_grows;
    /// Requests completed divided by requests offered.
    CompletedOfOffered = "completed-over-offered" from Steps, latency::completed_of_offered;
    /// Share of TTFT that grows with the length of the prompt, one request at a time.
    PrefillOfTtft = "prefill-of-ttft" from Lengths, together::prefill_of_ttft;
    /// Part of TTFT that grows with the length of the prompt, divided by the TTFT that misses.
    PrefillOfMissed = "prefill-of-missed-ttft" from Lengths, together::prefill_of_missed;
    /// 1 if no longer group of prompts is faster than a shorter one, else 0.
    LineRises = "ttft-rises-with-length" from Lengths, together::line_rises;
    /// Median TTFT with a warm cache, divided by that with a cold one.
    WarmTimesCold = "warm-ttft-over-cold" from SharedPrompts, together::warm_times_cold;
    /// TPOT of one request alone, divided by its floor.
    TpotTimesFloor = "tpot-over-floor" from Hardware, together::tpot_times_floor;
    /// Number of GPUs that hold one copy of the model.
    GpusTogether = "tensor-parallel" from TensorParallel, together::gpus;
    /// Relative gain in token speed from more GPUs, divided by the relative increase in GPUs.
    GainOfGpus = "gain-over-added-gpus" from OtherGpuCount, together::gain_of_gpus;
    /// Increase with more GPUs of the time beyond the floor, as a share of TPOT.
    LostBetweenGpus = "lost-between-gpus" from OtherGpuCount, together::lost_between_gpus;
    /// Gain of the best simulated change, as a share of the present goodput.
    ForecastGain = "forecast-gain" from Steps, super::forecast::gain;
    /// Share of the time in which the GPUs ran nothing, with at least two requests in flight on average.
    GpusIdle = "gpus-idle" from GpuMetrics, gpu::idle;
    /// Share by which the clock of the slowest GPU is below the highest known one.
    ClockLost = "clock-below-highest" from GpuMetrics, gpu::clock_lost;
    /// 1 if power held its clock down, by its counters; else 0.
    HeldByPower = "clock-held-by-power" from GpuMetrics, gpu::held_by_power;
    /// 1 if heat held its clock down, by its counters; else 0.
    HeldByHeat = "clock-held-by-heat" from GpuMetrics, gpu::held_by_heat;
    /// 1 if clocks that were set held its clock down, by its counters; else 0.
    HeldBySetting = "clock-held-by-setting" from GpuMetrics, gpu::held_by_setting;
    /// Its mean power, divided by the limit in force.
    PowerOfLimit = "power-of-limit" from GpuMetrics, gpu::power_of_limit;
    /// The power limit in force, divided by the highest that the board accepts.
    LimitOfMost = "power-limit-of-highest" from GpuMetrics, gpu::limit_of_most;
    /// Share of the drafted tokens that the model accepts.
    AcceptedOfDrafted = "accepted-of-drafted" from Counters, drafting::accepted_of_drafted;
    /// Tokens that an iteration writes, divided by those from which on drafting is not slower.
    WrittenOfBreakEven = "written-of-break-even" from Counters, drafting::written_of_break_even;
    /// Tokens that an iteration writes, divided by those that make up for the time of checking drafts alone.
    WrittenOfChecking = "written-of-checking" from Hardware, drafting::written_of_checking;
}

/// The relation of a figure to its true value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// It is the true value, but for the scatter of measurements.
    Exact,
    /// The true value may be smaller.
    AtMost,
    /// The true value may be larger.
    AtLeast,
}

impl Side {
    /// Returns the side of a figure that falls where this one grows.
    pub(super) const fn inverse(self) -> Self {
        match self {
            Self::Exact => Self::Exact,
            Self::AtMost => Self::AtLeast,
            Self::AtLeast => Self::AtMost,
        }
    }
}

/// The value of a figure, with the steps that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) value: f64,
    pub(super) side: Side,
    pub(super) steps: Vec<u32>,
    /// The fact that shows it; `None` for a figure that only rules need.
    pub(super) fact: Option<Fact>,
}

impl Reading {
    pub(super) fn new(value: f64, steps: impl Into<Vec<u32>>, fact: impl Into<Fact>) -> Self {
        Self { value, side: Side::Exact, steps: steps.into(), fact: Some(fact.into()) }
    }

    /// Returns a value without a fact to report.
    fn silent(value: f64, steps: impl Into<Vec<u32>>) -> Self {
        Self { value, side: Side::Exact, steps: steps.into(), fact: None }
    }

    /// Returns the reading as a bound.
    fn on(self, side: Side) -> Self {
        Self { side, ..self }
    }
}
