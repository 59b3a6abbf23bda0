//! What the reports show of the posterior: the fitted curves, and how the answer came about step by step.

use super::series::{Search, of_series};
use crate::stats::step::{Step, StepKind};

/// What the adaptive search was to find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Chance that the safe level is not too much.
    pub confidence: f64,
    /// The lowest level that its answers speak of.
    pub lowest: f64,
}

/// The miss curve of one limit as the steps have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The limit, as in `limits.csv`.
    pub limit: String,
    /// The share of misses that it allows.
    pub allowed: f64,
    /// The curve at some levels.
    pub points: Vec<FittedPoint>,
}

/// A fitted curve at one level: the share of misses there, given that some level meets the SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedPoint {
    /// The level.
    pub level: f64,
    /// 5 % quantile of the share of misses.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// 95 % quantile.
    pub high: f64,
}

/// What was known after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct PathPoint {
    /// The step's number.
    pub step: u32,
    /// Seconds of the sweep that were spent by then.
    pub ended_s: f64,
    /// Median of the boundary.
    pub rate: f64,
    /// Its 90 % interval; the lower end is 0 where that much of the chance is for no level at all.
    pub interval90: [f64; 2],
}

impl Search {
    /// The miss curves of a tier's limits at `levels`; empty where no step under load tells of one.
    pub fn fitted(&self, series: &str, steps: &[Step], tier: &str, levels: &[f64]) -> Vec<Fitted> {
        let own = of_series(series, steps);
        self.posterior(&own, tier).map_or_else(Vec::new, |p| p.fitted(levels))
    }

    /// How the answer for a tier came about: what was known after each step under load; empty unless the search is adaptive.
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
        (0..own.len()).filter_map(after).collect()
    }
}
