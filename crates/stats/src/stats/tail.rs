//! Percentiles of a step's latencies with bounds of the p99 that allow for slow requests coming together.
//!
//! The rank bounds of a percentile assume independent values. Slow requests share a queue, so the values above the p99 come in clusters,
//! and n of them are worth n / inflation independent ones. With clusters that arrive independently the variance of the number of
//! exceedances is Σ C² over the cluster sizes C in place of Σ C (a compound Poisson process), which makes Σ C² / Σ C the inflation; the
//! clusters are found as the runs estimator of the extremal index finds them (Smith & Weissman, J. R. Stat. Soc. B 56, 1994).
//!
//! 1 % of a few hundred requests are too few values to see clusters in. Above a high level the sizes of clusters hardly depend on the
//! level: on M/M/1, M/D/1, M/M/8 and batching engines at 0.2 to 0.8 of their capacity the inflation at the p95 was 0.8 to 1.8 times that at
//! the p99 (M/M/32 with holding times of 2 s: 4 times). So the exceedances of the p95 are the prior for those of the p99, and the search's
//! assumption is the prior for them.

use super::cluster::{clusters, inflation};
use super::percentile::{order_statistic, quantiles_by};
use super::step::{LimitRow, Quantiles, Step, StepKind};
use super::verdict::{INFLATION, UNLOADED_INFLATION};
use goodput_core::slo::{ALL, Metric};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Exceedances of the p95 lie 20 requests apart on average, those of the p99 100: at most so many apart, two are of one cluster.
const NEAR_P95: f64 = 10.0;
/// See [`NEAR_P95`].
const NEAR_P99: f64 = 20.0;
/// The normal quantile of each side of a 95 % interval.
const NORMAL: f64 = 1.959_964;
/// Clusters that the prior is worth, as degrees of freedom.
const PRIOR_CLUSTERS: f64 = 2.0;

/// Evidence on clusters of slow requests from before the values at hand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    /// Inflation assumed where nothing is seen.
    assumed: f64,
    /// Misses of limits on this metric in earlier steps of the series, where they are about as rare as exceedances of a p99.
    misses: u64,
    /// Sum of the squared sizes of their clusters.
    sum_sq: u64,
    /// Number of their clusters.
    clusters: u64,
}

impl Default for Known {
    /// Nothing but the search's assumption.
    fn default() -> Self {
        Self { assumed: INFLATION, misses: 0, sum_sq: 0, clusters: 0 }
    }
}

impl Known {
    /// What is assumed of a step of a kind alone.
    pub(super) fn of_kind(kind: StepKind) -> Self {
        let assumed = if kind == StepKind::Baseline { UNLOADED_INFLATION } else { INFLATION };
        Self { assumed, ..Self::default() }
    }

    /// Adds the clusters of misses that earlier steps of the series saw. Of each step this takes the limit on this metric with the most
    /// misses, from a fifth of those that a p99 allows to five times as many: others are about another level.
    pub(super) fn with(self, earlier: &[Step], metric: Metric) -> Self {
        let near = |r: &&LimitRow| (0.002..=0.05).contains(&(r.misses as f64 / r.n as f64));
        let of_step = |s: &Step| {
            let own =
                s.limits.iter().filter(|r| r.class == ALL && Metric::of_limit(&r.limit) == Some(metric));
            own.filter(near).max_by_key(|r| r.misses).map(|r| (r.misses, r.cluster_sq, r.clusters))
        };
        let loaded = earlier.iter().filter(|s| s.kind != StepKind::Baseline).filter_map(of_step);
        loaded.fold(self, |all, (misses, sum_sq, clusters)| Self {
            misses: all.misses + misses,
            sum_sq: all.sum_sq + sum_sq,
            clusters: all.clusters + clusters,
            ..all
        })
    }
}

/// Returns the percentiles of `values`, which come in order of `due`, with 95 % bounds of the p99 by rank at their effective number.
/// `room` is memory that is used again.
pub(super) fn quantiles_by_due(
    values: impl Iterator<Item = f64> + Clone,
    room: &mut Vec<f64>,
    known: Known,
) -> Quantiles {
    room.clear();
    room.extend(values.clone());
    room.sort_unstable_by(f64::total_cmp);
    quantiles_by(room.len() as u64, p99_inflation(values, room, known), |rank| room[rank as usize - 1])
}

/// Returns how many of these values, given in order of `due` and sorted, are worth one independent value for bounds of their p99.
///
/// The estimate (10·prior + Σ C²) / (10 + Σ C), as the search's, is multiplied by the square of t / 1.96, Student's quantile with as
/// many degrees of freedom as there are clusters, and two for the prior: a variance that is read off few clusters is mostly too small.
fn p99_inflation(values: impl Iterator<Item = f64> + Clone, sorted: &[f64], known: Known) -> f64 {
    let above = |permille, near| {
        let level = order_statistic(sorted, permille).unwrap_or(f64::INFINITY);
        let n = sorted.len() - sorted.partition_point(|v| *v <= level);
        (n as f64, clusters(values.clone().map(|v| u64::from(v > level)), near))
    };
    let (n, found) = above(950, NEAR_P95);
    let prior = inflation(known.assumed, n, found.sum_sq as f64);
    let (n, found) = above(990, NEAR_P99);
    let estimate = inflation(prior, n + known.misses as f64, (found.sum_sq + known.sum_sq) as f64);
    estimate * doubt((found.count + known.clusters) as f64)
}

/// Returns the factor by which a variance that rests on so many clusters is widened.
fn doubt(clusters: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, PRIOR_CLUSTERS + clusters);
    student.map_or(1.0, |t| (t.inverse_cdf(0.975) / NORMAL).powi(2).max(1.0))
}

#[cfg(test)]
mod tests;
