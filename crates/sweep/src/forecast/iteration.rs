//! The time of an engine's iteration, fitted to the steps of a run.
//!
//! A time is a fixed part, a part for each sequence and a part for each prompt token; while the weights are read, some
//! prompt tokens are free (Williams, Waterman and Patterson, *Roofline*, CACM 52, 2009). One request alone gives the first
//! estimates. Then steps of the run are simulated, each at its own rate, and the parts are varied one at a time, by
//! factors that shrink, as long as the latencies come nearer to the measured ones (a pattern search: Hooke and Jeeves,
//! Journal of the ACM 8, 1961).

use super::model::Engine;
use crate::bare::Bare;
use anyhow::Result;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_plan::Plan;
use goodput_stats::diagnosis::{Curve, Facts, is_one};
use goodput_stats::search::{Ask, Ends};
use goodput_stats::stats::step::{Quantiles, Step, StepKind, Verdict};
use std::time::Duration;

/// Requests of a simulated step.
const REQUESTS: f64 = 2000.0;
/// Requests of a simulated step with one request at a time.
const ALONE: f64 = 30.0;
/// Largest number of steps under load that are simulated.
const STEPS: usize = 3;
/// Least requests of a step that is simulated.
const LEAST: u64 = 30;
/// Factors by which the parts are varied, in turn: at first, and once the sum is fitted.
const FACTORS: [f64; 3] = [1.5, 1.25, 1.1];
const LATER_FACTORS: [f64; 2] = [1.4, 1.15];
/// Factor on the deviation below which a variation is taken: less is the noise of the simulation.
const BETTER: f64 = 0.99;
/// Weight of the tails and of the requests in flight, against that of the medians.
const TAIL: f64 = 0.5;
/// Largest mean deviation from the measured latencies, as a logarithm, of a fit that is believed.
const BELIEVED: f64 = 0.25;
/// Share of the fixed part that is memory, if the plan does not declare the model: of a short iteration little, since the
/// host's work takes some milliseconds in every engine.
const MEMORY_OF_QUICK: f64 = 0.3;
const MEMORY_OF_SLOW: f64 = 0.8;
/// Fixed part below which an iteration is short, in milliseconds.
const QUICK_MS: f64 = 10.0;

/// The parts of the time of an iteration, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Iteration {
    /// Work of the host.
    pub(super) host_ms: f64,
    /// Reading the weights; prompt tokens that take no longer are free.
    pub(super) weights_ms: f64,
    /// More for an iteration with prompt tokens.
    pub(super) prompt_ms: f64,
    /// For each prompt token.
    pub(super) prompt_token_ms: f64,
    /// For each token of an answer, beside the reading of the weights: its products.
    pub(super) token_ms: f64,
    /// For each sequence.
    pub(super) sequence_ms: f64,
    /// For each token whose keys and values are read.
    pub(super) kv_token_ms: f64,
    /// Share of the fixed part that is memory, and not the host's work.
    memory: f64,
}

impl Iteration {
    /// Returns the times with compute that is faster by a factor.
    pub(super) fn with_compute(&self, factor: f64) -> Self {
        Self {
            prompt_token_ms: self.prompt_token_ms / factor,
            token_ms: self.token_ms / factor,
            ..*self
        }
    }

    /// Returns the times with memory that is faster by a factor.
    pub(super) fn with_memory(&self, factor: f64) -> Self {
        Self {
            host_ms: faster(self.host_ms, self.memory, factor),
            weights_ms: faster(self.weights_ms, self.memory, factor),
            kv_token_ms: self.kv_token_ms / factor,
            ..*self
        }
    }

    /// Returns the times with a host that is faster by a factor.
    pub(super) fn with_host(&self, factor: f64) -> Self {
        let host = 1.0 - self.memory;
        Self {
            host_ms: faster(self.host_ms, host, factor),
            weights_ms: faster(self.weights_ms, host, factor),
            prompt_ms: self.prompt_ms / factor,
            sequence_ms: self.sequence_ms / factor,
            ..*self
        }
    }
}

