//! Causes of missed limits, and changes that would help: findings from the steps and the server's counters.
//!
//! A finding claims no more than the evidence shows. Everything here is pure: [`diagnose`] takes the steps and the
//! [`Facts`] of a run. The rules and their thresholds are one table, [`rules::RULES`]. A rule compares *figures*
//! ([`figure::Figure`]) of the examined step with those of an unloaded one. If a figure is unknown the rule does not
//! fire, and the kind is reported as undecidable ([`Untold`]).

pub mod advice;
mod altered;
mod change;
pub mod fact;
pub mod facts;
pub mod figure;
mod fit;
mod flags;
pub mod floor;
pub mod forecast;
mod kind;
pub mod next;
mod no_forecast;
mod pace;
mod pool;
mod remedy;
pub mod rules;
pub mod settings;
mod subject;
pub mod suggestion;
mod trial;

#[cfg(test)]
mod tests;

pub use advice::{Advice, QUICK_MS, Target};
pub use altered::Altered;
pub use change::{BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange};
pub use fact::{
    CacheFact, DraftingFact, Fact, GpuFact, GpusTpot, HardwareFact, IterationFact, LatencyFact, LengthTtft,
    Place, Reference, ServerFact, ThroughputFact,
};
pub use facts::{Accepts, Curve, Facts, LengthPoint, Mix, MixedClass, OwnLimit, StepFailures};
pub use figure::{Evidence, Figure, LongerBy, Source};
pub use fit::{is_flat, per_token_ms};
pub use flags::{Flags, Knob};
pub use floor::{Measured, Reading, Roofline, uncached};
pub use forecast::{Effect, Expected, Forecast};
pub use kind::Kind;
pub use next::{Measurement, Next, SetBy};
pub use no_forecast::{Assumed, NoForecast, WithoutForecast};
pub use pace::{least_computing_ms, most_computing_ms};
pub use pool::{PoolGpus, PoolShare, PoolSize};
pub use remedy::Remedy;
pub use settings::{Current, Origin, Settings, Value};
pub use subject::is_one;
pub use suggestion::{Basis, Bound, Direction, Flag, Load, Server, Suggestion};
pub use trial::{Gain, Trial};

use crate::stats::step::Step;
use goodput_core::slo::Metric;
use kind::Rank;
use rules::{About, RULES, Rule, Scope};
use serde::Serialize;
use subject::Subject;

/// The confidence of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Several causes would look like this, or an expected sign was not observed.
    Low,
    /// The latencies have the shape of this cause; the inside of the server was not observed.
    Medium,
    /// The counters, or a comparison made for it, show the mechanism itself.
    High,
}

impl Confidence {
    /// Returns the name used in files and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A cause that the evidence shows.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: Kind,
    /// Series of the finding.
    pub series: String,
    /// Key of the limit missed in that step, if one was: `ttft.p99`.
    pub limit: Option<String>,
    /// Number of the step that shows it.
    pub step: u32,
    /// Its share of the limited latency, from 0 to 1, if it is a part of that latency; 1 for a cause that makes other
    /// parts worse.
    pub weight: f64,
    /// Confidence of the finding.
    pub confidence: Confidence,
    /// The figures that show it.
    pub evidence: Vec<Evidence>,
    /// Changes that would help, with the flags of the server.
    #[serde(skip)]
    pub advice: Vec<Advice>,
    /// The measurement that would settle it.
    pub next: Next,
}

/// A kind that cannot be decided, and the reason.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Untold {
    /// The undecided kind.
    pub kind: Kind,
    /// Name of the series.
    pub series: String,
    /// The missing sources.
    pub missing: Vec<Source>,
    /// The measurement that would decide it, if there is one.
    pub next: Option<Next>,
}

/// The causes that the steps of a run show.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The findings, the most important first.
    pub findings: Vec<Finding>,
    /// The kinds that cannot be decided.
    pub untold: Vec<Untold>,
}

