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
use goodput_run::rundir::forecasts::{self, Attempt};
use goodput_run::rundir::{Run, diagnosis_facts};
use goodput_stats::diagnosis::{Curve, Effect, Facts, Flags, Forecast, NoForecast, WithoutForecast};
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
    let mut all: Vec<Attempt> = Vec::new();
    for one in plan.series() {
        let answer = run.part(&one.name).answers.iter().find(|a| a.series == one.name);
        let Some(answer) = answer else { continue };
        let curve = facts.curves.iter().find(|c| c.series == one.name && c.limit.is_some());
        let made = match curve {
            Some(curve) => {
                let steps: Vec<&Step> = run.steps.iter().filter(|s| s.series == one.name).collect();
                forecast(&one.plan, answer, curve, &facts, &steps)?
            }
            None => Err(NoForecast::NothingMissed),
        };
        all.push(made.map_or_else(
            |reason| Attempt::NotMade(WithoutForecast { series: one.name.clone(), reason }),
            Attempt::Made,
        ));
    }
    if all.is_empty() { Ok(()) } else { forecasts::write(dir, &all) }
}

/// Returns the forecast of a series, or why its load, its server or its answer is not one that the model can have.
fn forecast(
    plan: &Plan,
    answer: &Answer,
    curve: &Curve,
    facts: &Facts,
    steps: &[&Step],
) -> Result<Result<Forecast, NoForecast>> {
    let measured = match measured(answer, curve) {
        Ok(measured) => measured,
        Err(reason) => return Ok(Err(reason)),
    };
    // Some requests cannot be drawn without their text.
    let Ok(load) = Load::of(plan, &answer.tier) else { return Ok(Err(NoForecast::RequestsUnknown)) };
    let engine = match Engine::of(curve, steps) {
        Ok(engine) => engine,
        Err(reason) => return Ok(Err(reason)),
    };
    let lowest = steps.iter().filter(|s| s.kind != StepKind::Baseline).map(|s| s.level.value);
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    let [low, high] = answer.goodput.interval90().unwrap_or([measured.unwrap_or(0.0); 2]);
    let [low, high] = match measured {
        Some(_) => [low / ALIKE, high * ALIKE],
        // Lower rates than the lowest step were not measured.
        None => [0.0, lowest],
    };
    let is_like = |present: f64| (low..=high).contains(&present) && (present > 0.0 || measured.is_none());
    let near = measured.unwrap_or(10.0 * RATES.start);
    let servers = match fit(&load, &engine, curve, facts, steps, measured)? {
        Ok(servers) => servers,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut all: Vec<Forecast> = Vec::new();
    let mut unlike = NoForecast::NoEstimate;
    for server in servers {
        let present = load.goodput(&server, near)?;
        tracing::debug!("{}: goodput {measured:?}, that of the model {present}: {server:?}", plan.name);
        if is_like(present) {
            let effects = effects(&load, &changes(&server, curve), present, near)?;
            tracing::debug!("{}: {effects:?}", plan.name);
            let (series, assumed) = (curve.series.clone(), engine.assumed());
            all.push(Forecast { series, measured, present, effects, assumed });
        } else {
            unlike = NoForecast::Goodput { model: present, low, high };
        }
    }
    Ok(all.into_iter().reduce(Forecast::least).ok_or(unlike))
}

/// Returns the measured goodput, `None` if no rate met the SLO; or why the model has no such load or answer.
fn measured(answer: &Answer, curve: &Curve) -> Result<Option<f64>, NoForecast> {
    match answer.control {
        Control::Rate => {}
        Control::Concurrency => return Err(NoForecast::ClosedLoop),
        Control::Sessions => return Err(NoForecast::Conversations),
        Control::TraceScale => return Err(NoForecast::TraceSpeed),
    }
    if curve.flags == Some(Flags::SimulatedQueue) {
        return Err(NoForecast::Queue);
    }
    match answer.goodput.status() {
        Status::Found | Status::Undecided => answer.goodput.rate().map(Some).ok_or(NoForecast::NoEstimate),
        Status::None => Ok(None),
        Status::NotReached => Err(NoForecast::NothingMissed),
        Status::Invalid => Err(NoForecast::InvalidAnswer),
    }
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
