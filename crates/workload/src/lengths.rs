//! How long prompts and answers are, in tokens.

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
    /// Always the same.
    Fixed(TokenCount),
    /// Every whole number from min to max, equally likely.
    Uniform(Uniform),
    /// Normal, rounded, cut to [min, max].
    Normal(Moments),
    /// Lognormal with the given mean and cv (of the lognormal itself, not of its logarithm), rounded, cut to [min, max].
    Lognormal(Moments),
    /// Lognormal through a median and a 90th percentile, as production logs tell them, rounded, cut to max.
    Quantiles(Quantiles),
}

/// A number of tokens: at least 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "u32", into = "u32")]
pub struct TokenCount(u32);

impl TokenCount {
    /// The plain number.
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

/// Ends of a uniform distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawUniform", into = "RawUniform")]
pub struct Uniform {
    min: TokenCount,
    max: TokenCount,
}

#[derive(Clone, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawUniform {
    /// The shortest.
    min: TokenCount,
    /// The longest.
    max: TokenCount,
}

impl TryFrom<RawUniform> for Uniform {
    type Error = String;
    fn try_from(r: RawUniform) -> Result<Self, String> {
        if r.min <= r.max {
            Ok(Self { min: r.min, max: r.max })
        } else {
            Err(format!("min {} is above max {}", r.min.0, r.max.0))
        }
    }
}

impl From<Uniform> for RawUniform {
    fn from(u: Uniform) -> Self {
        Self { min: u.min, max: u.max }
    }
}

/// Mean and spread of a distribution, and where it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawMoments", into = "RawMoments")]
pub struct Moments {
    mean: Positive,
    cv: Positive,
    min: Option<TokenCount>,
    max: Option<TokenCount>,
}

#[derive(Clone, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawMoments {
    /// The mean.
    mean: Positive,
    /// The coefficient of variation: standard deviation over mean.
    cv: Positive,
    /// The shortest; 1 where it is left out.
    min: Option<TokenCount>,
    /// The longest.
    max: Option<TokenCount>,
}

impl TryFrom<RawMoments> for Moments {
    type Error = String;
    fn try_from(r: RawMoments) -> Result<Self, String> {
        let (low, high) = (r.min.map_or(1, TokenCount::get), r.max.map_or(u32::MAX, TokenCount::get));
        if low > high {
            return Err(format!("min {low} is above max {high}"));
        }
        if !(f64::from(low)..=f64::from(high)).contains(&r.mean.get()) {
            return Err(format!("the mean {} lies outside of min {low} … max {high}", r.mean));
        }
        Ok(Self { mean: r.mean, cv: r.cv, min: r.min, max: r.max })
    }
}

impl From<Moments> for RawMoments {
    fn from(m: Moments) -> Self {
        Self { mean: m.mean, cv: m.cv, min: m.min, max: m.max }
    }
}

impl Moments {
    fn cut(&self, x: f64) -> u32 {
        let (low, high) = (self.min.map_or(1, TokenCount::get), self.max.map_or(u32::MAX, TokenCount::get));
        (x.round().clamp(f64::from(low), f64::from(high))) as u32
    }

    fn range(&self, shape: Shape) -> u32 {
        match self.max {
            Some(max) => max.get(),
            None => self.cut(match shape {
                Shape::Normal => self.mean.get() * (1.0 + Z9999 * self.cv.get()),
                Shape::Lognormal => {
                    let (mu, sigma) = self.log_moments();
                    (mu + Z9999 * sigma).exp()
                }
            }),
        }
    }

    /// μ and σ of the logarithm for a lognormal of this mean m and cv c: σ² = ln(1 + c²), μ = ln m − σ²/2.
    fn log_moments(&self) -> (f64, f64) {
        let var = self.cv.get().powi(2).ln_1p();
        (self.mean.get().ln() - var / 2.0, var.sqrt())
    }
}

