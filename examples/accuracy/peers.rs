//! Other strategies, as we understand them: a grid of rates, a ramp with bisection, and a closed loop with doubling and
//! bisection. They take each step at face value, and their answer is one rate without an interval.
//!
//! A step settles for 1/6 of its length (at most 10 s) and is measured for the rest. No load follows it, and its open
//! requests may take 30 s more, which count against the budget. It passes if the naive percentile of every limit is
//! met; for a p99, that is the ⌈0.99·n⌉-th smallest of the n requests that can be judged, where failed ones count as
//! the largest.

use crate::run::Answer;
use anyhow::Result;
use goodput::level::Level;
use goodput::search::answer::Status;
use goodput::search::{Ask, Ends};
use goodput::stats::step::{Step, StepKind};
use goodput::sweep::bare::Bare;
use std::time::Duration;

/// Longest drain after a step, in seconds.
const DRAIN_S: f64 = 30.0;
/// Number of rates in the grid.
const RATES: u32 = 10;
/// Requests in flight that saturate a server, to find the top of the grid; and the share of the budget for that.
const SATURATED: u32 = 256;
const SATURATION: f64 = 0.05;
/// Lengths of the steps of the bisection over rates, and of those of the closed loop and the baseline, in seconds.
const BISECT_S: f64 = 60.0;
const JOINT_S: f64 = 30.0;
/// Factor of the ramp, and the ratio of the bracket at which the bisection stops.
const RAMP: f64 = 1.5;
const BRACKET: f64 = 1.02;
/// Maximum number of requests in flight that the closed loop tries: the client's limit.
const MOST: u32 = 4096;

/// A sweep with its budget and its cap on rates.
pub(crate) struct Peer<'a, 'b> {
    pub(crate) sweep: &'a mut Bare<'b>,
    pub(crate) budget_s: f64,
    pub(crate) max_rate: Option<f64>,
}

impl Peer<'_, '_> {
    fn left_s(&self) -> f64 {
        self.budget_s - self.sweep.steps().last().map_or(0.0, |s| s.ended_s)
    }

    fn measure(&mut self, level: Level, length_s: f64) -> Result<&Step> {
        let settle_s = (length_s / 6.0).min(10.0);
        self.sweep.measure(Ask {
            level,
            kind: StepKind::List,
            settle: Duration::from_secs_f64(settle_s),
            measure: Duration::from_secs_f64(length_s - settle_s),
            extend: false,
            tail: Duration::ZERO,
            drain: Duration::from_secs_f64(DRAIN_S),
            ends: Ends::AtItsTime,
            confidence: 0.95,
        })
    }

    fn passes_at(&mut self, rate: f64, length_s: f64) -> Result<bool> {
        Ok(passes(self.measure(Level::rate(rate), length_s)?))
    }

    /// Returns true if a rate has reached the cap.
    fn is_highest(&self, rate: f64) -> bool {
        self.max_rate.is_some_and(|max| rate >= max * (1.0 - 1e-9))
    }

    /// Measures ten equally spaced rates up to the capacity, in ascending order and for equal times. Answers with the
    /// highest rate that passes with all below it.
    pub(crate) fn grid(mut self) -> Result<Answer> {
        let top = match self.max_rate {
            Some(max) => max,
            None => {
                let length_s = SATURATION * self.budget_s;
                self.measure(Level::concurrency(SATURATED), length_s)?.achieved_rate
            }
        };
        let (mut best, mut failed) = (None, top <= 0.0);
        for i in 1..=RATES {
            let length_s = self.left_s() / f64::from(RATES + 1 - i);
            // Long drains leave less time for the other steps.
            if length_s < 1.0 || top <= 0.0 {
                break;
            }
            let rate = top * f64::from(i) / f64::from(RATES);
            let passed = self.passes_at(rate, length_s)?;
            failed |= !passed;
            best = if failed { best } else { Some(rate) };
        }
        Ok(self.answer(best, failed))
    }

    /// Starts at the rate of one request at a time and multiplies it by 1.5 until a step fails; then halves the
    /// logarithm of the bracket down to 2 %. If the first step fails, halves the rate until one passes.
    pub(crate) fn bisect(mut self) -> Result<Answer> {
        let first = self.measure(Level::concurrency(1), JOINT_S)?.achieved_rate;
        // No request finished: the next guess is one request in that time.
        let mut rate = if first > 0.0 { first } else { 1.0 / JOINT_S };
        let (mut best, mut worst): (Option<f64>, Option<f64>) = (None, None);
        while self.left_s() >= BISECT_S {
            rate = self.max_rate.map_or(rate, |max| rate.min(max));
            if self.passes_at(rate, BISECT_S)? {
                best = Some(rate)
            } else {
                worst = Some(rate)
            }
            rate = match (best, worst) {
                (Some(low), Some(high)) if high / low <= BRACKET => break,
                (Some(low), Some(high)) => (low * high).sqrt(),
                (Some(low), None) if self.is_highest(low) => break,
                (Some(low), None) => low * RAMP,
                // A step with less than one request is not informative, so no lower rate can be tried.
                (None, Some(high)) if high / 2.0 * BISECT_S < 1.0 => break,
                (None, Some(high)) => high / 2.0,
                (None, None) => rate,
            };
        }
        Ok(self.answer(best, worst.is_some()))
    }

    /// Doubles the requests in flight while the share that meets all limits together is at least `target`, then
    /// bisects. Answers with the achieved rate at the highest level that passes.
    pub(crate) fn joint(mut self, target: f64) -> Result<Answer> {
        let (mut low, mut high, mut best) = (0, None, None);
        let mut next = 1;
        while self.left_s() >= JOINT_S {
            let max_rate = self.max_rate.unwrap_or(f64::INFINITY);
            let step = self.measure(Level::concurrency(next), JOINT_S)?;
            if step.joint_attainment.is_some_and(|share| share >= target) {
                (low, best) = (next, Some(step.achieved_rate.min(max_rate)));
            } else {
                high = Some(next);
            }
            next = match high {
                None if low >= MOST || best.is_some_and(|b| self.is_highest(b)) => break,
                None => low * 2,
                Some(high) if high <= low + 1 => break,
                Some(high) => low.midpoint(high),
            };
        }
        Ok(self.answer(best, high.is_some()))
    }

    /// Returns an answer of one rate, which is its safe rate as well. `failed` is true if any
    /// step failed.
    fn answer(&self, rate: Option<f64>, failed: bool) -> Answer {
        let rate = rate.filter(|r| *r > 0.0);
        let status = match rate {
            None => Status::None,
            Some(rate) if !failed || self.is_highest(rate) => Status::NotReached,
            Some(_) => Status::Found,
        };
        let reason = format!("{} steps", self.sweep.steps().len());
        Answer { status, rate, interval: None, safe: rate, names_change: false, reason }
    }
}

/// Returns true if the naive percentile of every latency limit is met. A limit without judged requests is not met.
fn passes(step: &Step) -> bool {
    let limits = step.limits.iter().filter_map(|row| Some((row, percentile(&row.limit)?)));
    let mut limits = limits.peekable();
    limits.peek().is_some()
        && limits.all(|(row, share)| {
            let n = row.n.saturating_sub(row.censored);
            // The small term keeps an integral product from being rounded up.
            n > 0 && row.misses <= n - (share * n as f64 - 1e-9).ceil() as u64
        })
}

/// Returns the quantile of a latency limit by its name: 0.99 for `ttft.p99`.
pub(crate) fn percentile(limit: &str) -> Option<f64> {
    let (_, percent) = limit.split_once(".p")?;
    percent.parse::<f64>().ok().map(|p| p / 100.0)
}
