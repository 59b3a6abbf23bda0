//! The next measurement: the single change that would settle a finding.

mod trials;
pub(super) use trials::number_trials;
use trials::to_be_tried;

use super::figure::Figure;
use super::flags::Knob;
use super::pool::{self, PoolSize};
use super::remedy::Remedy;
use super::settings::Value;
use super::subject::Subject;
use super::suggestion::{Flag, flag, flags};
use super::trial::{self, Gain};
use super::{Advice, BatchChange, Change, Kind};
use goodput_core::level::Control;
use goodput_core::units::short;
use serde::Serialize;

/// Key of the plan for prompt lengths; only synthetic prompts have one.
const LENGTHS: &str = "workload.prompts.synthetic.input-tokens";
/// Key of the plan for the lengths of answers to synthetic prompts.
const OUTPUT: &str = "workload.prompts.synthetic.output-tokens";

/// A measurement that would settle a finding.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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
    /// The first advice that names a value, measured as a variant after this sweep.
    TryAdvice,
    /// The remedies that were tried, as a sweep of their own.
    TriedAdvice,
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
    /// This sweep, from a client beside the server.
    BesideTheServer,
    /// This sweep, once requests no longer fail.
    WithoutErrors,
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

/// Returns the measurement that would settle a finding with this advice.
pub(super) fn of(kind: Kind, advice: &[Advice], s: &Subject<'_>) -> Next {
    if s.curve.question.is_some()
        && let Some(measurement) = row(kind)
    {
        return Next { measurement, command: command(s, &[]) };
    }
    if kind == Kind::ClientLimited {
        let command = "goodput calibrate --save client.json".into();
        return Next { measurement: Measurement::Calibration, command };
    }
    let gain = advice.first().and_then(|first| trial::gain(&s.facts.trials, &s.curve.series, first));
    if matches!(gain, Some(Gain::Gained(_) | Gain::Open)) {
        return Next { measurement: Measurement::TriedAdvice, command: s.facts.trial_again.clone() };
    }
    first(s, candidates(kind, advice, s))
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
    let command = match measurement {
        Measurement::TryAdvice => s.facts.try_advice.clone(),
        Measurement::WithAdvice
        | Measurement::TriedAdvice
        | Measurement::Calibration
        | Measurement::OtherSequences { .. }
        | Measurement::ColdAndWarm
        | Measurement::HalfTheGpus
        | Measurement::HalfThePrompts
        | Measurement::OneRequestAlone
        | Measurement::BesideTheServer
        | Measurement::WithoutErrors
        | Measurement::ClosedLoop
        | Measurement::EvenArrivals
        | Measurement::LowerLevels
        | Measurement::RowOfHalfThePrompt
        | Measurement::RowsOfSmallerWeights
        | Measurement::RowOfHalfTheLoad
        | Measurement::LengthsAroundTheMean
        | Measurement::UnloadedStep
        | Measurement::ClassesAlone
        | Measurement::Again => command(s, &sets),
    };
    Some(Next { measurement, command })
}

