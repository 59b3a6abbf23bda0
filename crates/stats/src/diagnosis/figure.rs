//! The figures that rules compare: each a number of a step, or of a step beside another, with the fact that shows it.

mod counters;
pub(super) use counters::seats;
mod latency;
mod together;

use super::fact::Fact;
use super::subject::Subject;
use serde::Serialize;

/// A figure that shows something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Which figure.
    pub figure: Figure,
    /// Its value: a ratio or a share where the name says so, else a count.
    pub value: f64,
    /// The steps that it comes from.
    pub steps: Vec<u32>,
    /// The fact that shows it, which reports put into words.
    #[serde(skip)]
    pub fact: Fact,
}

/// What has to be known for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The steps.
    Steps,
    /// An unloaded step.
    UnloadedStep,
    /// A step with less load.
    LighterStep,
    /// The server's counters.
    Counters,
    /// The server's own times of queue and prefill.
    ServerTimes,
    /// The server's prefix cache hits.
    CacheHits,
    /// The share of the prompts that a warm cache has.
    SharedPrompts,
    /// Prompts of different lengths with one request at a time.
    Lengths,
    /// The server's own limit of sequences.
    SequenceLimit,
    /// The plan's `[model]` and `[hardware]`.
    Hardware,
    /// The plan's `hardware.tensor-parallel`.
    TensorParallel,
    /// Steps with another number of GPUs to a copy of the model.
    OtherGpuCount,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident = $text:literal from $source:ident, $of:path;)+) => {
        /// A figure of a step, or of a step beside another.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Figure { $($(#[$doc])* $name),+ }

        impl Figure {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name in files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What has to be known for it.
            pub const fn source(self) -> Source {
                match self { $(Self::$name => Source::$source),+ }
            }

            /// Returns its value with the fact that shows it; `None` where it is not known.
            pub(super) fn of(self, subject: &Subject<'_>) -> Option<Reading> {
                let found = match self { $(Self::$name => $of(subject)),+ };
                found.filter(|found| found.value.is_finite())
            }
        }
    };
}

figures! {
    /// 1 where the client was the limit, else 0.
    ClientWasLimit = "client-was-limit" from Steps, counters::client_was_limit;
    /// Preemptions for each request that was finished.
    Preempted = "preemptions-per-request" from Counters, counters::preempted;
    /// Largest share of the KV cache in use.
    KvMost = "kv-max" from Counters, counters::kv_most;
    /// Most requests waiting.
    WaitingMost = "waiting-max" from Counters, counters::waiting_most;
    /// Mean of the requests waiting.
    WaitingMean = "waiting-mean" from Counters, counters::waiting_mean;
    /// Most requests running.
    RunningMost = "running-max" from Counters, counters::running_most;
    /// Mean of the requests running over the most that ever do.
    SeatsTaken = "running-of-seats" from Counters, counters::seats_taken;
    /// 1 where the server's limit of sequences is known and not only seen.
    SeatsTold = "seats-told" from SequenceLimit, counters::seats_told;
    /// Share of the prompt tokens that a warm cache has.
    SharedByPrompts = "shared-share" from SharedPrompts, counters::shared;
    /// Share of that which the cache had.
    HitsOfShared = "hits-of-shared" from CacheHits, counters::hits_of_shared;
    /// Share of the prompt tokens from the cache, unloaded.
    HitsAlone = "hit-rate-unloaded" from CacheHits, counters::hits_alone;
    /// The same under load over that.
    HitsTimesAlone = "hit-rate-over-unloaded" from CacheHits, counters::hits_times_alone;
    /// Share of the server's queue in its TTFT.
    ServerQueueOfTtft = "server-queue-of-ttft" from ServerTimes, counters::queue_of_ttft;
    /// Share of the server's prefill in its TTFT, unloaded.
    ServerPrefillOfTtft = "server-prefill-of-ttft" from ServerTimes, counters::prefill_of_ttft;
    /// The server's prefill, unloaded, over the TTFT that misses.
    ServerPrefillOfMissed = "server-prefill-of-missed-ttft" from ServerTimes, counters::prefill_of_missed;
    /// The tail of TTFT over that of one request alone.
    TtftTailTimesAlone = "ttft-tail-over-unloaded" from UnloadedStep, latency::ttft_tail;
    /// By how many times as much the tail of TTFT has grown as its median.
    TailTimesMedian = "ttft-tail-growth-over-median-growth" from UnloadedStep, latency::tail_over_median;
    /// What the tail of TTFT waits beyond the unloaded one, over itself.
    WaitOfMissed = "wait-of-missed-ttft" from UnloadedStep, latency::wait_of_missed;
    /// TPOT over that of one request alone.
    TpotTimesAlone = "tpot-over-unloaded" from UnloadedStep, latency::tpot_times_alone;
    /// TPOT of one request alone over that under load.
    TpotAloneOfLoaded = "tpot-unloaded-over-loaded" from UnloadedStep, latency::tpot_alone_of_loaded;
    /// What load adds to TPOT, over TPOT.
    TpotAddedByLoad = "tpot-added-by-load" from LighterStep, latency::tpot_added;
    /// TPOT over that of a step with less load.
    TpotTimesLow = "tpot-over-lighter-load" from LighterStep, latency::tpot_times_low;
    /// Output tokens per second over those of a step with less load.
    TokensTimesLow = "output-tokens-over-lighter-load" from LighterStep, latency::tokens_times_low;
    /// 1 where the backlog grows, else 0.
    BacklogGrows = "backlog-grows" from Steps, latency::backlog_grows;
    /// Requests completed over those offered.
    CompletedOfOffered = "completed-over-offered" from Steps, latency::completed_of_offered;
    /// Share of TTFT that grows with the length of the prompt, one request at a time.
    PrefillOfTtft = "prefill-of-ttft" from Lengths, together::prefill_of_ttft;
    /// That over the TTFT that misses.
    PrefillOfMissed = "prefill-of-missed-ttft" from Lengths, together::prefill_of_missed;
    /// 1 where no longer group of prompts is sooner than a shorter one, else 0.
    LineRises = "ttft-rises-with-length" from Lengths, together::line_rises;
    /// Median TTFT with a warm cache over that with a cold one.
    WarmTimesCold = "warm-ttft-over-cold" from SharedPrompts, together::warm_times_cold;
    /// TPOT of one request alone over its floor.
    TpotTimesFloor = "tpot-over-floor" from Hardware, together::tpot_times_floor;
    /// GPUs that hold one copy of the model.
    GpusTogether = "tensor-parallel" from TensorParallel, together::gpus;
    /// What more GPUs gain in TPOT over what they add.
    GainOfGpus = "gain-over-added-gpus" from OtherGpuCount, together::gain_of_gpus;
    /// What exceeds the floor with more GPUs, beyond what did with fewer, over TPOT.
    LostBetweenGpus = "lost-between-gpus" from OtherGpuCount, together::lost_between_gpus;
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

/// The value of a figure, with the steps that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) value: f64,
    pub(super) steps: Vec<u32>,
    /// The fact that shows it; `None` for a figure that only rules need.
    pub(super) fact: Option<Fact>,
}

impl Reading {
    fn new(value: f64, steps: impl Into<Vec<u32>>, fact: impl Into<Fact>) -> Self {
        Self { value, steps: steps.into(), fact: Some(fact.into()) }
    }

    /// Returns a value without a fact to tell.
    fn silent(value: f64, steps: impl Into<Vec<u32>>) -> Self {
        Self { value, steps: steps.into(), fact: None }
    }
}
