//! What the reader of a result must know, raised by numbers, each with advice.

mod cache;
mod fault;
mod trace;
mod words;

pub use fault::{Cause, Excess, OwnFault};

use crate::level::Control;
use serde::{Deserialize, Serialize};

/// Which of a sweep's requests have lengths that are off; none named where there is one series, or one kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LengthsOf {
    /// The series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// A reason to read a result with care. Shown in the terminal and in every report, and kept in `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caveat {
    /// Verdicts assume how much misses cluster.
    InflationAssumed {
        /// The factor that is assumed before a miss was seen.
        inflation: f64,
        /// The limit that the verdicts hang on.
        limit: String,
        /// The factor for it, once all misses of the sweep were seen.
        pooled: f64,
    },
    /// The answer is a bracket between two measured levels.
    BracketOnly,
    /// The ends of that bracket are far apart.
    WideBracket {
        /// The tier that it is of, where there are several.
        tier: Option<String>,
        /// What the levels are.
        control: Control,
        /// The level shown to fail over the one shown to meet.
        factor: f64,
    },
    /// The plan asks for more than the client was calibrated for.
    BeyondCalibration {
        /// What the plan asks for at most.
        asked: f64,
        /// What the client was seen to do.
        most: f64,
        /// What both count.
        unit: String,
    },
    /// Time was simulated.
    VirtualTime,
    /// The simulated server was measured, not a real one.
    Simulated,
    /// The server refused `ignore_eos` or `min_tokens`.
    PinningRefused {
        /// What it refused.
        field: String,
        /// What it said.
        message: String,
        /// Whether the other field still holds the lengths.
        held: bool,
    },
    /// Answers came back shorter or longer than asked for.
    LengthsNotPinned {
        /// Mean output tokens asked for.
        asked: f64,
        /// Mean output tokens that came.
        got: f64,
        /// Of which prompts and answers.
        #[serde(default, flatten)]
        of: LengthsOf,
    },
    /// The server refused `stream_options`.
    UsageRefused {
        /// What it said.
        message: String,
    },
    /// Output tokens were counted by events.
    TokensEstimated {
        /// Requests counted that way.
        requests: u64,
    },
    /// Answers in one piece came without usage, and nobody counted their tokens.
    TokensUnknown {
        /// How many.
        requests: u64,
    },
    /// The mean input length is off what the plan asks for.
    InputLengthOff {
        /// Mean tokens asked for.
        asked: f64,
        /// Mean tokens by the server's usage.
        got: f64,
        /// Of which prompts and answers.
        #[serde(default, flatten)]
        of: LengthsOf,
    },
    /// Input lengths could not be calibrated.
    InputNotCalibrated {
        /// Why not.
        reason: String,
    },
    /// Streams ended with `[DONE]` but no finish reason.
    NoFinishReason {
        /// How many.
        requests: u64,
    },
    /// A cold-cache workload was served from a prefix cache: what earlier versions noted of a sweep as a whole.
    ColdCacheHits {
        /// Share of prompt tokens that came from the cache.
        share: f64,
    },
    /// Steps of a cold series had more from the prefix cache than the chat template explains.
    ColdHits {
        /// The step with the most.
        step: u32,
        /// How many such steps there are.
        steps: u32,
        /// Share of the prompt tokens that came from the cache in it.
        hit_rate: f64,
    },
    /// Steps of a warm series had far less from the prefix cache than the prompts share.
    WarmMisses {
        /// The step with the least.
        step: u32,
        /// How many such steps there are.
        steps: u32,
        /// Share of the prompt tokens that came from the cache in it.
        hit_rate: f64,
        /// Share of the prompt tokens that lies in shared prefixes.
        shared: f64,
    },
    /// Steps that are read together had unlike shares of their prompts from the prefix cache.
    HitRatesDiffer {
        /// Least share of the prompt tokens.
        low: f64,
        /// The step that had it.
        low_step: u32,
        /// Largest share.
        high: f64,
        /// The step that had it.
        high_step: u32,
    },
    /// The server's counters moved by more than the client's own requests.
    OtherClients {
        /// The first step in which they did.
        step: u32,
        /// Prompt tokens that the server counted in it.
        asked: f64,
        /// The most that its own requests can have had.
        own: f64,
        /// In how many steps they did.
        steps: u32,
    },
    /// Less than half of a trace was replayed.
    TracePart {
        /// Requests of it that were sent at least once.
        sent: u64,
        /// How many it has.
        of: u64,
    },
    /// A step replayed a trace several times over.
    TraceRepeated {
        /// The step that did so most often.
        step: u32,
        /// How often.
        times: f64,
        /// Requests of the trace.
        of: u64,
    },
    /// The levels are numbers in flight.
    ClosedLoop,
    /// Requests failed.
    Failures {
        /// How many failed in the measured windows.
        requests: u64,
        /// Of how many.
        of: u64,
        /// The most frequent kind.
        kind: String,
        /// Whether it is more than half of them.
        #[serde(default)]
        most: bool,
    },
    /// One of several replicas is far slower than the others.
    SlowReplica {
        /// Its URL.
        url: String,
        /// What is slow: `TTFT` or `TPOT`.
        metric: String,
        /// Its p99 in milliseconds, in one step.
        p99_ms: f64,
        /// That of the others (the lower median of theirs).
        others_ms: f64,
        /// The step.
        step: u32,
        /// In how many steps it is the slower one.
        steps: u32,
        /// Of how many.
        of: u32,
    },
    /// One of several replicas fails more requests than the others.
    FailingReplica {
        /// Its URL.
        url: String,
        /// The share of its requests that failed, in one step.
        share: f64,
        /// That of the others (the lower median of theirs).
        others: f64,
        /// The step.
        step: u32,
        /// In how many steps it failed more.
        steps: u32,
        /// Of how many.
        of: u32,
    },
    /// The client reached a limit of its own in a step.
    Client {
        /// The step.
        step: u32,
        /// Which limit, and by how much.
        fault: OwnFault,
        /// Whether the step is invalid for it; else its verdict does not hang on it.
        invalid: bool,
    },
    /// The server still had requests when a step began.
    NotDrained {
        /// The step that began.
        step: u32,
        /// Requests that the server reported.
        left: f64,
    },
    /// Some steps have no upper bound for their p99.
    FewRequests {
        /// How many steps.
        steps: u32,
        /// Of how many that refine, in an adaptive sweep, which keeps its other steps short on purpose.
        #[serde(default)]
        refine: Option<u32>,
    },
    /// The budget ended the sweep.
    BudgetSpent {
        /// The level that would have come next.
        next: f64,
    },
    /// The sweep was interrupted.
    Interrupted,
    /// The server stopped answering.
    ServerGone {
        /// The step in which it happened.
        step: u32,
    },
    /// A step has requests on disk but was never finished.
    PartialStep {
        /// The step.
        step: u32,
        /// Requests on disk.
        requests: u64,
    },
    /// The last row of a file was torn and dropped.
    TornRow {
        /// The file.
        file: String,
    },
    /// The sweep ended early and was gone on with later.
    Resumed {
        /// How often.
        times: u32,
        /// When, the last time (RFC 3339).
        at: String,
        /// The first step measured then.
        step: u32,
    },
    /// A try at a step was broken off and stands apart.
    BrokenOff {
        /// The step, which is measured again.
        step: u32,
        /// Requests on disk.
        requests: u64,
    },
}

impl Caveat {
    /// The step that it is about, where it is about one.
    pub const fn step(&self) -> Option<u32> {
        match self {
            Self::NotDrained { step, .. }
            | Self::Client { step, .. }
            | Self::ServerGone { step }
            | Self::PartialStep { step, .. }
            | Self::BrokenOff { step, .. }
            | Self::SlowReplica { step, .. }
            | Self::FailingReplica { step, .. }
            | Self::ColdHits { step, .. }
            | Self::TraceRepeated { step, .. }
            | Self::WarmMisses { step, .. } => Some(*step),
            _ => None,
        }
    }

    /// The series that it is about, where it names one.
    pub fn series(&self) -> Option<&str> {
        match self {
            Self::InputLengthOff { of, .. } | Self::LengthsNotPinned { of, .. } => of.series.as_deref(),
            _ => None,
        }
    }
}
