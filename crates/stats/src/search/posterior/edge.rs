//! The boundary of stability: the level from which on the backlog grows.

use super::fit::Spread;
use crate::stats::step::{Step, StepKind, Verdict};
use goodput_core::level::Control;

/// Points of the grid.
const POINTS: usize = 201;
/// Chance that a step's own test of its backlog is wrong, whatever the level.
const WRONG: f64 = 0.02;
/// How close to the capacity a backlog that grows is told from one that swings.
const SHARP: f64 = 0.02;
/// A backlog that grows by less than this over √n, of n requests, is not seen: two standard errors, and a little more, of a walk whose
/// arrivals and departures both have the variance of Poisson's; more where arrivals come in bursts.
const UNSEEN: f64 = 3.0;

/// Returns by how much of ln level a step of `n` requests may be overloaded without a backlog that can be told from chance.
pub(super) fn unseen(bursts: f64, n: f64) -> f64 {
    UNSEEN * (bursts / n.max(1.0)).sqrt()
}

/// Posterior of the boundary on a grid over `range` of ln level, each point as likely as the other at first. `None` where no step tells.
///
/// `bursts` is the variance of arrivals and departures over that of Poisson's. A step above the boundary is called unstable, up to the chance of error; one below it, or above it by less than it can see, stable.
pub(super) fn edge(steps: &[&Step], range: (f64, f64), bursts: f64) -> Option<Spread> {
    let told: Vec<(f64, f64, bool)> = steps
        .iter()
        .filter(|s| s.kind != StepKind::Baseline && s.verdict != Verdict::Invalid)
        .filter(|s| s.level.control != Control::Concurrency)
        .filter_map(|s| Some((s.level.value.ln(), s.due_n.max(1) as f64, s.stable?)))
        .collect();
    if told.is_empty() {
        return None;
    }
    let width = (range.1 - range.0) / (POINTS - 1) as f64;
    let grid: Vec<f64> = (0..POINTS).map(|i| range.0 + width * i as f64).collect();
    let above = |d: f64, at: f64, sharp: f64| WRONG + (1.0 - 2.0 * WRONG) / (1.0 + (-(d - at) / sharp).exp());
    let likelihood = |x: &f64| -> f64 {
        let of = |(ln_level, n, stable): &(f64, f64, bool)| {
            let d = ln_level - x;
            let unseen = unseen(bursts, *n);
            if *stable { 1.0 - above(d, unseen, SHARP.max(unseen / 3.0)) } else { above(d, 0.0, SHARP) }
        };
        told.iter().map(of).product()
    };
    Some(Spread::new(grid.iter().map(likelihood).collect(), grid))
}
