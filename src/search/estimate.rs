//! The adaptive search's answer for a tier: an estimate of its boundary with an honest interval, or why there is none.

use super::adaptive::Policy;
use super::answer::{Goodput, Status};
use super::posterior::Posterior;
use super::refine::lowest;
use super::seen::Seen;
use crate::level::Control;
use crate::slo::Slo;
use crate::stats::step::{Step, StepKind};
use crate::units::short;

/// Chance that it takes to say that no level meets the SLO, or that the highest one does.
const SHOWN: f64 = 0.9;
/// A boundary this far above all that was measured is a guess of the prior.
const GUESS: f64 = 1.2;
/// A level is no safe one this far below all that was measured.
const UNTRIED: f64 = 0.5;
/// A step with fewer requests says little of its level.
const FEW: u64 = 100;
/// An interval narrows as one over the root of the time that it rests on: half of it takes three times that time more.
const TO_HALVE: f64 = 3.0;

/// Puts an estimate in the place of what the verdicts alone say: from the posterior of a tier's boundary and the finished steps that it
/// rests on. `bracket` is what the verdicts say, `shown` the evidence in words.
pub(super) fn estimate(
    policy: &Policy,
    slo: &Slo,
    steps: &[&Step],
    posterior: &Posterior,
    (bracket, shown): (Goodput, &str),
) -> Goodput {
    let loaded = || steps.iter().filter(|s| s.kind != StepKind::Baseline);
    let tested = || loaded().filter(|s| s.due_n >= FEW && !policy.invalid(s)).map(|s| s.level.value);
    let (least, most) = (tested().fold(f64::INFINITY, f64::min), tested().fold(0.0, f64::max));
    let client = loaded().filter(|s| policy.invalid(s)).map(|s| s.level.value).min_by(f64::total_cmp);
    let sent = tested().filter(|l| client.is_none_or(|c| *l < c)).fold(0.0, f64::max);
    let whole = |level: f64| if policy.control == Control::Concurrency { level.floor() } else { level };
    let name = |level: f64| policy.level(level).to_string();
    let from = lowest(policy, slo);
    let safe = Some(whole(posterior.quantile(1.0 - policy.confidence).min(policy.highest)));
    let safe = safe.filter(|s| *s >= from && *s >= UNTRIED * least);
    let (rate, high) = (posterior.quantile(0.5), whole(posterior.quantile(0.95)));
    let mut words = "hardly anything was measured near the boundary".to_owned();
    let mut g = Goodput {
        status: Status::Undecided,
        rate: None,
        // No safer than what was measured, and what the client could send.
        safe_rate: safe.map(|s| s.min(sent)).filter(|s| *s > 0.0),
        ..bracket
    };
    if g.met.is_none() && posterior.below(from) >= SHOWN {
        (g.status, g.safe_rate) = (Status::None, None);
        g.binding = Some(posterior.missed(from).to_owned());
        words = format!("no level at or above {} meets the SLO, with a chance of 90 % or more", name(from));
    } else if 1.0 - posterior.below(policy.highest) >= SHOWN {
        (g.status, g.rate, g.safe_rate) = (Status::NotReached, Some(policy.highest), safe);
        words = format!("{} meets the SLO, with a chance of 90 % or more", name(policy.highest));
    } else if client.is_some_and(|c| high >= c || rate > GUESS * most) {
        g.status = Status::Invalid;
        words = "the client was the limit below where the boundary may lie".into();
    } else if rate <= GUESS * most {
        let low = if safe.is_some() { whole(posterior.quantile(0.05)) } else { 0.0 };
        g.rate = Some(whole(rate)).filter(|r| *r > 0.0);
        (g.interval90, g.safe_rate, g.halve_s) = (Some([low, high]), safe, halve_s(steps));
        g.binding = Some(posterior.binding().to_owned());
        (g.status, words) = match safe {
            Some(_) => (
                Status::Found,
                format!("the boundary lies between {} and {}, with a chance of 90 %", name(low), name(high)),
            ),
            None => (
                Status::Undecided,
                format!(
                    "no level is shown to be safe; the boundary lies below {}, with a chance of 95 %",
                    name(high)
                ),
            ),
        };
    }
    g.throughput = g.rate.map(|r| Seen::of(policy, steps).per_s(r));
    g.reason = format!("{words}; {shown}");
    match (g.safe_rate, g.failed) {
        (Some(safe), Some(failed)) if safe >= failed => {
            distrusted(g, &format!("{} is shown to fail", short(failed)))
        }
        _ => g,
    }
}

/// An answer that a step speaks against: its safe level is none, and its interval begins at nothing.
pub(super) fn distrusted(answer: Goodput, why: &str) -> Goodput {
    Goodput {
        status: Status::Undecided,
        safe_rate: None,
        interval90: answer.interval90.map(|[_, high]| [0.0, high]),
        reason: format!("no level is safe, since {why}; {}", answer.reason),
        ..answer
    }
}

/// Seconds of further budget that would about halve the interval, by those that the refinement has taken so far.
fn halve_s(steps: &[&Step]) -> Option<f64> {
    let refined = steps.iter().filter(|s| matches!(s.kind, StepKind::Refine | StepKind::Confirm));
    let spent: f64 = refined.map(|s| s.ended_s - s.started_s).sum();
    (spent > 0.0).then_some(TO_HALVE * spent)
}
