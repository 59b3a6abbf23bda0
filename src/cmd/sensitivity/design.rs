//! The design of a sensitivity run: its level, the size of the changes, and the times.

use crate::level::Control;
use crate::plan::sensitivity::{Pairing, Side};
use crate::plan::{Plan, SensitivityPlan};
use crate::rundir::Run;
use crate::rundir::derive::interval;
use crate::search::answer::{Answer, Status};
use crate::slo::Metric;
use crate::stats::step::{Quantiles, Step, Verdict};
use crate::units::{Span, short};
use crate::workload::factors::{Factor, FactorKind};
use anyhow::{Context, Result, bail};
use std::num::NonZeroU32;
use std::time::Duration;

/// Target change of ln(tail latency) when the rate goes up: a factor of e^0.4 ≈ 1.5, enough to tell from noise without entering another regime.
const TAIL_CHANGE: f64 = 0.4;
/// Smallest relative change of the rate.
const LEAST_MOVE: f64 = 0.05;
/// Largest relative change of the rate.
const MOST_MOVE: f64 = 0.2;
/// Assumed d ln tail/d ln rate if the steps of the search do not determine it.
const DEFAULT_SLOPE: f64 = 4.0;
/// Steps within this factor of the centre determine the slope.
const NEAR: f64 = 1.6;
/// Preferred number of turns.
const TURNS: u32 = 5;
/// Fewest turns that give an interval.
const LEAST_TURNS: u32 = 4;
/// Largest number of turns; beyond it, longer steps are worth more.
const MOST_TURNS: u32 = 12;
/// Shortest measured window, in seconds.
const LEAST_MEASURE: f64 = 10.0;
/// Measured window, in seconds, above which more turns are added instead.
const MOST_MEASURE: f64 = 120.0;
/// Fewest misses expected in a step at the boundary; with fewer, its tail depends on single requests.
const LEAST_TAIL: f64 = 2.0;
/// Time between steps for connecting, draining and checking that the server is idle, in seconds.
const BETWEEN: f64 = 1.0;

/// The design of the paired steps.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Design {
    /// Each factor with its relative change.
    pub(super) factors: Vec<(Factor, f64)>,
    /// Level, turns and times of the steps.
    pub(super) pairing: Pairing,
}

/// Designs the pairs for the answer of a run.
///
/// # Errors
/// The run has no goodput, no factor can be changed, or the budget is too small.
pub(super) fn of(run: &Run, plan: &Plan, asked: &SensitivityPlan) -> Result<Design> {
    let answer = run.answers.first().context("the run has no answer")?;
    let centre = centre(run, plan, answer)?;
    let rate_move = (TAIL_CHANGE / slope(run, answer, centre.0)).clamp(LEAST_MOVE, MOST_MOVE);
    let rate_move = rate_move.min(asked.most.get());
    // The rate moved up must not exceed max-rate, nor the highest rate of the search.
    let level = centre.0.min(centre.1 / (1.0 + rate_move));
    let factors: Vec<(Factor, f64)> = asked
        .factors(plan)
        .0
        .into_iter()
        .filter_map(|factor| {
            let by = share(&factor, rate_move, asked.most.get(), plan)?;
            Some((factor, by))
        })
        .collect();
    if factors.is_empty() {
        bail!(
            "no factor of this workload can be changed enough to measure its effect: name others in [sensitivity] factors"
        );
    }
    let cells = 2 * (factors.len() + 1);
    let request = run.nearest(answer, level).and_then(|s| s.quantiles(Metric::E2e).p99);
    let request_s = request.filter(|ms| ms.is_finite()).map_or(1.0, |ms| (ms / 1e3).clamp(0.1, 600.0));
    let allowed = plan.slo.as_slice().first().and_then(least_allowed).unwrap_or(0.01);
    let per_s = level * plan.workload.per_level();
    let schedule = Schedule { cells, request_s, least_s: LEAST_TAIL / allowed / per_s };
    let (turns, settle, measure) = schedule.spend(asked.budget.0.as_secs_f64())?;
    let pairing = Pairing { centre: level, rate_move, turns, settle, measure };
    Ok(Design { factors, pairing })
}

/// Describes the paired steps in one line.
pub(super) fn summary(design: &Design, plan: &Plan) -> String {
    let p = &design.pairing;
    let names: Vec<String> =
        design.factors.iter().map(|(f, by)| format!("{f} ±{:.0} %", 100.0 * by)).collect();
    let steps = p.turns.get() as usize * 2 * (design.factors.len() + 1);
    format!(
        "measuring the sensitivity: {steps} steps near {}{}, each {} s measured after {} s settling; rate ±{:.0} %, {}",
        short(p.centre),
        plan.workload.control().unit(),
        p.measure.as_secs(),
        p.settle.as_secs(),
        100.0 * p.rate_move,
        names.join(", ")
    )
}

