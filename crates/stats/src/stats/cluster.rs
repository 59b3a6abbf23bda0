//! Clusters of misses: a queue or a stall delays many requests at once, so misses cluster and carry less information than their
//! number.

use super::step::{LimitRow, Step, StepKind};
use super::verdict::INFLATION;

/// Clusters of the misses of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clusters {
    /// Number of clusters.
    pub count: u64,
    /// Sum of the squared cluster sizes. Divided by the sum of the sizes, it is the inflation that the clusters show.
    pub sum_sq: u64,
}

/// Returns the largest distance, in requests, between two misses of one cluster: min(clip(r·e2e, 20, 200), max(5, .2/p̂)) with
/// p̂ = (k+1)/(n+1).
///
/// The first term is about the number of requests in flight together. The second keeps neighbours by chance apart where misses
/// are frequent (source: the held-out study of the search, §5). `rate` is in requests/s, `e2e_s` the mean end-to-end time in
/// seconds, `hit` the number of requests with a miss among `n`.
pub fn gap(rate: f64, e2e_s: f64, hit: u64, n: u64) -> f64 {
    let together = (rate * e2e_s).clamp(20.0, 200.0);
    let share = (hit as f64 + 1.0) / (n as f64 + 1.0);
    together.min((0.2 / share).max(5.0))
}

/// Groups misses into clusters. `misses` gives the misses per request in order of `due`: 0 or 1 for a limit on requests. Two
/// requests with misses that are at most `gap` positions apart belong to one cluster.
pub fn clusters(misses: impl IntoIterator<Item = u64>, gap: f64) -> Clusters {
    let mut all = Clusters::default();
    let (mut size, mut last) = (0_u64, 0_usize);
    for (at, missed) in misses.into_iter().enumerate().filter(|(_, m)| *m > 0) {
        if size > 0 && (at - last) as f64 > gap {
            all.sum_sq += size * size;
            size = 0;
        }
        all.count += u64::from(size == 0);
        (size, last) = (size + missed, at);
    }
    all.sum_sq += size * size;
    all
}

/// Number of batches of a step over which the scatter of misses is measured.
const BATCHES: usize = 20;

/// Returns the sum Σ C² that clusters C would have if they caused the scatter of a step's misses (given in order of `due`) over
/// twenty batches: the variance of the count per batch, times the number of batches.
///
/// The gap that ends a cluster is short where misses are frequent, so that one busy period of a queue counts as several clusters:
/// on an M/M/1 queue at 0.6 of its capacity, Σ C² / Σ C came to half of the inflation of blocks of 3000 requests. Batches need no
/// gap.
pub fn scatter(misses: &[u64]) -> u64 {
    let batches = BATCHES.min(misses.len());
    if batches < 2 {
        return 0;
    }
    let mut counts = [0_u64; BATCHES];
    for (at, k) in misses.iter().enumerate() {
        counts[at * batches / misses.len()] += k;
    }
    let (b, sum) = (batches as f64, misses.iter().sum::<u64>() as f64);
    let squares: f64 = counts[..batches].iter().map(|k| (*k as f64 - sum / b).powi(2)).sum();
    (squares * b / (b - 1.0)).round() as u64
}

/// Weight of the assumed [`INFLATION`], in misses.
const PRIOR_MISSES: f64 = 10.0;
/// Steps with more than this multiple of the allowed share of misses are overloaded, and their misses cluster differently.
const OVERLOADED: f64 = 5.0;
/// Above this share of misses, neighbours are neighbours by chance, and clusters carry no information.
const FREQUENT: f64 = 0.15;

/// Returns how many requests count as one independent request, for one limit of a tier: (10·16 + Σ C²) / (10 + Σ C) over the
/// clusters C of the steps so far and of the current one (`own`), at least 1 (source: simulation study of the search, §7).
///
/// Pooled over steps, because an inflation estimated from the step alone is small exactly when chance hides its misses, and would
/// then let it pass. `p0` is the allowed share of misses. Steps with more than five times that or more than 15 % of misses are
/// left out, as are unloaded steps.
pub fn pooled_inflation<'a>(
    steps: impl IntoIterator<Item = &'a Step>,
    own: Option<&'a LimitRow>,
    tier: &str,
    limit: &str,
    p0: f64,
) -> f64 {
    let loaded = steps.into_iter().filter(|s| s.kind != StepKind::Baseline && !s.is_worker_fault());
    let rows = loaded.flat_map(|s| &s.limits).filter(|r| r.tier == tier && r.is(limit)).chain(own);
    let near = rows.filter(|r| is_near_boundary(r.misses as f64, r.n as f64, p0));
    let (misses, sum_sq) =
        near.fold((0.0, 0.0), |(n, sq), r| (n + r.misses as f64, sq + r.cluster_sq as f64));
    inflation(INFLATION, misses, sum_sq)
}

