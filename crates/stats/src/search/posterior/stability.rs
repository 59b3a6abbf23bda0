//! Boundary of stability: the level from which on the backlog grows.

use super::fit::BoundaryDensity;
use crate::stats::step::{Step, StepKind, Verdict};
use goodput_core::level::Control;

/// Number of points of the grid.
const POINTS: usize = 201;
/// Probability that a step's own test of its backlog is wrong, at any level.
const TEST_ERROR: f64 = 0.02;
/// Width of the transition at the capacity, in ln level: closer to it, a growing backlog cannot be told from a fluctuating one.
const TRANSITION: f64 = 0.02;
/// A backlog that grows by less than this over √n, for n requests, goes undetected: two standard errors, and a little more, of a
/// walk whose arrivals and departures both have Poisson variance; more if arrivals come in bursts.
const DETECTION: f64 = 3.0;

/// Returns how far (in ln level) a step of `n` requests may be overloaded without a backlog that can be told from chance.
pub(super) fn undetected_overload(bursts: f64, n: f64) -> f64 {
    DETECTION * (bursts / n.max(1.0)).sqrt()
}

/// Returns the posterior of the boundary on a grid over `range` of ln level, with a uniform prior. `None` if no step has a result
/// on stability.
///
/// `bursts` is the variance of arrivals and departures relative to Poisson's. A step above the boundary is called unstable, up to
/// the probability of error; one below it, or above it by less than can be detected, stable.
pub(super) fn stability_boundary(steps: &[&Step], range: (f64, f64), bursts: f64) -> Option<BoundaryDensity> {
    let judged: Vec<(f64, f64, bool)> = steps
        .iter()
        .filter(|s| s.kind != StepKind::Baseline && s.verdict != Verdict::Invalid)
        .filter(|s| s.level.control != Control::Concurrency)
        .filter_map(|s| Some((s.level.value.ln(), s.due_n.max(1) as f64, s.stable?)))
        .collect();
    if judged.is_empty() {
        return None;
    }
    let width = (range.1 - range.0) / (POINTS - 1) as f64;
    let grid: Vec<f64> = (0..POINTS).map(|i| range.0 + width * i as f64).collect();
    let above = |d: f64, at: f64, sharp: f64| {
        TEST_ERROR + (1.0 - 2.0 * TEST_ERROR) / (1.0 + (-(d - at) / sharp).exp())
    };
    let likelihood = |x: &f64| -> f64 {
        let of = |(ln_level, n, stable): &(f64, f64, bool)| {
            let d = ln_level - x;
            let undetected = undetected_overload(bursts, *n);
            if *stable {
                1.0 - above(d, undetected, TRANSITION.max(undetected / 3.0))
            } else {
                above(d, 0.0, TRANSITION)
            }
        };
        judged.iter().map(of).product()
    };
    Some(BoundaryDensity::new(grid.iter().map(likelihood).collect(), grid))
}
