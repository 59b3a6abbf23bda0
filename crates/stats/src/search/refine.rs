//! The refinement: steps at quantiles of the boundary's posterior, until the interval is as narrow as the plan asks or
//! the budget is spent.

use super::adaptive::{Policy, missed_unloaded};
use super::ask::{Ask, Ends};
use super::change::since;
use super::hold;
use super::posterior::{Posterior, limits};
use super::steps_by_purpose::StepsByPurpose;
use super::stop::{HighestKey, Stop, by_far};
use crate::stats::step::{Step, StepKind};
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use std::time::Duration;

/// Quantiles of the boundary at which steps are measured, in turn. They lie on both sides of it, because its slope is
/// unknown too, and more of them below, where the safe level is: on the development cases this made it a fifth less
/// short.
const QUANTILES: [f64; 5] = [0.5, 0.3, 0.6, 0.4, 0.2];
/// Length of a step: this share of the budget, and at most this many seconds.
const SHARE: f64 = 0.2;
const LONGEST_S: f64 = 150.0;
/// If requests take long, a step may take this many times as long as one: a backlog shows only after the requests that
/// began it have finished.
const REQUEST_TIMES: f64 = 20.0;
/// Least length of a step, in conversations: their aftereffects show only as they continue.
const TALKS: f64 = 4.0;
/// Longest request for which the settling period is extended, in seconds.
const SETTLES_S: f64 = 60.0;
/// Least length of a step: this share of the budget, or this many seconds if the budget is long.
const LEAST_SHARE: f64 = 0.04;
const LEAST_S: f64 = 30.0;
/// Number of requests that a step should have. A slow server needs more time for them, up to this share of the budget.
const REQUESTS: f64 = 150.0;
const SLOW_SHARE: f64 = 0.4;
/// Factor between a level that overloaded the server and the highest level of later steps.
const BELOW_OVERLOAD: f64 = 0.97;
/// Divisor from a level that was too much for the client to the highest level of later steps.
const CLIENT: f64 = 1.6;
/// Probability of an answer at which a tier needs no further steps before the budget is spent.
const SURE: f64 = 0.99;
/// Number of steps since the ramp before a narrow interval is trusted.
const ENOUGH: usize = 3;
/// Probability that no rate meets the SLO from which every second step measures with little or no load.
const DOUBT: f64 = 0.03;
const MUCH_DOUBT: f64 = 0.1;
/// Confidence that the counts at a level must be able to reach for the search to judge that level.
const SPOKEN_OF: f64 = 0.95;

/// The times around the window of a refinement step, in seconds.
struct Times {
    settle: f64,
    tail: Duration,
    /// Time that a step takes in addition to its window.
    overhead: f64,
    /// The shortest window.
    least: f64,
    /// Length of window that the rest of the budget has room for in one step.
    left: f64,
}

impl Times {
    fn of(policy: &Policy, seen: &StepsByPurpose<'_>) -> Self {
        let tail = seen.tail();
        let settle =
            policy.times.settle.0.as_secs_f64().max(seen.e2e_s.min(SETTLES_S)).min(policy.budget_s / 15.0);
        let settle = settle.max(seen.talk_s.min(policy.budget_s / 10.0));
        let overhead = settle + tail.as_secs_f64() + policy.drain().as_secs_f64();
        let least = LEAST_S.min(LEAST_SHARE * policy.budget_s).max(1.0);
        Self { settle, tail, overhead, least, left: policy.budget_s - seen.spent_s - overhead }
    }

    fn step(&self, policy: &Policy, kind: StepKind, level: f64, measure_s: f64) -> Ask {
        Ask {
            level: policy.level(level),
            kind,
            settle: Duration::from_secs_f64(self.settle),
            measure: Duration::from_secs_f64(measure_s),
            extend: false,
            tail: self.tail,
            drain: policy.drain(),
            ends: Ends::WhenFarOver,
            confidence: policy.confidence,
        }
    }
}

