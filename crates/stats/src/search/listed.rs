//! The answer for levels that were chosen beforehand: the posterior fitted to the measured steps, together with the
//! bracket of their verdicts.
//!
//! The fit applies between the lowest and the highest measured level. A boundary above them gives *not reached*, or is
//! open; one below them is open.

use super::answer::{AnswerLevel, Basis, Conclusion, Goodput, Located, Undecided};
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

/// Combines the fit with the answer of the verdicts alone. `steps` are those that the posterior rests on.
pub(super) fn answer(posterior: &Posterior, steps: &[&Step], tier: &str, verdicts: Goodput) -> Goodput {
    let valid = |s: &&&Step| tier_verdict(&s.limits, tier).0 != Verdict::Invalid;
    let loaded = steps.iter().filter(|s| s.kind != StepKind::Baseline && s.due_n >= FEW).filter(valid);
    let levels: Vec<Level> = loaded.map(|s| s.level).collect();
    let by_value = |a: &&Level, b: &&Level| a.value.total_cmp(&b.value);
    let (Some(lowest), Some(highest)) = (levels.iter().min_by(by_value), levels.iter().max_by(by_value))
    else {
        return verdicts;
    };
    if matches!(verdicts.conclusion, Conclusion::Invalid { .. } | Conclusion::None) {
        return verdicts;
    }
    let read = Reading::of(posterior, *lowest, *highest);
    if verdicts.bracket.failed.is_none() && read.above >= SHOWN {
        return read.not_reached(verdicts);
    }
    if matches!(verdicts.conclusion, Conclusion::NotReached { .. }) {
        // The requests of the highest level show that it meets, even if the fit to all steps leaves a doubt.
        return verdicts;
    }
    if read.lies_within() { read.found(posterior, verdicts) } else { read.open(verdicts) }
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

    fn not_reached(&self, verdicts: Goodput) -> Goodput {
        let says = FitEvidence::HighestMeets { level: self.highest, chance: self.above };
        Goodput {
            conclusion: Conclusion::NotReached {
                highest: AnswerLevel::new(self.highest.value),
                safe: self.safe,
            },
            basis: Basis::Fit,
            reason: verdicts.reason.preceded_by(Evidence::Fit(says)),
            ..verdicts
        }
    }

    /// Returns the answer for a boundary among the levels. If a level shown to meet lies above the median, or one shown
    /// to fail does not lie above it, no curve of the family fits, and only the verdicts are used.
    fn found(&self, posterior: &Posterior, verdicts: Goodput) -> Goodput {
        let contradicted = verdicts.bracket.met.is_some_and(|m| m > self.median)
            || verdicts.bracket.failed.is_some_and(|f| f <= self.median);
        if contradicted {
            let says = FitEvidence::Contradicted { about: self.level(self.median) };
            return Goodput { reason: verdicts.reason.preceded_by(Evidence::Fit(says)), ..verdicts };
        }
        let (median, high) = (AnswerLevel::new(self.median), self.level(self.high));
        let (conclusion, says) = match self.safe {
            Some(safe) => {
                let interval = [self.low, self.high];
                let (low, above_highest) = (self.level(self.low), self.high > self.highest.value);
                let says = FitEvidence::Between { low, high, above_highest };
                (Conclusion::Found(Located::Estimate { median, interval, safe, halve_s: None }), says)
            }
            None => {
                let known = Undecided::Below { median: Some(median), high: self.high, halve_s: None };
                (Conclusion::Undecided(known), FitEvidence::Below { high })
            }
        };
        Goodput {
            conclusion,
            binding: Some(posterior.binding().to_owned()),
            basis: Basis::Fit,
            reason: verdicts.reason.preceded_by(Evidence::Fit(says)),
            ..verdicts
        }
    }

    /// Returns the answer for a boundary that lies, or may lie, outside the levels. The findings of the verdicts of
    /// single levels remain.
    fn open(&self, verdicts: Goodput) -> Goodput {
        let below = self.median < self.lowest.value;
        let says = match below {
            true => FitEvidence::BelowLowest { level: self.lowest },
            false => FitEvidence::HighestMayMeet { level: self.highest, chance: self.above },
        };
        let reason = verdicts.reason.clone().preceded_by(Evidence::Fit(says));
        match self.safe.filter(|s| verdicts.bracket.failed.is_none_or(|f| *s < f)) {
            Some(safe) if verdicts.conclusion == Conclusion::OPEN && !below => {
                let conclusion = Conclusion::Undecided(Undecided::Safe(safe));
                Goodput { conclusion, basis: Basis::Fit, reason, ..verdicts }
            }
            _ => Goodput { reason, ..verdicts },
        }
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
