//! The answer for levels that were chosen beforehand: the posterior fitted to the measured steps, together with the
//! bracket of their verdicts.
//!
//! The fit applies between the lowest and the highest measured level. A boundary above them gives *not reached*, or is
//! open; one below them is open.

use super::answer::{Basis, Goodput, Status};
use super::posterior::Posterior;
use super::reason::{Evidence, FitEvidence};
use crate::stats::step::{Step, StepKind, Verdict};
use crate::stats::summary::tier_verdict;
use goodput_core::level::{Control, Level};
use goodput_core::slo::Metric;
use goodput_core::units::three_digits;

/// Probability required to conclude that the highest level meets.
const SHOWN: f64 = 0.9;
/// Least number of requests for a level to count as tried.
const FEW: u64 = 100;
/// A level below this share of the lowest measured level is not called safe.
const UNTRIED: f64 = 0.5;
/// Least length of a load, in end-to-end times, to reach the steady state: a shorter step that holds is no evidence.
const STEADY: f64 = 5.0;

/// Returns the steps that the fit may rest on: those that ran long enough for their requests, and those that failed,
/// however short.
///
/// Without a baseline, the unloaded time of a request is taken from the level with the shortest one.
pub(super) fn evidence<'a>(steps: &[&'a Step], tier: &str) -> Vec<&'a Step> {
    let median_s = |s: &&&Step| s.quantiles(Metric::E2e).p50.map(|ms| ms / 1e3);
    let of = |baseline: bool| {
        let own = steps.iter().filter(move |s| (s.kind == StepKind::Baseline) == baseline);
        own.filter_map(|s| median_s(&s)).min_by(f64::total_cmp)
    };
    let e2e_s = of(true).or_else(|| of(false)).unwrap_or(0.0);
    let tells = |s: &&Step| {
        s.kind == StepKind::Baseline
            || s.too_much()
            || tier_verdict(&s.limits, tier).0 == Verdict::Fails
            || s.settle_s + s.measure_s >= STEADY * e2e_s
    };
    steps.iter().copied().filter(tells).collect()
}

/// Combines the fit with the bracket. `steps` are those that the posterior rests on.
pub(super) fn answer(posterior: &Posterior, steps: &[&Step], tier: &str, bracket: Goodput) -> Goodput {
    let valid = |s: &&&Step| tier_verdict(&s.limits, tier).0 != Verdict::Invalid;
    let loaded = steps.iter().filter(|s| s.kind != StepKind::Baseline && s.due_n >= FEW).filter(valid);
    let levels: Vec<Level> = loaded.map(|s| s.level).collect();
    let by_value = |a: &&Level, b: &&Level| a.value.total_cmp(&b.value);
    let (Some(lowest), Some(highest)) = (levels.iter().min_by(by_value), levels.iter().max_by(by_value))
    else {
        return bracket;
    };
    if matches!(bracket.status, Status::Invalid | Status::None) {
        return bracket;
    }
    let read = Reading::of(posterior, *lowest, *highest);
    if bracket.failed.is_none() && read.above >= SHOWN {
        return read.not_reached(bracket);
    }
    if bracket.status == Status::NotReached {
        // The requests of the highest level show that it meets, even if the fit to all steps leaves a doubt.
        return bracket;
    }
    if read.lies_within() { read.found(posterior, bracket) } else { read.open(bracket) }
}

/// The reading of the posterior for the measured levels.
#[derive(Debug, Clone, Copy)]
struct Reading {
    lowest: Level,
    highest: Level,
    low: f64,
    median: f64,
    high: f64,
    /// Probability that the boundary lies above the highest level.
    above: f64,
    safe: Option<f64>,
}

impl Reading {
    fn of(posterior: &Posterior, lowest: Level, highest: Level) -> Self {
        let whole = |level: f64| if lowest.control == Control::Concurrency { level.floor() } else { level };
        let [low, median, high] = [0.05, 0.5, 0.95].map(|u| whole(posterior.quantile(u)));
        let above = 1.0 - posterior.below(highest.value);
        let safe = Some(low.min(highest.value)).filter(|s| *s > 0.0 && *s >= UNTRIED * lowest.value);
        Self { lowest, highest, low, median, high, above, safe }
    }

