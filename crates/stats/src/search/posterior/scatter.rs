//! Scatter φ of the steps about the fitted curve: noise between steps that no step knows of, such as a neighbour of the server that comes and goes,
//! or a cache that is sometimes warm.
//!
//! Each step's deviance, with the weight that it has in the fit, is about χ² of one degree of freedom where the weights are right, and a curve
//! of two parameters that are well told takes two of them (McCullagh & Nelder 1989, §4.5 and §9.2). Over m steps φ = (ν + Σ D) / (ν + m − 2), ν
//! being a prior of so many steps without scatter: m is about five, and tells φ to ± 80 % only. Variances are φ times as large, and an interval is
//! √φ times as wide.

use super::fit::Row;

/// Steps without scatter that the prior is worth.
const PRIOR: f64 = 6.0;
/// Parameters of a curve that steps tell: where it lies and how steep it is.
const PARAMETERS: f64 = 2.0;
/// Less scatter is not told from chance, and left alone.
const LEAST: f64 = 1.25;
/// More of it is no scatter but a curve of another kind.
const MOST: f64 = 10.0;

/// Returns the deviance of a step from the share of misses `p`: 2·w·(k·ln(k/np) + (n−k)·ln((n−k)/(n−np))).
pub(super) fn deviance(row: &Row, p: f64) -> f64 {
    let term = |seen: f64, expected: f64| {
        if seen > 0.0 { seen * (seen / expected.max(f64::MIN_POSITIVE)).ln() } else { 0.0 }
    };
    let hits = row.n - row.misses;
    2.0 * row.weight * (term(row.misses, row.n * p) + term(hits, row.n * (1.0 - p)))
}

/// Returns φ of some deviances, 1 where it is not told from chance. `smooth` is the chance that there is no cliff: of one the family has no
/// curve to be off from.
pub(super) fn of(deviances: impl Iterator<Item = f64>, smooth: f64) -> f64 {
    let (m, sum) = deviances.fold((0.0, 0.0), |(m, sum), d| (m + 1.0, sum + d));
    if m <= PARAMETERS || smooth < 0.5 {
        return 1.0;
    }
    let phi = (PRIOR + sum) / (PRIOR + m - PARAMETERS);
    if phi < LEAST { 1.0 } else { phi.min(MOST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: f64, misses: f64, weight: f64) -> Row {
        Row { rate: 1.0, n, misses, weight, unseen: 0.0 }
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
    fn phi_is_shrunk_and_left_alone_where_it_is_small() {
        for (what, deviances, smooth, want) in [
            ("as much as is expected", &[1.0, 0.2, 0.9, 0.5, 0.4][..], 1.0, 1.0),
            ("twice as much: (6 + 6) / (6 + 3)", &[2.0, 0.5, 1.5, 1.0, 1.0], 1.0, 12.0 / 9.0),
            ("far more", &[30.0, 20.0, 9.0, 10.0, 6.0], 1.0, 9.0),
            ("no end", &[900.0, 20.0, 9.0, 10.0, 6.0], 1.0, 10.0),
            ("two steps", &[30.0, 20.0], 1.0, 1.0),
            ("a cliff", &[30.0, 20.0, 9.0], 0.3, 1.0),
        ] {
            let got = of(deviances.iter().copied(), smooth);
            assert!((got - want).abs() < 1e-9, "{what}: {got}");
        }
    }
}
