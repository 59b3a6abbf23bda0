//! The steps of a run that a fitted engine must reproduce.

use super::load::Load;
use super::model::{Engine, Modelled};
use crate::bare::whole;
use anyhow::Result;
use goodput_core::level::{Control, Level};
use goodput_core::slo::{AnswerPart, Metric};
use goodput_plan::Plan;
use goodput_stats::diagnosis::is_one;
use goodput_stats::search::Ask;
use goodput_stats::stats::step::{Quantiles, Step, StepKind, Verdict};
use std::time::Duration;

/// Requests of a simulated step.
const REQUESTS: f64 = 1500.0;
/// Requests of a simulated step with one request at a time.
const ALONE: f64 = 30.0;
/// Largest number of steps under load that are simulated.
const STEPS: usize = 3;
/// Least requests of a step that is simulated.
const LEAST: u64 = 30;
/// Least difference of the levels of two steps that are simulated, as a logarithm.
const APART: f64 = 0.2;
/// Weight of a tail against that of a median.
const TAIL: f64 = 0.5;
/// Weight of latencies that no limit judges.
const NOT_JUDGED: f64 = 0.25;
/// Largest deviation of one latency, as a logarithm: close to saturation, a slightly smaller capacity makes the wait many
/// times as long.
const FAR: f64 = 1.0;
/// Least number of values of a p99.
const OF_P99: u64 = 300;

/// A step to be reproduced.
pub(super) struct Target<'a> {
    pub(super) step: &'a Step,
    pub(super) ask: Ask,
}

/// Returns the longest step with one request at a time, of those in which at least so many were answered.
pub(super) fn longest_alone<'a>(steps: &[&'a Step], least: u64) -> Option<&'a Step> {
    steps.iter().copied().filter(|s| is_one(s) && answered(s) >= least).max_by_key(|s| s.due_n)
}

/// Returns the number of requests of a step that saw a first token.
pub(super) fn answered(step: &Step) -> u64 {
    step.quantiles(Metric::Ttft).n
}

/// Returns the steps to be reproduced: one request alone, the one nearest to the goodput, and lighter ones.
pub(super) fn targets<'a>(
    plan: &Plan,
    engine: &Engine,
    steps: &[&'a Step],
    alone: &'a Step,
    measured: Option<f64>,
) -> Vec<Target<'a>> {
    let mut own: Vec<&Step> = steps
        .iter()
        .copied()
        .filter(|s| {
            s.level.control == Control::Rate
                && !s.kind.is_outside_search()
                && s.verdict != Verdict::Invalid
                && s.completed >= LEAST
                && s.abort.is_none()
                && !s.overloaded()
        })
        .collect();
    let aim = measured.unwrap_or(0.0).max(1e-6);
    own.sort_by(|a, b| {
        let far = |s: &Step| (s.level.value / aim).ln().abs();
        far(a).total_cmp(&far(b))
    });
    let mut chosen: Vec<&Step> = Vec::new();
    for step in own {
        let is_new = |c: &&Step| (c.level.value / step.level.value).ln().abs() > APART;
        if chosen.len() < STEPS && chosen.iter().all(is_new) {
            chosen.push(step);
        }
    }
    let loaded = chosen.into_iter().map(|step| Target { step, ask: ask(plan, step, engine.copies) });
    std::iter::once(Target { step: alone, ask: ask(plan, alone, 1.0) }).chain(loaded).collect()
}

/// Returns the simulated step for a measured one, on one of several copies.
fn ask(plan: &Plan, step: &Step, copies: f64) -> Ask {
    if is_one(step) {
        // A closed loop of one: the measured time of that many requests.
        let length_s = step.measure_s.min(ALONE * step.measure_s / step.due_n.max(1) as f64);
        return whole(plan, step.level, StepKind::Baseline, times(0.0, length_s));
    }
    let level = Level { value: step.level.value / copies, ..step.level };
    let length_s = step.measure_s.min(REQUESTS / level.value);
    whole(plan, level, StepKind::List, times(step.settle_s.min(length_s), length_s))
}

/// Returns the times of a step: settling, and the window.
fn times(settle_s: f64, window_s: f64) -> [Duration; 2] {
    [settle_s, window_s.max(0.01)].map(Duration::from_secs_f64)
}

impl Target<'_> {
    /// Returns the weighted mean of the absolute logarithms of simulated over measured latencies.
    pub(super) fn deviation(&self, load: &Load<'_>, server: &Modelled) -> Result<f64> {
        let mut sweep = load.sweep(server);
        let simulated = sweep.measure_again(&self.step.series, self.step.step, self.ask)?;
        let mut all: Vec<(f64, f64, f64)> = Vec::new();
        for metric in [Metric::Ttft, Metric::Tpot] {
            let judged = if self.is_judged(metric) { 1.0 } else { NOT_JUDGED };
            let mut compare = |of: fn(&Quantiles) -> Option<f64>, weight: f64| {
                let (is, was) = (of(&simulated.quantiles(metric)), of(&self.step.quantiles(metric)));
                all.extend(is.zip(was).map(|(is, was)| (is, was, weight * judged)));
            };
            compare(|q| q.p50, 1.0);
            compare(|q| q.p90, TAIL);
            compare(|q| q.p99.filter(|_| q.n > OF_P99), TAIL);
        }
        let usable = all.into_iter().filter(|(is, was, _)| *is > 0.0 && *was > 0.0);
        let (sum, weights) = usable.fold((0.0, 0.0), |(sum, weights), (is, was, weight)| {
            (sum + weight * (is / was).ln().abs().min(FAR), weights + weight)
        });
        Ok(sum / f64::max(weights, f64::MIN_POSITIVE))
    }

    /// Returns true if a limit of the step judges the stretch of an answer that a metric times, or the whole answer.
    fn is_judged(&self, metric: Metric) -> bool {
        let limits = self.step.limits.iter().filter_map(|row| Metric::of_limit(&row.limit));
        limits.map(Metric::part).any(|part| part == metric.part() || part == AnswerPart::Whole)
    }
}
