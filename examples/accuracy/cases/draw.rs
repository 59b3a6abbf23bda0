//! Random numbers for drawing cases.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A random number generator with equal results on every platform.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// Draws from a log-uniform distribution. Rounds to three digits, so that differences in a platform's logarithm do
    /// not change the case.
    pub(super) fn scale(&mut self, low: f64, high: f64) -> f64 {
        digits(self.uniform(low.ln(), high.ln()).exp())
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.0.random::<f64>() < p
    }
}

/// Rounds to three significant digits.
pub(super) fn digits(x: f64) -> f64 {
    let unit = 10_f64.powi(x.log10().floor() as i32 - 2);
    ((x / unit).round() * unit * 1e6).round() / 1e6
}
