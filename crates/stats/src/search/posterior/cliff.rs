//! Cliff: a limit that is never missed up to a level and always beyond it, the steepest possible curve.
//!
//! Constant arrivals at a server with constant service times make one, and so does a cache that begins to thrash: no miss
//! announces the level c from which on everything queues. Below c a miss is a stray, with a probability of [`STRAY`] times the
//! share p0 that the limit allows. Beyond c the share of misses q depends on the length of the step, so only q > p0 is assumed: q
//! is uniform on (p0, 1), and the likelihood of k misses of n is ∫ q^k·(1−q)^(n−k) dq.
//!
//! A step so little beyond c that the backlog it builds up within its window cannot be told from chance may still look like one
//! below; a step just below c that received more load than intended by chance may look like one beyond.

use super::fit::WeightedCounts;
use crate::stats::binomial::at_most;
use statrs::function::gamma::ln_gamma;

/// Probability of a miss below the cliff, as a share of the allowed one.
const STRAY: f64 = 0.02;
/// Width of the transition from undetected to detected overload, relative to its position.
const BLUR: f64 = 1.0 / 3.0;
/// Smallest width of that transition, in ln rate.
const MIN_BLUR: f64 = 0.01;

/// The terms of one step's likelihood that do not depend on the position of the cliff.
struct CliffTerms {
    ln_rate: f64,
    undetected: f64,
    below: f64,
    beyond: f64,
}

impl CliffTerms {
    fn of(row: &WeightedCounts, p0: f64) -> Self {
        let (misses, hits) = (row.weight * row.misses, row.weight * (row.n - row.misses));
        let stray = STRAY * p0;
        // The integral over all q is a beta function; its part above p0 is P(Bin(a + b + 1, p0) ≤ a).
        let all = ln_gamma(misses + 1.0) + ln_gamma(hits + 1.0) - ln_gamma(misses + hits + 2.0);
        let above = at_most(misses, misses + hits + 1.0, p0).max(f64::MIN_POSITIVE);
        Self {
            ln_rate: row.rate.ln(),
            undetected: row.undetected,
            below: misses * stray.ln() + hits * (-stray).ln_1p(),
            beyond: all + above.ln() - (-p0).ln_1p(),
        }
    }

    /// Returns ln of the likelihood of a cliff at e^`ln_cliff`.
    fn ln_likelihood(&self, ln_cliff: f64) -> f64 {
        let over = self.ln_rate - ln_cliff;
        let detected =
            1.0 / (1.0 + (-(over - self.undetected) / (BLUR * self.undetected).max(MIN_BLUR)).exp());
        let (a, b) = ((1.0 - detected).max(f64::MIN_POSITIVE).ln() + self.below, detected.ln() + self.beyond);
        let top = a.max(b);
        top + ((a - top).exp() + (b - top).exp()).ln()
    }
}

/// Returns ln of the likelihood of a cliff at each point of a grid of ln level.
pub(super) fn ln_likelihoods(rows: &[WeightedCounts], p0: f64, grid: &[f64]) -> Vec<f64> {
    let terms: Vec<CliffTerms> = rows.iter().map(|row| CliffTerms::of(row, p0)).collect();
    grid.iter().map(|x| terms.iter().map(|t| t.ln_likelihood(*x)).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rate: f64, n: f64, misses: f64) -> WeightedCounts {
        WeightedCounts { rate, n, misses, weight: 0.1, undetected: 0.02 }
    }

    #[test]
    fn the_likelihood_beyond_is_the_integral() {
        let terms = CliffTerms::of(&row(30.0, 400.0, 100.0), 0.01);
        let parts = 200_000;
        let width = 0.99 / f64::from(parts);
        let at = |i: i32| 0.01 + (f64::from(i) + 0.5) * width;
        let sum: f64 = (0..parts).map(|i| at(i).powf(10.0) * (1.0 - at(i)).powf(30.0) * width).sum();
        assert!(
            (terms.beyond - (sum / 0.99).ln()).abs() < 1e-6,
            "{} against {}",
            terms.beyond,
            (sum / 0.99).ln()
        );
    }

    #[test]
    fn a_cliff_lies_between_clean_steps_and_steps_that_miss() {
        let rows =
            [row(0.0, 200.0, 0.0), row(10.0, 1500.0, 0.0), row(18.0, 2700.0, 0.0), row(21.0, 900.0, 500.0)];
        let grid: Vec<f64> = [8.0_f64, 14.0, 17.8, 19.0, 20.5, 22.0].map(f64::ln).to_vec();
        let ln = ln_likelihoods(&rows, 0.01, &grid);
        assert!(
            ln[3] > ln[1] + 5.0,
            "a clean step of thousands far beyond it speaks against a cliff: {ln:?}"
        );
        assert!(ln[3] - ln[2] < 1.0, "a step one hundredth beyond it may look clean: {ln:?}");
        assert!(
            (ln[3] - ln[4]).abs() < 1.0 && ln[3] > ln[5] + 5.0,
            "nothing tells where in the bracket, and hardly any load that chance adds is five hundredths: {ln:?}"
        );
    }
}
