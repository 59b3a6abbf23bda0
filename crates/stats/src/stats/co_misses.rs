//! Coincidence of misses: how often two limits of a tier are missed together, and so how far evidence about one limit is also
//! evidence about the other.
//!
//! Misses cluster: a queue delays many requests, of every class, and their first tokens as well as their last. If clusters arrive
//! independently (a compound Poisson process), the counts of two limits over a step have the covariance Σ A·B and the variances Σ
//! A² and Σ B², where A and B are the misses of each limit in a cluster of requests that missed either. The resulting correlation
//! is the phi coefficient of co-misses with clusters in place of requests; the two are equal if every cluster is one request. By
//! requests it would be too small: on simulated queues and batching engines, counts whose correlation is .98, .83 and .82 (TTFT
//! and e2e of an M/M/1, two classes of it, TTFT and TPOT of an engine) had phi coefficients of .77, 0 and .24 by requests, and
//! .98, .83 and .82 by clusters.

use super::cluster::is_near_boundary;
use super::step::{LimitRow, Step, StepKind};
use serde::Serialize;

/// Coincidence of the misses of one limit with those of another limit of its tier, in one step. An ITL limit counts requests
/// here, not gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct CoMisses {
    /// Key of the other limit ([`goodput_core::slo::limit_key`]).
    pub limit: String,
    /// Number of requests that missed both.
    pub requests: u64,
    /// Number of clusters of requests that missed either.
    pub clusters: u64,
    /// Sum over these clusters of (misses of this limit) × (misses of the other).
    pub product: u64,
    /// Sum over these clusters of the squared misses of this limit.
    pub own_sq: u64,
    /// Sum over these clusters of the squared misses of the other limit.
    pub other_sq: u64,
}

impl CoMisses {
    /// Counts the coincidence of the misses of a limit (`own`) and another (`other`), both as ascending positions in order of
    /// `due`. `gap` returns the largest distance within a cluster, given how many requests missed either.
    pub(super) fn of(limit: String, own: &[u32], other: &[u32], gap: impl Fn(u64) -> f64) -> Self {
        let either = merged(own, other);
        let gap = gap(either.len() as u64);
        let mut all = Self { limit, ..Self::default() };
        for cluster in either.chunk_by(|a, b| f64::from(b.0 - a.0) <= gap) {
            let a = cluster.iter().filter(|m| m.1).count() as u64;
            let b = cluster.iter().filter(|m| m.2).count() as u64;
            all.clusters += 1;
            all.requests += cluster.iter().filter(|m| m.1 && m.2).count() as u64;
            all.product += a * b;
            all.own_sq += a * a;
            all.other_sq += b * b;
        }
        all
    }

    /// Adds the counts of another step.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.clusters += other.clusters;
        self.product += other.product;
        self.own_sq += other.own_sq;
        self.other_sq += other.other_sq;
    }

    /// Returns the coincidence as seen from the other limit, with `limit` as the key of this one.
    fn swapped(&self, limit: &str) -> Self {
        Self { limit: limit.to_owned(), own_sq: self.other_sq, other_sq: self.own_sq, ..self.clone() }
    }

    /// Returns the correlation of the two counts of misses, from 0 (independent, or nothing seen) to 1.
    ///
    /// The estimate is shrunk towards independence as if each limit had been missed alone in one more cluster, as large as its
    /// others. A single cluster with misses of both may be chance, and independence is the conservative assumption for a safe
    /// rate.
    pub fn correlation(&self) -> f64 {
        let spread = (self.own_sq as f64 * self.other_sq as f64).sqrt();
        let clusters = self.clusters as f64;
        if spread > 0.0 { (self.product as f64 / spread * clusters / (clusters + 1.0)).min(1.0) } else { 0.0 }
    }
}

/// Merges two ascending lists of positions; the flags tell which of the two a position is in.
fn merged(a: &[u32], b: &[u32]) -> Vec<(u32, bool, bool)> {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    let next = || {
        let at = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => *x.min(y),
            (x, y) => *x.or(y)?,
        };
        Some((at, a.next_if_eq(&at).is_some(), b.next_if_eq(&at).is_some()))
    };
    std::iter::from_fn(next).collect()
}

/// Returns the correlation of the misses of two limits of a tier over several steps (see [`CoMisses::correlation`]). Each limit
/// is given by its key and its allowed share of misses.
///
/// Leaves out unloaded steps and steps in which either limit is missed far more often than allowed, as the inflation does. 0 in
/// folders of earlier versions, which lack these counts.
pub fn pooled_correlation<'a>(
    steps: impl IntoIterator<Item = &'a Step>,
    tier: &str,
    [a, b]: [(&str, f64); 2],
) -> f64 {
    let near = |row: &LimitRow, p0| is_near_boundary(row.misses as f64, row.n as f64, p0);
    let of_step = |s: &Step| {
        let (own, other) = (s.row(tier, a.0)?, s.row(tier, b.0)?);
        let with = |row: &LimitRow, key: &str| row.co_misses.iter().find(|c| c.limit == key).cloned();
        let found = with(own, b.0).or_else(|| with(other, a.0).map(|c| c.swapped(b.0)));
        found.filter(|_| near(own, a.1) && near(other, b.1))
    };
    let loaded = steps.into_iter().filter(|s| s.kind != StepKind::Baseline);
    let mut all = CoMisses::default();
    loaded.filter_map(of_step).for_each(|c| all.add(&c));
    all.correlation()
}

#[cfg(test)]
mod tests;
