//! The next measurement: the single change that would settle a finding.

use super::Kind;
use super::figure::Figure;
use super::flags::Knob;
use super::pool::{self, PoolSize};
use super::settings::Value;
use super::subject::Subject;
use super::suggestion::{Direction, Flag, NewValue, Suggestion, flag, flags, suggestion};
use goodput_core::level::Control;
use goodput_core::units::short;
use serde::Serialize;

/// Key of the plan for prompt lengths; only synthetic prompts have one.
const LENGTHS: &str = "workload.prompts.synthetic.input-tokens";
/// Key of the plan for the lengths of answers to synthetic prompts.
const OUTPUT: &str = "workload.prompts.synthetic.output-tokens";

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
    /// This sweep with the first advice followed.
    WithAdvice,
    /// The client machine alone: the highest rate that it can send.
    Calibration,
    /// This sweep with another number of concurrent sequences.
    OtherSequences {
        /// Number of sequences.
        sequences: u32,
        /// Means of setting the number.
        set: SetBy,
    },
    /// This sweep with a cold and with a warm cache.
    ColdAndWarm,
    /// This sweep with half as many GPUs per copy of the model.
    HalfTheGpus,
    /// This sweep with prompts half as long.
    HalfThePrompts,
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
    /// The mix, and each of its classes alone.
    ClassesAlone,
    /// This sweep once more, if the plan takes no override that would show more.
    Again,
}

/// A measurement with the overrides of the plan that it takes.
type Candidate = (Measurement, Vec<String>);

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

/// Returns the measurement that would settle a finding.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Next {
    if s.curve.question.is_some()
        && let Some(measurement) = row(kind)
    {
        return Next { measurement, command: command(s, &[]) };
    }
    if kind == Kind::ClientLimited {
        let command = "goodput calibrate --save client.json".into();
        return Next { measurement: Measurement::Calibration, command };
    }
    first(s, candidates(kind, s))
        .unwrap_or_else(|| Next { measurement: Measurement::Again, command: command(s, &[]) })
}

/// Returns the first measurement whose overrides the plan takes. The rows of a matrix define their levels and prompts,
/// so that overrides of these would change nothing.
fn first(s: &Subject<'_>, candidates: Vec<Candidate>) -> Option<Next> {
    let of_rows = |set: &String| set.starts_with("search.") || set.starts_with("workload.prompts");
    let taken = |(_, sets): &Candidate| {
        (s.curve.question.is_none() || !sets.iter().any(of_rows)) && s.facts.accepts.all(sets)
    };
    let (measurement, sets) = candidates.into_iter().find(taken)?;
    Some(Next { measurement, command: command(s, &sets) })
}

/// Returns the measurements that would settle a finding, the best first.
fn candidates(kind: Kind, s: &Subject<'_>) -> Vec<Candidate> {
    let lower = || (Measurement::LowerLevels, vec![format!("search.{}=[{}]", list(s), below(s))]);
    match kind {
        Kind::ClientLimited => Vec::new(),
        Kind::Errors => vec![lower()],
        Kind::Preemption | Kind::KvExhaustion => vec![with_advice(s, Knob::Memory, Direction::Raise)],
        Kind::Network => one_request_alone(s),
        Kind::Throttled | Kind::DraftingCosts => vec![(Measurement::WithAdvice, Vec::new())],
        Kind::SmallIterations => vec![with_advice(s, Knob::Tokens, Direction::Raise)],
        Kind::PrefillStalls if super::pace::reads_whole_prompts(s) => {
            vec![with_advice(s, Knob::ChunkedPrefill, Direction::On)]
        }
        Kind::PrefillStalls => {
            let advised = with_advice(s, Knob::Tokens, Direction::Lower);
            let classes = (Measurement::ClassesAlone, vec![pool::CLASSES_ALONE.to_owned()]);
            // Where the plan cannot follow the first advice, it can size the pool of the second.
            let sized = advised.1.is_empty() && pool::size(s) == Some(PoolSize::Measurable);
            if sized { vec![classes, advised] } else { vec![advised] }
        }
        Kind::BatchTooLarge => vec![with_advice(s, Knob::Sequences, Direction::Lower)],
        Kind::BatchTooSmall => {
            let more = super::figure::seats(s).map_or(2, |n| 2 * n as u32).max(2);
            vec![restarted(s, Direction::Raise, more)]
        }
        Kind::CacheMisses if Figure::CacheIsOff.of(s).is_some_and(|off| off.value > 0.5) => {
            vec![with_advice(s, Knob::PrefixCache, Direction::On)]
        }
        Kind::CacheMisses => vec![(Measurement::ColdAndWarm, vec!["workload.cache=pair".into()])],
        Kind::CommunicationBound => {
            let half = (s.curve.tensor_parallel.unwrap_or(2) / 2).max(1);
            vec![(Measurement::HalfTheGpus, vec![format!("hardware.tensor-parallel={half}")])]
        }
        Kind::PrefillBound => {
            let half = s.curve.fixed_input.filter(|n| *n > 1);
            let half =
                half.map(|n| (Measurement::HalfThePrompts, vec![format!("{LENGTHS}={{fixed={}}}", n / 2)]));
            half.into_iter().chain(lengths(s)).chain(one_request_alone(s)).collect()
        }
        Kind::DecodeBound => one_request_alone(s),
        Kind::BatchingTradeOff => {
            let closed = (Measurement::ClosedLoop, vec![format!("search.concurrency=[{}]", ladder(s))]);
            vec![closed, lower()]
        }
        Kind::Queueing if s.is_open() => {
            vec![(Measurement::EvenArrivals, vec!["workload.arrivals=constant".into()]), lower()]
        }
        Kind::Queueing | Kind::Unstable => vec![lower()],
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
        | Kind::Errors
        | Kind::BatchTooLarge
        | Kind::Network
        | Kind::Throttled
        | Kind::DraftingCosts
        | Kind::SmallIterations
        | Kind::PrefillStalls
        | Kind::CommunicationBound => None,
    }
}

