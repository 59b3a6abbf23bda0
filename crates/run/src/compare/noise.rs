//! Changes between two sides, and their statistical significance.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Significance of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// The difference exceeds noise, after correction for all differences of the comparison.
    Yes,
    /// The difference does not exceed noise.
    No,
    /// The noise is unknown.
    Unknown,
}

/// The data behind the confidence interval of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Bootstrap over blocks of requests, each run resampled separately.
    Blocks,
    /// Bootstrap over pairs of steps with the same requests.
    Pairs,
    /// The 90 % intervals of both answers.
    Intervals,
    /// The brackets of both answers: the change lies within these ends, without a probability.
    Brackets,
    /// Counts of requests or of misses.
    Counts,
    /// Several runs on at least one side; includes the run-to-run variation.
    Runs,
    /// No interval.
    None,
}

/// The side with an infinite value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Infinite {
    /// The baseline is infinite.
    Old,
    /// The other side is infinite.
    New,
}

/// A change from the baseline, as a share of the baseline: −0.05 is 5 % less.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Change {
    /// Relative change; `None` if the baseline is zero or unknown, or the value is unknown.
    pub share: Option<f64>,
    /// Absolute change in the unit of the column.
    pub absolute: Option<f64>,
    /// The side whose value is infinite (a percentile of failed requests), if only one side is.
    pub infinite: Option<Infinite>,
    /// Number of levels pooled, if there are several.
    pub levels: Option<usize>,
    /// 95 % interval of the relative change; its ends may be infinite.
    pub interval: Option<[f64; 2]>,
    /// 95 % interval of the absolute change, in the unit of the column.
    pub absolute_interval: Option<[f64; 2]>,
    /// p-value of this difference, uncorrected: the probability of one at least as large between two equal servers.
    pub p: Option<f64>,
    /// Smallest relative change that would have been detected with probability 0.9.
    pub detectable: Option<f64>,
    /// Significance of the change.
    pub beyond: Beyond,
    /// Data behind the interval.
    pub basis: Basis,
    /// Levels of the baseline and of the other side, if they are not quite equal and no steps around them tell what that adds: then no
    /// significance is claimed and no gate decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<[f64; 2]>,
    /// Levels of the baseline and of the other side, if they are not quite equal and the other side's figure was carried to the level of
    /// the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<[f64; 2]>,
    /// Estimate behind p-value and interval.
    #[serde(skip)]
    pub(super) estimate: Option<Estimate>,
    /// True if the estimate is of the logarithm of the ratio, false if it is of the absolute difference.
    #[serde(skip)]
    pub(super) ratio: bool,
}

/// Error probability of the intervals, and of all claims of a family together.
pub(super) const ALPHA: f64 = 0.05;
/// Power at which the detectable change is computed.
const POWER: f64 = 0.9;

/// An estimated difference of logarithms (or of shares) with its standard error and degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// ln(new / old), or new − old.
    pub difference: f64,
    /// Standard error of the difference.
    pub error: f64,
    /// Degrees of freedom of the error; infinite for a normal distribution.
    pub freedom: f64,
}

impl Estimate {
    /// Estimates the mean of paired differences by Student's t. Returns `None` for fewer than three pairs or a
    /// non-finite difference.
    pub(super) fn of_pairs(differences: &[f64]) -> Option<Self> {
        let n = differences.len() as f64;
        if differences.len() < 3 || differences.iter().any(|d| !d.is_finite()) {
            return None;
        }
        let mean = differences.iter().sum::<f64>() / n;
        let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
        Some(Self { difference: mean, error: (squares / (n - 1.0) / n).sqrt(), freedom: n - 1.0 })
    }

