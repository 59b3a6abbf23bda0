//! Why a limit was missed, and what to change: findings from the steps and the server's own counters.
//!
//! A finding says what the evidence shows and no more. Everything here is pure: [`diagnose`] takes the steps and the [`Facts`] of a run. The
//! rules and their thresholds are one table, [`rules::RULES`]; a rule compares *figures* ([`figure::Figure`]) of the step that is looked into
//! with those of an unloaded one, and where a figure is not known the rule does not fire: what can then not be told is said
//! ([`Untold`]).

pub mod advice;
mod change;
pub mod fact;
pub mod facts;
pub mod figure;
mod fit;
mod flags;
pub mod floor;
pub mod next;
pub mod rules;
mod subject;

#[cfg(test)]
mod tests;

pub use advice::{Advice, Flag, Start, StartValue};
pub use change::{BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange};
pub use fact::{
    CacheFact, Compared, Fact, GpusTpot, HardwareFact, LatencyFact, LengthTtft, Place, Reference, ServerFact,
    ThroughputFact,
};
pub use facts::{Curve, Facts, LengthPoint, OwnLimit};
pub use figure::{Evidence, Figure, Source};
pub use flags::{Flags, Knob};
pub use floor::{Measured, Reading, Roofline};
pub use next::{Expectation, Measurement, Next, SetBy};
pub use subject::is_one;

use crate::stats::step::Step;
use goodput_core::slo::Metric;
use rules::{About, RULES, Rule, Scope};
use serde::Serialize;
use subject::Subject;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The client was the limit, not the server.
    ClientLimited,
    /// Requests lose their place in the KV cache and are computed again.
    Preemption,
    /// The KV cache is full.
    KvExhaustion,
    /// The server works on few requests at a time, while others wait and it has room.
    BatchTooSmall,
    /// A cache that should be warm is not.
    CacheMisses,
    /// GPUs that work on one token together wait for one another.
    CommunicationBound,
    /// Reading the prompt sets the time to the first token.
    PrefillBound,
    /// Writing a token takes as long as it does for one request alone.
    DecodeBound,
    /// More is written in all, and each token takes longer.
    BatchingTradeOff,
    /// Requests wait for one another before their first token.
    Queueing,
    /// More comes than the server gets done.
    Unstable,
}

impl Kind {
    /// All of them; of equal weight, causes stand before what they cause.
    pub const ALL: [Self; 11] = [
        Self::ClientLimited,
        Self::Preemption,
        Self::KvExhaustion,
        Self::BatchTooSmall,
        Self::CacheMisses,
        Self::CommunicationBound,
        Self::PrefillBound,
        Self::DecodeBound,
        Self::BatchingTradeOff,
        Self::Queueing,
        Self::Unstable,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientLimited => "client-limited",
            Self::Preemption => "preemption",
            Self::KvExhaustion => "kv-exhaustion",
            Self::BatchTooSmall => "batch-too-small",
            Self::CacheMisses => "cache-misses",
            Self::CommunicationBound => "communication-bound",
            Self::PrefillBound => "prefill-bound",
            Self::DecodeBound => "decode-bound",
            Self::BatchingTradeOff => "batching-trade-off",
            Self::Queueing => "queueing",
            Self::Unstable => "unstable",
        }
    }
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// It is one of several causes that would look like this, or something that one would expect to see was not seen.
    Low,
    /// The latencies are shaped like this; what happens within the server was not seen.
    Medium,
    /// The counters, or a comparison made for it, show the mechanism itself.
    High,
}

impl Confidence {
    /// The name in files and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The series that it is of.
    pub series: String,
    /// The limit that was missed where it was found, if one was: `ttft.p99`.
    pub limit: Option<String>,
    /// The step in which it was found.
    pub step: u32,
    /// The share that it has in what binds, where it is a part of the latency that is limited; 1 for what makes others worse.
    pub weight: f64,
    /// How sure it is.
    pub confidence: Confidence,
    /// The figures that show it.
    pub evidence: Vec<Evidence>,
    /// Changes that would help, by the server's own flags.
    #[serde(skip)]
    pub advice: Vec<Advice>,
    /// What would settle it.
    pub next: Next,
}

/// What cannot be told, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Untold {
    /// What it would be.
    pub kind: Kind,
    /// The series.
    pub series: String,
    /// What is not known.
    pub missing: Vec<Source>,
    /// What would tell.
    pub next: Option<Next>,
}

/// Everything that the steps of a run tell of its causes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diagnosis {
    /// What was found, what binds first.
    pub findings: Vec<Finding>,
    /// What cannot be told.
    pub untold: Vec<Untold>,
}

/// What a rule came to.
enum Outcome {
    /// It holds.
    Fires(Confidence, Vec<Evidence>),
    /// It does not.
    Not,
    /// What it takes is not known.
    Unknown(Vec<Source>),
}

/// What the steps of a run show, for each of its curves.
pub fn diagnose(steps: &[Step], facts: &Facts) -> Diagnosis {
    let mut all = Diagnosis::default();
    for curve in &facts.curves {
        let Some(subject) = Subject::of(steps, facts, curve) else { continue };
        for kind in Kind::ALL {
            let known = |f: &Finding| f.kind == kind && f.series == curve.series;
            if all.findings.iter().any(known) {
                continue;
            }
            match of_kind(kind, &subject) {
                Ok(Some(finding)) => all.findings.push(finding),
                Ok(None) => {}
                Err(missing) => all.untold.extend(untold(kind, &subject, missing)),
            }
        }
    }
    let found = |u: &Untold| all.findings.iter().any(|f| f.kind == u.kind && f.series == u.series);
    all.untold.retain(|u| !found(u));
    all.findings.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
    all
}

