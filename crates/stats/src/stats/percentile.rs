//! Percentiles as order statistics, with confidence bounds by rank.

use super::binomial::{at_least, at_most};
use super::step::Quantiles;
use goodput_core::units::Percentile;

/// Smallest number of independent values with an upper 95 % bound of the p99: ln .025 / ln .99, rounded up.
pub const MIN_N_UPPER_P99: u64 = 368;

/// Returns the smallest number of independent values with an upper 95 % bound of a percentile: ln .025 / ln p, rounded
/// up. 36 for p90.
pub fn min_n_upper(percentile: Percentile) -> u64 {
    (TAIL_ERROR.ln() / percentile.share().ln()).ceil() as u64
}

/// Probability of error on each side of the two-sided 95 % bounds.
const TAIL_ERROR: f64 = 0.025;
/// Smallest effective sample size for which bounds are given.
const MIN_EFFECTIVE: f64 = 3.0;

/// Returns the rank ⌈p·n⌉ (from 1) of a percentile given in thousandths; in whole numbers, so that it is exact.
pub fn rank(permille: u64, n: u64) -> u64 {
    (n * permille).div_ceil(1000).max(1)
}

/// Returns the value at rank ⌈p·n⌉ of ascending values; `None` if there are none.
pub fn order_statistic(sorted: &[f64], permille: u64) -> Option<f64> {
    let at = rank(permille, sorted.len() as u64) as usize;
    sorted.get(at - 1).copied()
}

/// Returns the ranks (from 1) of the lower and upper 95 % bound of the p99 of `n` values; `None` for the upper one if n is too
/// small.
///
/// The number of values at or below the true p99 is binomial, so the l-th smallest value lies above it with probability P(Bin(n,
/// .99) < l): l is the largest rank for which that is ≤ .025, and u the smallest with P(Bin(n, .99) ≥ u) ≤ .025 (David &
/// Nagaraja, *Order Statistics*, §7.1).
///
/// Clustered values count as n / `inflation` independent ones: the ranks are taken at that effective size and scaled back. An
/// effective size below three gives no bound: two clusters lie below the p99 so surely that the lower bound would be the largest
/// value, which is wrong if the inflation was set too high.
pub fn p99_ranks(n: u64, inflation: f64) -> (Option<u64>, Option<u64>) {
    let inflation = inflation.max(1.0);
    let effective = (n as f64 / inflation).floor();
    if effective < MIN_EFFECTIVE.min(n as f64).max(1.0) {
        return (None, None);
    }
    // Both conditions change once along the ranks; `last_where` finds the change.
    let low = last_where(effective as u64, |l| at_most(l as f64 - 1.0, effective, 0.99) <= TAIL_ERROR);
    let high = last_where(effective as u64, |u| at_least(u as f64, effective, 0.99) > TAIL_ERROR) + 1;
    let scale = n as f64 / effective;
    let low = (low > 0).then(|| ((low as f64 * scale).floor() as u64).clamp(1, n));
    let high = (high <= effective as u64).then(|| ((high as f64 * scale).ceil() as u64).clamp(1, n));
    (low, high)
}

/// Returns the last rank of 1..=n that satisfies a predicate which is true up to some rank and false beyond; 0 if it is never
/// true.
fn last_where(n: u64, satisfied: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, n + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if satisfied(middle) { low = middle } else { high = middle }
    }
    low
}

/// Returns the percentiles of `n` values, where `value` returns the value at a rank (from 1) in ascending order.
pub fn quantiles_by(n: u64, inflation: f64, value: impl Fn(u64) -> f64) -> Quantiles {
    if n == 0 {
        return Quantiles::default();
    }
    let (low, high) = p99_ranks(n, inflation);
    let at = |permille| Some(value(rank(permille, n)));
    Quantiles {
        n,
        p50: at(500),
        p90: at(900),
        p95: at(950),
        p99: at(990),
        p99_low: low.map(&value),
        p99_high: high.map(&value),
        inflation: Some(inflation.max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(values_ms: &mut [f64], inflation: f64) -> Quantiles {
        values_ms.sort_unstable_by(f64::total_cmp);
        quantiles_by(values_ms.len() as u64, inflation, |rank| values_ms[rank as usize - 1])
    }

    #[test]
    fn ranks_match_published_tables() {
        for (n, low, high) in [
            (500, 490, Some(500)),
            (1000, 983, Some(997)),
            (2000, 1971, Some(1989)),
            (5000, 4936, Some(4964)),
            (10_000, 9880, Some(9920)),
            (MIN_N_UPPER_P99, 360, Some(368)), // the first with an upper bound
            (367, 359, None),                  // the last without
            (1, 1, None),                      // one value bounds from below only
        ] {
            let got = p99_ranks(n, 1.0);
            assert_eq!(got.1, high, "upper rank of {n}");
            if n >= 500 || n == 1 {
                assert_eq!(got.0, Some(low), "lower rank of {n}");
            }
        }
        assert_eq!(p99_ranks(0, 1.0), (None, None));
    }

    #[test]
    fn clustered_values_count_as_fewer() {
        assert_eq!(p99_ranks(8000, 16.0), (Some(490 * 16), Some(8000)), "as 500 independent ones");
        assert_eq!(p99_ranks(5000, 16.0).1, None, "as 312");
        assert_eq!(p99_ranks(10, 16.0), (None, None), "not even one");
        assert_eq!(
            p99_ranks(120, 60.0),
            (None, None),
            "two clumps: the largest of 120 values is no lower bound"
        );
        assert_eq!(p99_ranks(120, 40.0), (Some(80), None), "three");
        let (low, high) = p99_ranks(100_000, 1.0);
        let (wide_low, wide_high) = p99_ranks(100_000, 4.0);
        assert!(wide_low < low && wide_high > high);
    }

    #[test]
    fn percentiles_are_order_statistics() {
        let mut values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let q = quantiles(&mut values, 1.0);
        let values = [q.p50, q.p90, q.p95, q.p99, q.p99_low, q.p99_high].map(|v| v.unwrap() as u32);
        assert_eq!((q.n, values), (1000, [500, 900, 950, 990, 983, 997]));
        let q = quantiles(&mut [3.0, 1.0], 1.0);
        assert_eq!([q.p50, q.p99].map(|v| v.unwrap() as u32), [1, 3], "⌈.5·2⌉ = 1, ⌈.99·2⌉ = 2");
        assert_eq!(quantiles(&mut [], 1.0), Quantiles::default());
        assert_eq!(order_statistic(&[], 990), None);
    }

    #[test]
    fn bounds_cover_the_true_percentile_as_often_as_promised() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let covered = (0..1000)
            .filter(|_| {
                let mut values: Vec<f64> = (0..600).map(|_| rng.random::<f64>()).collect();
                let q = quantiles(&mut values, 1.0);
                q.p99_low.unwrap() <= 0.99 && q.p99_high.unwrap() >= 0.99
            })
            .count();
        assert!((940..=995).contains(&covered), "{covered} of 1000, at least 95 % promised");
    }
}