/// Returns the next step of the refinement, or why there is none.
pub(super) fn next(policy: &Policy, seen: &StepsByPurpose<'_>) -> Result<Ask, Stop> {
    let times = Times::of(policy, seen);
    let tiers: Vec<(&Slo, Posterior)> =
        policy.tiers.iter().filter_map(|slo| with_posterior(policy, seen, slo)).collect();
    let widest = widest(policy, seen, &tiers);
    let spent = || Stop::Budget { budget_s: policy.budget_s };
    if times.left < times.least {
        return Err(widest.err().unwrap_or_else(spent));
    }
    let hold = hold::due(policy, seen, &tiers).map(|level| level.min(most(policy, seen)));
    let kept = hold::SHARE * policy.budget_s;
    if (hold.is_some() || widest.is_ok()) && sentinel_is_due(policy, seen) {
        return Ok(policy.unloaded(sentinel_s(policy, seen)));
    }
    let search_s = if hold.is_some() { times.left - kept } else { times.left };
    match (widest, hold) {
        (Err(stop), None) => Err(stop),
        (Err(_), Some(level)) => {
            let measure_s = times.left.min((kept - times.overhead).max(times.least));
            Ok(times.step(policy, StepKind::Hold, level, measure_s))
        }
        (Ok(_), Some(level)) if search_s < times.least => {
            Ok(times.step(policy, StepKind::Hold, level, times.left))
        }
        (Ok(widest), _) => Ok(refined(policy, seen, widest, &Times { left: search_s, ..times })),
    }
}

/// Share of the budget after which one request at a time is measured again, to detect changes of the server.
const SENTINEL_SHARE: f64 = 0.14;
/// Number of requests for a median, if the time of a baseline has room for them.
const SENTINEL_REQUESTS: f64 = 40.0;
/// Least number of requests, in the time of a baseline, for which it is measured again.
const TOO_FEW: f64 = 3.0;

fn sentinel_is_due(policy: &Policy, seen: &StepsByPurpose<'_>) -> bool {
    let ago = seen.origin_s + seen.spent_s - seen.baseline_s;
    ago >= SENTINEL_SHARE * policy.budget_s && policy.baseline_s() >= TOO_FEW * seen.e2e_s
}

fn sentinel_s(policy: &Policy, seen: &StepsByPurpose<'_>) -> f64 {
    (SENTINEL_REQUESTS * seen.e2e_s).clamp(1.0, policy.baseline_s().max(1.0))
}

/// Returns a step that is likely to narrow the boundary down, or another one of the unloaded server.
fn refined(policy: &Policy, seen: &StepsByPurpose<'_>, widest: &Posterior, times: &Times) -> Ask {
    let usual =
        (SHARE * policy.budget_s).min(LONGEST_S.max(REQUEST_TIMES * seen.e2e_s)).max(TALKS * seen.talk_s);
    let usual = usual.min(SLOW_SHARE * policy.budget_s);
    let (level, unloaded) = choose(policy, seen, widest, usual);
    let needed = (REQUESTS / seen.per_s(level)).min(SLOW_SHARE * policy.budget_s);
    let mut measure = usual.max(needed).min(times.left);
    if unloaded {
        let part = if widest.infeasible() > 0.5 { 1.0 } else { 0.5 };
        let mut ask = policy.unloaded(measure * part);
        // The rest of the budget was computed with the tail of a step under load.
        ask.tail = ask.tail.min(times.tail.max(Duration::from_secs_f64(times.left - measure * part)));
        return ask;
    }
    if times.left - measure < times.overhead + times.least {
        // The rest of the budget would be too short for another step.
        measure = times.left;
    }
    times.step(policy, StepKind::Refine, level, measure)
}

/// Returns a tier with the posterior of its boundary, if the steps so far give one.
fn with_posterior<'s>(
    policy: &Policy,
    seen: &StepsByPurpose<'_>,
    slo: &'s Slo,
) -> Option<(&'s Slo, Posterior)> {
    Some((slo, Posterior::of(&seen.all, slo.tier(), &limits(slo), policy.dispersion, seen.change)?))
}

/// Returns the posterior of the tier with the least known boundary, of those that need further steps; or why none does.
fn widest<'t>(
    policy: &Policy,
    seen: &StepsByPurpose<'_>,
    tiers: &'t [(&Slo, Posterior)],
) -> Result<&'t Posterior, Stop> {
    let mut stop = Stop::NoCurve;
    let mut open: Vec<&Posterior> = Vec::new();
    for (slo, p) in tiers.iter().filter(|(slo, _)| missed_unloaded(&seen.baselines, slo).is_none()) {
        match settled(policy, seen, slo, p) {
            Some(why) => stop = why,
            None => open.push(p),
        }
    }
    // A tier that probably no level meets gains less from steps under load.
    let worth = |p: &&Posterior| p.spread() * (1.0 - p.infeasible());
    open.into_iter().max_by(|a, b| worth(a).total_cmp(&worth(b))).ok_or(stop)
}