/// How many standard deviations the 90th percentile of a normal distribution lies above its median.
const Z90: f64 = 1.281_551_565_544_600_4;
/// The same of the 99.99 % point: what the longest of ten thousand requests is about.
const Z9999: f64 = 3.72;

/// Points of a distribution that a mean is taken over.
const GRID: u32 = 4_000;

/// A median and a 90th percentile, and where the lognormal through both is cut.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawQuantiles", into = "RawQuantiles")]
pub struct Quantiles {
    p50: Positive,
    p90: Positive,
    max: Option<TokenCount>,
}

#[derive(Clone, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawQuantiles {
    /// The median.
    p50: Positive,
    /// The 90th percentile.
    p90: Positive,
    /// The longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<TokenCount>,
}

impl TryFrom<RawQuantiles> for Quantiles {
    type Error = String;
    fn try_from(r: RawQuantiles) -> Result<Self, String> {
        if r.p50.get() < 1.0 {
            return Err(format!("p50 {} is below 1 token", r.p50));
        }
        if r.p50 > r.p90 {
            return Err(format!("p50 {} is above p90 {}", r.p50, r.p90));
        }
        if let Some(max) = r.max.filter(|max| f64::from(max.0) < r.p50.get()) {
            return Err(format!("max {} is below p50 {}", max.0, r.p50));
        }
        Ok(Self { p50: r.p50, p90: r.p90, max: r.max })
    }
}

impl From<Quantiles> for RawQuantiles {
    fn from(q: Quantiles) -> Self {
        Self { p50: q.p50, p90: q.p90, max: q.max }
    }
}

impl Quantiles {
    /// μ and σ of the logarithm: the median is e^μ, the 90th percentile e^(μ + 1.28 σ).
    fn log_moments(&self) -> (f64, f64) {
        (self.p50.get().ln(), (self.p90.get() / self.p50.get()).ln() / Z90)
    }

    fn cut(&self, x: f64) -> u32 {
        x.round().clamp(1.0, f64::from(self.max.map_or(u32::MAX, TokenCount::get))) as u32
    }