/// The outcome of a rule.
enum Outcome {
    /// The rule fires.
    Fires(Confidence, Vec<Evidence>),
    /// The rule does not fire.
    Not,
    /// Figures that the rule needs are unknown.
    Unknown(Vec<Source>),
}

/// Returns the findings from the steps of a run, for each of its curves.
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
    let key = |f: &Finding| (shows_the_answer(f, steps), key(f));
    all.findings.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
    weigh(&mut all.findings, steps, facts);
    for curve in &facts.curves {
        settle(&mut all.findings, &curve.series);
    }
    trial::order(&mut all.findings, &facts.trials);
    measure_next(&mut all.findings, steps, facts);
    all
}

/// Sets the next measurement of each finding to what its advice has become: forecasts and trials change values and order.
fn measure_next(findings: &mut [Finding], steps: &[Step], facts: &Facts) {
    for finding in findings.iter_mut() {
        let own = |c: &&Curve| c.series == finding.series;
        let curves = facts.curves.iter().filter(own);
        let subject = curves.filter_map(|curve| Subject::of(steps, facts, curve)).find_map(|subject| {
            let at = steps.iter().find(|s| s.series == finding.series && s.step == finding.step)?;
            Some(Subject { at, ..subject })
        });
        if let Some(subject) = subject {
            finding.next = next::of(finding.kind, &finding.advice, &subject);
        }
    }
    next::number_trials(findings, facts);
}

/// Weighs the findings of each series that has a forecast, as those of its first curve.
fn weigh(findings: &mut Vec<Finding>, steps: &[Step], facts: &Facts) {
    for forecast in &facts.forecasts {
        let curve = facts.curves.iter().find(|c| c.series == forecast.series);
        if let Some(subject) = curve.and_then(|curve| Subject::of(steps, facts, curve)) {
            forecast::weigh(findings, &subject, forecast);
        }
    }
}

/// Settles the findings of one series among themselves. Where requests fail, latencies say nothing about the server. No
/// setting is advised both ways: the more important finding decides.
fn settle(findings: &mut Vec<Finding>, series: &str) {
    let fails = findings.iter().any(|f| f.series == series && f.kind == Kind::Errors);
    findings.retain(|f| f.series != series || !fails || f.kind.rank() == Rank::Broken);
    let mut settled: Vec<Advice> = Vec::new();
    for finding in findings.iter_mut().filter(|f| f.series == series) {
        finding.advice.retain(|new| !settled.iter().any(|known| known.opposes(new)));
        settled.extend(finding.advice.iter().cloned());
    }
}

/// Returns true for a finding at a step of the search, or one that broke the measurement. What a server that is kept full shows (the
/// raw peak) is an effect of more load than the answer's.
fn shows_the_answer(f: &Finding, steps: &[Step]) -> bool {
    let is_auxiliary = |s: &Step| s.series == f.series && s.step == f.step && s.kind.is_auxiliary();
    f.kind.rank() == Rank::Broken || !steps.iter().any(is_auxiliary)
}

/// Returns the sort key of a finding: causes before parts of the latency, and these before symptoms; then those at a
/// missed limit, by their share of it. A cause of low confidence counts as a symptom.
fn key(f: &Finding) -> (Rank, bool, f64, Confidence, std::cmp::Reverse<Kind>) {
    let rank = f.kind.rank();
    let doubtful = rank == Rank::Cause && f.confidence == Confidence::Low;
    let rank = if doubtful { Rank::Symptom } else { rank };
    // Shares are rounded to fifths; among equal ones the higher confidence comes first.
    (rank, f.limit.is_some(), (f.weight * 5.0).round(), f.confidence, std::cmp::Reverse(f.kind))
}