/// Returns the reason why a tier needs no further step; `None` if it needs one.
fn settled(policy: &Policy, seen: &StepsByPurpose<'_>, slo: &Slo, p: &Posterior) -> Option<Stop> {
    if seen.refined < ENOUGH {
        return None;
    }
    let lowest = lowest(policy, slo);
    if p.below(lowest) >= SURE {
        return Some(Stop::Infeasible { level: policy.level(lowest) });
    }
    if 1.0 - p.below(policy.highest) >= SURE {
        let key = if policy.control == Control::Concurrency {
            HighestKey::MaxInFlight
        } else {
            HighestKey::MaxRate
        };
        return Some(Stop::Highest { key, level: policy.level(policy.highest) });
    }
    let [low, rate, high] = [0.05, 0.5, 0.95].map(|u| p.quantile(u));
    (low > 0.0 && (high - low) / rate <= policy.width)
        .then(|| Stop::Width { low: policy.level(low), high: policy.level(high) })
}

/// Returns the lowest level that can be judged within the budget: with as many requests as it takes, without a miss, to
/// show that the strictest percentile holds, ln .05 / ln(1 − p0), or 299 for a p99. For a closed loop, one
/// request in flight.
pub(super) fn lowest(policy: &Policy, slo: &Slo) -> f64 {
    if policy.control == Control::Concurrency {
        return 1.0;
    }
    let needed = |p0: f64| (1.0 - SPOKEN_OF).ln() / (-p0).ln_1p();
    let strictest = limits(slo).into_iter().map(|(_, p0)| p0).filter(|p0| *p0 > 0.0 && *p0 < 1.0);
    let requests = strictest.map(needed).fold(1.0, f64::max);
    (requests.ceil() / policy.budget_s / policy.per_level).min(policy.highest)
}

/// Returns the next level, and true if the unloaded server is measured instead.
fn choose(policy: &Policy, seen: &StepsByPurpose<'_>, p: &Posterior, usual_s: f64) -> (f64, bool) {
    let median = p.feasible_quantile(0.5);
    let few = seen.per_s(median) * usual_s < REQUESTS;
    let infeasible = p.infeasible();
    let mut level = p.feasible_quantile(QUANTILES[seen.refined % QUANTILES.len()]);
    if policy.control != Control::Concurrency && (few || infeasible > DOUBT) && seen.refined % 2 == 1 {
        // After a step of the unloaded server, one under load: it alone counts, and the turn would not end.
        let is_turn = seen.all.last().is_some_and(|s| s.kind != StepKind::Baseline);
        if is_turn && 1.0 / seen.e2e_s > 0.5 * seen.per_s(median) {
            return (median, true);
        }
        level = if infeasible > MUCH_DOUBT { 0.5 * median } else { p.feasible_quantile(0.2) };
    }
    (policy.rounded(level).min(most(policy, seen)), false)
}

/// Returns the highest level that may be measured. Nothing is sent at or above a level that overloaded the server. A
/// level that was too much for the client is avoided by a wide margin, since the start of that range depends on chance.
fn most(policy: &Policy, seen: &StepsByPurpose<'_>) -> f64 {
    let since = since(seen.change);
    // A refinement step may miss by far without overload, because it was placed near the boundary.
    let overload = |s: &Step| s.too_much() || (s.kind == StepKind::Ramp && by_far(s));
    let below = |s: &&Step| match () {
        () if policy.invalid(s) => Some(s.level.value / CLIENT),
        () if !overload(s) => None,
        () if policy.control == Control::Concurrency => Some(s.level.value - 1.0),
        () => Some(s.level.value * BELOW_OVERLOAD),
    };
    let least = seen.loaded.iter().filter(|s| s.started_s >= since).filter_map(below).min_by(f64::total_cmp);
    least.map_or(policy.highest, |level| policy.rounded(level).min(policy.highest))
}
