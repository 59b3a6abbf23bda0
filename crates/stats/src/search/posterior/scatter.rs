//! Scatter φ of the steps about the fitted curve: noise between steps that does not show within any of them, such as a neighbour
//! of the server that comes and goes, or a cache that is sometimes warm.
//!
//! The deviance of each step, with its weight in the fit, is about χ² with one degree of freedom if the weights are right, and a
//! curve with two well-determined parameters takes two of them (McCullagh & Nelder 1989, §4.5 and §9.2). Over m steps φ = (ν + Σ
//! D) / (ν + m − 2), where ν is a prior worth this many steps without scatter: m is about five, which determines φ only to ± 80
//! %. Variances are φ times as large, and an interval is √φ times as wide.

use super::fit::WeightedCounts;

/// Weight ν of the prior, in steps without scatter.
const PRIOR: f64 = 6.0;
/// Number of parameters of a curve that the steps determine: its position and its steepness.
const PARAMETERS: f64 = 2.0;
/// Smallest φ that is told from chance; anything less counts as 1.
const MIN_PHI: f64 = 1.25;
/// Largest φ: anything more is not scatter but a curve of another kind.
const MAX_PHI: f64 = 10.0;

/// Returns the deviance of a step from the share of misses `p`: 2·w·(k·ln(k/np) + (n−k)·ln((n−k)/(n−np))).
pub(super) fn deviance(row: &WeightedCounts, p: f64) -> f64 {
    let term = |seen: f64, expected: f64| {
        if seen > 0.0 { seen * (seen / expected.max(f64::MIN_POSITIVE)).ln() } else { 0.0 }
    };
    let hits = row.n - row.misses;
    2.0 * row.weight * (term(row.misses, row.n * p) + term(hits, row.n * (1.0 - p)))
}

/// Returns φ of several deviances; 1 if it cannot be told from chance. `smooth` is the probability that there is no cliff: a
/// cliff has no curve in the family to deviate from.
pub(super) fn phi(deviances: impl Iterator<Item = f64>, smooth: f64) -> f64 {
    let (m, sum) = deviances.fold((0.0, 0.0), |(m, sum), d| (m + 1.0, sum + d));
    if m <= PARAMETERS || smooth < 0.5 {
        return 1.0;
    }
    let phi = (PRIOR + sum) / (PRIOR + m - PARAMETERS);
    if phi < MIN_PHI { 1.0 } else { phi.min(MAX_PHI) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: f64, misses: f64, weight: f64) -> WeightedCounts {
        WeightedCounts { rate: 1.0, n, misses, weight, undetected: 0.0 }
    }

    #[test]
    fn the_deviance_is_about_the_square_of_the_standardised_residual() {
        // 1000 requests at 10 %: a standard deviation of 9.49.
        for (misses, weight, want) in
            [(100.0, 1.0, 0.0), (119.0, 1.0, 4.0), (119.0, 0.25, 1.0), (81.0, 1.0, 4.0)]
        {
            let got = deviance(&row(1000.0, misses, weight), 0.1);
            assert!((got - want).abs() < 0.35 * weight, "{misses} at {weight}: {got}");
        }
        assert!(
            (deviance(&row(1000.0, 0.0, 1.0), 0.001) - 2.0).abs() < 0.01,
            "none of one that is expected: 2·np"
        );
    }

    #[test]
    fn phi_is_shrunk_and_small_values_count_as_one() {
        for (what, deviances, smooth, want) in [
            ("as much as is expected", &[1.0, 0.2, 0.9, 0.5, 0.4][..], 1.0, 1.0),
            ("twice as much: (6 + 6) / (6 + 3)", &[2.0, 0.5, 1.5, 1.0, 1.0], 1.0, 12.0 / 9.0),
            ("far more", &[30.0, 20.0, 9.0, 10.0, 6.0], 1.0, 9.0),
            ("no end", &[900.0, 20.0, 9.0, 10.0, 6.0], 1.0, 10.0),
            ("two steps", &[30.0, 20.0], 1.0, 1.0),
            ("a cliff", &[30.0, 20.0, 9.0], 0.3, 1.0),
        ] {
            let got = phi(deviances.iter().copied(), smooth);
            assert!((got - want).abs() < 1e-9, "{what}: {got}");
        }
    }
}
