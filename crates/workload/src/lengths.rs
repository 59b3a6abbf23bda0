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
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};

    fn parse(text: &str) -> Lengths {
        #[derive(Deserialize)]
        struct T {
            x: Lengths,
        }
        toml::from_str::<T>(&format!("x = {text}")).unwrap().x
    }

    #[test]
    fn draws_have_the_given_mean_and_cv() {
        for (text, mean, cv) in [
            ("{ fixed = 30 }", 30.0, 0.0),
            ("{ uniform = { min = 100, max = 300 } }", 200.0, 0.2901),
            ("{ normal = { mean = 500, cv = 0.2 } }", 500.0, 0.2),
            ("{ lognormal = { mean = 600, cv = 0.4 } }", 600.0, 0.4),
            ("{ lognormal = { mean = 600, cv = 1.5 } }", 600.0, 1.5),
        ] {
            let lengths = parse(text);
            let mut rng = stream(1, "main", 1, Purpose::Input);
            let n = 50_000;
            let xs: Vec<f64> = (0..n).map(|_| f64::from(lengths.draw(&mut rng))).collect();
            let m = xs.iter().sum::<f64>() / f64::from(n);
            let v = xs.iter().map(|x| (x - m).powi(2)).sum::<f64>() / f64::from(n);
            assert!((m / mean - 1.0).abs() < 0.03, "{text}: mean {m}");
            assert!((v.sqrt() / m - cv).abs() < 0.05 * cv.max(0.01) + 0.01, "{text}: cv {}", v.sqrt() / m);
            assert!((lengths.mean() - mean).abs() < 1e-9);
        }
    }

    #[test]
    fn draws_have_the_given_quantiles() {
        let lengths = parse("{ quantiles = { p50 = 600, p90 = 2400 } }");
        // Closed form: σ = ln 4 / z, mean = 600 · e^(σ²/2).
        let sigma = 4_f64.ln() / Z90;
        let (mu, got) = lengths.log_moments();
        assert!((mu - 600_f64.ln()).abs() < 1e-12 && (got - sigma).abs() < 1e-12);
        assert!((lengths.mean() - 600.0 * (sigma * sigma / 2.0).exp()).abs() < 1e-6);
        let mut rng = stream(1, "main", 1, Purpose::Input);
        let mut xs: Vec<u32> = (0..50_000).map(|_| lengths.draw(&mut rng)).collect();
        xs.sort_unstable();
        let (p50, p90) = (f64::from(xs[25_000]), f64::from(xs[45_000]));
        assert!((p50 / 600.0 - 1.0).abs() < 0.03 && (p90 / 2400.0 - 1.0).abs() < 0.03, "{p50} {p90}");
        let clamped = parse("{ quantiles = { p50 = 600, p90 = 2400, max = 3000 } }");
        assert!((0..1000).map(|_| clamped.draw(&mut rng)).all(|x| (1..=3000).contains(&x)));
        assert_eq!((clamped.longest(), clamped.to_string()), (3000, "~600 (p90 2400)".into()));
        let same = parse("{ quantiles = { p50 = 9, p90 = 9 } }");
        assert_eq!((same.draw(&mut rng), same.longest()), (9, 9), "no variation");
    }

    #[test]
    fn mean_of_agrees_with_the_mean_over_draws() {
        for text in [
            "{ fixed = 30 }",
            "{ uniform = { min = 100, max = 300 } }",
            "{ normal = { mean = 500, cv = 0.2 } }",
            "{ lognormal = { mean = 600, cv = 1.5, max = 4000 } }",
            "{ quantiles = { p50 = 600, p90 = 2400, max = 8192 } }",
        ] {
            let lengths = parse(text);
            let mut rng = stream(1, "main", 1, Purpose::Input);
            let xs: Vec<f64> = (0..50_000).map(|_| f64::from(lengths.draw(&mut rng))).collect();
            for most in [150.0, 400.0, 1e9] {
                let drawn = xs.iter().map(|x| x.min(most)).sum::<f64>() / xs.len() as f64;
                let got = lengths.mean_of(|x| x.min(most));
                assert!((got / drawn - 1.0).abs() < 0.02, "{text} up to {most}: {got} for {drawn}");
            }
            let below = xs.iter().filter(|x| **x < f64::from(lengths.shortest())).count();
            assert!(below <= 15, "{text}: {below}");
        }
    }

    #[test]
    fn draws_are_clamped_and_never_zero() {
        let lengths = parse("{ normal = { mean = 2, cv = 3, max = 5 } }");
        let mut rng = stream(1, "main", 1, Purpose::Output);
        assert!((0..1000).map(|_| lengths.draw(&mut rng)).all(|x| (1..=5).contains(&x)));
        assert_eq!(lengths.longest(), 5);
    }

    #[test]
    fn invalid_lengths_are_rejected() {
        for text in [
            "x = { fixed = 0 }",
            "x = { fixed = -3 }",
            "x = { uniform = { min = 9, max = 3 } }",
            "x = { normal = { mean = 600, cv = 0.1, max = 100 } }",
            "x = { lognormal = { mean = 600, cv = 0 } }",
            "x = { quantiles = { p50 = 600, p90 = 300 } }",
            "x = { quantiles = { p50 = 600, p90 = 900, max = 300 } }",
            "x = { quantiles = { p50 = 0.2, p90 = 3 } }",
            "x = { fixed = 3, uniform = { min = 1, max = 2 } }",
        ] {
            #[derive(Deserialize)]
            struct T {
                #[expect(dead_code, reason = "only whether it parses matters")]
                x: Lengths,
            }
            assert!(toml::from_str::<T>(text).is_err(), "{text}");
        }
    }
}