/// Returns the measurements that would settle a finding, the best first.
fn candidates(kind: Kind, advice: &[Advice], s: &Subject<'_>) -> Vec<Candidate> {
    let lower = || (Measurement::LowerLevels, vec![format!("search.{}=[{}]", list(s), below(s))]);
    match kind {
        Kind::ClientLimited => Vec::new(),
        Kind::Errors => vec![(Measurement::WithoutErrors, Vec::new())],
        Kind::Preemption
        | Kind::KvExhaustion
        | Kind::Throttled
        | Kind::DraftingCosts
        | Kind::SmallIterations
        | Kind::BatchTooLarge => vec![with_advice(s, advice)],
        Kind::Network => vec![(Measurement::BesideTheServer, Vec::new())],
        Kind::IdleGpus => one_request_alone(s),
        Kind::PrefillStalls if super::pace::reads_whole_prompts(s) => vec![with_advice(s, advice)],
        Kind::PrefillStalls => {
            let advised = with_advice(s, advice);
            let classes = (Measurement::ClassesAlone, vec![pool::CLASSES_ALONE.to_owned()]);
            // Where the plan cannot follow the first advice, it can size the pool of the second.
            let sized = advised == (Measurement::WithAdvice, Vec::new())
                && pool::size(s) == Some(PoolSize::Measurable);
            if sized { vec![classes, advised] } else { vec![advised] }
        }
        Kind::BatchTooSmall => {
            let more = super::figure::seats(s).map_or(2, |n| 2 * n as u32).max(2);
            vec![more_sequences(s, advice, more)]
        }
        Kind::CacheMisses if Figure::CacheIsOff.of(s).is_some_and(|off| off.value > 0.5) => {
            vec![with_advice(s, advice)]
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
        | Kind::IdleGpus
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
        Kind::CommunicationBound => first(s, candidates(kind, &[], s)),
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
        | Kind::IdleGpus
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

/// Returns this measurement with more concurrent sequences: as many as are advised, or else `otherwise`.
fn more_sequences(s: &Subject<'_>, advice: &[Advice], otherwise: u32) -> Candidate {
    let is_untried = |a: &&Advice| trial::gain(&s.facts.trials, &s.curve.series, a).is_none();
    let more = advice.iter().find(|a| a.change == Change::Batch(BatchChange::AdmitMore)).filter(is_untried);
    let Some(more) = more else { return with_advice(s, advice) };
    let is_first = advice.first().is_some_and(|first| first.change == more.change);
    let advised = with_advice(s, std::slice::from_ref(more));
    if is_first && advised.0 == Measurement::TryAdvice {
        return advised;
    }
    let sequences = match more.to.as_ref().map(|to| &to.value) {
        Some(Value::Count(n)) => u32::try_from(*n).unwrap_or(otherwise),
        Some(Value::Share(_) | Value::Switch(_) | Value::Word(_)) | None => otherwise,
    };
    let (set, sets) = match flag(s, Knob::Sequences) {
        Some(flag) if !flags(s).is_simulated() => (SetBy::Flag(flag), vec![]),
        Some(key) => {
            let sets = vec![format!("{}={sequences}", key.name)];
            if is_free(s, &sets) { (SetBy::Plan, sets) } else { (SetBy::Unknown, vec![]) }
        }
        None => (SetBy::Unknown, vec![]),
    };
    (Measurement::OtherSequences { sequences, set }, sets)
}

/// Returns this measurement with the first advice, by keys of the plan, on a simulated server; on one that the plan starts, a
/// trial of the first advice that names a value.
fn with_advice(s: &Subject<'_>, advice: &[Advice]) -> Candidate {
    let remedy = advice.first().and_then(Remedy::of);
    let keys = |remedy: &Remedy| -> Option<Vec<String>> {
        remedy.changes.iter().map(|(key, to)| Some(format!("{key}={}", to.toml()?))).collect()
    };
    let sets = remedy.as_ref().filter(|remedy| remedy.is_simulated()).and_then(keys);
    if let Some(sets) = sets.filter(|sets| is_free(s, sets)) {
        return (Measurement::WithAdvice, sets);
    }
    let command = s.curve.command.as_deref().unwrap_or_default();
    let can_try = to_be_tried(advice, &s.curve.series, command, &s.facts.trials).is_some();
    (if can_try { Measurement::TryAdvice } else { Measurement::WithAdvice }, Vec::new())
}

/// Returns true if overrides of the plan set keys that its variants do not, and the plan takes them.
fn is_free(s: &Subject<'_>, sets: &[String]) -> bool {
    let own = |set: &String| s.curve.variant_keys.iter().any(|key| set.starts_with(&format!("{key}=")));
    !sets.is_empty() && !sets.iter().any(own) && s.facts.accepts.all(sets)
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
