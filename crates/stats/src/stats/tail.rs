//! Percentiles of a step's latencies, with bounds of the p99 that allow for clusters of slow requests.
//!
//! The rank bounds of a percentile assume independent values. Slow requests share a queue, so the values above the p99 come in
//! clusters, and n of them count as n / inflation independent ones. With clusters that arrive independently, the variance of the
//! number of exceedances is Σ C² over the cluster sizes C in place of Σ C (a compound Poisson process), so that Σ C² / Σ C is the
//! inflation. Clusters are identified as by the runs estimator of the extremal index (Smith & Weissman, J. R. Stat. Soc. B 56,
//! 1994).
//!
//! 1 % of a few hundred requests are too few values to show clusters. Above a high level the sizes of clusters hardly depend on
//! the level: on M/M/1, M/D/1, M/M/8 and batching engines at 0.2 to 0.8 of their capacity, the inflation at the p95 was 0.8 to
//! 1.8 times that at the p99 (M/M/32 with holding times of 2 s: 4 times). So the exceedances of the p95 are the prior for those
//! of the p99, and the inflation assumed by the search is the prior for the p95.

use super::cluster::{clusters, inflation};
use super::percentile::{order_statistic, quantiles_by};
use super::step::{LimitRow, Quantiles, Step, StepKind};
use super::verdict::{INFLATION, UNLOADED_INFLATION};
use goodput_core::slo::{ALL, Metric};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Largest distance, in requests, between two exceedances of the p95 in one cluster. (They lie 20 requests apart on average.)
const NEAR_P95: f64 = 10.0;
/// Largest distance, in requests, between two exceedances of the p99 in one cluster. (They lie 100 requests apart on average.)
const NEAR_P99: f64 = 20.0;
/// Normal quantile of each side of a 95 % interval.
const Z975: f64 = 1.959_964;
/// Weight of the prior, in clusters (as degrees of freedom).
const PRIOR_CLUSTERS: f64 = 2.0;

/// Prior evidence on clusters of slow requests, from before the current values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClusterPrior {
    /// Inflation assumed without evidence.
    assumed: f64,
    /// Misses of limits on this metric in earlier steps of the series, if they are about as rare as exceedances of a p99.
    misses: u64,
    /// Sum of the squared sizes of their clusters.
    sum_sq: u64,
    /// Number of their clusters.
    clusters: u64,
}

impl Default for ClusterPrior {
    /// Returns a prior without evidence: the search's assumption.
    fn default() -> Self {
        Self { assumed: INFLATION, misses: 0, sum_sq: 0, clusters: 0 }
    }
}

impl ClusterPrior {
    /// Returns the prior of a step of this kind, without evidence.
    pub(super) fn of_kind(kind: StepKind) -> Self {
        let assumed = if kind == StepKind::Baseline { UNLOADED_INFLATION } else { INFLATION };
        Self { assumed, ..Self::default() }
    }

    /// Adds the clusters of misses in earlier steps of the series. Takes from each step the limit on this metric with the most
    /// misses, if its share of misses is between a fifth and five times the share that a p99 allows: other shares tell about
    /// another level.
    pub(super) fn with(self, earlier: &[Step], metric: Metric) -> Self {
        let near = |r: &&LimitRow| (0.002..=0.05).contains(&(r.misses as f64 / r.n as f64));
        let of_step = |s: &Step| {
            let own =
                s.limits.iter().filter(|r| r.class == ALL && Metric::of_limit(&r.limit) == Some(metric));
            own.filter(near).max_by_key(|r| r.misses).map(|r| (r.misses, r.cluster_sq, r.clusters))
        };
        let loaded = earlier.iter().filter(|s| s.kind != StepKind::Baseline && !s.is_worker_fault());
        let loaded = loaded.filter_map(of_step);
        loaded.fold(self, |all, (misses, sum_sq, clusters)| Self {
            misses: all.misses + misses,
            sum_sq: all.sum_sq + sum_sq,
            clusters: all.clusters + clusters,
            ..all
        })
    }
}

/// Returns the percentiles of `values`, given in order of `due`, with 95 % bounds of the p99 by rank at their effective sample
/// size. `buffer` is reused between calls.
pub(super) fn quantiles_by_due(
    values: impl Iterator<Item = f64> + Clone,
    buffer: &mut Vec<f64>,
    known: ClusterPrior,
) -> Quantiles {
    buffer.clear();
    buffer.extend(values.clone());
    buffer.sort_unstable_by(f64::total_cmp);
    quantiles_by(buffer.len() as u64, p99_inflation(values, buffer, known), |rank| buffer[rank as usize - 1])
}

/// Returns how many of these values, given in order of `due` and sorted, count as one independent value for bounds of their p99.
///
/// The estimate (10·prior + Σ C²) / (10 + Σ C), as the search's, is multiplied by the square of t / 1.96. Here t is Student's
/// quantile with as many degrees of freedom as there are clusters, plus two for the prior: a variance estimated from few clusters
/// is mostly too small.
fn p99_inflation(values: impl Iterator<Item = f64> + Clone, sorted: &[f64], known: ClusterPrior) -> f64 {
    let above = |permille, near| {
        let level = order_statistic(sorted, permille).unwrap_or(f64::INFINITY);
        let n = sorted.len() - sorted.partition_point(|v| *v <= level);
        (n as f64, clusters(values.clone().map(|v| u64::from(v > level)), near))
    };
    let (n, found) = above(950, NEAR_P95);
    let prior = inflation(known.assumed, n, found.sum_sq as f64);
    let (n, found) = above(990, NEAR_P99);
    let estimate = inflation(prior, n + known.misses as f64, (found.sum_sq + known.sum_sq) as f64);
    estimate * small_sample_factor((found.count + known.clusters) as f64)
}

/// Returns the factor that widens a variance estimated from this many clusters.
fn small_sample_factor(clusters: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, PRIOR_CLUSTERS + clusters);
    student.map_or(1.0, |t| (t.inverse_cdf(0.975) / Z975).powi(2).max(1.0))
}

#[cfg(test)]
mod tests;