/// Returns the level at which to change the factors, and the highest level that may be offered. The level is the boundary itself, because
/// away from it another limit may bind.
fn centre(run: &Run, plan: &Plan, answer: &Answer) -> Result<(f64, f64)> {
    let g = &answer.goodput;
    if answer.control == Control::Concurrency {
        bail!(
            "the answer is a number of requests in flight, but paired steps need a rate: use a search over rates"
        );
    }
    let bracket = || Some((g.bracket.met? * g.bracket.failed?).sqrt());
    let rate = match g.status() {
        Status::None => bail!("no rate meets the SLO, so there is no goodput to measure the sensitivity of"),
        Status::Invalid => bail!("the client was the limit, so the goodput is unknown"),
        Status::Found | Status::NotReached | Status::Undecided => {
            interval(g).map(|(rate, _)| rate).or_else(bracket).or(g.rate()).or(g.bracket.met)
        }
    };
    let rate = rate.filter(|r| *r > 0.0).context("the search found no goodput")?;
    let loaded =
        run.steps.iter().filter(|s| !s.kind.is_outside_search() && s.level.control == answer.control);
    let tried = loaded.map(|s| s.level.value).fold(0.0, f64::max);
    let most = plan.search.max_rate.map_or(tried, |max| tried.min(max.get()));
    Ok((rate, if most > 0.0 { most } else { rate }))
}

/// Returns the smallest share of misses that a limit of a tier allows.
fn least_allowed(slo: &crate::slo::Slo) -> Option<f64> {
    let limits = slo.limit_groups().into_iter().flat_map(|part| part.slo.limits());
    limits.filter(|l| l.metric.is_per_request()).map(|l| l.percentile.miss_share()).min_by(f64::total_cmp)
}

