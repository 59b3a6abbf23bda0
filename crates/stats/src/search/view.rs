//! Data about the posterior for reports: the fitted curves, and the path of the answer step by step.

use super::series::{Search, of_series};
use crate::stats::step::{Step, StepKind};

/// The goal of an adaptive search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Confidence of the safe level: the probability that it is not too high.
    pub confidence: f64,
    /// The lowest level that the answers judge.
    pub lowest: f64,
}

/// The fitted miss curve of one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Key of the limit, as in `limits.csv`.
    pub limit: String,
    /// The share of misses that the limit allows.
    pub allowed: f64,
    /// The curve, at the levels asked for.
    pub points: Vec<FittedPoint>,
}

/// A fitted curve at one level: the share of misses there, given that some level meets the SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedPoint {
    /// The level.
    pub level: f64,
    /// 5 % quantile of the share of misses.
    pub low: f64,
    /// Median of the share of misses.
    pub median: f64,
    /// 95 % quantile of the share of misses.
    pub high: f64,
}

/// The estimate of the boundary after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct PathPoint {
    /// Number of the step.
    pub step: u32,
    /// Time at which the step ended, in seconds of the sweep.
    pub ended_s: f64,
    /// Median of the boundary, as a level.
    pub rate: f64,
    /// 90 % interval of the boundary; the lower end is 0 if at least 5 % of the probability is on no level meeting.
    pub interval90: [f64; 2],
}

/// Maximum number of points of a path, each of which takes a fit of all steps before it.
const MOST_POINTS: usize = 200;

impl Search {
    /// Returns the fitted miss curves of a tier's limits at `levels`; empty if no step under load gives one.
    pub fn fitted(&self, series: &str, steps: &[Step], tier: &str, levels: &[f64]) -> Vec<Fitted> {
        let own = of_series(series, steps);
        self.posterior(&own, tier).map_or_else(Vec::new, |p| p.fitted(levels))
    }

    /// Returns the estimate of a tier's boundary after each step under load, or after every so many of hundreds; empty unless the search is
    /// adaptive.
    pub fn path(&self, series: &str, steps: &[Step], tier: &str) -> Vec<PathPoint> {
        if self.terms().is_none() {
            return Vec::new();
        }
        let own = of_series(series, steps);
        let after = |n: usize| {
            let step = own[n];
            let posterior = self.posterior(&own[..=n], tier).filter(|_| step.kind != StepKind::Baseline)?;
            let interval90 = [posterior.quantile(0.05), posterior.quantile(0.95)];
            Some(PathPoint {
                step: step.step,
                ended_s: step.ended_s,
                rate: posterior.quantile(0.5),
                interval90,
            })
        };
        let apart = own.len().div_ceil(MOST_POINTS).max(1);
        (0..own.len()).filter(|n| (own.len() - 1 - n).is_multiple_of(apart)).filter_map(after).collect()
    }
}
