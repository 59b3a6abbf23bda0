//! The refinement: steps at quantiles of where the boundary may lie, until it is known as well as was asked for or the budget is spent.

use super::adaptive::{Policy, missed_unloaded};
use super::ask::{Ask, Ends};
use super::change::since;
use super::hold;
use super::posterior::{Posterior, limits};
use super::seen::Seen;
use super::stop::{HighestKey, Stop, by_far};
use crate::stats::step::{Step, StepKind};
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use std::time::Duration;

/// Quantiles of the boundary at which steps are measured, in turn: on both sides of it, as its slope is not known either, and more
/// of them below, where the safe level is sought: on the development cases that made it a fifth less short.
const QUANTILES: [f64; 5] = [0.5, 0.3, 0.6, 0.4, 0.2];
/// A step takes this share of the budget, and at most so many seconds.
const SHARE: f64 = 0.2;
const LONGEST_S: f64 = 150.0;
/// Where requests take long, a step may take so many times as long as one: a backlog shows only once those that began it are over.
const REQUEST_TIMES: f64 = 20.0;
/// Conversations that a step lasts for at least: what they leave behind is seen only as they go on.
const TALKS: f64 = 4.0;
/// Longest request that the load is given to settle for, in seconds.
const SETTLES_S: f64 = 60.0;
/// No step is shorter than this share of the budget, or than so many seconds where the budget is long.
const LEAST_SHARE: f64 = 0.04;
const LEAST_S: f64 = 30.0;
/// Requests that a step should have. At slow servers that takes longer, up to this share of the budget.
const REQUESTS: f64 = 150.0;
const SLOW_SHARE: f64 = 0.4;
/// How far below a level that overloaded the server the next ones stay.
const BELOW_OVERLOAD: f64 = 0.97;
/// How far below one that was too much for the client.
const CLIENT: f64 = 1.6;
/// Chance of an answer at which a tier needs no further steps before the budget is spent.
const SURE: f64 = 0.99;
/// Steps since the ramp before an interval is trusted to be narrow.
const ENOUGH: usize = 3;
/// From this chance on that no rate will do, every second step asks what the server does with little or no load.
const DOUBT: f64 = 0.03;
const MUCH_DOUBT: f64 = 0.1;
/// Confidence that counts on a level have to be able to reach for the search to speak of it.
const SPOKEN_OF: f64 = 0.95;

/// The times around the window of a step of the refinement.
struct Times {
    settle: f64,
    tail: Duration,
    /// Seconds that a step takes besides its window.
    overhead: f64,
    /// The shortest window.
    least: f64,
    /// Seconds of window that the rest of the budget has room for, in one step.
    left: f64,
}

