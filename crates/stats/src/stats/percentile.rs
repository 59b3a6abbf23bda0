//! Percentiles as order statistics, with bounds by rank.

use super::binomial::{at_least, at_most};
use super::step::Quantiles;

/// The fewest independent values whose p99 has an upper 95 % bound: ln .025 / ln .99, rounded up.
pub const BOUNDED: u64 = 368;
/// Error of each side of the two-sided 95 % bounds.
const SIDE: f64 = 0.025;
/// The fewest effective values that bound anything.
const CLUMPS: f64 = 3.0;

/// The rank ⌈p·n⌉ (from 1) of a percentile given in thousandths; whole numbers, so that it is exact.
pub fn rank(permille: u64, n: u64) -> u64 {
    (n * permille).div_ceil(1000).max(1)
}

/// The value at ⌈p·n⌉ of ascending values; `None` without any.
pub fn order_statistic(sorted: &[f64], permille: u64) -> Option<f64> {
    let at = rank(permille, sorted.len() as u64) as usize;
    sorted.get(at - 1).copied()
}

/// Ranks (from 1) of the lower and upper 95 % bound of the p99 of `n` values; no upper one where n is too small.
///
/// The number of values at or below the true p99 is binomial, so the l-th smallest value lies above it with probability
/// P(Bin(n, .99) < l): l is the largest rank for which that is ≤ .025, and u the smallest with P(Bin(n, .99) ≥ u) ≤ .025
/// (David & Nagaraja, *Order Statistics*, §7.1). Where values come in clusters, they are worth n / `inflation` independent
/// ones: the ranks are taken at that size and scaled back. Fewer than three such clumps give no bound: two of them lie below the p99 so
/// surely that the lower bound would be the largest value, which is wrong wherever the inflation was set too high.
pub fn p99_ranks(n: u64, inflation: f64) -> (Option<u64>, Option<u64>) {
    let inflation = inflation.max(1.0);
    let effective = (n as f64 / inflation).floor();
    if effective < CLUMPS.min(n as f64).max(1.0) {
        return (None, None);
    }
    // Both conditions turn once along the ranks: `last_where` finds the turn.
    let low = last_where(effective as u64, |l| at_most(l as f64 - 1.0, effective, 0.99) <= SIDE);
    let high = last_where(effective as u64, |u| at_least(u as f64, effective, 0.99) > SIDE) + 1;
    let scale = n as f64 / effective;
    let low = (low > 0).then(|| ((low as f64 * scale).floor() as u64).clamp(1, n));
    let high = (high <= effective as u64).then(|| ((high as f64 * scale).ceil() as u64).clamp(1, n));
    (low, high)
}

/// The last rank of 1..=n at which `holds`, which holds up to some rank and not beyond; 0 where it never does.
fn last_where(n: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, n + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// Percentiles of `n` values of which `value` gives the one at a rank (from 1) in ascending order.
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
    fn ranks_are_the_published_ones() {
        for (n, low, high) in [
            (500, 490, Some(500)),
            (1000, 983, Some(997)),
            (2000, 1971, Some(1989)),
            (5000, 4936, Some(4964)),
            (10_000, 9880, Some(9920)),
            (BOUNDED, 360, Some(368)), // the first with an upper bound
            (367, 359, None),          // the last without
            (1, 1, None),              // one value bounds from below only
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
    fn clustered_values_are_worth_fewer() {
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
        let shown = [q.p50, q.p90, q.p95, q.p99, q.p99_low, q.p99_high].map(|v| v.unwrap() as u32);
        assert_eq!((q.n, shown), (1000, [500, 900, 950, 990, 983, 997]));
        let q = quantiles(&mut [3.0, 1.0], 1.0);
        assert_eq!([q.p50, q.p99].map(|v| v.unwrap() as u32), [1, 3], "⌈.5·2⌉ = 1, ⌈.99·2⌉ = 2");
        assert_eq!(quantiles(&mut [], 1.0), Quantiles::default());
        assert_eq!(order_statistic(&[], 990), None);
    }

    #[test]
    fn bounds_hold_the_true_percentile_as_often_as_they_say() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let held = (0..1000)
            .filter(|_| {
                let mut values: Vec<f64> = (0..600).map(|_| rng.random::<f64>()).collect();
                let q = quantiles(&mut values, 1.0);
                q.p99_low.unwrap() <= 0.99 && q.p99_high.unwrap() >= 0.99
            })
            .count();
        assert!((940..=995).contains(&held), "{held} of 1000, at least 95 % promised");
    }
}
