//! The adaptive search: baseline, ramp from below, refinement. The next step follows from the measured steps alone.

use super::ask::{Ask, Ends};
use super::config::{Adaptive, Open, Over};
use super::errors;
use super::posterior::{limits, void};
use super::refine;
use super::refused::served;
use super::retry;
use super::starved::{is_starved, none_met};
use super::steps_by_purpose::StepsByPurpose;
use super::stop::{MissedUnloaded, Stop, dead, plateau};
use crate::stats::step::{LimitRow, Step, StepKind, Verdict};
use crate::stats::summary::tier_verdict;
use crate::stats::verdict::{UNLOADED_INFLATION, expected_verdict};
use goodput_core::level::{Control, Level};
use goodput_core::slo::Slo;
use goodput_core::times::StepTimes;
use goodput_core::units::three_digits;
use std::time::Duration;

/// Ratio of each level of the ramp to the one before.
const FACTOR: f64 = 3.0;
/// Divisor from each level to the next while none holds.
const BACK: f64 = 2.0;
/// First rate of the ramp, in requests per mean time of an unloaded request.
const FIRST: f64 = 1.0;
/// Minimum number of requests in a step of the ramp; the step is lengthened if it would have fewer.
const RAMP_REQUESTS: f64 = 6.0;
/// Largest number of ramp steps that may fail before one holds; each is half of the one before.
const HALVINGS: usize = 10;
/// Largest number of baselines measured while the unloaded server misses more than allowed and the excess is not
/// significant.
const BASELINES: usize = 3;
/// Longest wait for the requests of a ramp step, in seconds: it looks for overload, which shows before its last request
/// has finished.
const RAMP_TAIL_S: f64 = 5.0;
/// Longest wait for the last request of a baseline, in seconds.
const BASELINE_TAIL_S: f64 = 45.0;
/// Confidence required to conclude that the unloaded server misses the SLO, which ends the sweep.
pub(super) const BASELINE_CONFIDENCE: f64 = 0.99;
/// Error probability, and number of requests that count as one independent request, at which a ramp step is suspicious.
const SUSPICION: f64 = 0.01;
const SUSPICIOUS_INFLATION: f64 = 3.0;
/// Largest number of invalid steps: with more of them nothing can be learned of the server.
const INVALID: usize = 6;
/// Consecutive failed requests, without an answer in between, that end the sweep.
const FAILED: u64 = 10;
/// Consecutive steps without an answer, each of them refused, that end the search, so that the server is not asked
/// forever.
const REFUSED: usize = 3;
/// Shortest window of a baseline or of a ramp step, in seconds.
const LEAST_S: f64 = 1.0;

/// Settings of the adaptive search.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy {
    pub(super) budget_s: f64,
    pub(super) confidence: f64,
    pub(super) width: f64,
    /// Highest level that may be offered.
    pub(super) highest: f64,
    pub(super) times: StepTimes,
    /// Quantity that the search steps through.
    pub(super) control: Control,
    /// The tiers of the SLO; all are answered from these steps.
    pub(super) tiers: Vec<Slo>,
    /// The squared coefficient of variation of the gaps between arrivals.
    pub(super) dispersion: f64,
    /// Requests per second at level 1 of an open loop.
    pub(super) per_level: f64,
    /// Total think time of a conversation, in seconds.
    pub(super) think_s: f64,
}

impl Policy {
    pub(super) fn new(
        plan: &Adaptive,
        max_rate: Option<f64>,
        times: &StepTimes,
        tiers: &[Slo],
        open: Open,
    ) -> Self {
        let (control, highest, dispersion) = match plan.over {
            Over::Rate => (open.control, max_rate.unwrap_or(f64::INFINITY), open.arrivals.dispersion()),
            // The level of a closed loop is its number of requests in flight.
            Over::Concurrency => (Control::Concurrency, f64::from(times.max_in_flight), 1.0),
        };
        Self {
            budget_s: plan.budget.0.as_secs_f64(),
            confidence: plan.confidence.get(),
            width: plan.width.get(),
            highest,
            times: *times,
            control,
            tiers: tiers.to_vec(),
            dispersion,
            per_level: open.per_level,
            think_s: open.think_s,
        }
    }

