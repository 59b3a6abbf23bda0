//! Block bootstrap: the variation of a percentile if the step were measured again.
//!
//! Blocks of successive requests are drawn with replacement, as many as there are (Carlstein, Annals of Statistics
//! 14, 1986), and the percentile of the drawn requests is computed. Values are sorted once: a draw is a weight for
//! each block, and the percentile is found by summing the weights along the sorted values. A million requests and a
//! thousand draws take a fraction of a second.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of bootstrap draws: the relative standard error of a standard error is 1/√(2·draws), about 2 %.
pub(super) const DRAWS: usize = 1_000;
/// Minimum number of sorted values that are counted together.
const CHUNK: usize = 512;

/// Values grouped in blocks, for percentiles; an infinite value is a failed request.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Values in ascending order, each with its block.
    sorted: Vec<(f64, u32)>,
    blocks: usize,
    chunk: usize,
    /// Number of values of each block in each chunk of the sorted values: `chunk × blocks + block`.
    counts: Vec<u32>,
    sizes: Vec<u32>,
}

impl Sample {
    /// Makes a sample from values with their block numbers, 0 to `blocks` − 1; leaves out NaN.
    pub(super) fn new(values: impl IntoIterator<Item = (f64, u32)>, blocks: usize) -> Self {
        let known = |(value, block): &(f64, u32)| !value.is_nan() && (*block as usize) < blocks;
        let mut sorted: Vec<(f64, u32)> = values.into_iter().filter(known).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // This size balances the work for the chunks before the percentile with that inside its chunk.
        let chunk = CHUNK.max((sorted.len() as f64 * blocks as f64).sqrt() as usize);
        let mut sizes = vec![0; blocks];
        let mut counts = Vec::with_capacity(sorted.len().div_ceil(chunk) * blocks);
        for chunk in sorted.chunks(chunk) {
            let from = counts.len();
            counts.resize(from + blocks, 0);
            for (_, block) in chunk {
                counts[from + *block as usize] += 1;
                sizes[*block as usize] += 1;
            }
        }
        Self { sorted, blocks, chunk, counts, sizes }
    }

    /// Returns the number of values.
    pub(super) fn n(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the value at ⌈p·n⌉, with `share` as p; `None` without values.
    pub(super) fn value(&self, share: f64) -> Option<f64> {
        self.of(&vec![1; self.blocks], share)
    }

    /// Returns the percentile with each block counted `weights` times; `None` if nothing was drawn.
    pub(super) fn of(&self, weights: &[u32], share: f64) -> Option<f64> {
        let total: u64 = self.sizes.iter().zip(weights).map(|(n, w)| u64::from(*n) * u64::from(*w)).sum();
        if total == 0 {
            return None;
        }
        // The small offset makes 0.99 · 100 round to 99 and not to 100.
        let rank = ((share * total as f64 - 1e-9).ceil() as u64).max(1);
        let mut below = 0;
        for (chunk, counts) in self.sorted.chunks(self.chunk).zip(self.counts.chunks(self.blocks.max(1))) {
            let here: u64 = counts.iter().zip(weights).map(|(n, w)| u64::from(*n) * u64::from(*w)).sum();
            if below + here < rank {
                below += here;
                continue;
            }
            for (value, block) in chunk {
                below += u64::from(weights[*block as usize]);
                if below >= rank {
                    return Some(*value);
                }
            }
        }
        self.sorted.last().map(|v| v.0)
    }
}

/// An iterator over draws: the number of times that each of `blocks` blocks is drawn.
#[derive(Debug)]
pub(super) struct Draws {
    rng: ChaCha8Rng,
    blocks: usize,
    left: usize,
}

impl Draws {
    /// Makes [`DRAWS`] draws of `blocks` blocks, reproducible by the seed.
    pub(super) fn new(blocks: usize, seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), blocks, left: DRAWS }
    }
}

impl Iterator for Draws {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        self.left = self.left.checked_sub(1)?;
        let mut weights = vec![0; self.blocks];
        for _ in 0..self.blocks {
            weights[self.rng.random_range(0..self.blocks)] += 1;
        }
        Some(weights)
    }
}

/// The spread of a difference over draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Standard deviation of the draws.
    pub error: f64,
    /// Share of draws with a finite difference.
    pub finite: f64,
}

