//! The goodput of the model itself: long steps in steady state, without client, search or faults.

use crate::case::Case;
use anyhow::{Context, Result};
use goodput::plan::Plan;
use goodput::sweep::bare::Bare;
use goodput::sweep::bare::boundary::{bracket, halved};
use std::ops::Range;
use std::time::Duration;

/// Requests of a step while the bracket is wide.
const COARSE: f64 = 3000.0;
/// Requests of a step once the bracket is narrow.
const FINE: f64 = 6000.0;
/// Ratio of the ends of a bracket from which steps are long.
const NARROW: f64 = 1.1;
/// Ratio of the ends of a bracket that is narrow enough.
const DONE: f64 = 1.03;
/// The rates that are tried, in requests per second.
const RATES: Range<f64> = 0.02..4000.0;

/// Returns the highest rate at which a case's server meets its SLO, in requests per second; 0 if none does. The search
/// begins at a rate that is near it where few things differ.
///
/// All searches use the same random numbers, so that what a change gains scatters less than the goodput itself.
pub(crate) fn goodput(case: &Case, near: f64) -> Result<f64> {
    if fails_too_many(case) {
        return Ok(0.0);
    }
    let alone = case.engine_alone();
    let plan = alone.plan(&[])?;
    let plan = &plan;
    let meets = |requests: f64| move |rate: f64| meets(plan, case.failed, rate, requests);
    let [low, high] = bracket(near, &RATES, NARROW, meets(COARSE))?;
    if low <= 0.0 || low >= RATES.end {
        return Ok(low);
    }
    // Short steps scatter: the long ones begin with some room on both sides.
    let ends = [low / NARROW.sqrt(), high * NARROW.sqrt()];
    let [low, high] = halved(ends, DONE, meets(FINE))?;
    Ok((high * low).sqrt())
}

/// Returns true if a case's server meets its SLO at a rate, by one step: enough to tell whether a change is worth its price.
pub(crate) fn reaches(case: &Case, rate: f64) -> Result<bool> {
    if fails_too_many(case) {
        return Ok(false);
    }
    let plan = case.engine_alone().plan(&[])?;
    meets(&plan, case.failed, rate, COARSE)
}

/// Returns true if a server that fails a share of its requests meets its limits at a rate.
fn meets(plan: &Plan, failed: f64, rate: f64, requests: f64) -> Result<bool> {
    let server = plan.simulated()?.context("a case has a simulated server")?;
    let length_s = requests / rate;
    let times = [length_s / 10.0, length_s].map(Duration::from_secs_f64);
    Bare::on(plan, server.build())?.meets(rate, times, None, failed)
}

/// Returns true if more requests fail than the SLO allows; the program judges them by the same rule.
fn fails_too_many(case: &Case) -> bool {
    case.error_rate.is_some_and(|most| case.failed > most)
}
