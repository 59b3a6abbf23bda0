//! Forecasts: the goodput of a model of the server under single changes.
//!
//! The model is the simulator's engine with the server's settings, as far as they are known, and a time per iteration
//! that is fitted to the steps of the run (`fit`). It then runs with one thing changed at a time (`changes`). A
//! forecast is made only if the model's own goodput, with nothing changed, is near the measured one; models that are
//! further off count where none is near, since they still rank the changes better than rules do.
//!
//! Nothing is sent: it takes some seconds of computing after a sweep.

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
/// Largest such factor of a model that is used where none is alike.
const SIMILAR: f64 = 1.75;
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
    if plan.server.item().is_some() {
        return Ok(Err(NoForecast::Items));
    }
    if plan.workload.has_images() {
        return Ok(Err(NoForecast::Images));
    }
    let lowest = steps.iter().filter(|s| s.kind != StepKind::Baseline).map(|s| s.level.value);
    let plausible = match Plausible::of(answer, curve, lowest.fold(f64::INFINITY, f64::min)) {
        Ok(plausible) => plausible,
        Err(reason) => return Ok(Err(reason)),
    };
    // Some requests cannot be drawn without their text.
    let Ok(load) = Load::of(plan, &answer.tier) else { return Ok(Err(NoForecast::RequestsUnknown)) };
    let engine = match Engine::of(curve, steps) {
        Ok(engine) => engine,
        Err(reason) => return Ok(Err(reason)),
    };
    let servers = match fit(&load, &engine, curve, facts, steps, plausible.aim())? {
        Ok(servers) => servers,
        Err(reason) => return Ok(Err(reason)),
    };
    let (near, measured) = (plausible.aim().unwrap_or(10.0 * RATES.start), plausible.measured);
    let (mut alike, mut similar) = (Vec::new(), Vec::new());
    let mut unlike = NoForecast::NoEstimate;
    for server in servers {
        let present = load.goodput(&server, near)?;
        tracing::debug!("{}: goodput {measured:?}, that of the model {present}: {server:?}", plan.name);
        if plausible.holds(present) {
            alike.push((server, present));
        } else if plausible.nearly_holds(present) {
            similar.push((server, present));
        } else {
            unlike = NoForecast::Goodput { model: present, low: plausible.low, high: plausible.high };
        }
    }
    let mut all: Vec<Forecast> = Vec::new();
    for (server, present) in if alike.is_empty() { similar } else { alike } {
        let effects = effects(&load, &changes(&server, curve), present, near)?;
        tracing::debug!("{}: {effects:?}", plan.name);
        let (series, assumed) = (curve.series.clone(), engine.assumed());
        all.push(Forecast { series, measured, present, effects, assumed });
    }
    Ok(Forecast::median(&all).ok_or(unlike))
}

/// The goodput that a model of the server may have, by what a run tells of it, in requests per second.
#[derive(Debug, Clone, Copy)]
struct Plausible {
    /// The estimate; `None` if there is none, or no rate met the SLO.
    measured: Option<f64>,
    low: f64,
    high: f64,
}

impl Plausible {
    /// Returns what an answer tells, or why the model has no such load or answer. Rates below the `lowest` of a step under load
    /// were not measured.
    fn of(answer: &Answer, curve: &Curve, lowest: f64) -> Result<Self, NoForecast> {
        match answer.control {
            Control::Rate => {}
            Control::Concurrency => return Err(NoForecast::ClosedLoop),
            Control::Sessions => return Err(NoForecast::Conversations),
            Control::TraceScale => return Err(NoForecast::TraceSpeed),
        }
        if curve.flags == Some(Flags::SimulatedQueue) {
            return Err(NoForecast::Queue);
        }
        let goodput = &answer.goodput;
        match (goodput.status(), goodput.rate()) {
            (Status::Found | Status::Undecided, Some(rate)) => {
                let [low, high] = goodput.interval90().unwrap_or([rate; 2]);
                Ok(Self { measured: Some(rate), low: low / ALIKE, high: high * ALIKE })
            }
            (Status::Found | Status::Undecided, None) => {
                // Without an estimate there may still be a level that fails, and one that is met.
                let high =
                    goodput.bracket.failed.into_iter().chain(goodput.interval90().map(|[_, high]| high));
                let high = high.reduce(f64::min).ok_or(NoForecast::NoEstimate)?;
                let low = goodput.safe_or_met().unwrap_or(0.0);
                Ok(Self { measured: None, low: low / ALIKE, high: high * ALIKE })
            }
            (Status::None, _) => Ok(Self { measured: None, low: 0.0, high: lowest }),
            (Status::NotReached, _) => Err(NoForecast::NothingMissed),
            (Status::Invalid, _) => Err(NoForecast::InvalidAnswer),
        }
    }

    /// Returns true if the model may have this goodput.
    fn holds(&self, goodput: f64) -> bool {
        (self.low..=self.high).contains(&goodput) && (goodput > 0.0 || self.measured.is_none())
    }

    /// Returns true if the goodput of the model is further off than that of one that [holds](Self::holds), but not by more than
    /// [`SIMILAR`].
    fn nearly_holds(&self, goodput: f64) -> bool {
        let wider = SIMILAR / ALIKE;
        Self { low: self.low / wider, high: self.high * wider, ..*self }.holds(goodput)
    }

    /// Returns a rate near the boundary; `None` if it is not known from below.
    fn aim(&self) -> Option<f64> {
        let between = (self.low > 0.0).then(|| (self.low * self.high).sqrt());
        self.measured.or(between)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: goodput of a model, whether it is near the measured one, and whether it counts where none is.
    #[test]
    fn models_further_off_count_where_none_is_near() {
        let measured = Plausible { measured: Some(10.0), low: 8.0, high: 15.0 };
        let unknown = Plausible { measured: None, low: 0.0, high: 15.0 };
        for (of, goodput, near, counts) in [
            (measured, 8.0, true, true),
            (measured, 15.1, false, true),
            (measured, 5.8, false, true),
            (measured, 5.6, false, false),
            (measured, 21.5, false, false),
            (measured, 0.0, false, false),
            (unknown, 0.0, true, true),
            (unknown, 20.0, false, true),
        ] {
            assert_eq!((of.holds(goodput), of.nearly_holds(goodput)), (near, counts), "{goodput}");
        }
    }
}
