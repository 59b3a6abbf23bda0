//! Where the misses of one limit reach what it allows, as far as the steps tell: a rough fit that says where to measure next.
//! It never decides: verdicts rest on counts alone.

/// What one step says of one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// Requests per second.
    pub(super) rate: f64,
    /// Requests that were told.
    pub(super) n: f64,
    /// Misses among them.
    pub(super) misses: f64,
    /// How many requests are worth one.
    pub(super) inflation: f64,
}

/// The posterior of the boundary and the rise, on a grid.
///
/// The share of misses at rate r is 1 − exp(−C0·(r/r*)^β) with C0 = −ln(1 − p0), so that it is p0 at the boundary r*. Prior:
/// ln r* uniform over the range, ln β ~ N(ln 6, 0.8²). A step weighs as much as its requests divided by the inflation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    c0: f64,
    /// ln r*, β and weight; the weights add up to 1.
    cells: Vec<(f64, f64, f64)>,
}

const BOUNDARIES: u32 = 81;
const RISES: [f64; 12] = [0.5, 0.8, 1.2, 1.8, 2.6, 3.8, 5.5, 8.0, 11.5, 17.0, 25.0, 36.0];

impl Curve {
    /// Fits a limit that allows the share `p0` of misses, in (0, 1), with its boundary within `range`.
    pub(super) fn fit(evidence: &[Evidence], p0: f64, (low, high): (f64, f64)) -> Self {
        let c0 = -(-p0).ln_1p();
        let (from, to) = (low.ln(), high.ln());
        let mut cells = Vec::with_capacity(BOUNDARIES as usize * RISES.len());
        for i in 0..BOUNDARIES {
            let ln_boundary = from + (to - from) * f64::from(i) / f64::from(BOUNDARIES - 1);
            for rise in RISES {
                let prior = -0.5 * ((rise / 6.0).ln() / 0.8).powi(2);
                let likelihood: f64 = evidence.iter().map(|e| ln_likelihood(e, c0, ln_boundary, rise)).sum();
                cells.push((ln_boundary, rise, prior + likelihood));
            }
        }
        let top = cells.iter().map(|c| c.2).fold(f64::NEG_INFINITY, f64::max);
        cells.iter_mut().for_each(|c| c.2 = (c.2 - top).exp());
        let sum: f64 = cells.iter().map(|c| c.2).sum();
        cells.iter_mut().for_each(|c| c.2 /= sum);
        Self { c0, cells }
    }

    /// The boundary: posterior mean of ln r*.
    pub(super) fn boundary(&self) -> f64 {
        self.cells.iter().map(|(b, _, w)| b * w).sum::<f64>().exp()
    }

    /// How well the boundary is known: posterior standard deviation of ln r*.
    pub(super) fn spread(&self) -> f64 {
        let mean = self.boundary().ln();
        self.cells.iter().map(|(b, _, w)| (b - mean).powi(2) * w).sum::<f64>().sqrt()
    }

    /// How likely the share of misses at `rate` lies in `range`.
    pub(super) fn chance(&self, rate: f64, range: std::ops::Range<f64>) -> f64 {
        let ln_rate = rate.ln();
        let within = |c: &&(f64, f64, f64)| range.contains(&share(self.c0, c.1 * (ln_rate - c.0)));
        self.cells.iter().filter(within).map(|c| c.2).sum()
    }
}

fn share(c0: f64, ln_power: f64) -> f64 {
    (-(-(c0 * ln_power.min(50.0).exp())).exp_m1()).clamp(1e-7, 0.98)
}

fn ln_likelihood(e: &Evidence, c0: f64, ln_boundary: f64, rise: f64) -> f64 {
    let p = share(c0, rise * (e.rate.ln() - ln_boundary));
    (e.misses * p.ln() + (e.n - e.misses) * (-p).ln_1p()) / e.inflation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(rate: f64, n: f64, share: f64) -> Evidence {
        Evidence { rate, n, misses: n * share, inflation: 4.0 }
    }

    /// Steps of a curve with boundary 10 and rise 5, and what a fit of them must find.
    #[test]
    fn the_boundary_of_a_known_curve_is_found() {
        let truth = |r: f64| share(-(0.99_f64.ln()), 5.0 * (r / 10.0).ln());
        let at = |rates: &[f64], n: f64| {
            let all: Vec<Evidence> = rates.iter().map(|r| evidence(*r, n, truth(*r))).collect();
            Curve::fit(&all, 0.01, (1.0, 100.0))
        };
        let well = at(&[5.0, 8.0, 10.0, 12.0, 20.0], 4_000.0);
        // To the grain of its grid: it is a guess of where to measure.
        assert!((well.boundary() / 10.0).ln().abs() < 0.06 && well.spread() < 0.08, "{}", well.boundary());
        assert!(well.chance(8.5, 0.0..0.01) > 0.95 && well.chance(11.5, 0.01..1.0) > 0.95);
        let little = at(&[5.0, 20.0], 100.0);
        assert!(little.spread() > 2.0 * well.spread(), "little is known: {}", little.spread());
        assert!((5.0..20.0).contains(&little.boundary()), "{}", little.boundary());
    }

    #[test]
    fn without_evidence_the_range_is_all_there_is() {
        let none = Curve::fit(&[], 0.01, (1.0, 100.0));
        assert!((none.boundary() - 10.0).abs() < 0.01, "the middle, in logarithms");
        let all_missed = Curve::fit(&[evidence(50.0, 1e6, 1.0)], 0.01, (1.0, 100.0));
        assert!(all_missed.boundary() < 20.0 && all_missed.chance(50.0, 0.5..1.0) > 0.9);
    }
}
