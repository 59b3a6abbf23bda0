//! The next measurement: the single change that would settle a finding.

use super::Kind;
use super::advice::{Flag, flag, flags};
use super::flags::{Flags, Knob};
use super::subject::Subject;
use goodput_core::level::Control;
use goodput_core::units::short;
use serde::Serialize;

/// Key of the plan for prompt lengths; only synthetic prompts have one.
const LENGTHS: &str = "workload.prompts.synthetic.input-tokens";

/// A measurement that would settle a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Next {
    /// The measurement and what it would show, which reports put into words.
    #[serde(skip)]
    pub measurement: Measurement,
    /// The command to run in the run folder.
    pub command: String,
}

/// A measurement that would settle a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measurement {
    /// The client machine alone: the highest rate that it can send.
    Calibration,
    /// This sweep with another number of concurrent sequences.
    OtherSequences {
        /// Number of sequences.
        sequences: u32,
        /// Means of setting the number.
        set: SetBy,
        /// The change that would confirm the finding.
        expect: Expectation,
    },
    /// This sweep with a cold and with a warm cache.
    ColdAndWarm,
    /// This sweep with half as many GPUs per copy of the model.
    HalfTheGpus,
    /// This sweep with prompts half as long.
    HalfThePrompts,
    /// A matrix with a short and a long prompt.
    ShortAndLongPrompts,
    /// One request alone.
    OneRequestAlone,
    /// A closed loop with fewer and with more requests in flight.
    ClosedLoop,
    /// This sweep with evenly spaced arrivals.
    EvenArrivals,
    /// Lower levels.
    LowerLevels,
    /// A matrix row with half of the input tokens.
    RowOfHalfThePrompt,
    /// The matrix rows with weights of fewer bits.
    RowsOfSmallerWeights,
    /// A matrix row with half of the load.
    RowOfHalfTheLoad,
    /// Prompts of different lengths around the same mean.
    LengthsAroundTheMean,
    /// An unloaded step before the others.
    UnloadedStep,
}

/// The means of changing a setting of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// A key of the plan, for a simulated server.
    Plan,
    /// A flag at the start of the server.
    Flag(Flag),
    /// No known flag of this server.
    Unknown,
}

/// The change expected from another number of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Preemptions and waits disappear, and the goodput rises or stays.
    NoPreemptions,
    /// The wait falls and TPOT stays within its limit.
    ShorterWait,
}

/// Returns the measurement that would settle a finding.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Next {
    if s.curve.question.is_some()
        && let Some(measurement) = row(kind)
    {
        return Next { measurement, command: command(s, &[]) };
    }
    let again = |measurement, set: String| Next { measurement, command: command(s, &[set]) };
    match kind {
        Kind::ClientLimited => Next {
            measurement: Measurement::Calibration,
            command: "goodput calibrate --save client.json".into(),
        },
        Kind::Preemption | Kind::KvExhaustion => {
            let fewer = s.at.server.running_mean.map_or(1, |n| ((0.75 * n) as u32).max(1));
            restarted(s, fewer, Expectation::NoPreemptions)
        }
        Kind::BatchTooSmall => {
            let more = super::figure::seats(s).map_or(2, |n| 2 * n as u32).max(2);
            restarted(s, more, Expectation::ShorterWait)
        }
        Kind::CacheMisses => again(Measurement::ColdAndWarm, "workload.cache=pair".into()),
        Kind::CommunicationBound => {
            let half = (s.curve.tensor_parallel.unwrap_or(2) / 2).max(1);
            again(Measurement::HalfTheGpus, format!("hardware.tensor-parallel={half}"))
        }
        Kind::PrefillBound => match s.curve.fixed_input {
            Some(n) if n > 1 => again(Measurement::HalfThePrompts, format!("{LENGTHS}={{fixed={}}}", n / 2)),
            _ => Next {
                measurement: Measurement::ShortAndLongPrompts,
                command: "goodput sweep matrix --url URL".into(),
            },
        },
        Kind::DecodeBound => Next { measurement: Measurement::OneRequestAlone, command: latency(s) },
        Kind::BatchingTradeOff => {
            again(Measurement::ClosedLoop, format!("search.concurrency=[{}]", ladder(s)))
        }
        Kind::Queueing if s.is_open() => {
            again(Measurement::EvenArrivals, "workload.arrivals=constant".into())
        }
        Kind::Queueing | Kind::Unstable => {
            again(Measurement::LowerLevels, format!("search.{}=[{}]", list(s), below(s)))
        }
    }
}

