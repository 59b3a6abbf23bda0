//! Randomness of iteration times: noise from one iteration to the next, and drift over many.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::time::Duration;

/// Slow variation of the engine's speed: clocks under a power cap, other work on the host, the network between GPUs.
/// Noise between iterations averages out over a long answer; drift does not.
///
/// The logarithm of the speed is an Ornstein-Uhlenbeck process: normal at any moment, with correlation e^(−t / over)
/// after a time t (Uhlenbeck and Ornstein, Physical Review 36, 1930). The mean of the speed over time is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Coefficient of variation of the speed.
    pub cv: f64,
    /// Correlation time.
    pub over: Duration,
}

/// Factors on iteration times: lognormal noise with mean 1 and a given coefficient of variation (all 1 if that is
/// zero), times the drift.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    rng: ChaCha8Rng,
    /// Standard deviation of the logarithm.
    sigma: f64,
    drift: Option<DriftState>,
}

/// State of a drift.
#[derive(Debug, Clone)]
struct DriftState {
    rng: ChaCha8Rng,
    sigma: f64,
    over: Duration,
    /// Time and value of the last draw, the value in standard deviations.
    last: Option<(Duration, f64)>,
}

/// Returns σ of a lognormal with coefficient of variation cv: σ² = ln(1 + cv²) (Johnson, Kotz and Balakrishnan, vol. 1,
/// ch. 14).
pub(crate) fn sigma(cv: f64) -> f64 {
    (cv * cv).ln_1p().sqrt()
}

impl Noise {
    /// Creates the noise. The drift uses a separate stream of random numbers, so that the noise is the same with and
    /// without it.
    pub(super) fn new(cv: f64, drift: Option<Drift>, seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let state = |drift: Drift| {
            let mut rng = rng.clone();
            rng.set_stream(1);
            DriftState { rng, sigma: sigma(drift.cv), over: drift.over, last: None }
        };
        Self { drift: drift.map(state), sigma: sigma(cv), rng }
    }

    /// Returns the factor of an iteration that starts at `at`; times must not decrease.
    pub(super) fn draw(&mut self, at: Duration) -> f64 {
        let drift = self.drift.as_mut().map_or(1.0, |drift| drift.draw(at));
        if self.sigma <= 0.0 {
            return drift;
        }
        let z: f64 = StandardNormal.sample(&mut self.rng);
        // Mean one: μ = −σ²/2.
        drift * (self.sigma * z - self.sigma * self.sigma / 2.0).exp()
    }
}

impl DriftState {
    fn draw(&mut self, at: Duration) -> f64 {
        let z: f64 = StandardNormal.sample(&mut self.rng);
        let x = match self.last {
            None => z,
            Some((last, x)) => {
                let correlation = (-(at.saturating_sub(last).as_secs_f64() / self.over.as_secs_f64())).exp();
                correlation * x + (1.0 - correlation * correlation).sqrt() * z
            }
        };
        self.last = Some((at, x));
        // The mean of the speed is one, and times are its inverse.
        (self.sigma * x + self.sigma * self.sigma / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_mean_one_and_the_given_cv() {
        const N: usize = 200_000;
        for cv in [0.1, 0.5] {
            let mut noise = Noise::new(cv, None, 1);
            let draws: Vec<f64> = (0..N).map(|_| noise.draw(Duration::ZERO)).collect();
            let mean = draws.iter().sum::<f64>() / N as f64;
            let var = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64;
            // Four standard errors; that of a standard deviation is about cv·sqrt((kurtosis − 1) / 4N), with a kurtosis
            // below 9 here.
            assert!((mean - 1.0).abs() < 4.0 * cv / (N as f64).sqrt(), "{cv}: {mean}");
            assert!((var.sqrt() - cv).abs() < 4.0 * cv * (2.0 / N as f64).sqrt(), "{cv}: {}", var.sqrt());
        }
        assert!((Noise::new(0.0, None, 1).draw(Duration::ZERO) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn drift_has_mean_one_and_the_given_correlation_time() {
        const N: u32 = 400_000;
        let (cv, over) = (0.2, Duration::from_secs(2));
        let drift = Some(Drift { cv, over });
        let mut noise = Noise::new(0.0, drift, 3);
        // Ten draws per correlation time: N of them are worth N / 20 independent ones.
        let speeds: Vec<f64> = (0..N).map(|i| 1.0 / noise.draw(i * over / 10)).collect();
        let n = f64::from(N);
        let mean = speeds.iter().sum::<f64>() / n;
        let error = cv * (20.0 / n).sqrt();
        assert!((mean - 1.0).abs() < 4.0 * error, "{mean} ± {error}");
        let logs: Vec<f64> = speeds.iter().map(|s| s.ln() + sigma(cv).powi(2) / 2.0).collect();
        let product = |lag: usize| logs.iter().zip(&logs[lag..]).map(|(a, b)| a * b).sum::<f64>() / n;
        let variance = product(0);
        assert!((variance / sigma(cv).powi(2) - 1.0).abs() < 0.04, "{variance}");
        for (lag, expected) in [(1, 0.905), (10, 0.368), (40, 0.018)] {
            let got = product(lag) / variance;
            assert!((got - expected).abs() < 0.03, "correlation at lag {lag} is {got}, not {expected}");
        }
        // The drift does not change the noise.
        let (mut both, mut alone, mut wander) =
            (Noise::new(0.1, drift, 5), Noise::new(0.1, None, 5), Noise::new(0.0, drift, 5));
        for i in 0..100 {
            let at = i * over;
            let [both, alone, wander] = [&mut both, &mut alone, &mut wander].map(|n| n.draw(at));
            assert!((both - alone * wander).abs() < 1e-12);
        }
    }
}
