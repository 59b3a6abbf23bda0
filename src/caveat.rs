//! What the reader of a result must know, raised by numbers, each with advice.

use serde::{Deserialize, Serialize};

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
    /// The mean input length is off what the plan asks for.
    InputLengthOff {
        /// Mean tokens asked for.
        asked: f64,
        /// Mean tokens by the server's usage.
        got: f64,
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
    /// A cold-cache workload was served from a prefix cache.
    ColdCacheHits {
        /// Share of prompt tokens that came from the cache.
        share: f64,
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
    /// The client fired late in a step.
    Late {
        /// The step.
        step: u32,
        /// p99 of sent − due in milliseconds.
        p99_ms: f64,
        /// The tightest limit that counts from `due`, in milliseconds.
        limit_ms: f64,
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
}

impl Caveat {
    /// What is the case, as a sentence.
    pub fn text(&self) -> String {
        match self {
            Self::InflationAssumed { inflation, limit, pooled } => format!(
                "Misses come in clusters: verdicts count {inflation} requests as one independent request (assumed), and move from there with the clusters that the sweep has seen, to {} for {limit}.",
                crate::units::short(*pooled)
            ),
            Self::BracketOnly => {
                "The answer is the bracket between two measured levels; it carries no interval and no safe rate.".into()
            }
            Self::VirtualTime => "Time was simulated: the figures are those of the model, not of a machine.".into(),
            Self::Simulated => "The server was simulated.".into(),
            Self::PinningRefused { field, message, held } => {
                let so = if *held { "the other one still pins output lengths" } else { "output lengths were not pinned" };
                format!("The server refused {field} ({message}): {so}.")
            }
            Self::LengthsNotPinned { asked, got } => {
                format!("Answers had {got:.1} output tokens on average where {asked:.1} were asked for: output lengths were not pinned.")
            }
            Self::UsageRefused { message } => format!("The server refused stream_options ({message}): it sends no usage in streams."),
            Self::TokensEstimated { requests } => format!(
                "The server sent no usage for {requests} requests: their output tokens are estimated, one per event with text."
            ),
            Self::InputLengthOff { asked, got } => {
                format!("Prompts had {got:.1} input tokens on average where {asked:.1} were asked for.")
            }
            Self::InputNotCalibrated { reason } => format!("Input lengths were not calibrated: {reason}."),
            Self::NoFinishReason { requests } => {
                format!("{requests} streams ended with [DONE] but without a finish reason; they count as answered.")
            }
            Self::ColdCacheHits { share } => format!(
                "{:.1} % of the prompt tokens came from the server's prefix cache although the workload is cold.",
                share * 100.0
            ),
            Self::ClosedLoop => {
                "A closed loop hides the queue that independent arrivals build: on ordinary servers its answer is 1.1–2.4 times the rate that Poisson traffic may have.".into()
            }
            Self::Failures { requests, of, kind, most } => format!(
                "{requests} of {of} measured requests failed, {} {kind}; failures count as misses.",
                if *most { "most of them as" } else { "most often as" }
            ),
            Self::Late { step, p99_ms, limit_ms } => format!(
                "In step {step} the client itself sent late: p99 {p99_ms:.1} ms, above 5 % of the tightest limit of {limit_ms:.0} ms."
            ),
            Self::NotDrained { step, left } => format!("Step {step} began while the server still reported {left:.0} requests."),
            Self::FewRequests { steps } => format!(
                "{steps} {} too few requests for an upper bound of the p99 (below 368 independent requests).",
                if *steps == 1 { "step has" } else { "steps have" }
            ),
            Self::BudgetSpent { next } => format!(
                "The budget ended the sweep: the step at {} could have ended after it.",
                crate::units::short(*next)
            ),
            Self::Interrupted => "The sweep was interrupted: the answer rests on the steps measured until then.".into(),
            Self::ServerGone { step } => format!("The server stopped answering in step {step}; the sweep ended there."),
            Self::PartialStep { step, requests } => {
                format!("Step {step} was not finished: its {requests} requests are kept and not judged.")
            }
            Self::TornRow { file } => format!("The last row of {file} was torn and has been dropped."),
        }
    }

    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::InflationAssumed { .. } => {
                "Longer steps (step.measure, --budget) decide more; the factor is on the cautious side."
            }
            Self::BracketOnly => {
                "More levels between its two ends narrow it (search.rates), or more time for the adaptive search (--budget)."
            }
            Self::VirtualTime | Self::Simulated => "Set server.url to measure a real server.",
            Self::PinningRefused { .. } | Self::LengthsNotPinned { .. } => {
                "Compare with other servers only at equal output lengths; see output_tokens_mean in steps.csv."
            }
            Self::UsageRefused { .. } | Self::TokensEstimated { .. } => {
                "Trust TTFT and e2e; TPOT and token rates are estimates where events carry several tokens."
            }
            Self::InputLengthOff { .. } | Self::InputNotCalibrated { .. } => {
                "Quote the measured input length, not the one asked for; see input_tokens_mean in steps.csv."
            }
            Self::NoFinishReason { .. } => {
                "Look at the server or the proxy in front of it: answers may have been cut short."
            }
            Self::ColdCacheHits { .. } => {
                "An earlier run with the same seed left its prompts in the cache: restart the server or change the seed (--set seed=2)."
            }
            Self::ClosedLoop => {
                "Before promising a rate to independent users, measure it: search.rates or search.ramp."
            }
            Self::Failures { .. } => "See failures.csv for the kinds and one body of each.",
            Self::Late { .. } => "Run the client on an idle machine, or on more cores.",
            Self::NotDrained { .. } => {
                "Give step.drain more time, and make sure nobody else uses the server."
            }
            Self::FewRequests { .. } => "Use longer steps (step.measure, step.min-requests, or --budget).",
            Self::BudgetSpent { .. } => {
                "Give it more time (--budget), or shorter steps (step.measure, step.settle, step.drain)."
            }
            Self::Interrupted => "Run the sweep again for the rest.",
            Self::ServerGone { .. } => {
                "Look at the server's log; the last step shows the load that it died under."
            }
            Self::PartialStep { .. } => "Run the sweep again to measure that step.",
            Self::TornRow { .. } => "The run was killed while writing; nothing else is affected.",
        }
    }
}
