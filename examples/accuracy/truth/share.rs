//! Shares of misses, their clustering, and the rate at which a miss curve crosses the allowed share.

use super::long::Count;

/// Number of requests per block, for the variance of the count of misses.
const BLOCK: usize = 3000;

/// Misses of one limit in a long run at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    pub(super) p: f64,
    /// Share of misses that the limit allows.
    pub(super) allowed: f64,
    pub(super) inflation: f64,
    /// Inflation from forty long blocks, used for the error. It is larger than `inflation` if misses come in clusters
    /// longer than a block.
    pub(super) long_inflation: f64,
    /// Number of requests.
    pub(super) n: f64,
}

impl Share {
    /// Computes the share from the counts of each request, in order of arrival. The inflation refers to requests: if
    /// many gaps are counted per request, it compares the variance of the share among gaps with that of an equal number
    /// of requests.
    pub(super) fn of(counts: &[Count], allowed: f64) -> Self {
        let n = counts.len() as f64;
        let sum = |part: &[Count]| {
            part.iter().fold((0.0, 0.0), |(k, n), c| (k + f64::from(c.0), n + f64::from(c.1)))
        };
        let (misses, all) = sum(counts);
        let p = misses / f64::max(all, 1.0);
        let per_request = all / n;
        let inflation = |block: usize| {
            let excess = |part: &[Count]| {
                let (k, n) = sum(part);
                (k - p * n) / per_request
            };
            let blocks: Vec<f64> = counts.chunks_exact(block).map(excess).collect();
            let mean = blocks.iter().sum::<f64>() / blocks.len() as f64;
            let squares: f64 = blocks.iter().map(|k| (k - mean).powi(2)).sum();
            let variance = squares / (blocks.len() as f64 - 1.0);
            if p > 0.0 && p < 1.0 && blocks.len() > 1 {
                variance / (block as f64 * p * (1.0 - p))
            } else {
                1.0
            }
        };
        let long_inflation = inflation((counts.len() / 40).max(BLOCK));
        Self { p, allowed, inflation: inflation(BLOCK), long_inflation, n }
    }

    /// Returns the ratio of misses to allowed misses.
    pub(super) fn excess(&self) -> f64 {
        self.p / self.allowed
    }

    /// Returns the variance of ln p.
    pub(super) fn variance(&self) -> f64 {
        self.inflation.max(self.long_inflation).max(1.0) * (1.0 - self.p) / (self.p * self.n)
    }
}

/// ln p as a parabola of x = ln(rate / center), fitted to five points at distances of `spread`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    /// Value of x at which p is the allowed share.
    pub(super) root: f64,
    /// Standard error of `root`.
    pub(super) error: f64,
    pub(super) slope: f64,
}

impl Fit {
    /// Fits with the least-squares weights of a parabola at five equal distances (Savitzky and Golay 1964): (−3, 12,
    /// 17, 12, −3) / 35 for the value in the middle, (−2 … 2) / 10 for the slope, (2, −1, −2, −1, 2) / 7 for the
    /// curvature.
    pub(super) fn of(shares: &[Share], spread: f64) -> Self {
        let y: Vec<f64> = shares.iter().map(|s| s.excess().max(1e-7).ln()).collect();
        let sum = |weights: [f64; 5]| weights.iter().zip(&y).map(|(w, y)| w * y).sum::<f64>();
        let value = [-3.0, 12.0, 17.0, 12.0, -3.0].map(|w| w / 35.0);
        let (at_center, slope) = (sum(value), sum([-0.2, -0.1, 0.0, 0.1, 0.2]) / spread);
        let curvature = sum([2.0, -1.0, -2.0, -1.0, 2.0].map(|w| w / 7.0)) / spread.powi(2);
        let mut root = 0.0;
        for _ in 0..20 {
            let tangent = slope + curvature * root;
            root -= (at_center + slope * root + curvature / 2.0 * root * root) / tangent;
        }
        // The parabola is unreliable far from the center; the next pass starts nearer.
        let root = root.clamp(-2.0 * spread, 2.0 * spread);
        let variance: f64 = value.iter().zip(shares).map(|(w, s)| w * w * s.variance()).sum();
        // A curvature that reverses the slope is noise as well.
        let at_root = slope + curvature * root;
        if slope <= 0.0 {
            // The slope is only noise, which the infinite error expresses.
            return Self { root: 0.0, error: f64::INFINITY, slope: 0.3 };
        }
        let slope = if (0.5..2.0).contains(&(at_root / slope)) { at_root } else { slope };
        Self { root, error: variance.sqrt() / slope, slope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_is_read_back() {
        // ln(p / 1 %) = 4·(x − 0.01) + 6·(x − 0.01)² at the five points.
        let spread = 0.03;
        let shares: Vec<Share> = (-2..=2)
            .map(|k| {
                let x = f64::from(k) * spread - 0.01;
                Share {
                    p: 0.01 * (4.0 * x + 6.0 * x * x).exp(),
                    allowed: 0.01,
                    inflation: 2.0,
                    long_inflation: 1.0,
                    n: 1e6,
                }
            })
            .collect();
        let fit = Fit::of(&shares, spread);
        assert!((fit.root - 0.01).abs() < 1e-9 && (fit.slope - 4.0).abs() < 1e-6, "{fit:?}");
        // sqrt(17/35 · 2 · .99 / (.01 · 10⁶)) / 4, the shares differing a little.
        assert!((fit.error / (17.0 / 35.0 * 1.98e-4_f64).sqrt() * 4.0 - 1.0).abs() < 0.05, "{fit:?}");
    }

    #[test]
    fn inflation_is_one_where_misses_are_independent_and_the_size_of_clusters_where_not() {
        // One percent of the requests miss, one by one and in runs of ten.
        let mut rng = <rand_chacha::ChaCha8Rng as rand::SeedableRng>::seed_from_u64(1);
        let mut missed = || (u32::from(rand::RngExt::random::<f64>(&mut rng) < 0.01), 1);
        let single: Vec<Count> = (0..900_000).map(|_| missed()).collect();
        let runs: Vec<Count> = single[..90_000].iter().flat_map(|m| [*m; 10]).collect();
        // Twenty gaps per request, which all miss together.
        let gaps: Vec<Count> = single.iter().map(|(k, n)| (20 * k, 20 * n)).collect();
        let [single, runs, gaps] = [single, runs, gaps].map(|counts| Share::of(&counts, 0.01));
        // With 300 blocks, the standard error of a variance is 8 %.
        assert!((single.p - 0.01).abs() < 5e-4 && (single.inflation - 1.0).abs() < 0.33, "{single:?}");
        assert!((runs.inflation - 10.0).abs() < 3.3, "{runs:?}");
        assert!((gaps.inflation / single.inflation - 1.0).abs() < 1e-9, "{gaps:?}");
    }
}