/// Estimates d ln tail/d ln rate near a level, by weighted least squares over the nearby steps of the search.
fn slope(run: &Run, answer: &Answer, centre: f64) -> f64 {
    let tier = run.tiers.iter().find(|t| t.tier() == answer.tier).or(run.tiers.first());
    let limits = tier.map(crate::slo::Slo::limits).unwrap_or_default();
    let tail = |s: &Step| {
        let over = limits.iter().filter_map(|l| {
            let ms = at(&s.quantiles(l.metric), l.percentile.share())?;
            (ms.is_finite() && ms > 0.0).then(|| (ms / l.limit_ms()).ln())
        });
        over.max_by(f64::total_cmp)
    };
    let usable = |s: &&Step| {
        !s.kind.is_outside_search()
            && !s.overloaded()
            && s.verdict != Verdict::Invalid
            && s.level.control == answer.control
            && s.series == answer.series
            && (s.level.value / centre).ln().abs() < NEAR.ln()
    };
    let points: Vec<(f64, f64, f64)> = run
        .steps
        .iter()
        .filter(usable)
        .filter_map(|s| Some((s.level.value.ln(), tail(s)?, s.due_n as f64)))
        .collect();
    let all: f64 = points.iter().map(|p| p.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * of(p)).sum::<f64>() / all;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sxx: f64 = points.iter().map(|p| p.2 * (p.0 - x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| p.2 * (p.0 - x) * (p.1 - y)).sum();
    // Levels that are too close together do not determine a slope.
    let spread = (sxx / all).sqrt();
    if points.len() >= 2 && spread > 0.05 { (sxy / sxx).clamp(0.5, 40.0) } else { DEFAULT_SLOPE }
}

/// Returns the recorded percentile nearest to a share of requests.
fn at(q: &Quantiles, share: f64) -> Option<f64> {
    match share {
        s if s > 0.97 => q.p99,
        s if s > 0.925 => q.p95,
        s if s > 0.7 => q.p90,
        _ => q.p50,
    }
}

/// Returns the relative change of a factor: as for the rate for lengths, on which a server's load depends as on the rate; two and three times
/// as much for the others. Half as much if the workload does not allow that; `None` if it does not allow half.
fn share(factor: &Factor, rate_move: f64, most: f64, plan: &Plan) -> Option<f64> {
    let weight = match factor.kind {
        FactorKind::PromptLength | FactorKind::AnswerLength => 1.0,
        FactorKind::CacheShare | FactorKind::Mix => 2.0,
        FactorKind::Burstiness => 3.0,
    };
    let by = (weight * rate_move).min(most);
    let fits = |by: f64| {
        let values = Side::BOTH.map(|side| {
            let moved = factor.scaled(&plan.workload, side.times(by)).ok()?;
            factor.value(&moved).ok()
        });
        // Short lengths may round back to their old value.
        matches!(values, [Some(down), Some(up)] if (up / down).ln() > by)
    };
    [by, by / 2.0].into_iter().find(|by| fits(*by))
}

/// Inputs for dividing the budget into steps.
struct Schedule {
    /// Number of series; each has one step per turn.
    cells: usize,
    /// Duration of the longest requests, in seconds.
    request_s: f64,
    /// Shortest window with enough misses for a tail, in seconds.
    least_s: f64,
}

impl Schedule {
    /// Returns turns, settling time and measured window for a budget in seconds.
    fn spend(&self, budget: f64) -> Result<(NonZeroU32, Duration, Duration)> {
        let each = |turns: u32| budget / f64::from(turns) / self.cells as f64;
        let settle = |each: f64| (each / 5.0).clamp(2.0, 20.0).max(self.request_s);
        let window = |turns: u32| each(turns) - settle(each(turns)) - self.request_s - BETWEEN;
        let least = LEAST_MEASURE.max(self.least_s);
        let Some(mut turns) = (LEAST_TURNS..=TURNS).rev().find(|n| window(*n) >= least) else {
            let step =
                (least + BETWEEN + self.request_s + (least / 4.0).clamp(2.0, 20.0).max(self.request_s)) * 1.1;
            let needed = step * f64::from(LEAST_TURNS) * self.cells as f64;
            bail!(
                "a budget of {} is too short for {} steps of {} s measured each: set it to {} ([sensitivity] budget, or --budget), or choose fewer factors",
                Span::secs(budget as u64),
                LEAST_TURNS as usize * self.cells,
                least.ceil(),
                Span::secs(60 * (needed / 60.0).ceil() as u64)
            );
        };
        while turns < MOST_TURNS && window(turns) > MOST_MEASURE {
            turns += 1;
        }
        let whole = |s: f64| Duration::from_secs(s.max(1.0) as u64);
        let of = NonZeroU32::new(turns).unwrap_or(NonZeroU32::MIN);
        Ok((of, whole(settle(each(turns)).ceil()), whole(window(turns).min(3600.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(cells: usize, request_s: f64, least_s: f64, minutes: f64) -> Result<(u32, u64, u64)> {
        let s = Schedule { cells, request_s, least_s }.spend(60.0 * minutes)?;
        Ok((s.0.get(), s.1.as_secs(), s.2.as_secs()))
    }

    #[test]
    fn a_budget_becomes_turns_of_long_steps() {
        for (cells, request_s, least_s, minutes) in
            [(8, 1.0, 5.0, 30.0), (6, 5.0, 20.0, 30.0), (10, 1.0, 5.0, 20.0), (4, 1.0, 5.0, 240.0)]
        {
            let (turns, settle, measure) = spend(cells, request_s, least_s, minutes).unwrap();
            let each = settle as f64 + measure as f64 + request_s + BETWEEN;
            let spent = each * f64::from(turns) * cells as f64;
            assert!(
                spent <= 60.0 * minutes + 1.0 && spent > 0.9 * 60.0 * minutes,
                "{turns} × {each}: {spent}"
            );
            assert!((LEAST_TURNS..=MOST_TURNS).contains(&turns) && measure as f64 >= least_s.max(10.0));
        }
        assert_eq!(spend(8, 1.0, 5.0, 30.0).unwrap().0, TURNS);
        let e = spend(10, 1.0, 60.0, 20.0).unwrap_err().to_string();
        assert!(e.contains("too short for 40 steps of 60 s measured") && e.contains("set it to"), "{e}");
    }

    #[test]
    fn the_slope_is_estimated_from_the_steps_near_the_centre() {
        use goodput_run::fixture;
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
        let answer = run.answers[0].clone();
        let limit = run.tiers[0].limits().into_iter().find(|l| l.metric == Metric::Ttft).unwrap();
        for s in &mut run.steps {
            // p99 = limit × (rate/30)^3, and no other latency.
            let ms = limit.limit_ms() * (s.level.value / 30.0).powi(3);
            let q = Quantiles { n: s.due_n, p99: Some(ms), ..Quantiles::default() };
            s.latency = [(Metric::Ttft, q)].into();
        }
        let got = slope(&run, &answer, 30.0);
        assert!((got - 3.0).abs() < 1e-6, "{got}");
        assert!((slope(&run, &answer, 3_000.0) - DEFAULT_SLOPE).abs() < 1e-12, "no step is near");
    }
}
