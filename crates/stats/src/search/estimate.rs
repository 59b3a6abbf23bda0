//! The adaptive search's answer for a tier: an estimate of its boundary with an honest interval, or the reason why
//! there is none.

use super::adaptive::Policy;
use super::answer::{
    AnswerLevel, Bracket, Conclusion, Goodput, HoldingStep, Located, Misfit, Support, Undecided,
};
use super::change::current;
use super::errors;
use super::hold;
use super::posterior::{Posterior, limits};
use super::reason::{Evidence, NotSafe, SearchEvidence};
use super::refine::lowest;
use super::steps_by_purpose::StepsByPurpose;
use crate::stats::step::{Step, StepKind};
use crate::stats::summary::tier_verdict;
use goodput_core::level::Control;
use goodput_core::slo::Slo;

/// Probability required to conclude that no level meets the SLO, or that the highest one does.
const SHOWN: f64 = 0.9;
/// A boundary above the highest measured level by more than this factor is a guess of the prior.
const GUESS: f64 = 1.2;
/// A level below this share of the lowest measured level is not called safe.
const UNTRIED: f64 = 0.5;
/// Least number of requests of a step that informs about its level.
const FEW: u64 = 100;
/// The width of an interval falls as one over the root of the measured time: halving it takes three times that time in
/// addition.
const TO_HALVE: f64 = 3.0;

/// Returns the level that is safe at the plan's confidence, if the evidence supports one. It is not above the highest
/// level whose backlog was shown to be stable: below the boundary of a limit a backlog may still grow, and a step too
/// short to show growth is no proof of stability.
pub(super) fn safe_level(policy: &Policy, slo: &Slo, steps: &[&Step], posterior: &Posterior) -> Option<f64> {
    let now = current(steps, posterior.change());
    let loaded = || now.iter().filter(|s| s.kind != StepKind::Baseline && !policy.invalid(s));
    let least = loaded().filter(|s| s.due_n >= FEW).map(|s| s.level.value).fold(f64::INFINITY, f64::min);
    let steady = loaded().filter(|s| s.stable == Some(true)).map(|s| s.level.value).fold(0.0, f64::max);
    let safe = posterior.quantile(1.0 - policy.confidence).min(policy.highest).min(steady);
    Some(whole(policy, safe)).filter(|s| *s >= lowest(policy, slo) && *s >= UNTRIED * least)
}

/// Rounds a level down to one that can be offered: requests in flight are whole numbers.
fn whole(policy: &Policy, level: f64) -> f64 {
    if policy.control == Control::Concurrency { level.floor() } else { level }
}

/// Replaces the answer of the verdicts alone by an estimate from the posterior of a tier's boundary and the finished
/// steps that it rests on. The reason of `verdicts` already has the evidence to print with the estimate.
pub(super) fn estimate(
    policy: &Policy,
    slo: &Slo,
    steps: &[&Step],
    posterior: &Posterior,
    verdicts: Goodput,
) -> Goodput {
    let change = posterior.change();
    let now = current(steps, change);
    let loaded = || now.iter().filter(|s| s.kind != StepKind::Baseline);
    let tested = || loaded().filter(|s| s.due_n >= FEW && !policy.invalid(s)).map(|s| s.level.value);
    let most = tested().fold(0.0, f64::max);
    let client = loaded().filter(|s| policy.invalid(s)).map(|s| s.level.value).min_by(f64::total_cmp);
    let sent = tested().filter(|l| client.is_none_or(|c| *l < c)).fold(0.0, f64::max);
    let from = lowest(policy, slo);
    let safe = safe_level(policy, slo, steps, posterior);
    let holding = hold::step_of(policy, slo, &now, safe);
    // The step that held the safe rate does not raise it: no higher level was held.
    let held_at = holding.map_or(f64::INFINITY, |s| s.level.value);
    let safe = safe.map(|s| s.min(held_at));
    let (rate, high) = (posterior.quantile(0.5), whole(policy, posterior.quantile(0.95)));
    // Not above the levels that were measured, nor above the load that the client could send.
    let tried = safe.map(|s| s.min(sent)).filter(|s| *s > 0.0);
    let at = |level: f64| AnswerLevel {
        throughput: Some(throughput(policy, steps, level)),
        ..AnswerLevel::new(level)
    };
    let mut support = Support { held: holding.and_then(|s| held(slo, s)), change, ..Support::default() };
    let mut binding = verdicts.binding;
    let (conclusion, says) = if verdicts.bracket.met.is_none() && posterior.below(from) >= SHOWN {
        binding = Some(posterior.missed(from).to_owned());
        (Conclusion::None, SearchEvidence::NoneFrom { level: policy.level(from) })
    } else if 1.0 - posterior.below(policy.highest) >= SHOWN {
        let says = SearchEvidence::HighestMeets { level: policy.level(policy.highest) };
        (Conclusion::NotReached { highest: at(policy.highest), safe }, says)
    } else if client.is_some_and(|c| high >= c || rate > GUESS * most) {
        (Conclusion::Invalid { safe: tried }, SearchEvidence::ClientLimit)
    } else if rate <= GUESS * most {
        let low = if safe.is_some() { whole(policy, posterior.quantile(0.05)) } else { 0.0 };
        let fit = Estimate { rate: whole(policy, rate), low, high, safe };
        let (fit, misfit, says) = fit.checked(policy, verdicts.bracket);
        binding = Some(posterior.binding().to_owned());
        support.misfit = misfit;
        (support.flat, support.scatter) = (Some(posterior.flat()), posterior.widened());
        (fit.conclusion(at, halve_s(steps)), says)
    } else {
        let known = tried.map_or(Undecided::Open, Undecided::Safe);
        (Conclusion::Undecided(known), SearchEvidence::FarFromBoundary)
    };
    let mut reason = verdicts.reason.preceded_by(Evidence::Search(says));
    if let Some(change) = change {
        reason = reason.preceded_by(Evidence::ServerChanged(change));
    }
    let below =
        |s: &&Step| !s.overloaded() && verdicts.bracket.failed.is_none_or(|failed| s.level.value <= failed);
    let counted: Vec<&Step> = now.iter().copied().filter(below).collect();
    let blamed = |binding: &String| errors::to_blame(&counted, slo.tier(), &limits(slo), binding);
    let binding = binding.as_ref().and_then(blamed).or(binding);
    let g = Goodput { conclusion, binding, support, reason, ..verdicts };
    match (g.safe_rate(), g.bracket.failed) {
        (Some(safe), Some(failed)) if safe >= failed => {
            distrusted(g, NotSafe::StepFailed { level: policy.level(failed) })
        }
        _ => g,
    }
}