    /// Returns the next step, or why there is none. `steps` are those of the series that were not interrupted.
    pub(super) fn next(&self, steps: &[&Step]) -> Result<Ask, Stop> {
        let seen = StepsByPurpose::of(self, steps);
        if let Some(stop) = self.hopeless(steps) {
            return Err(stop);
        }
        if let Some(ask) = self.baseline(&seen)? {
            return Ok(ask);
        }
        self.ramp(&seen)?.map_or_else(|| refine::next(self, &seen), Ok)
    }

    /// Returns the reason to give up: the server is gone or answers nothing, or the client is too weak. Nothing more
    /// can be learned then.
    fn hopeless(&self, steps: &[&Step]) -> Option<Stop> {
        let last = steps.last()?;
        let all_failed: Vec<&&Step> = steps.iter().rev().take_while(|s| s.unanswered()).collect();
        let failed: u64 = all_failed.iter().map(|s| s.failed).sum();
        let invalid = steps.iter().filter(|s| self.invalid(s)).count();
        let level = last.level;
        if last.unanswered() {
            // Before each of these steps, the client waited as long as the server asked.
            if all_failed.iter().all(|s| s.mostly_refused()) {
                return (all_failed.len() >= REFUSED).then_some(Stop::Refused { level });
            }
            // A few failures may be chance or overload, so the search continues at a lower level.
            let enough = failed >= FAILED || all_failed.len() >= INVALID;
            return enough.then_some(Stop::AllFailed { level });
        }
        dead(&[last]).or_else(|| (invalid >= INVALID).then(|| Stop::invalid(last)))
    }

    /// Returns the verdict of a step on the SLO: the verdict on its tiers if they agree, else *undecided*.
    pub(super) fn verdict(&self, step: &Step) -> Verdict {
        let mut all = self.tiers.iter().map(|slo| tier_verdict(&step.limits, slo.tier()).0);
        let first = all.next().unwrap_or(Verdict::Undecided);
        if all.all(|v| v == first) { first } else { Verdict::Undecided }
    }

    /// Returns true if the step shows nothing of the server: the client was the limit, or the server was restarted.
    pub(super) fn invalid(&self, step: &Step) -> bool {
        self.tiers.iter().any(|slo| tier_verdict(&step.limits, slo.tier()).0 == Verdict::Invalid)
    }

    /// Returns true if no level as high as this step's should follow: it fails, was ended because it missed by far, or
    /// overloaded the client.
    fn too_much(&self, step: &Step) -> bool {
        step.too_much() || self.invalid(step) || self.verdict(step) == Verdict::Fails
    }

    /// Returns the baseline to measure, if one is due: one request at a time, which shows the unloaded server. It lasts
    /// clip(1.5 % of the budget, 8, 45) s, but at most a twentieth of the budget. It is repeated while more requests
    /// miss than allowed but not significantly more. It can lead to *none*, never to *meets*.
    fn baseline(&self, seen: &StepsByPurpose<'_>) -> Result<Option<Ask>, Stop> {
        let ask = self.unloaded(self.baseline_s());
        let Some(last) = seen.baselines.last() else { return Ok(Some(ask)) };
        let open: Vec<&Slo> =
            self.tiers.iter().filter(|slo| missed_unloaded(&seen.baselines, slo).is_none()).collect();
        if open.is_empty()
            && let Some(missed) = self.tiers.iter().find_map(|slo| missed_unloaded(&seen.baselines, slo))
        {
            return Err(Stop::Unloaded(missed));
        }
        let missing = |slo: &&Slo| {
            limits(slo).into_iter().any(|(limit, p0)| {
                let (misses, n) = counts(&seen.baselines, slo.tier(), &limit);
                let void = seen.baselines.iter().all(|s| void(s, slo.tier(), &limit));
                !void && (n <= 0.0 || misses > p0 * n)
            })
        };
        let first = seen.loaded.is_empty();
        let again =
            first && seen.baselines.len() < BASELINES && last.ended_s - seen.origin_s < self.budget_s / 4.0;
        Ok((again && open.iter().any(missing)).then_some(ask))
    }

