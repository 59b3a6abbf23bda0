//! Distributions of prompt and answer lengths in tokens.

use goodput_core::checked;
use goodput_core::units::Positive;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal};
use serde::{Deserialize, Serialize};
use statrs::function::erf::erf_inv;
use std::f64::consts::SQRT_2;
use std::fmt;

/// A distribution of lengths in tokens; every draw is at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// A constant.
    Fixed(TokenCount),
    /// Uniform over the whole numbers from min to max.
    Uniform(Uniform),
    /// Normal, rounded and clamped to [min, max].
    Normal(Moments),
    /// Lognormal with the given mean and cv (of the length, not of its logarithm), rounded and clamped to [min, max].
    Lognormal(Moments),
    /// Lognormal with the given median and 90th percentile, as production logs report them, rounded and clamped to max.
    Quantiles(Quantiles),
}

/// A number of tokens: at least 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "u32", into = "u32")]
pub struct TokenCount(u32);

impl TokenCount {
    /// The smallest number.
    pub const ONE: Self = Self(1);

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for TokenCount {
    type Error = String;
    fn try_from(n: u32) -> Result<Self, String> {
        if n > 0 { Ok(Self(n)) } else { Err("a length must be at least 1 token".into()) }
    }
}

impl From<TokenCount> for u32 {
    fn from(n: TokenCount) -> Self {
        n.0
    }
}

/// Bounds of a uniform distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Uniform {
    /// Shortest length.
    min: TokenCount,
    /// Longest length.
    max: TokenCount,
}

checked!(Uniform);

impl Uniform {
    fn check(&self) -> Result<(), String> {
        if self.min <= self.max {
            Ok(())
        } else {
            Err(format!("min {} is above max {}", self.min.0, self.max.0))
        }
    }
}

/// Mean, coefficient of variation and bounds of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Moments {
    /// Mean length.
    mean: Positive,
    /// Coefficient of variation: standard deviation divided by mean.
    cv: Positive,
    /// Shortest length; 1 by default.
    min: Option<TokenCount>,
    /// Longest length.
    max: Option<TokenCount>,
}

checked!(Moments);

impl Moments {
    fn check(&self) -> Result<(), String> {
        let (low, high) = (self.min.map_or(1, TokenCount::get), self.max.map_or(u32::MAX, TokenCount::get));
        if low > high {
            return Err(format!("min {low} is above max {high}"));
        }
        if !(f64::from(low)..=f64::from(high)).contains(&self.mean.get()) {
            return Err(format!("the mean {} is not between min {low} and max {high}", self.mean));
        }
        Ok(())
    }
}

/// Normal quantile of 90 %, in standard deviations.
const Z90: f64 = 1.281_551_565_544_600_4;
/// Normal quantile of 99.99 %, about the longest of ten thousand requests, in standard deviations.
const Z9999: f64 = 3.72;

/// Number of quantiles that a mean is computed from.
const GRID: u32 = 4_000;

/// Median, 90th percentile and upper bound of a lognormal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Quantiles {
    /// Median length.
    p50: Positive,
    /// 90th percentile of the length.
    p90: Positive,
    /// Longest length.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<TokenCount>,
}

checked!(Quantiles);

impl Quantiles {
    fn check(&self) -> Result<(), String> {
        if self.p50.get() < 1.0 {
            return Err(format!("p50 {} is below 1 token", self.p50));
        }
        if self.p50 > self.p90 {
            return Err(format!("p50 {} is above p90 {}", self.p50, self.p90));
        }
        match self.max.filter(|max| f64::from(max.0) < self.p50.get()) {
            Some(max) => Err(format!("max {} is below p50 {}", max.0, self.p50)),
            None => Ok(()),
        }
    }
}

impl Lengths {
    /// Returns a constant of 1.
    pub(crate) const fn one() -> Self {
        Self::Fixed(TokenCount::ONE)
    }