/// Returns a time of which a share becomes faster by a factor.
fn faster(time: f64, share: f64, factor: f64) -> f64 {
    time * (1.0 - share + share / factor)
}

/// The parts that are varied.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parts {
    /// Time of an iteration with one sequence and no prompt.
    fixed: f64,
    /// Share of it that can hide prompt tokens.
    hiding: f64,
    prompt: f64,
    prompt_token: f64,
    /// For each sequence beyond the first, with keys and values of a mean request.
    sequence: f64,
    /// Share of it that the reading of the weights can hide.
    hidden: f64,
}

/// What the parts are made of, known before the fit.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// Share of the fixed part that is memory.
    memory: f64,
    /// Share of a sequence's part that is reading keys and values.
    kv: f64,
    /// Tokens of a mean request at half of its answer.
    context: f64,
}

/// A step to be reproduced.
struct Target<'a> {
    step: &'a Step,
    ask: Ask,
    weight: f64,
}

/// Returns the times of an engine that reproduces the steps: those of a sum, and those in which reading the weights hides a
/// part, since latencies hardly tell which is true. Empty if no step had one request at a time, or neither does.
pub(super) fn fit(
    plan: &Plan,
    engine: &Engine,
    curve: &Curve,
    facts: &Facts,
    steps: &[&Step],
    measured: Option<f64>,
) -> Result<Vec<Iteration>> {
    let alone = steps.iter().filter(|s| is_one(s) && s.quantiles(Metric::Ttft).n > 5);
    let Some(alone) = alone.max_by_key(|s| s.due_n).copied() else { return Ok(Vec::new()) };
    let targets = targets(plan, engine, steps, alone, measured);
    let Some((start, shares)) = start(engine, curve, facts, alone, &targets) else { return Ok(Vec::new()) };
    let misfit = &|parts: &Parts| -> Result<f64> {
        let iteration = parts.iteration(&shares);
        let (mut sum, mut weights) = (0.0, 0.0);
        for target in &targets {
            let (deviation, weight) = target.deviation(plan, engine, &iteration)?;
            sum += target.weight * deviation;
            weights += target.weight * weight;
        }
        Ok(sum / f64::max(weights, 1e-9))
    };
    let linear = search((start, misfit(&start)?), Part::LINEAR, &FACTORS, misfit)?;
    let hiding = Parts { hiding: shares.memory.min(0.6), hidden: 0.2, ..linear.0 };
    let roofline = search((hiding, misfit(&hiding)?), Part::ALL, &LATER_FACTORS, misfit)?;
    let fits = [linear, roofline];
    eprintln!("{}: fitted {fits:?} targets {:?}", curve.series, targets.iter().map(|t| (t.step.level.value, t.step.due_n)).collect::<Vec<_>>());
    let believed = fits.into_iter().filter(|(_, deviation)| *deviation <= BELIEVED);
    Ok(believed.map(|(parts, _)| parts.iteration(&shares)).collect())
}

impl Parts {
    fn iteration(&self, shares: &Shares) -> Iteration {
        let token_ms = self.hidden * self.sequence;
        let seen = self.sequence - token_ms;
        let kv_token_ms = shares.kv * seen / shares.context;
        let sequence_ms = (1.0 - shares.kv) * seen;
        let fixed = (self.fixed - seen).max(0.1 * self.fixed);
        // What hides prompt tokens is the longer of both; only reading weights does.
        let weights_ms = fixed * self.hiding;
        Iteration {
            host_ms: fixed - weights_ms,
            weights_ms,
            prompt_ms: self.prompt,
            prompt_token_ms: self.prompt_token,
            token_ms,
            sequence_ms,
            kv_token_ms,
            memory: shares.memory,
        }
    }