    /// Returns the equally weighted mean of independent estimates. The error follows from the sum of squares, the
    /// degrees of freedom from Satterthwaite's approximation.
    pub(super) fn mean(all: &[Self]) -> Option<Self> {
        if all.is_empty() || all.iter().any(|e| !e.sound()) {
            return None;
        }
        let n = all.len() as f64;
        let variance: f64 = all.iter().map(|e| e.error * e.error).sum();
        let spread: f64 = all.iter().map(|e| e.error.powi(4) / e.freedom).sum();
        let freedom = if spread > 0.0 { variance * variance / spread } else { f64::INFINITY };
        let difference = all.iter().map(|e| e.difference).sum::<f64>() / n;
        Some(Self { difference, error: variance.sqrt() / n, freedom })
    }

    /// Makes an estimate whose error is taken as known.
    pub(super) const fn normal(difference: f64, error: f64) -> Self {
        Self { difference, error, freedom: f64::INFINITY }
    }

    fn sound(&self) -> bool {
        self.difference.is_finite() && self.error.is_finite() && self.error >= 0.0 && self.freedom >= 1.0
    }

    /// Returns a quantile of Student's t distribution; of the normal from 10,000 degrees of freedom on.
    fn quantile(&self, p: f64) -> f64 {
        let student = || StudentsT::new(0.0, 1.0, self.freedom).ok().map(|t| t.inverse_cdf(p));
        let normal = || Normal::standard().inverse_cdf(p);
        if self.freedom < 1e4 { student().unwrap_or_else(normal) } else { normal() }
    }

    /// Returns the two-sided p-value: the probability of a difference at least as large if there is none.
    pub(super) fn p(&self) -> f64 {
        if self.error <= 0.0 {
            return if self.difference.abs() > 0.0 { 0.0 } else { 1.0 };
        }
        let t = -(self.difference / self.error).abs();
        let below = if self.freedom < 1e4 {
            StudentsT::new(0.0, 1.0, self.freedom).map_or(0.5, |d| d.cdf(t))
        } else {
            Normal::standard().cdf(t)
        };
        (2.0 * below).min(1.0)
    }

    fn interval(&self) -> [f64; 2] {
        let half = self.quantile(1.0 - ALPHA / 2.0) * self.error;
        [self.difference - half, self.difference + half]
    }

    /// Returns the smallest difference detected with probability 0.9 if `tests` claims are made together (the first
    /// step of Holm's procedure).
    fn detectable(&self, tests: usize) -> f64 {
        let tests = tests.max(1) as f64;
        (self.quantile(1.0 - ALPHA / 2.0 / tests) + self.quantile(POWER)) * self.error
    }
}

impl Change {
    /// Makes a change from the two values alone, with no interval.
    pub fn bare(old: Option<f64>, new: Option<f64>) -> Self {
        let absolute = old.zip(new).map(|(o, n)| n - o).filter(|d| d.is_finite());
        let share = old.zip(absolute).filter(|(o, _)| *o > 0.0).map(|(o, d)| d / o);
        let infinite = old.zip(new).and_then(|(o, n)| match (o.is_infinite(), n.is_infinite()) {
            (true, false) => Some(Infinite::Old),
            (false, true) => Some(Infinite::New),
            _ => None,
        });
        Self {
            share,
            absolute,
            infinite,
            levels: None,
            interval: None,
            absolute_interval: None,
            p: None,
            detectable: None,
            beyond: Beyond::Unknown,
            basis: Basis::None,
            apart: None,
            carried: None,
            estimate: None,
            ratio: true,
        }
    }

    /// Makes a change from an estimate of the logarithm of the ratio.
    pub(super) fn of_ratio(old: Option<f64>, new: Option<f64>, e: Estimate, basis: Basis) -> Self {
        let bare = Self::bare(old, new);
        if !e.sound() {
            return bare;
        }
        let interval = e.interval().map(f64::exp_m1);
        // The old value is taken as exact here: its uncertainty is already in the interval of the ratio.
        let absolute_interval = old.map(|o| interval.map(|s| s * o));
        let share = Some(e.difference.exp_m1());
        let absolute = bare.absolute.or_else(|| old.zip(share).map(|(o, s)| o * s));
        Self {
            share,
            absolute,
            interval: Some(interval),
            absolute_interval,
            p: Some(e.p()),
            basis,
            estimate: Some(e),
            ..bare
        }
    }