/// Estimate of the boundary from the posterior.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// Median; 0 if it is less than one request in flight.
    rate: f64,
    /// Lower end of the 90 % interval; 0 without a safe level.
    low: f64,
    high: f64,
    safe: Option<f64>,
}

impl Estimate {
    /// Checks the estimate against the verdicts of single steps (a posterior predictive check). If one of them
    /// contradicts it, the family of curves does not describe this server, and the bracket of the decided steps
    /// replaces it. Returns it with the contradiction and the evidence to print.
    fn checked(self, policy: &Policy, bracket: Bracket) -> (Self, Option<Misfit>, SearchEvidence) {
        let Self { rate, low, high, safe } = self;
        let known = rate > 0.0;
        let above = |failed: &f64| rate > *failed || safe.is_some_and(|safe| safe >= *failed);
        let Bracket { met, failed } = bracket;
        if let Some(failed) = failed.filter(above).filter(|_| known) {
            let safe = safe.filter(|safe| *safe < failed).or(met);
            let low = safe.map_or(0.0, |safe| low.min(safe));
            // Nothing shows the place in the bracket, so its middle is used. Without a shown lower end, half of the
            // failed level replaces it.
            let middle = (low.max(0.5 * failed) * failed).sqrt();
            let middle = Self { rate: middle.max(met.unwrap_or(0.0)), low, high: failed, safe };
            (middle, Some(Misfit::AboveFailed), SearchEvidence::AboveFailed { failed: policy.level(failed) })
        } else if let Some(met) = met.filter(|met| known && rate < *met) {
            let (low, high) = (low.min(met), high.max(failed.unwrap_or(met)));
            let raised = Self { rate: met, low, high, safe };
            (raised, Some(Misfit::BelowMet), SearchEvidence::BelowMet { met: policy.level(met) })
        } else {
            let high = policy.level(high);
            let says = match safe {
                Some(_) => SearchEvidence::Between { low: policy.level(low), high },
                None => SearchEvidence::Below { high },
            };
            (self, None, says)
        }
    }

    /// Returns the conclusion that the estimate gives; `at` makes the level of an answer.
    fn conclusion(self, at: impl Fn(f64) -> AnswerLevel, halve_s: Option<f64>) -> Conclusion {
        let median = Some(self.rate).filter(|rate| *rate > 0.0).map(at);
        match (median, self.safe) {
            (Some(median), Some(safe)) => Conclusion::Found(Located::Estimate {
                median,
                interval: [self.low, self.high],
                safe,
                halve_s,
            }),
            (median, _) => Conclusion::Undecided(Undecided::Below { median, high: self.high, halve_s }),
        }
    }
}

/// Returns what the step that held the safe rate showed, by the limit of the tier whose misses are the highest relative to
/// the allowed share.
fn held(slo: &Slo, step: &Step) -> Option<HoldingStep> {
    let over = |p0: f64, misses: u64, n: u64| misses as f64 / (p0.max(1e-9) * n.max(1) as f64);
    let rows = limits(slo).into_iter().filter_map(|(limit, p0)| Some((p0, step.row(slo.tier(), &limit)?)));
    let (_, row) =
        rows.max_by(|a, b| over(a.0, a.1.misses, a.1.n).total_cmp(&over(b.0, b.1.misses, b.1.n)))?;
    let verdict = tier_verdict(&step.limits, slo.tier()).0;
    Some(HoldingStep {
        level: step.level.value,
        seconds: step.measure_s,
        verdict,
        misses: row.misses,
        n: row.n,
    })
}

/// Returns the requests per second at a level. For conversations, never more than a step has completed.
fn throughput(policy: &Policy, steps: &[&Step], level: f64) -> f64 {
    let per_s = StepsByPurpose::of(policy, steps).per_s(level);
    let achieved =
        steps.iter().filter(|s| s.kind != StepKind::Baseline).map(|s| s.achieved_rate).fold(0.0, f64::max);
    if policy.control == Control::Sessions { per_s.min(achieved) } else { per_s }
}

/// Returns the answer without its safe level, which a step contradicts; the interval then begins at 0.
pub(super) fn distrusted(answer: Goodput, why: NotSafe) -> Goodput {
    Goodput {
        conclusion: answer.conclusion.contradicted(),
        reason: answer.reason.preceded_by(Evidence::NotSafe(why)),
        ..answer
    }
}

/// Returns the further budget, in seconds, that would about halve the interval, from the time that the refinement has
/// taken so far.
fn halve_s(steps: &[&Step]) -> Option<f64> {
    let refined = steps.iter().filter(|s| s.kind.is_near_boundary() || s.kind == StepKind::Confirm);
    let spent: f64 = refined.map(|s| s.ended_s - s.started_s).sum();
    (spent > 0.0).then_some(TO_HALVE * spent)
}
