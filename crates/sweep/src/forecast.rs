//! Forecasts: the goodput of a model of the server under single changes.
//!
//! The model is the simulator's engine with the server's settings, as far as they are known, and a time per iteration
//! that is fitted to the steps of the run (`fit`). It then runs with one thing changed at a time (`changes`). A
//! forecast is made only if the model's own goodput, with nothing changed, is near the measured one.
//!
//! Nothing is sent: it takes a second or two of computing after a sweep.

mod changes;
mod fit;
mod iteration;
mod model;
mod target;

use crate::bare::Bare;
use crate::bare::boundary::{bracket, is_met};
use crate::cores::each;
use anyhow::Result;
use changes::{Changed, changes};
use goodput_core::level::Control;
use goodput_plan::Plan;
use goodput_run::rundir::{Run, diagnosis_facts, forecasts};
use goodput_stats::diagnosis::{Curve, Effect, Facts, Flags, Forecast};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{Step, StepKind};
use iteration::Iteration;
use model::Engine;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Largest factor between the goodput of the model and the measured one.
const ALIKE: f64 = 1.25;
/// Factor by which a change must raise the goodput for a larger one to be tried.
const HELPS: f64 = 1.04;
/// Requests of a simulated step: fifteen misses of a p99.
const REQUESTS: f64 = 1500.0;
/// Rates that are simulated, in requests per second.
const RATES: Range<f64> = 0.02..4000.0;
/// Ratio of the ends of a bracket that is narrow enough.
const NARROW: f64 = 1.06;

/// Simulates the changes of every series of a finished run for which that is possible, and writes the forecasts into its
/// folder. Returns how many were made.
///
/// # Errors
/// The run folder cannot be read or written.
pub fn write(dir: &Path, plan: &Plan, run: &Run) -> Result<usize> {
    if !plan.rows.is_empty() || !plan.purpose.is_goodput() {
        return Ok(0);
    }
    let facts = diagnosis_facts(plan, run, dir)?;
    let mut all: Vec<Forecast> = Vec::new();
    for one in plan.series() {
        let part = run.parts.iter().find(|p| p.series() == one.name).unwrap_or(run);
        let answer = part.answers.iter().find(|a| a.series == one.name);
        let curve = facts.curves.iter().find(|c| c.series == one.name && c.limit.is_some());
        if let (Some(answer), Some(curve)) = (answer, curve) {
            let steps: Vec<&Step> = run.steps.iter().filter(|s| s.series == one.name).collect();
            all.extend(forecast(&one.plan, answer, curve, &facts, &steps)?);
        }
    }
    if !all.is_empty() {
        forecasts::write(dir, &all)?;
    }
    Ok(all.len())
}

/// Returns the forecast of a series; `None` if its load, its server or its answer is not one that the model can have.
fn forecast(
    plan: &Plan,
    answer: &Answer,
    curve: &Curve,
    facts: &Facts,
    steps: &[&Step],
) -> Result<Option<Forecast>> {
    let measured = match answer.goodput.status() {
        Status::Found | Status::Undecided => answer.goodput.rate(),
        Status::None => None,
        Status::NotReached | Status::Invalid => return Ok(None),
    };
    let decided = measured.is_some() || answer.goodput.status() == Status::None;
    let is_queue = curve.flags == Some(Flags::SimulatedQueue);
    if answer.control != Control::Rate || !decided || is_queue || !can_be_drawn(plan) {
        return Ok(None);
    }
    let Some(engine) = Engine::of(curve, steps) else { return Ok(None) };
    let iterations = fit::fit(plan, &engine, curve, facts, steps, measured)?;
    let lowest = steps.iter().filter(|s| s.kind != StepKind::Baseline).map(|s| s.level.value);
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    let [low, high] = answer.goodput.interval90().unwrap_or([measured.unwrap_or(0.0); 2]);
    let is_like = |present: f64| match measured {
        Some(_) => (low / ALIKE..=high * ALIKE).contains(&present) && present > 0.0,
        // Lower rates than the lowest step were not measured.
        None => present <= lowest,
    };
    let mut all: Vec<Forecast> = Vec::new();
    for iteration in &iterations {
        let near = measured.unwrap_or(10.0 * RATES.start);
        let present = engine_goodput(plan, &answer.tier, &engine, iteration, near)?;
        if is_like(present) {
            let ladders = changes(&engine, iteration, curve);
            let effects = effects(plan, &answer.tier, &ladders, present, near)?;
            all.push(Forecast { series: curve.series.clone(), measured, present, effects });
        }
    }
    Ok(all.into_iter().reduce(Forecast::least))
}

/// Returns the goodput of the changes, each ladder as far as it helps.
fn effects(
    plan: &Plan,
    tier: &str,
    ladders: &[Vec<Changed>],
    present: f64,
    near: f64,
) -> Result<Vec<Effect>> {
    let climbed = each(ladders.len(), |i| {
        let (mut effects, mut before) = (Vec::new(), present);
        for Changed { altered, engine, iteration } in &ladders[i] {
            let altered = *altered;
            // How much less a change leaves does not matter.
            if before > 0.0 && !meets(plan, tier, engine, iteration, before * HELPS)? {
                effects.push(Effect { altered, goodput: present });
                break;
            }
            let goodput = engine_goodput(plan, tier, engine, iteration, before.max(near))?;
            effects.push(Effect { altered, goodput });
            if goodput <= before * HELPS {
                break;
            }
            before = goodput;
        }
        Ok(effects)
    })?;
    Ok(climbed.into_iter().flatten().collect())
}

/// Returns true if the requests of a plan can be drawn without their text.
fn can_be_drawn(plan: &Plan) -> bool {
    Bare::on(plan, model::idle()).is_ok()
}

/// Returns the goodput of an engine in requests per second, of all copies together; 0 if no rate meets the SLO.
fn engine_goodput(plan: &Plan, tier: &str, engine: &Engine, iteration: &Iteration, near: f64) -> Result<f64> {
    let [low, high] = bracket(near, &RATES, NARROW, |rate| meets(plan, tier, engine, iteration, rate))?;
    Ok((low * high).sqrt())
}

/// Returns true if an engine meets the SLO at a rate of all copies together.
fn meets(plan: &Plan, tier: &str, engine: &Engine, iteration: &Iteration, rate: f64) -> Result<bool> {
    let mut sweep = Bare::on(plan, engine.model(iteration))?;
    let rate = rate / engine.copies;
    let [settle, measure] = [0.1, 1.0].map(|part| Duration::from_secs_f64(part * REQUESTS / rate));
    Ok(is_met(sweep.measure_whole(rate, settle, measure)?, Some(tier), 0.0))
}
