//! A ramp: rates that grow by a factor until the SLO is missed, or until the knee is found.

use super::answer::{Knee, KneeBasis};
use super::ask::Ends;
use super::config::{Ramp, Until};
use super::knee::{falls_behind, of_backlog, of_throughput};
use super::stop::{HighestKey, Stop, failing, overloaded};
use crate::stats::step::{Abort, Step, Verdict};
use crate::stats::summary::tier_verdict;
use goodput_core::level::{Control, Level};
use goodput_core::slo::Slo;
use goodput_core::units::three_digits;

/// Largest number of steps between the highest rate that the server kept up with and the lowest that it did not: four
/// halve the gap to a sixteenth.
pub const REFINED: usize = 4;
/// Two such rates within this ratio locate the knee: a ramp promises a tenth.
const CLOSE: f64 = 1.11;

/// Settings of a ramp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course<'a> {
    pub(super) ramp: &'a Ramp,
    pub(super) max_rate: Option<f64>,
    pub(super) control: Control,
    pub(super) tiers: &'a [Slo],
}

impl Course<'_> {
    /// Returns the next rate and when its step may end early, or why the ramp is over. `done` are its finished steps.
    pub(super) fn next(&self, done: &[&Step]) -> Result<(f64, Ends), Stop> {
        match self.ramp.until {
            Until::SloMissed => self.until_missed(done).map(|rate| (rate, Ends::WhenGross)),
            Until::Knee => self.until_knee(done).map(|rate| (rate, Ends::WhenBehind)),
        }
    }

    fn until_missed(&self, done: &[&Step]) -> Result<f64, Stop> {
        let Some(last) = done.last() else { return Ok(self.rate(0)) };
        let fails = |slo: &Slo| tier_verdict(&last.limits, slo.tier()).0 == Verdict::Fails;
        let missed = !self.tiers.is_empty() && self.tiers.iter().all(fails);
        let by_rule = overloaded(done)
            .or(missed.then_some(Stop::SloMissed { level: last.level }))
            .or_else(|| self.at_max(last));
        by_rule.map_or_else(|| Ok(self.rate(done.len())), Err)
    }

    /// Returns the next rate: upwards until a step is beyond the server, then between it and the highest one that was
    /// not, until the two are close.
    ///
    /// Misses of the SLO alone do not end the ramp: the knee may lie far above them.
    fn until_knee(&self, done: &[&Step]) -> Result<f64, Stop> {
        let Some(last) = done.last() else { return Ok(self.rate(0)) };
        if last.verdict == Verdict::Invalid {
            return Err(Stop::invalid(last));
        }
        if let Some(stop) = failing(done) {
            return Err(stop);
        }
        let Some((first, bracket)) = bracket(done) else {
            return self.at_max(last).map_or_else(|| Ok(self.rate(done.len())), Err);
        };
        let Some((low, high)) = bracket else { return Err(beyond(done[first])) };
        let placed = high.level.value <= CLOSE * low.level.value || done.len() - first > REFINED;
        if placed {
            return Err(
                found(done).map_or_else(|| beyond(high), |knee| Stop::Knee { knee, control: self.control })
            );
        }
        Ok(three_digits((low.level.value * high.level.value).sqrt(), f64::round))
    }

    fn at_max(&self, last: &Step) -> Option<Stop> {
        let max = self.max_rate.filter(|max| last.level.value >= max * (1.0 - 1e-9))?;
        Some(Stop::Highest { key: HighestKey::MaxRate, level: Level::new(self.control, max) })
    }

    /// Returns the rate of step number `done`, counted from 0; never above the plan's highest.
    fn rate(&self, done: usize) -> f64 {
        let rate = self.ramp.start.get() * self.ramp.factor.get().powf(done as f64);
        self.max_rate.map_or(rate, |max| rate.min(max))
    }
}

/// Returns the index of the first step beyond the server, with the lowest level beyond it and the highest level below
/// that which it kept up with. `None` if no step is beyond the server; the pair is `None` if no step is below.
fn bracket<'a>(done: &[&'a Step]) -> Option<(usize, Option<(&'a Step, &'a Step)>)> {
    let is_beyond = |n: usize| is_beyond(&done[..=n]);
    let all: Vec<bool> = (0..done.len()).map(is_beyond).collect();
    let first = all.iter().position(|b| *b)?;
    let with = |wanted: bool| done.iter().zip(&all).filter(move |(_, b)| **b == wanted).map(|(s, _)| *s);
    let high = with(true).min_by(|a, b| a.level.value.total_cmp(&b.level.value))?;
    let below = with(false).filter(|s| s.level.value < high.level.value);
    let low = below.max_by(|a, b| a.level.value.total_cmp(&b.level.value));
    Some((first, low.map(|low| (low, high))))
}

/// Returns true if the last step was beyond the server: its backlog grew, it completed fewer requests than a server
/// that keeps up, or it was aborted for gross misses.
fn is_beyond(steps: &[&Step]) -> bool {
    let Some(last) = steps.last() else { return false };
    last.stable == Some(false) || last.abort == Some(Abort::Gross) || falls_behind(steps)
}

/// Returns the reason why a ramp ends at a step that shows no knee.
fn beyond(step: &Step) -> Stop {
    let level = step.level;
    match step.abort {
        _ if step.stable == Some(false) => Stop::Unstable { level },
        Some(Abort::Gross) => Stop::Gross { level },
        _ => Stop::Plateau { achieved: step.achieved_rate, offered: step.offered_rate },
    }
}

/// Largest factor by which the likely break of throughput may lie outside of the bracket and still be believed.
const NEAR: f64 = 1.2;

/// Returns the knee of a ramp that went beyond it. If throughput shows a significant break, it is there. Else the
/// backlog begins to grow between two rates: it is at the likely break of throughput if that is near them, or in their
/// middle.
pub(super) fn found(done: &[&Step]) -> Option<Knee> {
    of_throughput(done).or_else(|| {
        let (_, bracket) = bracket(done)?;
        let (low, high) = bracket.filter(|(low, high)| high.level.value <= CLOSE * low.level.value)?;
        let [from, to] = [low, high].map(|s| s.level.value);
        let likely = of_backlog(done).filter(|k| k.rate >= from / NEAR && k.rate <= to * NEAR);
        let knee = likely.unwrap_or_else(|| Knee {
            rate: (from * to).sqrt(),
            throughput: 0.5 * (low.achieved_rate + high.achieved_rate),
            interval90: None,
            basis: KneeBasis::Backlog,
        });
        let [from, to] = knee.interval90.map_or([from, to], |[l, h]| [l.min(from), h.max(to)]);
        Some(Knee { interval90: Some([from, to]), ..knee })
    })
}