impl Times {
    fn of(policy: &Policy, seen: &Seen<'_>) -> Self {
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

/// The next step of the refinement, or why there is none.
pub(super) fn next(policy: &Policy, seen: &Seen<'_>) -> Result<Ask, Stop> {
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

/// Share of the budget after which one request at a time is measured again, to see whether the server is still the one that it was.
const SENTINEL_SHARE: f64 = 0.14;
/// Requests that tell a median, if the baseline's time has room for them.
const SENTINEL_REQUESTS: f64 = 40.0;
/// Fewer requests than this in the time of a baseline tell nothing.
const TOO_FEW: f64 = 3.0;

fn sentinel_is_due(policy: &Policy, seen: &Seen<'_>) -> bool {
    let ago = seen.origin_s + seen.spent_s - seen.baseline_s;
    ago >= SENTINEL_SHARE * policy.budget_s && policy.baseline_s() >= TOO_FEW * seen.e2e_s
}

fn sentinel_s(policy: &Policy, seen: &Seen<'_>) -> f64 {
    (SENTINEL_REQUESTS * seen.e2e_s).clamp(1.0, policy.baseline_s().max(1.0))
}

/// A step that is likely to narrow the boundary down, or the unloaded server once more.
fn refined(policy: &Policy, seen: &Seen<'_>, widest: &Posterior, times: &Times) -> Ask {
    let usual =
        (SHARE * policy.budget_s).min(LONGEST_S.max(REQUEST_TIMES * seen.e2e_s)).max(TALKS * seen.talk_s);
    let usual = usual.min(SLOW_SHARE * policy.budget_s);
    let (level, unloaded) = choose(policy, seen, widest, usual);
    let needed = (REQUESTS / seen.per_s(level)).min(SLOW_SHARE * policy.budget_s);
    let mut measure = usual.max(needed).min(times.left);
    if unloaded {
        let part = if widest.infeasible() > 0.5 { 1.0 } else { 0.5 };
        let mut ask = policy.unloaded(measure * part);
        // What is left has been reckoned with the tail of a step under load.
        ask.tail = ask.tail.min(times.tail.max(Duration::from_secs_f64(times.left - measure * part)));
        return ask;
    }
    if times.left - measure < times.overhead + times.least {
        // What is left would be too short for another step.
        measure = times.left;
    }
    times.step(policy, StepKind::Refine, level, measure)
}

/// A tier with the posterior of its boundary, if the steps so far give one.
fn with_posterior<'s>(policy: &Policy, seen: &Seen<'_>, slo: &'s Slo) -> Option<(&'s Slo, Posterior)> {
    Some((slo, Posterior::of(&seen.all, slo.tier(), &limits(slo), policy.dispersion, seen.change)?))
}

/// The tier whose boundary is known least, of those that need further steps; or why none does.
fn widest<'t>(
    policy: &Policy,
    seen: &Seen<'_>,
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
    // One that is likely not to be met by any level has less to gain from steps under load.
    let worth = |p: &&Posterior| p.spread() * (1.0 - p.infeasible());
    open.into_iter().max_by(|a, b| worth(a).total_cmp(&worth(b))).ok_or(stop)
}

/// Why a tier needs no further step, if it does not.
fn settled(policy: &Policy, seen: &Seen<'_>, slo: &Slo, p: &Posterior) -> Option<Stop> {
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

/// The lowest level of which anything can be said within the budget: where it has the requests that it takes, without a miss, to show that
/// the strictest percentile holds, ln .05 / ln(1 − p0) or 299 for a p99. Of a closed loop one worker.
pub(super) fn lowest(policy: &Policy, slo: &Slo) -> f64 {
    if policy.control == Control::Concurrency {
        return 1.0;
    }
    let needed = |p0: f64| (1.0 - SPOKEN_OF).ln() / (-p0).ln_1p();
    let strictest = limits(slo).into_iter().map(|(_, p0)| p0).filter(|p0| *p0 > 0.0 && *p0 < 1.0);
    let requests = strictest.map(needed).fold(1.0, f64::max);
    (requests.ceil() / policy.budget_s / policy.per_level).min(policy.highest)
}

/// The next level, or whether the unloaded server is asked once more.
fn choose(policy: &Policy, seen: &Seen<'_>, p: &Posterior, usual_s: f64) -> (f64, bool) {
    let median = p.feasible_quantile(0.5);
    let few = seen.per_s(median) * usual_s < REQUESTS;
    let infeasible = p.infeasible();
    let mut level = p.feasible_quantile(QUANTILES[seen.refined % QUANTILES.len()]);
    if policy.control != Control::Concurrency && (few || infeasible > DOUBT) && seen.refined % 2 == 1 {
        if 1.0 / seen.e2e_s > 0.5 * seen.per_s(median) {
            return (median, true);
        }
        level = if infeasible > MUCH_DOUBT { 0.5 * median } else { p.feasible_quantile(0.2) };
    }
    (policy.rounded(level).min(most(policy, seen)), false)
}

/// The highest level that may be measured: nothing is sent at one that overloaded the server, or above it, and what was too much for
/// the client is kept well away from, as chance decides where that begins.
fn most(policy: &Policy, seen: &Seen<'_>) -> f64 {
    let since = since(seen.change);
    // A step of the refinement may miss by far and be no overload: it was chosen to be near the boundary.
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