impl Spread {
    /// Computes the spread of draws; infinite and unknown ones count only in `finite`.
    pub(super) fn of(draws: impl IntoIterator<Item = Option<f64>>) -> Self {
        let (mut all, mut n, mut sum, mut sq) = (0.0, 0.0, 0.0, 0.0);
        for draw in draws {
            all += 1.0;
            if let Some(x) = draw.filter(|x| x.is_finite()) {
                n += 1.0;
                sum += x;
                sq += x * x;
            }
        }
        let variance: f64 = if n > 1.0 { (sq - sum * sum / n) / (n - 1.0) } else { f64::NAN };
        Self { error: variance.max(0.0).sqrt(), finite: if all > 0.0 { n / all } else { 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks;
    use super::*;

    #[test]
    fn percentiles_are_order_statistics() {
        let values = (1..=100).map(|i| (f64::from(i), (i % 7) as u32));
        for (share, is) in [(0.5, 50.0), (0.99, 99.0), (0.9, 90.0), (1.0, 100.0), (0.001, 1.0)] {
            let p = Sample::new(values.clone(), 7);
            assert!((p.value(share).unwrap() - is).abs() < 1e-12, "{share}: {:?}", p.value(share));
        }
        let failed = Sample::new([(1.0, 0), (f64::INFINITY, 0), (f64::NAN, 0)], 1);
        assert_eq!((failed.n(), failed.value(0.99)), (2, Some(f64::INFINITY)), "a failure is later than any");
        assert_eq!(Sample::new([], 3).value(0.5), None);
    }

    #[test]
    fn blocks_that_are_drawn_twice_count_twice() {
        let p = Sample::new([(1.0, 0), (2.0, 1), (3.0, 2)], 3);
        assert_eq!(p.of(&[2, 1, 0], 0.5), Some(1.0));
        assert_eq!(p.of(&[0, 0, 3], 0.5), Some(3.0));
        assert_eq!(p.of(&[0, 0, 0], 0.5), None);
        // Across chunks as within one.
        let many = (0..10_000).map(|i| (f64::from(i), (i % 3) as u32));
        let p = Sample::new(many, 3);
        assert_eq!(p.value(0.99), Some(9_899.0));
        let drawn = p.of(&[5, 0, 0], 0.99);
        assert!(drawn.is_some_and(|v| (v - 9_897.0).abs() < 3.5), "{drawn:?}");
    }

    /// Returns the share of intervals ln q ± 1.96 standard errors that contain the true value.
    fn coverage(
        runs: u32,
        share: f64,
        truth: f64,
        draw: impl Fn(u64) -> Vec<f64>,
        block: impl Fn(&[bool]) -> usize,
    ) -> f64 {
        let held = (0..runs).filter(|run| {
            let values = draw(u64::from(*run));
            let q = Sample::new(values.iter().map(|v| (*v, 0)), 1).value(share).unwrap();
            let length = block(&values.iter().map(|v| *v > q).collect::<Vec<_>>());
            let blocks = values.len().div_ceil(length);
            let numbered = values.iter().enumerate().map(|(i, v)| (*v, (i / length) as u32));
            let p = Sample::new(numbered, blocks);
            let draws = Draws::new(blocks, u64::from(*run)).take(200).map(|w| p.of(&w, share).map(f64::ln));
            (q.ln() - truth.ln()).abs() <= 1.96 * Spread::of(draws).error
        });
        held.count() as f64 / f64::from(runs)
    }

    fn exponentials(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| -(1.0 - rng.random::<f64>()).ln()).collect()
    }

    /// Independent exponentials: the quantile is −ln(1 − p).
    #[test]
    fn intervals_hold_the_truth_of_independent_values() {
        for share in [0.5, 0.99] {
            let held = coverage(
                200,
                share,
                -(1.0_f64 - share).ln(),
                |seed| exponentials(3_000, seed),
                blocks::length,
            );
            assert!(held >= 0.89, "{share}: {held}");
        }
    }

    /// Waiting times of an M/M/1 at 80 % load, by Lindley's recursion: P(W + S > t) = e^(−(1−ρ) t) in service times.
    #[test]
    fn blocks_hold_the_truth_of_a_queue_where_single_requests_do_not() {
        let queue = |seed: u64| {
            let (gaps, services) = (exponentials(12_000, 2 * seed), exponentials(12_000, 2 * seed + 1));
            let mut wait = 0.0;
            let times: Vec<f64> = gaps
                .iter()
                .zip(&services)
                .map(|(gap, service)| {
                    let sojourn = wait + service;
                    wait = (sojourn - gap / 0.8_f64).max(0.0);
                    sojourn
                })
                .collect();
            times[2_000..].to_vec()
        };
        let truth = std::f64::consts::LN_2 / 0.2;
        let alone = coverage(120, 0.5, truth, queue, |_| 1);
        let blocks = coverage(120, 0.5, truth, queue, blocks::length);
        assert!(alone < 0.4 && blocks > 0.78, "single requests {alone}, blocks {blocks}");
    }
}