    /// Returns the length of a baseline, in seconds.
    pub(super) fn baseline_s(&self) -> f64 {
        (0.015 * self.budget_s).clamp(8.0, 45.0).min(self.budget_s / 20.0).max(LEAST_S)
    }

    /// Returns a baseline of this length.
    pub(super) fn unloaded(&self, length_s: f64) -> Ask {
        Ask {
            level: Level::concurrency(1),
            kind: StepKind::Baseline,
            settle: Duration::ZERO,
            measure: Duration::from_secs_f64(length_s),
            extend: false,
            tail: Duration::from_secs_f64(BASELINE_TAIL_S.min(0.1 * self.budget_s)),
            drain: self.drain(),
            ends: Ends::WhenGross,
            confidence: BASELINE_CONFIDENCE,
        }
    }

    /// Returns the next step of the ramp: short steps at levels that triple, starting from the rate of one request at a
    /// time, until one shows overload (gross misses, a growing backlog, a throughput plateau, too many errors). While
    /// the first steps fail, the level is halved instead.
    fn ramp(&self, seen: &StepsByPurpose<'_>) -> Result<Option<Ask>, Stop> {
        let Some(last) = seen.ramp.last() else {
            let first = match self.control {
                Control::Concurrency => FACTOR,
                _ => self.rounded(FIRST / seen.e2e_s.max(1e-3) / self.per_level),
            };
            return self.in_time(self.ramp_step(first.min(self.highest), seen), seen).map(Some);
        };
        if let Some(burst) = retry::again(&seen.ramp).filter(|s| !self.invalid(s)) {
            return self.in_time(self.ramp_step(burst.level.value, seen), seen).map(Some);
        }
        let at_the_top = last.level.value >= self.highest * (1.0 - 1e-9);
        let level = if seen.ramp.iter().all(|s| self.too_much(s)) {
            let lowest = seen.ramp.iter().map(|s| s.level.value).fold(f64::INFINITY, f64::min);
            if self.invalid(last) {
                return Err(Stop::invalid(last));
            }
            if self.control == Control::Concurrency {
                // A single request at a time has been measured already.
                return Ok(None);
            }
            if seen.ramp.len() > HALVINGS || 4.0 * seen.spent_s > 3.0 * self.budget_s {
                return Err(Stop::NothingHolds { level: self.level(lowest) });
            }
            self.rounded(lowest / BACK)
        } else if seen.ramp.iter().any(|s| self.too_much(s)) || at_the_top || self.flattened(seen, last) {
            return Ok(None);
        } else {
            self.rounded(last.level.value * FACTOR).min(self.highest)
        };
        self.in_time(self.ramp_step(level, seen), seen).map(Some)
    }

    /// Returns the step if the budget has time for it.
    fn in_time(&self, ask: Ask, seen: &StepsByPurpose<'_>) -> Result<Ask, Stop> {
        if seen.spent_s + takes(&ask) > self.budget_s {
            return Err(Stop::Budget { budget_s: self.budget_s });
        }
        Ok(ask)
    }

    /// Returns true if the last ramp step shows that the next would be too much, and no later step has shown otherwise.
    fn flattened(&self, seen: &StepsByPurpose<'_>, last: &Step) -> bool {
        let clears =
            |s: &&Step| s.level.value >= last.level.value * (1.0 - 1e-9) && self.verdict(s) == Verdict::Meets;
        // More requests in flight than a server can serve wait in its queue, which limits that count from `due` detect.
        let closed = self.control == Control::Concurrency;
        let waits = closed && self.tiers.iter().any(|slo| slo.tightest_from_due().is_some());
        let missed = |slo: &Slo| {
            let row = |(limit, _): &(String, f64)| last.row(slo.tier(), limit);
            limits(slo).iter().filter_map(row).any(none_met)
        };
        let starved = is_starved(&seen.baselines, last) || self.tiers.iter().all(missed);
        (self.suspicious(last) || starved || (!waits && plateau(&seen.ramp).is_some()))
            && !seen.loaded.iter().any(clears)
    }

