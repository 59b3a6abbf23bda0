//! The figures that rules compare: each a number of a step, or of a step beside another, with the words that show it.

mod counters;
pub(super) use counters::seats;
mod latency;
mod together;

use super::subject::Subject;
use goodput_core::units::short;
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
    /// The same in words; empty where there is nothing to say.
    pub text: String,
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
            pub const fn source(self) -> &'static str {
                match self { $(Self::$name => $source),+ }
            }

            /// Its value with what shows it; `None` where it is not known.
            pub(super) fn of(self, subject: &Subject<'_>) -> Option<Evidence> {
                let found = match self { $(Self::$name => $of(subject)),+ };
                let Found { value, steps, text } = found?;
                value.is_finite().then_some(Evidence { figure: self, value, steps, text })
            }
        }
    };
}

const STEPS: &str = "the steps";
const ALONE: &str = "an unloaded step (search.baseline = true, or one request in flight)";
const LIGHTER: &str = "a step with less load";
const COUNTERS: &str = "the server's counters";
const TIMES: &str = "the server's own times of queue and prefill";
const HITS: &str = "the server's prefix cache hits";
const SHARED: &str = "what prompts share, in a warm cache";
const LENGTHS: &str = "prompts of different lengths with one request at a time";
const FLAGS: &str = "the server's own limit of sequences";
const FLOOR: &str = "the plan's [model] and [hardware]";
const GPUS: &str = "the plan's hardware.tensor-parallel";
const OTHERS: &str = "the same with another number of GPUs to a copy of the model";

figures! {
    /// 1 where the client was the limit, else 0.
    ClientWasLimit = "client-was-limit" from STEPS, counters::client_was_limit;
    /// Preemptions for each request that was finished.
    Preempted = "preemptions-per-request" from COUNTERS, counters::preempted;
    /// Largest share of the KV cache in use.
    KvMost = "kv-max" from COUNTERS, counters::kv_most;
    /// Most requests waiting.
    WaitingMost = "waiting-max" from COUNTERS, counters::waiting_most;
    /// Mean of the requests waiting.
    WaitingMean = "waiting-mean" from COUNTERS, counters::waiting_mean;
    /// Most requests running.
    RunningMost = "running-max" from COUNTERS, counters::running_most;
    /// Mean of the requests running over the most that ever do.
    SeatsTaken = "running-of-seats" from COUNTERS, counters::seats_taken;
    /// 1 where the server's limit of sequences is known and not only seen.
    SeatsTold = "seats-told" from FLAGS, counters::seats_told;
    /// Share of the prompt tokens that a warm cache has.
    SharedByPrompts = "shared-share" from SHARED, counters::shared;
    /// Share of that which the cache had.
    HitsOfShared = "hits-of-shared" from HITS, counters::hits_of_shared;
    /// Share of the prompt tokens from the cache, unloaded.
    HitsAlone = "hit-rate-unloaded" from HITS, counters::hits_alone;
    /// The same under load over that.
    HitsTimesAlone = "hit-rate-over-unloaded" from HITS, counters::hits_times_alone;
    /// Share of the server's queue in its TTFT.
    ServerQueueOfTtft = "server-queue-of-ttft" from TIMES, counters::queue_of_ttft;
    /// Share of the server's prefill in its TTFT, unloaded.
    ServerPrefillOfTtft = "server-prefill-of-ttft" from TIMES, counters::prefill_of_ttft;
    /// The server's prefill, unloaded, over the TTFT that misses.
    ServerPrefillOfMissed = "server-prefill-of-missed-ttft" from TIMES, counters::prefill_of_missed;
    /// The tail of TTFT over that of one request alone.
    TtftTailTimesAlone = "ttft-tail-over-unloaded" from ALONE, latency::ttft_tail;
    /// By how many times as much the tail of TTFT has grown as its median.
    TailTimesMedian = "ttft-tail-growth-over-median-growth" from ALONE, latency::tail_over_median;
    /// What the tail of TTFT waits beyond the unloaded one, over itself.
    WaitOfMissed = "wait-of-missed-ttft" from ALONE, latency::wait_of_missed;
    /// TPOT over that of one request alone.
    TpotTimesAlone = "tpot-over-unloaded" from ALONE, latency::tpot_times_alone;
    /// TPOT of one request alone over that under load.
    TpotAloneOfLoaded = "tpot-unloaded-over-loaded" from ALONE, latency::tpot_alone_of_loaded;
    /// What load adds to TPOT, over TPOT.
    TpotAddedByLoad = "tpot-added-by-load" from LIGHTER, latency::tpot_added;
    /// TPOT over that of a step with less load.
    TpotTimesLow = "tpot-over-lighter-load" from LIGHTER, latency::tpot_times_low;
    /// Output tokens per second over those of a step with less load.
    TokensTimesLow = "output-tokens-over-lighter-load" from LIGHTER, latency::tokens_times_low;
    /// 1 where the backlog grows, else 0.
    BacklogGrows = "backlog-grows" from STEPS, latency::backlog_grows;
    /// Requests completed over those offered.
    CompletedOfOffered = "completed-over-offered" from STEPS, latency::completed_of_offered;
    /// Share of TTFT that grows with the length of the prompt, one request at a time.
    PrefillOfTtft = "prefill-of-ttft" from LENGTHS, together::prefill_of_ttft;
    /// That over the TTFT that misses.
    PrefillOfMissed = "prefill-of-missed-ttft" from LENGTHS, together::prefill_of_missed;
    /// 1 where no longer group of prompts is sooner than a shorter one, else 0.
    LineRises = "ttft-rises-with-length" from LENGTHS, together::line_rises;
    /// Median TTFT with a warm cache over that with a cold one.
    WarmTimesCold = "warm-ttft-over-cold" from SHARED, together::warm_times_cold;
    /// TPOT of one request alone over its floor.
    TpotTimesFloor = "tpot-over-floor" from FLOOR, together::tpot_times_floor;
    /// GPUs that hold one copy of the model.
    GpusTogether = "tensor-parallel" from GPUS, together::gpus;
    /// What more GPUs gain in TPOT over what they add.
    GainOfGpus = "gain-over-added-gpus" from OTHERS, together::gain_of_gpus;
    /// What exceeds the floor with more GPUs, beyond what did with fewer, over TPOT.
    LostBetweenGpus = "lost-between-gpus" from OTHERS, together::lost_between_gpus;
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

/// A value with the steps that it comes from and the words for it.
struct Found {
    value: f64,
    steps: Vec<u32>,
    text: String,
}

impl Found {
    fn new(value: f64, steps: impl Into<Vec<u32>>, text: impl Into<String>) -> Self {
        Self { value, steps: steps.into(), text: text.into() }
    }
}

/// A time for people, from milliseconds.
pub(super) fn time(ms: f64) -> String {
    if ms < 999.5 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1e3)) }
}

/// A share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", short((1000.0 * share).round() / 10.0))
}

/// Where a step was: `at 37.3 req/s (step 12)`, `unloaded (step 1)`.
pub(super) fn place(s: &crate::stats::step::Step) -> String {
    match s.kind {
        crate::stats::step::StepKind::Baseline => format!("unloaded (step {})", s.step),
        _ => format!("at {} (step {})", s.level, s.step),
    }
}