/// Returns true if a step's misses cluster as they do near the boundary: at most five times the allowed share `p0`, and at most
/// 15 %.
pub fn is_near_boundary(misses: f64, n: f64, p0: f64) -> bool {
    misses <= (OVERLOADED * p0).min(FREQUENT) * n
}

/// Returns how many requests count as one independent request, given `misses` in clusters with this sum of squared sizes and an
/// `assumed` prior inflation: (10·assumed + Σ C²) / (10 + Σ C), at least 1.
pub fn inflation(assumed: f64, misses: f64, sum_sq: f64) -> f64 {
    ((PRIOR_MISSES * assumed + sum_sq) / (PRIOR_MISSES + misses)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn misses_close_together_form_one_cluster() {
        for (misses, gap, count, sum_sq) in [
            (vec![], 5.0, 0, 0),
            (vec![0, 0, 0], 5.0, 0, 0),
            (vec![1], 5.0, 1, 1),
            (vec![1, 0, 0, 1], 3.0, 1, 4), // three places apart: together
            (vec![1, 0, 0, 1], 2.0, 2, 2), // apart
            (vec![1, 1, 0, 0, 0, 0, 1], 2.0, 2, 5), // sizes 2 and 1
            (vec![3, 0, 2], 2.0, 1, 25),   // gaps: five misses of two requests
        ] {
            assert_eq!(clusters(misses.clone(), gap), Clusters { count, sum_sq }, "{misses:?} at {gap}");
        }
    }

    #[test]
    fn the_gap_follows_the_requests_in_flight() {
        for (rate, e2e, hit, n, want) in [
            (10.0, 0.5, 0, 10_000, 20.0),     // five in flight: the floor
            (100.0, 1.0, 0, 100_000, 100.0),  // as many as are in flight
            (1000.0, 9.0, 0, 100_000, 200.0), // the ceiling
            (100.0, 1.0, 99, 9_999, 20.0),    // 1 % miss: .2/.01
            (100.0, 1.0, 5_000, 9_999, 5.0),  // half of them miss: the least
        ] {
            let got = gap(rate, e2e, hit, n);
            assert!((got - want).abs() < 0.01, "{rate}/s × {e2e} s, {hit} of {n}: {got}");
        }
    }

    #[test]
    fn batches_reveal_clusters_that_gaps_split() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        // The scatter of independent misses equals their number; that of busy periods of 40 requests, every second of which
        // misses, is 40·½ = 20 times that.
        let mut miss = |share: f64| u64::from(rng.random::<f64>() < share);
        let single: Vec<u64> = (0..40_000).map(|_| miss(0.05)).collect();
        let busy: Vec<u64> = (0..1000)
            .flat_map(|_| {
                let b = miss(0.1);
                (0..40).map(move |i| b * (i % 2))
            })
            .collect();
        let ratio = |m: &[u64]| scatter(m) as f64 / m.iter().sum::<u64>() as f64;
        assert!((0.4..2.0).contains(&ratio(&single)), "{}", ratio(&single));
        assert!((9.0..36.0).contains(&ratio(&busy)), "{}", ratio(&busy));
        assert_eq!((scatter(&[]), scatter(&[1]), scatter(&[0, 0, 0])), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn clusters_count_every_miss(misses in proptest::collection::vec(0_u64..4, 0..200), gap in 1.0..50.0_f64) {
            let total: u64 = misses.iter().sum();
            let c = clusters(misses, gap);
            prop_assert!(c.sum_sq >= total && c.sum_sq <= total * total);
            prop_assert!(c.count <= total);
        }
    }
}
