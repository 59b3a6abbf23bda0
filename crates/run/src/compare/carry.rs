//! Carries the figures of a side to the level of the baseline, where the two were measured at levels that are nearly but not quite equal:
//! 31.7 against 31.9 requests/s.
//!
//! The slope of a figure over the logarithm of the level comes from the steps of both sides around it, by least squares for each side. What
//! is added to the difference is known no better than its size: it counts once more as a standard error. Levels that count as equal differ
//! by at most 1.5 %, so that a figure that grows with the tenth power of the load is corrected by 15 %, give or take 15 %.

use super::common_levels::{CommonLevel, usable};
use super::level_figures::figure;
use super::{Column, Side};
use goodput_stats::stats::step::Step;

/// Factor around a level within which steps tell its slope.
const AROUND: f64 = 2.0;
/// Least ratio between the outermost of these steps: over less, chance alone makes any slope.
const LEAST: f64 = 1.05;

/// The slope of each figure around a level, from the steps of the baseline and of another side.
pub(super) struct Slopes<'a> {
    sides: [(&'a Side, Vec<&'a Step>); 2],
    /// Logarithm of the ratio of the other side's level to the baseline's.
    shift: f64,
}

impl<'a> Slopes<'a> {
    /// Returns the slopes between the baseline and side number `other`, whose levels are `levels`; `None` if neither has steps that are far
    /// enough apart.
    pub(super) fn of(
        sides: &'a [Side],
        level: &CommonLevel<'a>,
        other: usize,
        [old, new]: [f64; 2],
    ) -> Option<Self> {
        let around = |side: &'a Side| {
            let near = |s: &&Step| {
                s.level.control == level.level.control && (s.level.value / old).ln().abs() <= AROUND.ln()
            };
            let steps: Vec<&Step> = usable(side).into_iter().filter(near).collect();
            (side, steps)
        };
        let both = [around(&sides[0]), around(sides.get(other)?)];
        let shift = (new / old).ln();
        both.iter().any(|(_, steps)| reach(steps) >= LEAST).then_some(Self { sides: both, shift })
    }

    /// Returns what the difference in level adds to a figure of the other side: to its logarithm if `is_ratio`, else to itself.
    pub(super) fn correction(&self, column: Column, is_ratio: bool) -> Option<f64> {
        let slope = |(side, steps): &(&Side, Vec<&Step>)| {
            let point = |s: &&Step| {
                let value = value(column, side, s).filter(|v| !is_ratio || *v > 0.0)?;
                Some((s.level.value.ln(), if is_ratio { value.ln() } else { value }, s.due_n as f64))
            };
            slope(&steps.iter().filter_map(point).collect::<Vec<_>>())
        };
        let known: Vec<f64> = self.sides.iter().filter_map(slope).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        (!known.is_empty()).then_some(self.shift * mean).filter(|c| c.is_finite())
    }
}

/// Returns the ratio of the highest to the lowest level of some steps; 0 without steps.
fn reach(steps: &[&Step]) -> f64 {
    let levels = || steps.iter().map(|s| s.level.value);
    levels().fold(0.0, f64::max) / levels().fold(f64::INFINITY, f64::min)
}

/// Returns a figure of one step.
fn value(column: Column, side: &Side, step: &Step) -> Option<f64> {
    let Column::Latency(metric, permille) = column else { return figure(column, &side.tier, &[step]) };
    step.quantiles(metric).at(permille as f64 / 1e3)
}

/// Returns the slope of a least-squares line through points `(x, y, weight)`; `None` if their places are too close together.
fn slope(points: &[(f64, f64, f64)]) -> Option<f64> {
    let ends = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p.0), h.max(p.0)));
    if ends.1 - ends.0 < LEAST.ln() {
        return None;
    }
    let all: f64 = points.iter().map(|p| p.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * of(p)).sum::<f64>() / all;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| p.2 * (p.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|p| p.2 * (p.0 - x) * (p.1 - y)).sum();
    (spread > 0.0).then_some(together / spread).filter(|s| s.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_power_is_its_exponent() {
        let points: Vec<(f64, f64, f64)> =
            [8.0_f64, 9.0, 11.0, 14.0].map(|l| (l.ln(), (3.0 * l.powi(4)).ln(), 100.0)).into();
        assert!((slope(&points).unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(slope(&points[..1]), None);
        assert_eq!(slope(&[(1.0, 1.0, 1.0), (1.01, 2.0, 1.0)]), None, "too close together");
    }
}