    /// Mean of the lognormal, before it is cut.
    fn mean(&self) -> f64 {
        let (mu, sigma) = self.log_moments();
        (mu + sigma * sigma / 2.0).exp()
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Normal,
    Lognormal,
}

impl Lengths {
    /// One length.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        match self {
            Self::Fixed(n) => n.get(),
            Self::Uniform(u) => rng.random_range(u.min.get()..=u.max.get()),
            Self::Normal(m) => {
                let d = Normal::new(m.mean.get(), m.mean.get() * m.cv.get()).expect("mean and cv are finite");
                m.cut(d.sample(rng))
            }
            Self::Lognormal(m) => {
                let (mu, sigma) = m.log_moments();
                m.cut(LogNormal::new(mu, sigma).expect("the logarithm's deviation is finite").sample(rng))
            }
            Self::Quantiles(q) => {
                let (mu, sigma) = q.log_moments();
                q.cut(LogNormal::new(mu, sigma).expect("the logarithm's deviation is finite").sample(rng))
            }
        }
    }

    /// Returns these lengths times `by`: every draw from the same random number is `by` times as long, up to rounding to whole tokens
    /// (at least 1).
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

    /// The mean that the plan asks for, before cutting.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(n) => f64::from(n.get()),
            Self::Uniform(u) => f64::from(u.min.get()) / 2.0 + f64::from(u.max.get()) / 2.0,
            Self::Normal(m) | Self::Lognormal(m) => m.mean.get(),
            Self::Quantiles(q) => q.mean(),
        }
    }

    /// The length that a share `u` of all lie at or below, 0 < u < 1.
    pub fn quantile(&self, u: f64) -> u32 {
        let z = || -> f64 { SQRT_2 * erf_inv(2.0 * u - 1.0) };
        match self {
            Self::Fixed(n) => n.get(),
            Self::Uniform(Uniform { min, max }) => {
                let all = f64::from(max.get() - min.get()) + 1.0;
                (min.get() + (u * all) as u32).min(max.get())
            }
            Self::Normal(m) => m.cut(m.mean.get() * (1.0 + z() * m.cv.get())),
            Self::Lognormal(m) => {
                let (mu, sigma) = m.log_moments();
                m.cut((mu + z() * sigma).exp())
            }
            Self::Quantiles(q) => {
                let (mu, sigma) = q.log_moments();
                q.cut((mu + z() * sigma).exp())
            }
        }
    }

    /// The mean of something that hangs on the length, over the lengths as they are drawn, cuts included.
    pub fn mean_of(&self, of: impl Fn(f64) -> f64) -> f64 {
        let at = |i: u32| of(f64::from(self.quantile((f64::from(i) + 0.5) / f64::from(GRID))));
        match self {
            Self::Fixed(n) => of(f64::from(n.get())),
            _ => (0..GRID).map(at).sum::<f64>() / f64::from(GRID),
        }
    }

    /// The shortest that is drawn, but for one request in ten thousand.
    pub fn shortest(&self) -> u32 {
        self.quantile(1e-4)
    }

    /// The longest that can be drawn; without a `max`, the length that one request in ten thousand exceeds.
    pub fn longest(&self) -> u32 {
        match self {
            Self::Fixed(n) => n.get(),
            Self::Uniform(u) => u.max.get(),
            Self::Normal(m) => m.range(Shape::Normal),
            Self::Lognormal(m) => m.range(Shape::Lognormal),
            Self::Quantiles(q) => q.max.map_or_else(
                || {
                    let (mu, sigma) = q.log_moments();
                    q.cut((mu + Z9999 * sigma).exp())
                },
                TokenCount::get,
            ),
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
    fn moments_are_as_asked() {
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
    fn quantiles_come_out_as_they_went_in() {
        let lengths = parse("{ quantiles = { p50 = 600, p90 = 2400 } }");
        let Lengths::Quantiles(q) = lengths else { panic!("quantiles") };
        // In closed form: σ = ln 4 / z, mean = 600 · e^(σ²/2).
        let sigma = 4_f64.ln() / Z90;
        let (mu, got) = q.log_moments();
        assert!((mu - 600_f64.ln()).abs() < 1e-12 && (got - sigma).abs() < 1e-12);
        assert!((lengths.mean() - 600.0 * (sigma * sigma / 2.0).exp()).abs() < 1e-6);
        let mut rng = stream(1, "main", 1, Purpose::Input);
        let mut xs: Vec<u32> = (0..50_000).map(|_| lengths.draw(&mut rng)).collect();
        xs.sort_unstable();
        let (p50, p90) = (f64::from(xs[25_000]), f64::from(xs[45_000]));
        assert!((p50 / 600.0 - 1.0).abs() < 0.03 && (p90 / 2400.0 - 1.0).abs() < 0.03, "{p50} {p90}");
        let cut = parse("{ quantiles = { p50 = 600, p90 = 2400, max = 3000 } }");
        assert!((0..1000).map(|_| cut.draw(&mut rng)).all(|x| (1..=3000).contains(&x)));
        assert_eq!((cut.longest(), cut.to_string()), (3000, "~600 (p90 2400)".into()));
        let same = parse("{ quantiles = { p50 = 9, p90 = 9 } }");
        assert_eq!((same.draw(&mut rng), same.longest()), (9, 9), "no spread at all");
    }

    #[test]
    fn what_hangs_on_a_length_has_the_mean_of_the_draws() {
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
    fn draws_are_cut_and_never_zero() {
        let lengths = parse("{ normal = { mean = 2, cv = 3, max = 5 } }");
        let mut rng = stream(1, "main", 1, Purpose::Output);
        assert!((0..1000).map(|_| lengths.draw(&mut rng)).all(|x| (1..=5).contains(&x)));
        assert_eq!(lengths.longest(), 5);
    }

    #[test]
    fn impossible_lengths_are_refused() {
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
