//! The goodput of the model itself: long steps in steady state, without client, search or faults.

use crate::case::Case;
use anyhow::{Context, Result};
use goodput::plan::Plan;
use goodput::slo::limit_percentile;
use goodput::stats::step::{Step, Verdict};
use goodput::sweep::bare::Bare;
use std::time::Duration;

/// Requests of a step while the bracket is wide.
const COARSE: f64 = 3000.0;
/// Requests of a step once the bracket is narrow.
const FINE: f64 = 12_000.0;
/// Ratio of the ends of a bracket from which steps are long.
const NARROW: f64 = 1.1;
/// Ratio of the ends of a bracket that is narrow enough.
const DONE: f64 = 1.02;
/// Share of the requests that must be answered.
const SERVED: f64 = 0.98;
/// The lowest rate that is tried, in requests per second.
const LEAST: f64 = 0.02;
/// The highest.
const MOST: f64 = 4000.0;

/// Returns the highest rate at which a case's server meets its SLO, in requests per second; 0 if none does. The search
/// begins at a rate that is near it where few things differ.
///
/// All searches use the same random numbers, so that what a change gains scatters less than the goodput itself.
pub(crate) fn goodput(case: &Case, near: f64) -> Result<f64> {
    // The program judges failed requests by the same rule.
    if case.error_rate.is_some_and(|most| case.failed > most) {
        return Ok(0.0);
    }
    let alone = case.engine_alone();
    let plan = alone.plan(&[])?;
    let meets = |rate: f64, requests: f64| meets(&plan, case.failed, rate, requests);
    let (mut low, mut high, mut factor) = (0.0, near.max(2.0 * LEAST) * NARROW.sqrt(), NARROW);
    while meets(high, COARSE)? {
        (low, high, factor) = (high, high * factor, (factor * factor).min(2.0));
        if high > MOST {
            return Ok(MOST);
        }
    }
    while low == 0.0 {
        let lower = high / factor;
        if lower < LEAST {
            return Ok(0.0);
        }
        factor = (factor * factor).min(2.0);
        if meets(lower, COARSE)? { low = lower } else { high = lower }
    }
    while high / low > NARROW {
        let middle = (high * low).sqrt();
        if meets(middle, COARSE)? { low = middle } else { high = middle }
    }
    // Short steps scatter: the long ones begin with some room on both sides.
    (low, high) = (low / NARROW.sqrt(), high * NARROW.sqrt());
    while high / low > DONE {
        let middle = (high * low).sqrt();
        if meets(middle, FINE)? { low = middle } else { high = middle }
    }
    Ok((high * low).sqrt())
}

/// Returns true if a server that fails a share of its requests meets its limits at a rate.
fn meets(plan: &Plan, failed: f64, rate: f64, requests: f64) -> Result<bool> {
    let server = plan.simulated()?.context("a case has a simulated server")?;
    let mut sweep = Bare::on(plan, server.build())?;
    let length_s = requests / rate;
    let [settle, measure] = [length_s / 10.0, length_s].map(Duration::from_secs_f64);
    Ok(is_met(sweep.measure_whole(rate, settle, measure)?, failed))
}

fn is_met(step: &Step, failed: f64) -> bool {
    let within = step.limits.iter().all(|row| {
        let counted = row.n.saturating_sub(row.censored).max(1) as f64;
        let missed = row.misses as f64 / counted;
        let missed = missed + failed * (1.0 - missed);
        match limit_percentile(&row.limit) {
            Some(p) => missed <= p.miss_share(),
            None => row.verdict != Verdict::Fails,
        }
    });
    // Requests that are given up or still wait at the end were not served, whatever the others' latencies.
    let served = step.completed as f64 >= SERVED * step.due_n as f64;
    within && served && step.stable != Some(false) && step.verdict != Verdict::Invalid
}
