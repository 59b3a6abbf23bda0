//! Arrival processes: the gaps between requests at a given rate.

use goodput_core::units::{Positive, Rate};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Gamma};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Shape of an arrival process; its rate is set by the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Exponential gaps: independent users.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gamma gaps with a coefficient of variation: bursts above 1, smoother than Poisson below.
    Gamma(GammaShape),
}

/// Shape of gamma gaps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GammaShape {
    /// Standard deviation of a gap divided by its mean.
    pub cv: Positive,
}

impl Arrivals {
    /// Returns the coefficient of variation of the gaps: 0 for equal gaps, 1 for Poisson arrivals, more for bursts.
    pub fn cv(&self) -> f64 {
        match self {
            Self::Constant => 0.0,
            Self::Poisson => 1.0,
            Self::Gamma(gamma) => gamma.cv.get(),
        }
    }

    /// Returns the squared coefficient of variation of the gaps.
    pub fn dispersion(&self) -> f64 {
        self.cv().powi(2)
    }

    /// Returns the exponent with which the probability of another arrival within a short time t grows as t. 1 for
    /// Poisson arrivals; for bursts the shape of the gamma gaps, 1/cv², which is smaller.
    pub fn crowding(&self) -> f64 {
        match self {
            Self::Gamma(gamma) => (1.0 / gamma.cv.get().powi(2)).min(1.0),
            Self::Poisson | Self::Constant => 1.0,
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("Poisson arrivals"),
            Self::Constant => f.write_str("constant arrivals"),
            Self::Gamma(g) => write!(f, "gamma arrivals (cv {})", g.cv),
        }
    }
}

#[derive(Clone)]
enum Gap {
    Exponential,
    Constant,
    Gamma(Gamma<f64>),
}

/// Latest arrival in seconds, about a century; later times would overflow clocks.
const LAST_S: f64 = 3e9;

/// An endless sequence of arrival times from 0, never rescaled to hit a total. The first arrival comes one gap after 0.
///
/// Times are summed in seconds as f64: after a day at 1,000 req/s the rounding error is below a nanosecond per gap.
#[derive(Clone)]
pub struct Times {
    rng: ChaCha8Rng,
    gap: Gap,
    mean_s: f64,
    now_s: f64,
}

impl Times {
    /// Creates arrivals of this shape at `rate`.
    pub fn new(arrivals: Arrivals, rate: Rate, rng: ChaCha8Rng) -> Self {
        let gap = match arrivals {
            Arrivals::Poisson => Gap::Exponential,
            Arrivals::Constant => Gap::Constant,
            // Gamma(k, θ) has cv 1/√k; unit mean needs θ = 1/k.
            Arrivals::Gamma(g) => {
                let k = g.cv.get().powi(-2);
                Gap::Gamma(Gamma::new(k, 1.0 / k).expect("a positive cv gives a positive shape and scale"))
            }
        };
        Self { rng, gap, mean_s: 1.0 / rate.get(), now_s: 0.0 }
    }
}

impl Iterator for Times {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let unit: f64 = match &self.gap {
            Gap::Exponential => Exp1.sample(&mut self.rng),
            Gap::Constant => 1.0,
            Gap::Gamma(g) => g.sample(&mut self.rng),
        };
        self.now_s += unit * self.mean_s;
        (self.now_s < LAST_S).then(|| Duration::from_secs_f64(self.now_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};
    use proptest::prelude::*;

    fn gaps(arrivals: Arrivals, rate: f64, seed: u32, n: usize) -> Vec<f64> {
        let times =
            Times::new(arrivals, Rate::try_from(rate).unwrap(), stream(seed, "main", 1, Purpose::Arrivals));
        let mut last = 0.0;
        times
            .take(n)
            .map(|t| {
                let gap = t.as_secs_f64() - last;
                last = t.as_secs_f64();
                gap
            })
            .collect()
    }

    fn gamma(cv: f64) -> Arrivals {
        Arrivals::Gamma(GammaShape { cv: Positive::try_from(cv).unwrap() })
    }

    #[test]
    fn gaps_have_the_given_mean_and_cv() {
        let n = 100_000;
        for (arrivals, cv) in
            [Arrivals::Poisson, Arrivals::Constant, gamma(2.5), gamma(0.5)].map(|a| (a, a.cv()))
        {
            let g = gaps(arrivals, 20.0, 7, n);
            let mean = g.iter().sum::<f64>() / n as f64;
            let var = g.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            // Five standard errors of the mean, which is cv·mean/√n.
            assert!(
                (mean * 20.0 - 1.0).abs() <= 5.0 * cv / (n as f64).sqrt() + 1e-6,
                "{arrivals}: mean {mean}"
            );
            assert!(
                (var.sqrt() / mean - cv).abs() < 0.05 * cv.max(0.01),
                "{arrivals}: cv {}",
                var.sqrt() / mean
            );
        }
    }

    /// Index of dispersion: variance over mean of the counts in windows of 10 and 100 mean gaps; 1 for Poisson.
    #[test]
    fn poisson_counts_are_not_underdispersed() {
        let g = gaps(Arrivals::Poisson, 1.0, 3, 200_000);
        for window in [10.0, 100.0] {
            let (mut counts, mut now) = (vec![0f64; (190_000.0 / window) as usize], 0.0);
            for gap in &g {
                now += gap;
                if let Some(c) = counts.get_mut((now / window) as usize) {
                    *c += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let var = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
            assert!((0.85..1.15).contains(&(var / mean)), "window {window}: {}", var / mean);
        }
    }

    proptest! {
        #[test]
        fn times_never_decrease(rate in 0.01f64..5000.0, cv in 0.1f64..5.0, seed: u32) {
            let times = Times::new(gamma(cv), Rate::try_from(rate).unwrap(), stream(seed, "main", 1, Purpose::Arrivals));
            let times: Vec<_> = times.take(200).collect();
            prop_assert!(times.windows(2).all(|w| w[0] <= w[1]));
        }
    }
}