/// What binds stands first: what was found where a limit was missed, by its share in that.
fn key(f: &Finding) -> (bool, f64, Confidence, std::cmp::Reverse<Kind>) {
    // Shares that differ by less than this are alike: then what is surer stands first.
    (f.limit.is_some(), (f.weight * 5.0).round(), f.confidence, std::cmp::Reverse(f.kind))
}

/// The surest finding of a kind; what is missing where no rule fires and one cannot be decided.
fn of_kind(kind: Kind, subject: &Subject<'_>) -> Result<Option<Finding>, Vec<Source>> {
    let mut best: Option<Finding> = None;
    let (mut missing, mut decided): (Vec<Source>, bool) = (Vec::new(), false);
    for rule in RULES.iter().filter(|r| r.kind == kind && applies(r, subject)) {
        match at_its_step(rule, subject) {
            (Outcome::Fires(confidence, evidence), at) => {
                let surer = best.as_ref().is_none_or(|b| confidence > b.confidence);
                if surer {
                    best = Some(finding(rule, &at, confidence, evidence));
                }
            }
            // Another way to see it has shown that it is not so.
            (Outcome::Not, _) => decided = true,
            (Outcome::Unknown(what), _) => missing.extend(what),
        }
    }
    let mut seen: Vec<Source> = Vec::new();
    missing.retain(|what| {
        !seen.contains(what) && {
            seen.push(*what);
            true
        }
    });
    match best {
        None if !missing.is_empty() && !decided => Err(missing),
        best => Ok(best),
    }
}

/// Whether a rule is about what is asked of a curve.
fn applies(rule: &Rule, subject: &Subject<'_>) -> bool {
    match rule.about {
        About::Always => true,
        About::First => subject.focus() == Some(Metric::Ttft),
        About::Rest => subject.focus() == Some(Metric::Tpot),
        About::Missed => subject.curve.limit.is_some(),
    }
}

/// A rule at the step where it is to be looked for: the one that is looked into, or of those with no more load the worst.
fn at_its_step<'a>(rule: &Rule, subject: &Subject<'a>) -> (Outcome, Subject<'a>) {
    let here = outcome(rule, subject);
    if rule.scope == Scope::Step || matches!(here, Outcome::Fires(..)) {
        return (here, *subject);
    }
    let others = subject.others().into_iter().map(|at| Subject { at, ..*subject });
    let fires = |s: &Subject<'a>| matches!(outcome(rule, s), Outcome::Fires(..));
    let worst = |s: &Subject<'a>| rule.when.first().and_then(|t| t.figure.of(s)).map_or(0.0, |e| e.value);
    match others.filter(fires).max_by(|a, b| worst(a).total_cmp(&worst(b))) {
        Some(at) => (outcome(rule, &at), at),
        None => (here, *subject),
    }
}

fn outcome(rule: &Rule, subject: &Subject<'_>) -> Outcome {
    let (mut evidence, mut missing) = (Vec::new(), Vec::new());
    for test in rule.when {
        match test.figure.of(subject) {
            Some(reading) if !test.holds(reading.value) => return Outcome::Not,
            Some(reading) => evidence.extend(told(test.figure, reading)),
            None => missing.push(test.figure.source()),
        }
    }
    if !missing.is_empty() {
        return Outcome::Unknown(missing);
    }
    let mut confidence = Some(Confidence::High);
    for test in rule.shown {
        let seen = test.figure.of(subject);
        let to = match &seen {
            Some(e) if test.holds(e.value) => Some(Confidence::High),
            Some(_) => rule.denied,
            None => Some(rule.blind),
        };
        confidence = confidence.zip(to).map(|(a, b)| a.min(b));
        evidence.extend(seen.and_then(|reading| told(test.figure, reading)));
    }
    evidence.extend(rule.also.iter().filter_map(|f| told(*f, f.of(subject)?)));
    evidence.dedup_by(|b, a| a.fact == b.fact);
    confidence.map_or(Outcome::Not, |c| Outcome::Fires(c, evidence))
}

/// Returns the evidence of a figure that has a fact to tell.
fn told(figure: Figure, reading: figure::Reading) -> Option<Evidence> {
    let fact = reading.fact?;
    Some(Evidence { figure, value: reading.value, steps: reading.steps, fact })
}

fn finding(rule: &Rule, at: &Subject<'_>, confidence: Confidence, evidence: Vec<Evidence>) -> Finding {
    let limit = at.curve.limit.clone().filter(|_| at.at.step == at.curve.step);
    Finding {
        kind: rule.kind,
        series: at.curve.series.clone(),
        limit,
        step: at.at.step,
        weight: rule.weight.and_then(|f| f.of(at)).map_or(1.0, |e| e.value.clamp(0.0, 1.0)),
        confidence,
        evidence,
        advice: advice::of(rule.kind, at),
        next: next::of(rule.kind, at),
    }
}

/// That something cannot be told is worth saying where a limit was missed, and of GPUs that work together always.
fn untold(kind: Kind, subject: &Subject<'_>, missing: Vec<Source>) -> Option<Untold> {
    let together = kind == Kind::CommunicationBound && subject.curve.tensor_parallel.is_some_and(|n| n > 1);
    let asked =
        subject.curve.limit.is_some() && !matches!(kind, Kind::CacheMisses | Kind::CommunicationBound);
    (together || asked).then(|| Untold {
        kind,
        series: subject.curve.series.clone(),
        missing,
        next: next::to_tell(kind, subject),
    })
}