    /// Draws a length.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        match self {
            Self::Fixed(n) => n.get(),
            Self::Uniform(u) => rng.random_range(u.min.get()..=u.max.get()),
            Self::Normal(m) => {
                let d = Normal::new(m.mean.get(), m.mean.get() * m.cv.get()).expect("mean and cv are finite");
                self.clamp(d.sample(rng))
            }
            Self::Lognormal(_) | Self::Quantiles(_) => {
                let (mu, sigma) = self.log_moments();
                let d = LogNormal::new(mu, sigma).expect("the logarithm's deviation is finite");
                self.clamp(d.sample(rng))
            }
        }
    }

    /// Returns the shortest and the longest length that can be drawn.
    fn bounds(&self) -> (u32, u32) {
        let or_open = |max: Option<TokenCount>| max.map_or(u32::MAX, TokenCount::get);
        match self {
            Self::Fixed(n) => (n.get(), n.get()),
            Self::Uniform(u) => (u.min.get(), u.max.get()),
            Self::Normal(m) | Self::Lognormal(m) => (m.min.map_or(1, TokenCount::get), or_open(m.max)),
            Self::Quantiles(q) => (1, or_open(q.max)),
        }
    }

    fn clamp(&self, x: f64) -> u32 {
        let (low, high) = self.bounds();
        x.round().clamp(f64::from(low), f64::from(high)) as u32
    }

    /// Returns μ and σ of the logarithm of a lognormal length. With mean m and cv c: σ² = ln(1 + c²), μ = ln m − σ²/2. The
    /// median is e^μ, the 90th percentile e^(μ + 1.28 σ).
    fn log_moments(&self) -> (f64, f64) {
        match self {
            Self::Normal(m) | Self::Lognormal(m) => {
                let var = m.cv.get().powi(2).ln_1p();
                (m.mean.get().ln() - var / 2.0, var.sqrt())
            }
            Self::Quantiles(q) => (q.p50.get().ln(), (q.p90.get() / q.p50.get()).ln() / Z90),
            Self::Fixed(_) | Self::Uniform(_) => (self.mean().ln(), 0.0),
        }
    }

    /// Returns the length of a normal or lognormal distribution that is `z` standard deviations from the middle.
    fn at_deviation(&self, z: f64) -> u32 {
        self.clamp(match self {
            Self::Normal(m) => m.mean.get() * (1.0 + z * m.cv.get()),
            Self::Fixed(_) | Self::Uniform(_) | Self::Lognormal(_) | Self::Quantiles(_) => {
                let (mu, sigma) = self.log_moments();
                (mu + z * sigma).exp()
            }
        })
    }

    /// Returns these lengths multiplied by `by`: every draw from the same random number scales by it, up to rounding to
    /// at least 1 token.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        let tokens = |n: TokenCount| TokenCount((f64::from(n.get()) * by).round().clamp(1.0, 4e9) as u32);
        let number = |x: Positive| Positive::try_from((x.get() * by).clamp(1e-6, 1e9)).unwrap_or(x);
        let moments = |m: &Moments| Moments {
            mean: number(m.mean),
            cv: m.cv,
            min: m.min.map(tokens),
            max: m.max.map(tokens),
        };
        match self {
            Self::Fixed(n) => Self::Fixed(tokens(*n)),
            Self::Uniform(u) => Self::Uniform(Uniform { min: tokens(u.min), max: tokens(u.max) }),
            Self::Normal(m) => Self::Normal(moments(m)),
            Self::Lognormal(m) => Self::Lognormal(moments(m)),
            Self::Quantiles(q) => {
                Self::Quantiles(Quantiles { p50: number(q.p50), p90: number(q.p90), max: q.max.map(tokens) })
            }
        }
    }

    /// Returns the mean that the plan asks for, before clamping.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(n) => f64::from(n.get()),
            Self::Uniform(u) => f64::from(u.min.get()) / 2.0 + f64::from(u.max.get()) / 2.0,
            Self::Normal(m) | Self::Lognormal(m) => m.mean.get(),
            Self::Quantiles(_) => {
                let (mu, sigma) = self.log_moments();
                (mu + sigma * sigma / 2.0).exp()
            }
        }
    }

    /// Returns the `u`-quantile, 0 < u < 1.
    pub fn quantile(&self, u: f64) -> u32 {
        match self {
            Self::Fixed(n) => n.get(),
            Self::Uniform(Uniform { min, max }) => {
                let all = f64::from(max.get() - min.get()) + 1.0;
                (min.get() + (u * all) as u32).min(max.get())
            }
            Self::Normal(_) | Self::Lognormal(_) | Self::Quantiles(_) => {
                self.at_deviation(SQRT_2 * erf_inv(2.0 * u - 1.0))
            }
        }
    }

    /// Returns the mean of a function of the length, after clamping.
    pub(crate) fn mean_of(&self, f: impl Fn(f64) -> f64) -> f64 {
        let at = |i: u32| f(f64::from(self.quantile((f64::from(i) + 0.5) / f64::from(GRID))));
        match self {
            Self::Fixed(n) => f(f64::from(n.get())),
            _ => (0..GRID).map(at).sum::<f64>() / f64::from(GRID),
        }
    }

    /// Returns the length that all but one in ten thousand requests reach.
    pub fn shortest(&self) -> u32 {
        self.quantile(1e-4)
    }

    /// Returns the longest length that can be drawn; without a `max`, the one that one request in ten thousand exceeds.
    pub fn longest(&self) -> u32 {
        match self.bounds() {
            (_, u32::MAX) => self.at_deviation(Z9999),
            (_, longest) => longest,
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{}", n.get()),
            Self::Uniform(u) => write!(f, "{}–{}", u.min.get(), u.max.get()),
            Self::Normal(m) => write!(f, "~{} (normal, cv {})", m.mean, m.cv),
            Self::Lognormal(m) => write!(f, "~{} (lognormal, cv {})", m.mean, m.cv),
            Self::Quantiles(q) => write!(f, "~{} (p90 {})", q.p50, q.p90),
        }
    }
}

#[cfg(test)]
mod tests;