/// Returns the finding of a kind with the highest confidence, or the missing sources if no rule fires and one cannot be
/// decided.
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
            // Another rule has shown that the kind does not apply.
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
    // Results of items have neither a first token nor a pace, so that an unloaded step cannot tell of these.
    let has_no_tokens = subject.at.items_per_s > 0.0 && subject.at.output_tokens_per_s <= 0.0;
    let told_in_vain = subject.alone.is_some_and(is_one) && missing.contains(&Source::UnloadedStep);
    let is_inapplicable = has_no_tokens && (kind == Kind::DecodeBound || told_in_vain);
    match best {
        None if !missing.is_empty() && !decided && !is_inapplicable => Err(missing),
        best => Ok(best),
    }
}

/// Returns true if a rule applies to the limit or question of the curve.
fn applies(rule: &Rule, subject: &Subject<'_>) -> bool {
    match rule.about {
        About::Always => true,
        About::First => subject.focus() == Some(Metric::Ttft),
        About::Rest => subject.focus() == Some(Metric::Tpot),
        About::Missed => subject.curve.limit.is_some(),
    }
}

/// Applies a rule at its step: the examined one, or the worst of those with no more load.
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
    let mut confidence = Some(Confidence::High);
    for test in rule.when {
        match test.figure.of(subject) {
            Some(reading) if !test.holds(reading.value) => return Outcome::Not,
            Some(reading) => {
                // A bound that the true value may miss shows no more than the shape of a cause.
                if !test.is_shown_by(reading.side) {
                    confidence = Some(Confidence::Medium);
                }
                evidence.extend(told(test.figure, reading));
            }
            None => missing.push(subject.missing(test.figure.source())),
        }
    }
    if !missing.is_empty() {
        return Outcome::Unknown(missing);
    }
    for test in rule.shown {
        let seen = test.figure.of(subject);
        let to = match &seen {
            Some(e) if test.holds(e.value) && test.is_shown_by(e.side) => Some(Confidence::High),
            Some(e) if test.holds(e.value) => Some(rule.blind),
            Some(_) => rule.denied,
            None => Some(rule.blind),
        };
        confidence = confidence.zip(to).map(|(a, b)| a.min(b));
        evidence.extend(seen.and_then(|reading| told(test.figure, reading)));
    }
    evidence.extend(rule.also.iter().filter_map(|f| self::evidence(*f, subject)));
    evidence.dedup_by(|b, a| a.fact == b.fact);
    confidence.map_or(Outcome::Not, |c| Outcome::Fires(c, evidence))
}

/// Returns a figure of a step as evidence; `None` if it is unknown.
fn evidence(figure: Figure, subject: &Subject<'_>) -> Option<Evidence> {
    told(figure, figure.of(subject)?)
}

/// Returns the evidence of a figure; `None` if it has no fact to report.
fn told(figure: Figure, reading: figure::Reading) -> Option<Evidence> {
    let fact = reading.fact?;
    Some(Evidence { figure, value: reading.value, steps: reading.steps, fact })
}

fn finding(rule: &Rule, at: &Subject<'_>, confidence: Confidence, evidence: Vec<Evidence>) -> Finding {
    let limit = at.curve.limit.clone().filter(|_| at.at.step == at.curve.step);
    let advice = advice::of(rule.kind, at);
    Finding {
        kind: rule.kind,
        series: at.curve.series.clone(),
        limit,
        step: at.at.step,
        weight: rule.weight.and_then(|f| f.of(at)).map_or(1.0, |e| e.value.clamp(0.0, 1.0)),
        confidence,
        evidence,
        next: next::of(rule.kind, &advice, at),
        advice,
    }
}

/// Returns a kind as undecidable where that is worth reporting: if a limit was missed, and for communication between
/// GPUs if several hold one copy of the model.
fn untold(kind: Kind, subject: &Subject<'_>, missing: Vec<Source>) -> Option<Untold> {
    let together = kind == Kind::CommunicationBound && subject.curve.tensor_parallel.is_some_and(|n| n > 1);
    let asked = subject.curve.limit.is_some() && kind.is_usual();
    (together || asked).then(|| Untold {
        kind,
        series: subject.curve.series.clone(),
        missing,
        next: next::to_tell(kind, subject),
    })
}
