//! Block length of a block bootstrap, by the rule of Politis and White.
//!
//! Latencies of successive requests are correlated: a long queue is long for all of them. Resampling single requests
//! would treat them as independent and give too narrow an interval; resampling blocks of successive requests keeps
//! the correlation.

/// Largest lag considered, in requests: beyond it a step has too little data.
const MOST_LAGS: usize = 4_000;
/// Maximum number of blocks: more do not improve the error estimate and take longer.
const MOST_BLOCKS: usize = 500;
/// Minimum number of blocks: with fewer, a draw varies too little.
const LEAST_BLOCKS: usize = 20;

/// Returns the block length in requests for a quantile of a series. It is computed from the indicator series of
/// values above the quantile, which determines the error of a quantile (Bahadur's representation).
///
/// The rule: with R(k) the autocovariance and m the first lag after which max(5, √log₁₀ n) correlations in a row are
/// below 2·√(log₁₀ n / n), M = 2m and λ the flat-top window, b = (2 G² / D · n)^(1/3) with G = Σ λ(k/M) |k| R(k) and
/// D = 4/3 (Σ λ(k/M) R(k))² (Politis and White, Econometric Reviews 23, 2004, with the correction of 2009). `above`
/// is true for each value above the quantile, in order of time. The result is at least 1 and at most a twentieth of
/// the series.
pub(super) fn length(above: &[bool]) -> usize {
    let n = above.len();
    let most = (n / LEAST_BLOCKS).max(1);
    let ones: Vec<usize> = above.iter().enumerate().filter(|(_, a)| **a).map(|(i, _)| i).collect();
    if n < 2 * LEAST_BLOCKS || ones.is_empty() || ones.len() == n {
        return most.min(LEAST_BLOCKS);
    }
    let covariance = Covariance { above, ones: &ones, mean: ones.len() as f64 / n as f64 };
    let variance = covariance.at(0);
    let small = 2.0 * ((n as f64).log10() / n as f64).sqrt() * variance;
    let needed = 5.max((n as f64).log10().sqrt().ceil() as usize);
    let lags = MOST_LAGS.min(n / 4);
    let (mut known, mut quiet) = (vec![variance], 0);
    while quiet < needed && known.len() <= lags {
        let r = covariance.at(known.len());
        quiet = if r.abs() < small { quiet + 1 } else { 0 };
        known.push(r);
    }
    let first_quiet = known.len() - 1 - quiet;
    let window = (2 * first_quiet).max(1);
    for k in known.len()..=window.min(lags) {
        known.push(covariance.at(k));
    }
    let (mut g, mut d) = (0.0, variance);
    for (k, r) in known.iter().enumerate().take(window + 1).skip(1) {
        let weight = flat_top(k as f64 / window as f64);
        g += 2.0 * weight * k as f64 * r;
        d += 2.0 * weight * r;
    }
    if d <= 0.0 {
        return 1;
    }
    let length = (2.0 * g * g / (4.0 / 3.0 * d * d) * n as f64).cbrt().ceil();
    (length as usize).clamp(1, most)
}

/// Returns the block number of each of `n` requests in order of time for blocks of about this length, and the number
/// of blocks.
pub(super) fn numbers(n: usize, length: usize) -> (impl Iterator<Item = u32>, usize) {
    let length = length.max(n.div_ceil(MOST_BLOCKS)).max(1);
    ((0..n).map(move |i| (i / length) as u32), n.div_ceil(length))
}

/// Returns the flat-top window: 1 up to one half, then linearly down to 0 at 1.
fn flat_top(x: f64) -> f64 {
    (2.0 * (1.0 - x)).clamp(0.0, 1.0)
}

/// Autocovariances of a series of zeros and ones, computed from the positions of its ones only: in a tail these are
/// few.
struct Covariance<'a> {
    above: &'a [bool],
    ones: &'a [usize],
    mean: f64,
}

impl Covariance<'_> {
    fn at(&self, lag: usize) -> f64 {
        let n = self.above.len();
        let both =
            self.ones.iter().filter(|i| self.above.get(**i + lag).copied().unwrap_or(false)).count() as f64;
        // Σ (x_i − m)(x_{i+k} − m) over n − k pairs, with the sums of the two ends.
        let first = self.ones.partition_point(|i| *i < n - lag) as f64;
        let last = (self.ones.len() - self.ones.partition_point(|i| *i < lag)) as f64;
        (both - self.mean * (first + last) + self.mean * self.mean * (n - lag) as f64) / n as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn independent_values_have_short_blocks_and_sticky_ones_long() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let independent: Vec<bool> = (0..20_000).map(|_| rng.random::<f64>() < 0.5).collect();
        assert!(length(&independent) <= 6, "{}", length(&independent));
        // A Markov chain that keeps its state with probability 0.95 has correlations 0.9^k.
        let mut state = false;
        let sticky: Vec<bool> = (0..20_000)
            .map(|_| {
                state ^= rng.random::<f64>() < 0.05;
                state
            })
            .collect();
        // For correlations ρ^k the optimal length is (2 (2ρ/(1−ρ²))² / (4/3) · n)^(1/3) = 139.
        let b = length(&sticky);
        assert!((80..=220).contains(&b), "{b}");
    }

    #[test]
    fn what_says_nothing_has_some_length() {
        assert_eq!(length(&[]), 1);
        assert_eq!(length(&[true; 10]), 1);
        assert!(length(&[false; 1000]) <= 20);
        assert!(length(&(0..100).map(|i| i % 2 == 0).collect::<Vec<_>>()) <= 5);
    }

    #[test]
    fn a_million_requests_take_no_time() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let many: Vec<bool> = (0..1_000_000).map(|_| rng.random::<f64>() < 0.01).collect();
        assert!(length(&many) <= 8);
    }
}
