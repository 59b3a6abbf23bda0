//! What the reader of a result must know, raised by numbers, each with advice.

mod about;
mod answers;
mod cache;
mod ended;
mod fault;
mod host;
mod number;
mod origin;
mod refusal;
mod server;
mod trace;
mod way;
mod words;

pub use fault::{Cause, Excess, OwnFault};
pub use host::Neighbours;
pub use refusal::Refusal;

use crate::level::Control;
use number::number;
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
        #[serde(deserialize_with = "number")]
        inflation: f64,
        /// The limit that the verdicts hang on.
        limit: String,
        /// The factor for it, once all misses of the sweep were seen.
        #[serde(deserialize_with = "number")]
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
        #[serde(deserialize_with = "number")]
        factor: f64,
    },
    /// The plan asks for more than the client was calibrated for.
    BeyondCalibration {
        /// What the plan asks for at most.
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// What the client was seen to do.
        #[serde(deserialize_with = "number")]
        most: f64,
        /// What both count.
        unit: String,
    },
    /// Another tool measured it.
    Imported {
        /// Which, with its version where that is known.
        tool: String,
        /// What its files do not tell.
        missing: Vec<String>,
        /// How its requests are counted here where the tool does it otherwise.
        counted: String,
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
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// Mean output tokens that came.
        #[serde(deserialize_with = "number")]
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
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// Mean tokens by the server's usage.
        #[serde(deserialize_with = "number")]
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
    /// Our own timeout ended requests.
    TimedOut {
        /// How many.
        requests: u64,
        /// Requests counted.
        of: u64,
        /// How long they had been given, in seconds; where that differs, the shortest.
        #[serde(deserialize_with = "number")]
        after_s: f64,
        /// Whether the plan sets the timeout, so that each of them is an error.
        is_error: bool,
    },
    /// Answers ended before any content came.
    NoContent {
        /// How many.
        requests: u64,
        /// Answers counted.
        of: u64,
    },
    /// The server counted reasoning tokens that it never sent.
    HiddenReasoning {
        /// Answers that had some.
        requests: u64,
        /// Answers counted.
        of: u64,
        /// Their share of the output tokens of these answers.
        #[serde(deserialize_with = "number")]
        share: f64,
    },
    /// A cold-cache workload was served from a prefix cache: what earlier versions noted of a sweep as a whole.
    ColdCacheHits {
        /// Share of prompt tokens that came from the cache.
        #[serde(deserialize_with = "number")]
        share: f64,
    },
    /// Steps of a cold series had more from the prefix cache than the chat template explains.
    ColdHits {
        /// The step with the most.
        step: u32,
        /// How many such steps there are.
        steps: u32,
        /// Share of the prompt tokens that came from the cache in it.
        #[serde(deserialize_with = "number")]
        hit_rate: f64,
    },
    /// Steps of a warm series had far less from the prefix cache than the prompts share.
    WarmMisses {
        /// The step with the least.
        step: u32,
        /// How many such steps there are.
        steps: u32,
        /// Share of the prompt tokens that came from the cache in it.
        #[serde(deserialize_with = "number")]
        hit_rate: f64,
        /// Share of the prompt tokens that lies in shared prefixes.
        #[serde(deserialize_with = "number")]
        shared: f64,
    },
    /// Steps that are read together had unlike shares of their prompts from the prefix cache.
    HitRatesDiffer {
        /// Least share of the prompt tokens.
        #[serde(deserialize_with = "number")]
        low: f64,
        /// The step that had it.
        low_step: u32,
        /// Largest share.
        #[serde(deserialize_with = "number")]
        high: f64,
        /// The step that had it.
        high_step: u32,
    },
    /// The server's counters moved by more than the client's own requests.
    OtherClients {
        /// The first step in which they did.
        step: u32,
        /// Prompt tokens that the server counted in it.
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// The most that its own requests can have had.
        #[serde(deserialize_with = "number")]
        own: f64,
        /// In how many steps they did.
        steps: u32,
    },
    /// A page of metrics that the plan names tells nothing, or not all that is wanted.
    MetricsSilent {
        /// Which: its name, or its URL.
        source: String,
        /// What came of asking.
        why: String,
    },
    /// The server was started anew within a step.
    ServerRestarted {
        /// The step.
        step: u32,
    },
    /// The server tells other settings than before the sweep was resumed.
    ServerChanged {
        /// Which setting.
        what: String,
        /// What it was.
        was: String,
        /// What it is.
        is: String,
    },
    /// The client's mean TTFT and the server's are far apart.
    TtftDiffers {
        /// The step in which they are farthest apart.
        step: u32,
        /// In how many steps they are.
        steps: u32,
        /// From sending to first token, as the client saw it.
        #[serde(deserialize_with = "number")]
        client_ms: f64,
        /// By the server, its queue included.
        #[serde(deserialize_with = "number")]
        server_ms: f64,
        /// The server's mean time in its queue, where it tells.
        queue_ms: Option<f64>,
    },
    /// Client and server count tokens otherwise.
    TokensDiffer {
        /// Whether they are the prompts', else the answers'.
        prompt: bool,
        /// The step in which they are farthest apart.
        step: u32,
        /// In how many steps they are.
        steps: u32,
        /// By the client.
        #[serde(deserialize_with = "number")]
        client: f64,
        /// By the server.
        #[serde(deserialize_with = "number")]
        server: f64,
    },
    /// The server has more or fewer requests than the client has in flight.
    InFlightDiffers {
        /// The step in which they are farthest apart.
        step: u32,
        /// In how many steps they are.
        steps: u32,
        /// Mean of the client.
        #[serde(deserialize_with = "number")]
        client: f64,
        /// Mean of the server, running and waiting.
        #[serde(deserialize_with = "number")]
        server: f64,
    },
    /// No certificate was verified.
    NotVerified,
    /// A proxy lies on the way.
    Proxy {
        /// Where it listens, without user and password.
        url: String,
        /// Whether the environment names it, else the plan.
        of_environment: bool,
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
        #[serde(deserialize_with = "number")]
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
        #[serde(deserialize_with = "number")]
        p99_ms: f64,
        /// That of the others (the lower median of theirs).
        #[serde(deserialize_with = "number")]
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
        #[serde(deserialize_with = "number")]
        share: f64,
        /// That of the others (the lower median of theirs).
        #[serde(deserialize_with = "number")]
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
    /// The server ran on this machine, and did not have its cores to itself.
    SharedCores {
        /// The step near the answer in which it had them least.
        step: u32,
        /// Number of such steps near the answer.
        steps: u32,
        /// Number of steps near the answer.
        of: u32,
        /// Neighbours that had them.
        neighbours: Neighbours,
    },
    /// The server still had requests when a step began.
    NotDrained {
        /// The step that began.
        step: u32,
        /// Requests that the server reported.
        #[serde(deserialize_with = "number")]
        left: f64,
    },
    /// The profiler could not be begun, or not be ended.
    Profiler {
        /// The step that was to be profiled.
        step: u32,
        /// What was tried: a path of the server, or a command.
        tried: String,
        /// What came of it.
        why: String,
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
        #[serde(deserialize_with = "number")]
        next: f64,
    },
    /// The sweep was interrupted.
    Interrupted,
    /// The server refused the load, or died under it.
    Refused {
        /// The step.
        step: u32,
        /// What came of it.
        how: Refusal,
    },
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
    /// The sweep had come to its deadline before its search was done.
    Deadline {
        /// The deadline, in seconds from the start.
        #[serde(deserialize_with = "number")]
        deadline_s: f64,
        /// Whether the plan names it; else it was reckoned from what the plan can take.
        named: bool,
    },
    /// The disk of the run folder was nearly full before the search was done.
    DiskLow {
        /// Bytes that were free.
        free: u64,
        /// Bytes that are kept free for reports.
        reserve: u64,
    },
    /// The sweep was gone on with though its plan was another by then.
    PlanChanged {
        /// Each key with what it was and what it is.
        differences: Vec<String>,
    },
}