/// Returns the matrix row that would settle a finding, if one would.
const fn row(kind: Kind) -> Option<Measurement> {
    match kind {
        Kind::PrefillBound => Some(Measurement::RowOfHalfThePrompt),
        Kind::DecodeBound => Some(Measurement::RowsOfSmallerWeights),
        Kind::BatchingTradeOff | Kind::Queueing | Kind::Unstable => Some(Measurement::RowOfHalfTheLoad),
        Kind::ClientLimited
        | Kind::Preemption
        | Kind::KvExhaustion
        | Kind::BatchTooSmall
        | Kind::CacheMisses
        | Kind::CommunicationBound => None,
    }
}

/// Returns the measurement that would decide an undecided kind, if a command can make it.
pub(super) fn to_tell(kind: Kind, s: &Subject<'_>) -> Option<Next> {
    match kind {
        Kind::PrefillBound => {
            let n = s.curve.fixed_input?;
            let ends =
                format!("{LENGTHS}={{uniform={{min={},max={}}}}}", (n / 3).max(1), n.saturating_mul(5) / 3);
            Some(Next { measurement: Measurement::LengthsAroundTheMean, command: command(s, &[ends]) })
        }
        Kind::CommunicationBound => Some(of(kind, s)),
        Kind::DecodeBound | Kind::Queueing | Kind::BatchingTradeOff if s.alone.is_none() => Some(Next {
            measurement: Measurement::UnloadedStep,
            command: command(s, &["search.baseline=true".into()]),
        }),
        Kind::DecodeBound
        | Kind::Queueing
        | Kind::BatchingTradeOff
        | Kind::ClientLimited
        | Kind::Preemption
        | Kind::KvExhaustion
        | Kind::BatchTooSmall
        | Kind::CacheMisses
        | Kind::Unstable => None,
    }
}

/// Returns the command that measures the plan again with these settings changed. The rows of a matrix define their
/// levels and prompts, so those settings are left out for a matrix.
fn command(s: &Subject<'_>, sets: &[String]) -> String {
    let free = |set: &&String| {
        s.curve.question.is_none() || !(set.starts_with("search.") || set.starts_with("workload.prompts"))
    };
    let sets: String = sets.iter().filter(free).map(|set| format!(" --set '{set}'")).collect();
    // After the plan, before the other arguments of the first run.
    s.facts.again.replacen("plan.toml", &format!("plan.toml{sets}"), 1)
}

/// Returns this measurement with another number of concurrent sequences; for a simulated server that is a key of the
/// plan.
fn restarted(s: &Subject<'_>, sequences: u32, expect: Expectation) -> Next {
    let (set, sets) = match (flags(s), flag(s, Knob::Sequences)) {
        (Flags::Simulated, Some(key)) => (SetBy::Plan, vec![format!("{}={sequences}", key.name)]),
        (_, Some(flag)) => (SetBy::Flag(flag), vec![]),
        (_, None) => (SetBy::Unknown, vec![]),
    };
    let measurement = Measurement::OtherSequences { sequences, set, expect };
    Next { measurement, command: command(s, &sets) }
}

/// Returns the command that measures one request alone on this server.
fn latency(s: &Subject<'_>) -> String {
    if flags(s) == Flags::Simulated {
        command(s, &["search.concurrency=[1]".into()])
    } else {
        "goodput latency --url URL".into()
    }
}

/// Returns a list of numbers in flight, up to the mean of the step or 4, whichever is more.
fn ladder(s: &Subject<'_>) -> String {
    let most = s.at.in_flight_mean.max(4.0);
    let mut all: Vec<u32> =
        [0.125, 0.25, 0.5, 1.0].iter().map(|x| ((most * x).round() as u32).max(1)).collect();
    all.dedup();
    all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

const fn list(s: &Subject<'_>) -> &'static str {
    match s.at.level.control {
        Control::Concurrency => "concurrency",
        Control::Rate | Control::Sessions | Control::TraceScale => "rates",
    }
}

/// Returns a list of three levels below that of the step.
fn below(s: &Subject<'_>) -> String {
    let level = s.at.level;
    let of = |share: f64| match level.control {
        Control::Concurrency => (level.value * share).round().max(1.0),
        Control::Rate | Control::Sessions | Control::TraceScale => level.value * share,
    };
    let mut all = [0.5, 0.7, 0.85].map(|share| short(of(share))).to_vec();
    all.dedup();
    all.join(", ")
}
