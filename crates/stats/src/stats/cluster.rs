//! Clusters of misses: a queue or a stall hits many requests, so misses come together and say less than their number.

use super::step::{LimitRow, Step, StepKind};
use super::verdict::INFLATION;

/// What the clusters of one limit come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clusters {
    /// How many clusters.
    pub count: u64,
    /// Sum of the squared sizes; over the sum of the sizes it is the inflation that the clusters show.
    pub sum_sq: u64,
}

/// The largest distance, in requests, between two misses of one cluster: min(clip(r·e2e, 20, 200), max(5, .2/p̂)) with
/// p̂ = (k+1)/(n+1).
///
/// The first term is about what is in flight together; the second keeps chance neighbours apart where misses are frequent
/// (reference: the held-out study of the search, §5). `rate` in requests/s, `e2e_s` the mean in seconds, `hit` the requests
/// with a miss among `n`.
pub fn gap(rate: f64, e2e_s: f64, hit: u64, n: u64) -> f64 {
    let together = (rate * e2e_s).clamp(20.0, 200.0);
    let share = (hit as f64 + 1.0) / (n as f64 + 1.0);
    together.min((0.2 / share).max(5.0))
}

/// Clusters of the misses of requests given in order of `due`: misses per request, 0 or 1 for a limit on requests. Two
/// requests with misses that are at most `gap` places apart belong to one cluster.
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

/// Batches of a step over which the scatter of misses is taken.
const BATCHES: usize = 20;

/// Returns what Σ C² would be of clusters C that scatter the misses of a step, given in order of `due`, over twenty batches as they are: the
/// variance of a batch's count, times the number of batches.
///
/// The gap that ends a cluster is short where misses are frequent, and one busy period of a queue is then counted as several clusters: on
/// an M/M/1 queue at 0.6 of its capacity Σ C² / Σ C came to half of the inflation of blocks of 3000 requests. Batches need no gap.
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

/// How many misses the assumed [`INFLATION`] weighs as much as.
const PRIOR_MISSES: f64 = 10.0;
/// Steps with more than this many times the allowed share of misses are overloaded, and their clusters are of another kind.
const OVERLOADED: f64 = 5.0;
/// Where more requests than this miss, they are neighbours by chance, and clusters mean nothing.
const FREQUENT: f64 = 0.15;

/// How many requests are worth one independent request, for one limit of a tier: (10·16 + Σ C²) / (10 + Σ C) over the
/// clusters C of the steps so far and of the one at hand, at least 1 (reference: simulation study of the search, §7).
///
/// Pooled, because an inflation taken from the step alone is small just when chance hides its misses, and then passes it.
/// `p0` is the share of misses that is allowed; steps with more than five times that, or more than 15 %, and unloaded ones,
/// are left out.
pub fn pooled_inflation<'a>(
    steps: impl IntoIterator<Item = &'a Step>,
    own: Option<&'a LimitRow>,
    (tier, limit): (&str, &str),
    p0: f64,
) -> f64 {
    let loaded = steps.into_iter().filter(|s| s.kind != StepKind::Baseline);
    let rows = loaded.flat_map(|s| &s.limits).filter(|r| r.tier == tier && r.is(limit)).chain(own);
    let near = rows.filter(|r| tells(r.misses as f64, r.n as f64, p0));
    let (misses, sum_sq) =
        near.fold((0.0, 0.0), |(n, sq), r| (n + r.misses as f64, sq + r.cluster_sq as f64));
    inflation(INFLATION, misses, sum_sq)
}

/// Whether the clusters of a step's misses are of the kind that there is near the boundary: no more than five times the share `p0` that is
/// allowed, and no more than 15 %.
pub fn tells(misses: f64, n: f64, p0: f64) -> bool {
    misses <= (OVERLOADED * p0).min(FREQUENT) * n
}

/// How many requests are worth one where `misses` came in clusters with this sum of squared sizes, and `assumed` was taken for likely before
/// that: (10·assumed + Σ C²) / (10 + Σ C), at least 1.
pub fn inflation(assumed: f64, misses: f64, sum_sq: f64) -> f64 {
    ((PRIOR_MISSES * assumed + sum_sq) / (PRIOR_MISSES + misses)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn misses_close_together_are_one_cluster() {
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
    fn the_gap_follows_what_is_in_flight() {
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
    fn batches_see_clusters_that_gaps_do_not() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        // Independent misses scatter as their number; busy periods of 40 of which every second request misses as 40·½ = 20 times that.
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
        fn clusters_keep_every_miss(misses in proptest::collection::vec(0_u64..4, 0..200), gap in 1.0..50.0_f64) {
            let total: u64 = misses.iter().sum();
            let c = clusters(misses, gap);
            prop_assert!(c.sum_sq >= total && c.sum_sq <= total * total);
            prop_assert!(c.count <= total);
        }
    }
}