/// Returns the measurement that would decide an undecided kind, if a command can make it.
pub(super) fn to_tell(kind: Kind, s: &Subject<'_>) -> Option<Next> {
    match kind {
        Kind::PrefillBound => first(s, lengths(s).into_iter().collect()),
        Kind::CommunicationBound => first(s, candidates(kind, s)),
        Kind::DecodeBound | Kind::Queueing | Kind::BatchingTradeOff
            if s.alone.is_none() && s.curve.question.is_none() =>
        {
            first(s, unloaded(s))
        }
        Kind::DecodeBound
        | Kind::Queueing
        | Kind::BatchingTradeOff
        | Kind::ClientLimited
        | Kind::Errors
        | Kind::BatchTooLarge
        | Kind::Network
        | Kind::Throttled
        | Kind::DraftingCosts
        | Kind::SmallIterations
        | Kind::PrefillStalls
        | Kind::Preemption
        | Kind::KvExhaustion
        | Kind::BatchTooSmall
        | Kind::CacheMisses
        | Kind::Unstable => None,
    }
}

/// Returns prompts of different lengths around the mean, whatever the source of the plan's prompts.
fn lengths(s: &Subject<'_>) -> Option<Candidate> {
    if s.curve.question.is_some() {
        return None;
    }
    let n = match s.curve.fixed_input {
        Some(n) => n,
        None => s.at.input_tokens_mean.filter(|n| *n >= 1.0)? as u32,
    };
    let ends = format!("{LENGTHS}={{uniform={{min={},max={}}}}}", (n / 3).max(1), n.saturating_mul(5) / 3);
    let mut sets = vec![ends];
    if s.curve.fixed_input.is_none() {
        let output = s.at.output_tokens_mean.filter(|n| *n >= 1.0)? as u32;
        sets.push(format!("{OUTPUT}={{fixed={output}}}"));
    }
    Some((Measurement::LengthsAroundTheMean, sets))
}

/// Returns one request at a time, as the only level or before the others.
fn one_request_alone(s: &Subject<'_>) -> Vec<Candidate> {
    let alone = (Measurement::OneRequestAlone, vec!["search.concurrency=[1]".to_owned()]);
    std::iter::once(alone).chain(unloaded(s)).collect()
}

/// Returns an unloaded step before the levels of a list, which replaces a search that has no such step.
fn unloaded(s: &Subject<'_>) -> Vec<Candidate> {
    let baseline = || "search.baseline=true".to_owned();
    let listed = format!("search.{}=[{}]", list(s), below(s));
    vec![(Measurement::UnloadedStep, vec![baseline()]), (Measurement::UnloadedStep, vec![listed, baseline()])]
}

/// Returns the command that measures the plan again with these settings changed.
fn command(s: &Subject<'_>, sets: &[String]) -> String {
    let sets: String = sets.iter().map(|set| format!(" --set '{set}'")).collect();
    // After the plan, before the other arguments of the first run.
    s.facts.again.replacen("plan.toml", &format!("plan.toml{sets}"), 1)
}

/// Returns this measurement with another number of concurrent sequences: the suggested one, or else `otherwise`. For a
/// simulated server that is a key of the plan, unless the variants set it.
fn restarted(s: &Subject<'_>, direction: Direction, otherwise: u32) -> Candidate {
    let suggested = match suggestion(s, Knob::Sequences, direction) {
        Suggestion::Set(NewValue { to: Value::Count(n), .. }) => u32::try_from(n).ok(),
        Suggestion::Set(_)
        | Suggestion::Toward { .. }
        | Suggestion::AlreadySet(_)
        | Suggestion::AtBound(..)
        | Suggestion::NoFlag => None,
    };
    let sequences = suggested.unwrap_or(otherwise);
    let (set, sets) = match flag(s, Knob::Sequences) {
        Some(flag) if !flags(s).is_simulated() => (SetBy::Flag(flag), vec![]),
        Some(key) => {
            let sets = vec![format!("{}={sequences}", key.name)];
            let free = !s.curve.variant_keys.iter().any(|own| own == key.name);
            if free && s.facts.accepts.all(&sets) { (SetBy::Plan, sets) } else { (SetBy::Unknown, vec![]) }
        }
        None => (SetBy::Unknown, vec![]),
    };
    (Measurement::OtherSequences { sequences, set }, sets)
}

/// Returns this measurement with the advised value of a setting; for a simulated server that is a key of the plan.
fn with_advice(s: &Subject<'_>, knob: Knob, direction: Direction) -> Candidate {
    let sets: Vec<String> = match suggestion(s, knob, direction) {
        Suggestion::Set(NewValue { flag, to, with, .. }) if flags(s).is_simulated() => {
            let of = |flag: Flag, to: &Value| Some(format!("{}={}", flag.name, to.toml()?));
            of(flag, &to).into_iter().chain(with.and_then(|(flag, to)| of(flag, &to))).collect()
        }
        Suggestion::Set(_)
        | Suggestion::Toward { .. }
        | Suggestion::AlreadySet(_)
        | Suggestion::AtBound(..)
        | Suggestion::NoFlag => Vec::new(),
    };
    let own = |set: &String| s.curve.variant_keys.iter().any(|key| set.starts_with(&format!("{key}=")));
    let free = !sets.is_empty() && !sets.iter().any(own) && s.facts.accepts.all(&sets);
    (Measurement::WithAdvice, if free { sets } else { Vec::new() })
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
