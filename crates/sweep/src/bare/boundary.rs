//! The highest rate at which a model meets its SLO, by bisection.

use anyhow::Result;
use goodput_core::slo::limit_percentile;
use goodput_stats::stats::step::{Step, Verdict};
use std::ops::Range;

/// Share of the requests that must be answered: those that are given up or still wait at the end of a step were not
/// served, whatever the others' latencies.
const SERVED: f64 = 0.98;

/// Returns true if a step of a bare model meets the limits of one tier, or of all of them. The misses are counted as they
/// are: a long step needs no confidence. A share `failed` of all requests misses every limit besides.
pub fn is_met(step: &Step, tier: Option<&str>, failed: f64) -> bool {
    let rows = step.limits.iter().filter(|row| tier.is_none_or(|tier| row.tier == tier));
    let within = rows.into_iter().all(|row| {
        let counted = row.n.saturating_sub(row.censored).max(1) as f64;
        let missed = row.misses as f64 / counted;
        let missed = missed + failed * (1.0 - missed);
        match limit_percentile(&row.limit) {
            Some(p) => missed <= p.miss_share(),
            None => row.verdict != Verdict::Fails,
        }
    });
    let served = step.completed as f64 >= SERVED * step.due_n as f64;
    within && served && step.stable != Some(false) && step.verdict != Verdict::Invalid
}

/// Returns a bracket of the boundary whose ends are at most `ratio` apart, by steps that grow from one side of `near`;
/// `[0, 0]` if no rate of the range meets the SLO, and its end twice if all do.
///
/// # Errors
/// A step cannot be measured.
pub fn bracket(
    near: f64,
    range: &Range<f64>,
    ratio: f64,
    mut meets: impl FnMut(f64) -> Result<bool>,
) -> Result<[f64; 2]> {
    let near = near.clamp(2.0 * range.start, range.end / 2.0);
    let (mut low, mut high, mut factor) = (0.0, near * ratio.sqrt(), ratio);
    while meets(high)? {
        (low, high, factor) = (high, high * factor, (factor * factor).min(2.0));
        if high > range.end {
            return Ok([range.end; 2]);
        }
    }
    while low == 0.0 {
        let lower = high / factor;
        if lower < range.start {
            return Ok([0.0; 2]);
        }
        factor = (factor * factor).min(2.0);
        if meets(lower)? { low = lower } else { high = lower }
    }
    halved([low, high], ratio, meets)
}

/// Returns a bracket within another one whose ends are at most `ratio` apart.
///
/// # Errors
/// A step cannot be measured.
pub fn halved(
    [mut low, mut high]: [f64; 2],
    ratio: f64,
    mut meets: impl FnMut(f64) -> Result<bool>,
) -> Result<[f64; 2]> {
    while high / low > ratio {
        let middle = (high * low).sqrt();
        if meets(middle)? { low = middle } else { high = middle }
    }
    Ok([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_is_found_from_both_sides() {
        let range = 0.02..4000.0;
        for boundary in [0.05, 3.7, 37.0, 900.0] {
            for near in [0.01, 5.0, 40.0, 5000.0] {
                let [low, high] = bracket(near, &range, 1.1, |rate| Ok(rate <= boundary)).unwrap();
                assert!(low <= boundary && boundary < high && high / low <= 1.1, "{near}: {low} to {high}");
            }
        }
        assert!(bracket(5.0, &range, 1.1, |_| Ok(false)).unwrap().iter().all(|rate| *rate < 1e-9));
        assert!(bracket(5.0, &range, 1.1, |_| Ok(true)).unwrap().iter().all(|rate| *rate > 3999.0));
    }
}