    /// Makes a change from an estimate of the absolute difference, for shares and the like.
    pub(super) fn of_difference(old: f64, new: f64, e: Estimate) -> Self {
        let bare = Self::bare(Some(old), Some(new));
        if !e.sound() {
            return bare;
        }
        let absolute_interval = e.interval();
        Self {
            interval: (old > 0.0).then(|| absolute_interval.map(|x| x / old)),
            absolute_interval: Some(absolute_interval),
            p: Some(e.p()),
            basis: Basis::Counts,
            estimate: Some(e),
            ratio: false,
            ..bare
        }
    }

    /// Makes a change from a difference of shares without the two values, as for several levels pooled.
    pub(super) fn of_points(e: Estimate, basis: Basis) -> Self {
        let bare = Self { ratio: false, ..Self::bare(None, None) };
        if !e.sound() {
            return bare;
        }
        // A share cannot change by more than 1.
        let (absolute, interval) = (Some(e.difference), Some(e.interval().map(|end| end.clamp(-1.0, 1.0))));
        Self { absolute, absolute_interval: interval, p: Some(e.p()), basis, estimate: Some(e), ..bare }
    }

    /// Negates the change, for a figure that falls as this one rises.
    pub(super) fn turned(self) -> Self {
        let ends = |e: Option<[f64; 2]>| e.map(|[low, high]| [-high, -low]);
        Self {
            share: self.share.map(|x| -x),
            absolute: self.absolute.map(|x| -x),
            interval: ends(self.interval),
            absolute_interval: ends(self.absolute_interval),
            estimate: self.estimate.map(|e| Estimate { difference: -e.difference, ..e }),
            ..self
        }
    }

    /// Makes a significant change for a percentile that is infinite on one side only because of failed requests.
    pub(super) fn of_failing(infinite: Infinite, basis: Basis) -> Self {
        Self { infinite: Some(infinite), beyond: Beyond::Yes, basis, ..Self::bare(None, None) }
    }

    /// Takes `correction` off the difference, for levels that are not quite equal: what the level alone adds to it. The correction counts as a
    /// standard error as well. `None` without an estimate.
    pub(super) fn carried(self, old: Option<f64>, correction: f64, levels: [f64; 2]) -> Option<Self> {
        let e = self.estimate?;
        let difference = e.difference - correction;
        let e = Estimate { difference, error: e.error.hypot(correction), ..e };
        let moved = match (self.ratio, old) {
            (true, Some(old)) => Self::of_ratio(Some(old), Some(old * difference.exp()), e, self.basis),
            (false, Some(old)) => Self::of_difference(old, old + difference, e),
            (_, None) => return None,
        };
        Some(Self { carried: Some(levels), ..moved })
    }

    /// Removes p-value and significance, for levels that are not quite equal; the size of the change stays.
    pub(super) fn unclaimed(self, levels: [f64; 2]) -> Self {
        Self { apart: Some(levels), ..self.of_nothing() }
    }

    /// Removes p-value and significance, for counts that are zero on both sides: there is no claim, but a gate can
    /// still hold.
    pub(super) fn of_nothing(self) -> Self {
        Self { p: None, detectable: None, beyond: Beyond::Unknown, estimate: None, ..self }
    }

