//! The scatter of a sampled gauge.

/// Fewest samples that a scatter is computed from.
const LEAST_SAMPLES: usize = 20;
/// Largest correlation of successive scrapes that is assumed.
const MOST_CORRELATED: f64 = 0.95;

/// Returns the standard deviation σ of one scrape such that the mean of n scrapes, `every_s` seconds apart, has about σ/√n; `None`
/// for too few samples.
///
/// `samples` are times in seconds and values, in order of time. With the correlation ρ of samples `every_s` apart, and as for a
/// process of first order, σ² is the variance times (1 + ρ)/(1 − ρ) (Kish's design effect for serial dependence).
pub(crate) fn scatter(samples: &[(f64, f64)], every_s: f64) -> Option<f64> {
    if samples.len() < LEAST_SAMPLES {
        return None;
    }
    let n = samples.len() as f64;
    let mean = samples.iter().map(|s| s.1).sum::<f64>() / n;
    let variance = samples.iter().map(|s| (s.1 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if variance <= 0.0 {
        return Some(0.0);
    }
    let later = |from: f64| samples.iter().find(|s| s.0 >= from + every_s * 0.99);
    let products: Vec<f64> =
        samples.iter().filter_map(|s| Some((s.1 - mean) * (later(s.0)?.1 - mean))).collect();
    let correlation = products.iter().sum::<f64>() / products.len().max(1) as f64 / variance;
    let correlation = correlation.clamp(0.0, MOST_CORRELATED);
    Some((variance * (1.0 + correlation) / (1.0 - correlation)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependence_widens_the_scatter() {
        let of = |value: fn(usize) -> f64| (0..600).map(|i| (i as f64, value(i))).collect::<Vec<_>>();
        // Independent at a distance of 15 s: plus and minus one.
        let fast = scatter(&of(|i| if i % 2 == 0 { 1.0 } else { -1.0 }), 15.0).unwrap();
        assert!((fast - 1.0).abs() < 0.01, "{fast}");
        let slow = scatter(&of(|i| if i / 100 % 2 == 0 { 1.0 } else { -1.0 }), 15.0).unwrap();
        // ρ = 1 − 2·15/100 = 0.7: √(1.7/0.3) = 2.38.
        assert!((slow - 2.38).abs() < 0.3, "{slow}");
        assert_eq!((scatter(&of(|_| 3.0), 15.0), scatter(&[(0.0, 1.0); 5], 15.0)), (Some(0.0), None));
    }
}
