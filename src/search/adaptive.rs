//! The adaptive search: baseline, ramp from below, refinement. Which of the three is next follows from the steps alone.
//!
//! It is a first version: `refine` closes in on the boundary from both sides by the verdicts of steps, and an answer is the
//! bracket that they leave. A refinement with an honest interval takes the place of that one file.

use super::ask::{Ask, Ends};
use super::config::Adaptive;
use super::refine;
use super::stop::{MissedUnloaded, Stop, dead, plateau};
use crate::level::Level;
use crate::load::config::StepTimes;
use crate::slo::{Metric, Slo};
use crate::stats::step::{Abort, LimitRow, Step, StepKind, Verdict};
use crate::stats::summary::tier_verdict;
use crate::stats::verdict::{UNLOADED_INFLATION, foreseen};
use std::time::Duration;

/// Each rate of the ramp over the one before.
const FACTOR: f64 = 2.0;
/// The first rate of the ramp, in requests per mean time of an unloaded one: under the capacity of a server that takes one
/// request at a time.
const FIRST: f64 = 0.35;
/// Requests that a step of the ramp should have, where that takes longer than usual.
const RAMP_REQUESTS: f64 = 6.0;
/// Ramp steps that may fail before one does not; each is half of the one before.
const HALVINGS: usize = 10;
/// Baselines that are measured while the unloaded server misses more than is allowed, and it is not clear by how much.
const BASELINES: usize = 3;
/// A step of the ramp looks for overload, which shows before its last request is over: it waits no longer than this.
const RAMP_TAIL_S: f64 = 5.0;
/// How long the last request of a baseline may take, in seconds.
const BASELINE_TAIL_S: f64 = 45.0;
/// Confidence that it takes to say that the unloaded server misses the SLO: it ends the sweep.
const BASELINE_CONFIDENCE: f64 = 0.99;
/// Error, and requests that are worth one, at which a step of the ramp is suspicious.
const SUSPICION: f64 = 0.01;
const SUSPICIOUS_INFLATION: f64 = 3.0;
/// Steps in which the client was the limit; with more of them nothing can be learned of the server.
const INVALID: usize = 6;
/// Failures without an answer in between that end the sweep.
const FAILED: u64 = 10;
/// The shortest window of a baseline or a step of the ramp, in seconds.
const LEAST_S: f64 = 1.0;

/// What the adaptive search goes by, besides the steps.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy {
    pub(super) budget_s: f64,
    pub(super) confidence: f64,
    pub(super) width: f64,
    pub(super) max_rate: f64,
    pub(super) times: StepTimes,
    /// The tier that the search closes in on; the others are answered from the same steps.
    pub(super) slo: Slo,
}

impl Policy {
    pub(super) fn new(plan: &Adaptive, max_rate: Option<f64>, times: &StepTimes, slo: &Slo) -> Self {
        Self {
            budget_s: plan.budget.0.as_secs_f64(),
            confidence: plan.confidence.get(),
            width: plan.width.get(),
            max_rate: max_rate.unwrap_or(f64::INFINITY),
            times: *times,
            slo: slo.clone(),
        }
    }

    /// The next step, or why there is none. `steps` are those of the series that were not interrupted.
    pub(super) fn next(&self, steps: &[&Step]) -> Result<Ask, Stop> {
        let seen = Seen::of(self, steps);
        if let Some(stop) = self.hopeless(steps) {
            return Err(stop);
        }
        match self.baseline(&seen)? {
            Some(ask) => Ok(ask),
            None => match self.ramp(&seen)? {
                Some(ask) => Ok(ask),
                None => refine::next(self, &seen),
            },
        }
    }

    /// A server that is gone, that answers nothing, or a client that is too weak: nothing more can be learned.
    fn hopeless(&self, steps: &[&Step]) -> Option<Stop> {
        let last = steps.last()?;
        let all_failed: Vec<&&Step> =
            steps.iter().rev().take_while(|s| s.abort == Some(Abort::AllFailed)).collect();
        let failed: u64 = all_failed.iter().map(|s| s.failed).sum();
        let invalid = steps.iter().filter(|s| self.verdict(s) == Verdict::Invalid).count();
        match dead(&[last]) {
            // A few failures may be chance, or overload; so the search goes on below.
            Some(Stop::AllFailed { .. }) if failed < FAILED && all_failed.len() < INVALID => None,
            None if invalid >= INVALID => Some(Stop::ClientLimit { level: last.level.to_string() }),
            stop => stop,
        }
    }

    /// What a step shows of the tier that the search is about.
    pub(super) fn verdict(&self, step: &Step) -> Verdict {
        tier_verdict(&step.limits, self.slo.tier()).0
    }