    /// Makes a change from two brackets. The change lies within the returned ends, as certain as the verdicts are.
    /// Brackets that share a rate are no difference; if one of them is open (starts at zero or has no end), an
    /// overlap decides nothing.
    pub(super) fn of_brackets(old: (f64, [f64; 2]), new: (f64, [f64; 2])) -> Self {
        let bare = Self::bare(Some(old.0), Some(new.0));
        let ends = [new.1[0] / old.1[1] - 1.0, new.1[1] / old.1[0] - 1.0];
        let apart = ends[0] >= 0.0 || ends[1] <= 0.0;
        let known = ends.iter().all(|e| !e.is_nan());
        let closed = [old.1, new.1].iter().all(|[low, high]| *low > 0.0 && high.is_finite());
        Self {
            interval: known.then_some(ends),
            absolute_interval: known.then_some([new.1[0] - old.1[1], new.1[1] - old.1[0]]),
            beyond: match (apart, closed) {
                (true, _) => Beyond::Yes,
                (false, true) => Beyond::No,
                (false, false) => Beyond::Unknown,
            },
            basis: Basis::Brackets,
            ..bare
        }
    }

    /// Sets significance and detectable change from the result of Holm's procedure over `tests` claims.
    pub(super) fn judged(&mut self, holds: bool, tests: usize) {
        let Some(e) = self.estimate else { return };
        self.beyond = if holds { Beyond::Yes } else { Beyond::No };
        let detectable = e.detectable(tests);
        let old = self.absolute.zip(self.share).filter(|(_, s)| *s != 0.0).map(|(a, s)| a / s);
        self.detectable = if self.ratio { Some(detectable.exp_m1()) } else { old.map(|o| detectable / o) };
    }
}

/// Returns which claims hold at a family-wise error rate of [`ALPHA`], by Holm's procedure (Scandinavian Journal of
/// Statistics 6, 1979): the smallest p against α/m, the next against α/(m − 1), and so on to the first that is not
/// below.
pub(super) fn holm(ps: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|a, b| ps[*a].total_cmp(&ps[*b]));
    let mut holds = vec![false; ps.len()];
    for (done, i) in order.iter().enumerate() {
        if ps[*i] > ALPHA / (ps.len() - done) as f64 {
            break;
        }
        holds[*i] = true;
    }
    holds
}

/// Decides the significance of claims that are made together, and their detectable changes.
pub(super) fn judge<'a>(changes: impl Iterator<Item = &'a mut Change>) {
    let mut claims: Vec<&mut Change> = changes.filter(|c| c.p.is_some()).collect();
    let ps: Vec<f64> = claims.iter().filter_map(|c| c.p).collect();
    for (claim, holds) in claims.iter_mut().zip(holm(&ps)) {
        claim.judged(holds, ps.len());
    }
}

/// Returns the standard deviations of the logarithm of a rate below and above its median, from its 90 % interval,
/// treating each half as that of a normal distribution. `None` if the interval starts at zero.
pub(super) fn log_deviations(median: f64, [low, high]: [f64; 2]) -> Option<[f64; 2]> {
    const Z90: f64 = 1.644_853_626_951_472_6;
    let sound = low > 0.0 && low <= median && median <= high && high.is_finite();
    sound.then(|| [(median / low).ln() / Z90, (high / median).ln() / Z90])
}

/// Returns the change between two independent rates with deviations below and above each. The interval of the
/// difference of their logarithms adds the squares of the halves that face each end (MOVER: Zou and Donner,
/// Statistics in Medicine 27, 2008); the p-value uses the halves that face zero difference.
pub(super) fn of_deviations(old: (f64, [f64; 2]), new: (f64, [f64; 2])) -> Change {
    let difference = (new.0 / old.0).ln();
    let (down, up) = (new.1[0].hypot(old.1[1]), new.1[1].hypot(old.1[0]));
    let facing = if difference < 0.0 { up } else { down };
    let estimate = Estimate::normal(difference, facing);
    let change = Change::of_ratio(Some(old.0), Some(new.0), estimate, Basis::Intervals);
    let half = estimate.quantile(1.0 - ALPHA / 2.0);
    let interval = [difference - half * down, difference + half * up].map(f64::exp_m1);
    Change { interval: Some(interval), absolute_interval: Some(interval.map(|s| s * old.0)), ..change }
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