    /// Returns true if a step has so many misses that no higher level should follow, though too few for a verdict: it
    /// would fail if hardly any misses came in clusters. No answer depends on this.
    fn suspicious(&self, step: &Step) -> bool {
        self.tiers.iter().all(|slo| {
            limits(slo).iter().any(|(limit, p0)| {
                let fails = |r: &LimitRow| {
                    let each = r.per_request(step.due_n);
                    let (misses, n) = (r.misses as f64 / each, r.n as f64 / each);
                    expected_verdict(misses, n, *p0, SUSPICION, SUSPICIOUS_INFLATION) == Verdict::Fails
                };
                step.row(slo.tier(), limit).is_some_and(fails)
            })
        })
    }

    fn ramp_step(&self, level: f64, seen: &StepsByPurpose<'_>) -> Ask {
        let length = (0.02 * self.budget_s).clamp(3.0, 12.0);
        let settle = self.times.settle.0.as_secs_f64().min(length / 3.0);
        // Later turns begin once the first conversations have reached them.
        let settle = settle.max(seen.talk_s.min(self.budget_s / 30.0));
        let enough = (RAMP_REQUESTS / seen.per_s(level)).min(0.03 * self.budget_s);
        let measure = (length - settle).max(length / 2.0).max(enough).max(LEAST_S);
        Ask {
            level: self.level(level),
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

    /// Returns the longest wait for requests still open when all measured ones have finished: at most 1 s, because they
    /// only served as load.
    pub(super) fn drain(&self) -> Duration {
        self.times.drain.0.min(Duration::from_secs(1))
    }

    /// Returns a level of the quantity that the search steps through.
    pub(super) fn level(&self, value: f64) -> Level {
        match self.control {
            Control::Concurrency => Level::concurrency(value as u32),
            open => Level::new(open, value),
        }
    }

    /// Returns the level as it is measured and printed: rates rounded to three digits, requests in flight to whole
    /// numbers.
    pub(super) fn rounded(&self, value: f64) -> f64 {
        match self.control {
            Control::Concurrency => value.round().max(1.0),
            _ => three_digits(value, f64::round),
        }
    }
}

/// Returns the longest time that a step may take, in seconds.
fn takes(ask: &Ask) -> f64 {
    (ask.settle + ask.measure + ask.tail + ask.drain).as_secs_f64()
}

/// Returns the misses and the number of requests of a limit over several baselines, without requests that the server
/// refused or whose outcome is unknown. Gaps between tokens are converted to requests.
fn counts(steps: &[&Step], tier: &str, limit: &str) -> (f64, f64) {
    let row = |s: &&Step| {
        let r = s.row(tier, limit)?;
        let each = r.per_request(s.due_n);
        served(s, r, (r.misses as f64 / each, r.n.saturating_sub(r.censored) as f64 / each))
    };
    steps.iter().filter_map(row).fold((0.0, 0.0), |(k, n), (misses, told)| (k + misses, n + told))
}

/// Returns the limit of a tier that one request at a time misses, from all baselines combined. Such a miss ends the
/// sweep, so it takes more confidence than the verdict of a step.
pub(super) fn missed_unloaded(baselines: &[&Step], slo: &Slo) -> Option<MissedUnloaded> {
    let limits = limits(slo);
    let counted = |limit: &str| counts(baselines, slo.tier(), limit);
    let fails = |(limit, p0): &&(String, f64)| {
        let (misses, n) = counted(limit);
        expected_verdict(misses, n, *p0, 1.0 - BASELINE_CONFIDENCE, UNLOADED_INFLATION) == Verdict::Fails
    };
    let (limit, _) = limits.iter().find(fails)?;
    let limit = errors::to_blame(baselines, slo.tier(), &limits, limit).unwrap_or_else(|| limit.clone());
    let (misses, n) = counted(&limit);
    Some(MissedUnloaded { limit, misses: misses.round() as u64, n: n.round() as u64 })
}