    /// A step that is not to be exceeded: it fails, it was ended since it missed by far, or the client gave out.
    pub(super) fn too_much(&self, step: &Step) -> bool {
        step.stable == Some(false)
            || matches!(step.abort, Some(Abort::Gross | Abort::AllFailed))
            || matches!(self.verdict(step), Verdict::Fails | Verdict::Invalid)
    }

    /// One request at a time, for what the server does unloaded: clip(1.5 % of the budget, 8, 45) s, and never more than a
    /// twentieth of the budget. Repeated while it misses more than is allowed without showing it. It may lead to *none*,
    /// never to *meets*.
    fn baseline(&self, seen: &Seen<'_>) -> Result<Option<Ask>, Stop> {
        let length = (0.015 * self.budget_s).clamp(8.0, 45.0).min(self.budget_s / 20.0).max(LEAST_S);
        let ask = Ask {
            level: Level::concurrency(1),
            kind: StepKind::Baseline,
            settle: Duration::ZERO,
            measure: Duration::from_secs_f64(length),
            extend: false,
            tail: Duration::from_secs_f64(BASELINE_TAIL_S.min(0.1 * self.budget_s)),
            drain: self.drain(),
            ends: Ends::WhenGross,
            confidence: BASELINE_CONFIDENCE,
        };
        let Some(last) = seen.baselines.last() else { return Ok(Some(ask)) };
        if let Some(missed) = missed_unloaded(&seen.baselines, &self.slo) {
            return Err(Stop::Unloaded(missed));
        }
        let missing = |(limit, p0): (String, f64)| {
            let (misses, n) = counts(&seen.baselines, self.slo.tier(), &limit);
            n == 0 || misses as f64 > p0 * n as f64
        };
        let again = seen.baselines.len() < BASELINES && last.ended_s < self.budget_s / 4.0;
        Ok((again && limits(&self.slo).into_iter().any(missing)).then_some(ask))
    }

    /// Short steps at doubling rates, from below what one request at a time makes, until one shows overload: gross misses, a
    /// growing backlog, a plateau of the throughput, too many errors. Halved instead while the first ones fail.
    fn ramp(&self, seen: &Seen<'_>) -> Result<Option<Ask>, Stop> {
        let Some(last) = seen.ramp.last() else {
            let first = round(FIRST / seen.e2e_s.max(1e-3));
            return Ok(Some(self.ramp_step(first.min(self.max_rate), seen)));
        };
        let rate = if seen.ramp.iter().all(|s| self.too_much(s)) {
            let lowest = seen.ramp.iter().map(|s| s.level.value).fold(f64::INFINITY, f64::min);
            if self.verdict(last) == Verdict::Invalid {
                return Err(Stop::ClientLimit { level: last.level.to_string() });
            }
            if seen.ramp.len() > HALVINGS || 4.0 * seen.spent_s > 3.0 * self.budget_s {
                return Err(Stop::NothingHolds { level: Level::rate(lowest).to_string() });
            }
            round(lowest / FACTOR)
        } else if seen.ramp.iter().any(|s| self.too_much(s))
            || last.level.value >= self.max_rate * (1.0 - 1e-9)
            || ((self.suspicious(last) || plateau(&seen.ramp).is_some())
                && !seen.loaded.iter().any(|s| self.clears(s, last.level.value)))
        {
            return Ok(None);
        } else {
            round(last.level.value * FACTOR).min(self.max_rate)
        };
        let ask = self.ramp_step(rate, seen);
        if seen.spent_s + self.takes(&ask) > self.budget_s {
            return Err(Stop::Budget { budget_s: self.budget_s });
        }
        Ok(Some(ask))
    }

    /// A step with so many misses that no higher rate should follow, though they are too few for a verdict: they would fail it
    /// if hardly any came in clusters. Nothing is decided by it.
    fn suspicious(&self, step: &Step) -> bool {
        limits(&self.slo).iter().any(|(limit, p0)| {
            let fails = |r: &LimitRow| {
                foreseen(r.misses as f64, r.n as f64, *p0, SUSPICION, SUSPICIOUS_INFLATION) == Verdict::Fails
            };
            self.row(step, limit).is_some_and(fails)
        })
    }

    /// Whether a step shows that `rate` was no overload after all.
    fn clears(&self, step: &Step, rate: f64) -> bool {
        step.level.value >= rate * (1.0 - 1e-9) && self.verdict(step) == Verdict::Meets
    }