    /// Returns the parts with one of them larger or smaller by a factor.
    fn varied(&self, part: Part, factor: f64) -> Self {
        match part {
            Part::PromptToken => Self { prompt_token: self.prompt_token * factor, ..*self },
            // It is the least certain at the start.
            Part::Sequence => Self { sequence: self.sequence * factor.powi(2), ..*self },
            Part::Fixed => Self { fixed: self.fixed * factor.sqrt(), ..*self },
            Part::Hiding => Self { hiding: shifted(self.hiding, factor), ..*self },
            Part::Hidden => Self { hidden: shifted(self.hidden, factor), ..*self },
        }
    }
}

/// Returns a share that is moved by the logarithm of a factor.
fn shifted(share: f64, factor: f64) -> f64 {
    (share + factor.ln()).clamp(0.0, 0.95)
}

/// A part that is varied.
#[derive(Debug, Clone, Copy)]
enum Part {
    PromptToken,
    Sequence,
    Fixed,
    Hiding,
    Hidden,
}

impl Part {
    /// The parts of a time that is a sum.
    const LINEAR: &[Self] = &[Self::PromptToken, Self::Sequence, Self::Fixed];
    const ALL: &[Self] = &[Self::Hiding, Self::Hidden, Self::PromptToken, Self::Sequence, Self::Fixed];
}

/// Returns the parts with the least misfit that the pattern search finds, with the misfit.
fn search(
    mut best: (Parts, f64),
    parts: &[Part],
    factors: &[f64],
    misfit: impl Fn(&Parts) -> Result<f64>,
) -> Result<(Parts, f64)> {
    for factor in factors {
        for part in parts {
            for factor in [*factor, 1.0 / factor] {
                let varied = best.0.varied(*part, factor);
                let deviation = misfit(&varied)?;
                if deviation < BETTER * best.1 {
                    best = (varied, deviation);
                    break;
                }
            }
        }
    }
    Ok(best)
}

/// Returns the steps to be reproduced: one request alone, the one nearest to the goodput, and lighter ones.
fn targets<'a>(
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
        let is_new = |c: &&Step| (c.level.value / step.level.value).ln().abs() > 0.2;
        if chosen.len() < STEPS && chosen.iter().all(is_new) {
            chosen.push(step);
        }
    }
    let loaded = chosen.into_iter().map(|step| Target { step, ask: ask(plan, step, engine.copies), weight: 1.0 });
    std::iter::once(Target { step: alone, ask: ask(plan, alone, 1.0), weight: 1.0 }).chain(loaded).collect()
}

/// Returns the simulated step for a measured one, on one of several copies.
fn ask(plan: &Plan, step: &Step, copies: f64) -> Ask {
    let mut level = step.level;
    let length_s = if is_one(step) {
        // A closed loop of one: the measured time of that many requests.
        step.measure_s.min(ALONE * step.measure_s / step.due_n.max(1) as f64)
    } else {
        level.value /= copies;
        step.measure_s.min(REQUESTS / level.value)
    };
    Ask {
        level,
        kind: if is_one(step) { StepKind::Baseline } else { StepKind::List },
        settle: Duration::from_secs_f64(if is_one(step) { 0.0 } else { step.settle_s.min(length_s) }),
        measure: Duration::from_secs_f64(length_s.max(0.01)),
        extend: false,
        tail: plan.step.tail(),
        drain: plan.timeout(),
        ends: Ends::AtItsTime,
        confidence: 0.95,
    }
}

impl Target<'_> {
    /// Returns the weighted sum of the absolute logarithms of simulated over measured latencies, and the sum of weights.
    fn deviation(&self, plan: &Plan, engine: &Engine, iteration: &Iteration) -> Result<(f64, f64)> {
        let mut sweep = Bare::on(plan, engine.model(iteration))?;
        let simulated = sweep.measure_again(&self.step.series, self.step.step, self.ask)?;
        let mut all: Vec<(f64, f64, f64)> = Vec::new();
        let mut compare = |metric: Metric, of: fn(&Quantiles) -> Option<f64>, weight: f64| {
            let (is, was) = (of(&simulated.quantiles(metric)), of(&self.step.quantiles(metric)));
            all.extend(is.zip(was).map(|(is, was)| (is, was, weight)));
        };
        for metric in [Metric::Ttft, Metric::Tpot] {
            compare(metric, |q| q.p50, 1.0);
            compare(metric, |q| q.p90, TAIL);
            compare(metric, |q| q.p99.filter(|_| q.n > 300), TAIL);
        }
        let usable = all.into_iter().filter(|(is, was, _)| *is > 0.0 && *was > 0.0);
        Ok(usable.fold((0.0, 0.0), |(sum, weights), (is, was, weight)| {
            (sum + weight * (is / was).ln().abs(), weights + weight)
        }))
    }
}