    fn lies_within(&self) -> bool {
        self.median >= self.lowest.value && self.median <= self.highest.value
    }

    /// Returns a level of this value, rounded to three digits.
    fn level(&self, value: f64) -> Level {
        Level { value: three_digits(value, f64::round), ..self.lowest }
    }

    fn not_reached(&self, bracket: Goodput) -> Goodput {
        let says = FitEvidence::HighestMeets { level: self.highest, chance: self.above };
        Goodput {
            status: Status::NotReached,
            rate: Some(self.highest.value),
            safe_rate: self.safe,
            basis: Basis::Fit,
            reason: bracket.reason.preceded_by(Evidence::Fit(says)),
            ..bracket
        }
    }

    /// Returns the answer for a boundary among the levels. If a level shown to meet lies above the median, or one shown
    /// to fail does not lie above it, no curve of the family fits, and only the verdicts are used.
    fn found(&self, posterior: &Posterior, bracket: Goodput) -> Goodput {
        let contradicted =
            bracket.met.is_some_and(|m| m > self.median) || bracket.failed.is_some_and(|f| f <= self.median);
        if contradicted {
            let says = FitEvidence::Contradicted { about: self.level(self.median) };
            return Goodput { reason: bracket.reason.preceded_by(Evidence::Fit(says)), ..bracket };
        }
        let Some(safe) = self.safe else {
            let says = FitEvidence::Below { high: self.level(self.high) };
            return Goodput {
                status: Status::Undecided,
                rate: Some(self.median),
                interval90: Some([0.0, self.high]),
                safe_rate: None,
                binding: Some(posterior.binding().to_owned()),
                basis: Basis::Fit,
                reason: bracket.reason.preceded_by(Evidence::Fit(says)),
                ..bracket
            };
        };
        let says = FitEvidence::Between {
            low: self.level(self.low),
            high: self.level(self.high),
            above_highest: self.high > self.highest.value,
        };
        Goodput {
            status: Status::Found,
            rate: Some(self.median),
            interval90: Some([self.low, self.high]),
            safe_rate: Some(safe),
            binding: Some(posterior.binding().to_owned()),
            basis: Basis::Fit,
            reason: bracket.reason.preceded_by(Evidence::Fit(says)),
            ..bracket
        }
    }

    /// Returns the answer for a boundary that lies, or may lie, outside the levels. The findings of the verdicts of
    /// single levels remain.
    fn open(&self, bracket: Goodput) -> Goodput {
        let below = self.median < self.lowest.value;
        let says = match below {
            true => FitEvidence::BelowLowest { level: self.lowest },
            false => FitEvidence::HighestMayMeet { level: self.highest, chance: self.above },
        };
        let reason = bracket.reason.clone().preceded_by(Evidence::Fit(says));
        if bracket.status == Status::Found || below {
            return Goodput { reason, ..bracket };
        }
        let safe_rate = self.safe.filter(|s| bracket.failed.is_none_or(|f| *s < f));
        let basis = if safe_rate.is_some() { Basis::Fit } else { bracket.basis };
        Goodput { safe_rate, basis, reason, ..bracket }
    }
}

/// Returns the requests per second at a level of a closed loop or of conversations: interpolated between the
/// neighbouring steps, proportional to the level below the lowest step, and that of the highest step above it.
pub(super) fn achieved(steps: &[&Step], level: f64) -> Option<f64> {
    let mut made: Vec<(f64, f64)> = steps
        .iter()
        .filter(|s| s.kind != StepKind::Baseline && s.achieved_rate > 0.0)
        .map(|s| (s.level.value, s.achieved_rate))
        .collect();
    made.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (made.first()?, made.last()?);
    if level <= first.0 {
        return Some(first.1 * level / first.0);
    }
    let between = made.windows(2).find(|w| level <= w[1].0);
    let at = between.map_or(last.1, |w| {
        let width = w[1].0 - w[0].0;
        if width > 0.0 { w[0].1 + (w[1].1 - w[0].1) * (level - w[0].0) / width } else { w[1].1 }
    });
    Some(at)
}

#[cfg(test)]
mod tests;