    fn ramp_step(&self, rate: f64, seen: &Seen<'_>) -> Ask {
        let length = (0.02 * self.budget_s).clamp(3.0, 12.0);
        let settle = self.times.settle.0.as_secs_f64().min(length / 3.0);
        let enough = (RAMP_REQUESTS / rate).min(0.03 * self.budget_s);
        let measure = (length - settle).max(enough).max(LEAST_S);
        Ask {
            level: Level::rate(rate),
            kind: StepKind::Ramp,
            settle: Duration::from_secs_f64(settle),
            measure: Duration::from_secs_f64(measure),
            extend: false,
            tail: seen.tail().min(Duration::from_secs_f64(RAMP_TAIL_S)),
            drain: self.drain(),
            ends: Ends::WhenGross,
            confidence: self.confidence,
        }
    }

    /// Requests that are open when all measured ones are over were load and nothing else: they are not waited for.
    pub(super) fn drain(&self) -> Duration {
        self.times.drain.0.min(Duration::from_secs(1))
    }

    /// The time that a step is reckoned with: its load, and what it takes until its requests have finished.
    fn takes(&self, ask: &Ask) -> f64 {
        (ask.settle + ask.measure).as_secs_f64() + ask.tail.as_secs_f64() / 2.0
    }

    pub(super) fn row<'a>(&self, step: &'a Step, limit: &str) -> Option<&'a LimitRow> {
        step.row(self.slo.tier(), limit)
    }
}

/// The steps so far, by what they were measured for.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) baselines: Vec<&'a Step>,
    pub(super) ramp: Vec<&'a Step>,
    /// Ramp and refinement: all that ran under a load.
    pub(super) loaded: Vec<&'a Step>,
    /// Seconds of the budget that are spent.
    pub(super) spent_s: f64,
    /// End-to-end time of an unloaded request, in seconds.
    pub(super) e2e_s: f64,
    longest_tail_s: f64,
}

impl<'a> Seen<'a> {
    fn of(policy: &Policy, steps: &[&'a Step]) -> Self {
        let kind = |kind| steps.iter().copied().filter(|s| s.kind == kind).collect::<Vec<&Step>>();
        let baselines = kind(StepKind::Baseline);
        let e2e = |s: &&Step| s.quantiles(Metric::E2e).p50.map(|ms| ms / 1e3);
        // Where none was finished, one takes at least as long as was waited.
        let waited = baselines.last().map_or(1.0, |s| s.measure_s + s.tail_s + s.drain_s);
        Self {
            e2e_s: baselines.iter().filter_map(e2e).next_back().unwrap_or(waited),
            ramp: kind(StepKind::Ramp),
            loaded: steps.iter().copied().filter(|s| s.kind != StepKind::Baseline).collect(),
            spent_s: steps.last().map_or(0.0, |s| s.ended_s),
            longest_tail_s: (0.1 * policy.budget_s).max(30.0),
            baselines,
        }
    }

    /// How long the load is kept on for requests to finish: twice what one takes under load, at least 3 s, and at most 30 s or a
    /// tenth of the budget.
    pub(super) fn tail(&self) -> Duration {
        let slowest =
            self.loaded.iter().filter(|s| !s.overloaded()).filter_map(|s| s.quantiles(Metric::E2e).p99);
        let e2e = slowest.map(|ms| ms / 1e3).fold(self.e2e_s, f64::max);
        Duration::from_secs_f64((2.0 * e2e).clamp(3.0, self.longest_tail_s))
    }
}

/// Limits of a tier by their names in `limits.csv`, with the share of misses that each allows.
pub(super) fn limits(slo: &Slo) -> Vec<(String, f64)> {
    let latencies = slo.limits().into_iter().map(|l| (l.name(), l.percentile.miss_share()));
    latencies.chain(slo.error_rate.map(|p0| ("error-rate".to_owned(), p0.get()))).collect()
}

/// Misses and told requests of a limit over several steps.
fn counts(steps: &[&Step], tier: &str, limit: &str) -> (u64, u64) {
    let rows = steps.iter().filter_map(|s| s.row(tier, limit));
    rows.fold((0, 0), |(k, n), r| (k + r.misses, n + r.n.saturating_sub(r.censored)))
}

/// The limit of a tier that one request at a time misses, by all baselines together. It ends the sweep, so it takes more
/// confidence than a step's verdict.
pub(super) fn missed_unloaded(baselines: &[&Step], slo: &Slo) -> Option<MissedUnloaded> {
    limits(slo).into_iter().find_map(|(limit, p0)| {
        let (misses, n) = counts(baselines, slo.tier(), &limit);
        let (k, all) = (misses as f64, n as f64);
        let fails = foreseen(k, all, p0, 1.0 - BASELINE_CONFIDENCE, UNLOADED_INFLATION) == Verdict::Fails;
        fails.then_some(MissedUnloaded { limit, misses, n })
    })
}

/// To three digits, so that the rate that is printed is the rate that was measured.
pub(super) fn round(rate: f64) -> f64 {
    let digits = 10_f64.powi(2 - rate.log10().floor() as i32);
    (rate * digits).round() / digits
}