/// Returns the first estimates, from one request alone and the growth of TPOT; `None` without a TPOT or a TTFT.
fn start(
    engine: &Engine,
    curve: &Curve,
    facts: &Facts,
    alone: &Step,
    targets: &[Target<'_>],
) -> Option<(Parts, Shares)> {
    let ttft = alone.quantiles(Metric::Ttft).p50?;
    let fixed = alone.quantiles(Metric::Tpot).p50.filter(|t| *t > 0.0).unwrap_or(0.5 * ttft);
    let input = alone.input_tokens_mean?.max(1.0);
    let output = alone.output_tokens_mean.unwrap_or(1.0).max(1.0);
    let hits = alone.server.hit_rate.unwrap_or(0.0).clamp(0.0, 0.99);
    let read = (input * (1.0 - hits)).max(1.0);
    let parts = (read / f64::from(engine.limits.max_num_batched_tokens.get())).ceil();
    let own: Vec<_> = facts.lengths.iter().filter(|p| p.deployment == curve.deployment).collect();
    let slope = match (own.first(), own.last()) {
        (Some(first), Some(last)) if last.tokens > 2.0 * first.tokens => {
            Some((last.ttft_ms - first.ttft_ms) / (last.tokens - first.tokens))
        }
        _ => None,
    };
    let rest = (ttft - parts * fixed).max(0.05 * ttft);
    let prompt_token = slope.filter(|slope| *slope > 0.0).unwrap_or(rest / read);
    let prompt = ((rest - prompt_token * read) / parts).max(0.0);
    let more = targets.iter().filter(|t| !is_one(t.step)).filter_map(|t| {
        let tpot = t.step.quantiles(Metric::Tpot).p50?;
        let busy = (t.ask.level.value * read * prompt_token / 1e3).min(0.9);
        let running = (t.ask.level.value * (output * tpot + ttft) / 1e3).max(1.0);
        (running > 1.5).then(|| ((tpot * (1.0 - busy) - fixed) / (running - 1.0)).max(0.0))
    });
    let growth = more.fold((0.0, 0.0), |(sum, n), x| (sum + x, n + 1.0));
    let sequence = if growth.1 > 0.0 { growth.0 / growth.1 } else { 0.0 };
    let sequence = sequence.clamp(0.002 * fixed, 0.5 * fixed);
    let context = input + output / 2.0;
    let (memory, kv) = memory_shares(curve, fixed, sequence, context);
    let parts = Parts { fixed, hiding: 0.0, prompt, prompt_token, sequence, hidden: 0.0 };
    Some((parts, Shares { memory, kv, context }))
}

/// Returns the shares of the fixed part and of a sequence's part that are reading memory, by the declared hardware.
fn memory_shares(curve: &Curve, fixed: f64, sequence: f64, context: f64) -> (f64, f64) {
    let Some((machine, model)) = &curve.hardware else {
        return (if fixed < QUICK_MS { MEMORY_OF_QUICK } else { MEMORY_OF_SLOW }, 0.5);
    };
    let weights = machine.decode(model, 1.0, 0.0).floor_ms;
    let with_context = machine.decode(model, 1.0, context).floor_ms;
    let share = |part: f64, whole: f64| (part / whole.max(1e-9)).clamp(0.05, 0.95);
    (share(weights, fixed), share(with_context - weights, sequence))
}
