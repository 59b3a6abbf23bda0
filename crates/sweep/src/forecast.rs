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
mod load;
mod model;
mod target;

use crate::cores::each;
use anyhow::Result;
use changes::{Changed, changes};
use fit::fit;
use goodput_core::level::Control;
use goodput_plan::Plan;
use goodput_run::rundir::{Run, diagnosis_facts, forecasts};
use goodput_stats::diagnosis::{Curve, Effect, Facts, Flags, Forecast};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{Step, StepKind};
use load::{Load, RATES};
use model::Engine;
use std::path::Path;

/// Largest factor between the goodput of the model and the measured one.
const ALIKE: f64 = 1.25;
/// Factor by which a change must raise the goodput for a larger one to be tried.
const HELPS: f64 = 1.04;

/// Simulates the changes of every series of a finished run for which that is possible, and writes the forecasts into its
/// folder. The run needs its answers alone.
///
/// # Errors
/// The run folder cannot be read or written.
pub fn write(dir: &Path, plan: &Plan, run: &Run) -> Result<()> {
    if !plan.rows.is_empty() || !plan.purpose.is_goodput() {
        return Ok(());
    }
    let facts = diagnosis_facts(plan, run, dir)?;
    let mut all: Vec<Forecast> = Vec::new();
    for one in plan.series() {
        let answer = run.part(&one.name).answers.iter().find(|a| a.series == one.name);
        let curve = facts.curves.iter().find(|c| c.series == one.name && c.limit.is_some());
        if let (Some(answer), Some(curve)) = (answer, curve) {
            let steps: Vec<&Step> = run.steps.iter().filter(|s| s.series == one.name).collect();
            all.extend(forecast(&one.plan, answer, curve, &facts, &steps)?);
        }
    }
    if all.is_empty() { Ok(()) } else { forecasts::write(dir, &all) }
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
    if answer.control != Control::Rate || !decided || is_queue {
        return Ok(None);
    }
    // Some requests cannot be drawn without their text.
    let (Ok(load), Some(engine)) = (Load::of(plan, &answer.tier), Engine::of(curve, steps)) else {
        return Ok(None);
    };
    let lowest = steps.iter().filter(|s| s.kind != StepKind::Baseline).map(|s| s.level.value);
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    let [low, high] = answer.goodput.interval90().unwrap_or([measured.unwrap_or(0.0); 2]);
    let is_like = |present: f64| match measured {
        Some(_) => (low / ALIKE..=high * ALIKE).contains(&present) && present > 0.0,
        // Lower rates than the lowest step were not measured.
        None => present <= lowest,
    };
    let near = measured.unwrap_or(10.0 * RATES.start);
    let mut all: Vec<Forecast> = Vec::new();
    for server in fit(&load, &engine, curve, facts, steps, measured)? {
        let present = load.goodput(&server, near)?;
        tracing::debug!("{}: goodput {measured:?}, that of the model {present}: {server:?}", plan.name);
        if is_like(present) {
            let effects = effects(&load, &changes(&server, curve), present, near)?;
            tracing::debug!("{}: {effects:?}", plan.name);
            all.push(Forecast { series: curve.series.clone(), measured, present, effects });
        }
    }
    Ok(all.into_iter().reduce(Forecast::least))
}

/// Returns the goodput of the changes, each ladder as far as it helps.
fn effects(load: &Load<'_>, ladders: &[Vec<Changed>], present: f64, near: f64) -> Result<Vec<Effect>> {
    let climbed = each(ladders.len(), |i| {
        let (mut effects, mut before) = (Vec::new(), present);
        for Changed { altered, server } in &ladders[i] {
            // How much less a change leaves does not matter.
            let helps = before <= 0.0 || load.meets(server, before * HELPS)?;
            let goodput = if helps { load.goodput(server, before.max(near))? } else { present };
            effects.push(Effect { altered: *altered, goodput });
            if goodput <= before * HELPS {
                break;
            }
            before = goodput;
        }
        Ok(effects)
    })?;
    Ok(climbed.into_iter().flatten().collect())
}
