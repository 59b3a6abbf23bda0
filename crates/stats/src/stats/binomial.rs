//! Binomial tails and exact (Clopper–Pearson) bounds through the regularised incomplete beta function, for counts that need not
//! be whole numbers.

use statrs::function::{beta::beta_reg, erf::erfc};

/// Up to here the continued fraction of statrs converges within the 140 terms it allows itself (measured: 126 at most). Beyond,
/// it returns an inexact value without an error.
const CONVERGES: f64 = 10_000.0;

/// Returns the regularised incomplete beta function I_x(a, b) for positive `a` and `b`.
///
/// If `a` and `b` are both above 10,000, uses the cube-root normal approximation of Abramowitz & Stegun 26.5.22, off by less than
/// 1e-5 there.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if a.min(b) <= CONVERGES {
        return beta_reg(a, b, x).clamp(0.0, 1.0);
    }
    let (u, v) = ((b * x).cbrt(), (a * (1.0 - x)).cbrt());
    let z =
        3.0 * (u * (1.0 - 1.0 / (9.0 * b)) - v * (1.0 - 1.0 / (9.0 * a))) / (u * u / b + v * v / a).sqrt();
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// Returns P(Bin(n, p) ≤ k), for 0 ≤ k ≤ n; n and k need not be whole.
pub(crate) fn at_most(k: f64, n: f64, p: f64) -> f64 {
    if k >= n { 1.0 } else { incomplete_beta(n - k, k + 1.0, 1.0 - p) }
}

/// Returns P(Bin(n, p) ≥ k), for 0 ≤ k ≤ n; n and k need not be whole.
pub(super) fn at_least(k: f64, n: f64, p: f64) -> f64 {
    if k <= 0.0 { 1.0 } else { incomplete_beta(k, n - k + 1.0, p) }
}

/// Returns the one-sided upper bound of a share of which `k` of `n` were observed: P(Bin(n, p) ≤ k) = `alpha` (Clopper & Pearson
/// 1934).
pub(super) fn upper(k: f64, n: f64, alpha: f64) -> f64 {
    if k >= n { 1.0 } else { solve(|p| at_most(k, n, p) > alpha) }
}

/// Returns the one-sided lower bound of a share of which `k` of `n` were observed: P(Bin(n, p) ≥ k) = `alpha`; 0 for k = 0.
pub(super) fn lower(k: f64, n: f64, alpha: f64) -> f64 {
    if k <= 0.0 { 0.0 } else { solve(|p| at_least(k.min(n), n, p) <= alpha) }
}

/// Returns the point of [0, 1] at which `below` turns from true to false, by bisection to the last bits.
fn solve(below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lower tail as a plain sum, in log space.
    fn summed(k: u64, n: u64, p: f64) -> f64 {
        let (mut ln_term, mut sum) = (n as f64 * (1.0 - p).ln(), 0.0);
        for i in 0..=k {
            sum += ln_term.exp();
            ln_term += ((n - i) as f64 / (i + 1) as f64).ln() + (p / (1.0 - p)).ln();
        }
        sum
    }

    #[test]
    fn tails_agree_with_plain_sums() {
        for (k, n, p) in [
            (0, 299, 0.01),            // one term
            (5, 1049, 0.01),           // the table of minimal n
            (40, 100, 0.5),            // no rare event
            (9_900, 1_000_000, 0.01),  // the last of the continued fraction
            (10_150, 1_000_000, 0.01), // just beyond it: the normal approximation
            (101_000, 10_000_000, 0.01),
        ] {
            let (got, sum) = (at_most(k as f64, n as f64, p), summed(k, n, p));
            assert!((got - sum).abs() < 1e-5, "{k} of {n}: {got} against {sum}");
            let above = at_least((k + 1) as f64, n as f64, p);
            assert!((above + got - 1.0).abs() < 1e-9, "{k} of {n}: the two tails make up the whole");
        }
    }

    #[test]
    fn bounds_invert_the_tails() {
        for (k, n) in [(0.0, 299.0), (3.0, 40.0), (0.5, 62.5), (62.0, 62.5), (20_000.0, 1e6)] {
            let (low, high) = (lower(k, n, 0.05), upper(k, n, 0.05));
            assert!(low <= k / n && k / n <= high, "{k} of {n}: {low} {high}");
            assert!((at_most(k, n, high) - 0.05).abs() < 1e-6, "{k} of {n}");
            assert!(k <= 0.0 || (at_least(k, n, low) - 0.05).abs() < 1e-6, "{k} of {n}");
        }
        assert!(upper(7.0, 7.0, 0.05) >= 1.0 && lower(0.0, 7.0, 0.05) <= 0.0);
    }
}
