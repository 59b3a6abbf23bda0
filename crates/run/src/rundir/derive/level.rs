//! The steps and the capacity at a level of an answer.

use super::usable_safe_rate;
use crate::rundir::Run;
use goodput_core::level::Control;
use goodput_stats::capacity::Capacity;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{Step, Verdict};
use goodput_stats::stats::summary::step_verdict;

impl Run {
    /// Returns the steps at a level of an answer as measured: one, unless the level was repeated.
    pub fn steps_at(&self, answer: &Answer, level: f64) -> Vec<&Step> {
        let near = |s: &Step| (s.level.value - level).abs() <= 1e-9 * level.abs();
        let own = |s: &&Step| s.series == answer.series && s.level.control == answer.control;
        // A baseline offers no load: one request at a time is no level of the curve.
        self.steps.iter().filter(|s| own(s) && near(s) && !s.kind.is_outside_search()).collect()
    }

    /// Returns the step at a level of an answer that supports the verdict `shows`: among those with that verdict on
    /// the answer's tier the one with the most requests, else the one with the most requests that is not invalid.
    pub fn step_at(&self, answer: &Answer, level: f64, shows: Verdict) -> Option<&Step> {
        let key = |s: &&Step| {
            let verdict = self.judged(answer, s).0;
            (verdict == shows, verdict != Verdict::Invalid, s.due_n)
        };
        self.steps_at(answer, level).into_iter().max_by_key(key)
    }

    /// Returns the verdict of a step on the tier of an answer, and the binding limit. A step's own verdict is that of
    /// the first tier.
    pub fn judged(&self, answer: &Answer, step: &Step) -> (Verdict, Option<String>) {
        if self.tiers.first().is_none_or(|t| t.tier() == answer.tier) {
            (step.verdict, step.binding.clone())
        } else {
            step_verdict(step, &answer.tier)
        }
    }

    /// Returns the capacity at an answer: at its rate if there is an estimate with a safe rate, else at the highest
    /// level shown to meet the SLO. `None` if there is neither, or if nothing was completed there.
    pub fn capacity(&self, answer: &Answer) -> Option<Capacity> {
        let g = &answer.goodput;
        if let Some(safe) = usable_safe_rate(g) {
            return self.capacity_at(answer, g.rate().unwrap_or(safe), g.throughput());
        }
        let step = self.step_at(answer, g.bracket.met?, Verdict::Meets)?;
        Capacity::of(step, self.meta.gpus, self.price_per_hour)
    }

    /// Returns the capacity at the safe rate of an answer, if it has one.
    pub fn capacity_at_safe_rate(&self, answer: &Answer) -> Option<Capacity> {
        self.capacity_at(answer, usable_safe_rate(&answer.goodput)?, None)
    }

    /// Returns the capacity at any level of an answer, from the step nearest to it.
    pub fn capacity_near(&self, answer: &Answer, level: f64) -> Option<Capacity> {
        self.capacity_at(answer, level, self.throughput(answer, level))
    }

    /// Returns the capacity at a level between steps, from the nearest of them; `throughput` is that of a closed
    /// loop, if known.
    fn capacity_at(&self, answer: &Answer, level: f64, throughput: Option<f64>) -> Option<Capacity> {
        let step = self.nearest(answer, level)?;
        let rate = match answer.control {
            Control::Rate => level,
            _ => throughput.unwrap_or_else(|| throughput_at(step, level)),
        };
        Capacity::at(step, rate, self.meta.gpus, self.price_per_hour)
    }

    /// Returns the step under load nearest to a level of an answer that completed requests and was not overloaded;
    /// the longest in a tie.
    pub fn nearest(&self, answer: &Answer, level: f64) -> Option<&Step> {
        let own = |s: &&Step| s.series == answer.series && s.level.control == answer.control;
        let told = |s: &&Step| {
            !s.kind.is_outside_search() && !s.overloaded() && s.verdict != Verdict::Invalid && s.completed > 0
        };
        let far = |s: &Step| (s.level.value / level).ln().abs();
        let nearer =
            |a: &&Step, b: &&Step| far(a).total_cmp(&far(b)).then(b.measure_s.total_cmp(&a.measure_s));
        self.steps.iter().filter(own).filter(told).min_by(nearer)
    }

    /// Returns the completed requests per second at a level of an answer: the level itself if it is a rate.
    pub fn throughput(&self, answer: &Answer, level: f64) -> Option<f64> {
        let same = |rate: f64| (rate - level).abs() <= 1e-9 * level.abs();
        match answer.control {
            Control::Rate => Some(level),
            _ if answer.goodput.rate().is_some_and(same) && answer.goodput.throughput().is_some() => {
                answer.goodput.throughput()
            }
            _ => self.nearest(answer, level).map(|s| throughput_at(s, level)),
        }
    }
}

/// Estimates the throughput of a closed loop with `level` requests in flight from the nearest step: below that step
/// proportional to them, above it constant.
fn throughput_at(step: &Step, level: f64) -> f64 {
    step.achieved_rate * (level / step.level.value).min(1.0)
}
