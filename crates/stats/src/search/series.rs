//! The search of a series, by mode, and its answers. It has no state: the next step follows from the measured steps
//! alone.

use super::adaptive::{BASELINE_CONFIDENCE, Policy, missed_unloaded};
use super::answer::{Answer, Basis, Conclusion, Goodput, Status};
use super::ask::{Ask, Ends, Next};
use super::bracket::{Point, bracket, decided};
use super::change::{last_change, since};
use super::config::{Ladder, Mode, Open, Peak, Ramp, SearchPlan};
use super::confirm;
use super::estimate::{distrusted, estimate};
use super::knee::of_steps;
use super::listed;
use super::posterior::{Posterior, limits};
use super::ramp::{self, Course};
use super::reason::{Ended, Evidence, LevelEvidence, NotSafe, Reason};
use super::recovery::Recovery;
use super::refine::lowest;
use super::refused::{because, blames};
use super::retry;
use super::saturation;
use super::single_step::{inherent, interrupted, joint, joint_verdict, step_evidence};
use super::spoilt;
use super::stop::{Stop, dead, failing, is_failing};
use super::view::Terms;
use super::windows::{ERROR, together, windows};
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use crate::stats::summary::step_verdict;
use goodput_core::level::{Control, Level};
use goodput_core::slo::Slo;
use goodput_core::times::StepTimes;
use goodput_core::units::{Fraction, NonEmpty, Rate};
use std::time::Duration;

/// The levels of a series: all of a list, those of a ramp until a stop rule fires, or those that the search chooses.
#[derive(Debug, Clone, PartialEq)]
enum Levels {
    Listed(Vec<Level>),
    Ramp(Ramp),
    Ladder(Ladder),
    /// This many requests at once.
    Burst(u32),
    Adaptive(Box<Policy>),
}

/// The search of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    levels: Levels,
    times: StepTimes,
    pub(super) max_rate: Option<f64>,
    pub(super) tiers: Vec<Slo>,
    gpus: Option<u32>,
    confirm: Option<Duration>,
    /// The quantity that an open loop steps through.
    open: Control,
    /// Squared coefficient of variation of the gaps between arrivals.
    dispersion: f64,
    /// True if one request at a time is measured before the levels of a list.
    baseline: bool,
    /// The step at saturation, after all others.
    peak: Option<Peak>,
    /// Level and window of a last step under the profiler; without a level, one that the server can sustain.
    pub(super) profile: Option<(Option<f64>, Duration)>,
    /// The surge after the search, if the plan asks for it.
    pub(super) recovery: Option<Recovery>,
}

/// Confidence of the verdicts on listed steps.
const CONFIDENCE: f64 = 1.0 - ERROR;

impl Search {
    /// Creates the search of a plan. `times` is the plan's `[step]`, `tiers` are the resolved tiers of its SLO, `open`
    /// describes an open loop (the quantity it steps through, its arrivals), and `gpus` is the declared number of GPUs.
    ///
    /// # Errors
    /// The adaptive search has no SLO to search for.
    pub fn new(
        plan: &SearchPlan,
        times: &StepTimes,
        tiers: &[Slo],
        open: Open,
        gpus: Option<u32>,
    ) -> Result<Self, String> {
        let max_rate = plan.max_rate.map(Rate::get);
        let levels = match &plan.mode {
            Mode::Adaptive(_) if tiers.is_empty() => return Err("there is no SLO to search for".into()),
            Mode::Adaptive(a) => Levels::Adaptive(Box::new(Policy::new(a, max_rate, times, tiers, open))),
            Mode::Rates(rates) => Levels::Listed(listed(open.control, rates)),
            Mode::Ramp(ramp) => Levels::Ramp(*ramp),
            Mode::Concurrency(list) => {
                Levels::Listed(list.iter().map(|n| Level::concurrency(n.get())).collect())
            }
            Mode::Ladder(ladder) => Levels::Ladder(*ladder),
            Mode::Burst(n) => Levels::Burst(n.get()),
        };
        let tiers = tiers.to_vec();
        let confirm = plan.confirm.map(|span| span.0);
        let (baseline, peak) = (plan.baseline, plan.peak);
        Ok(Self {
            levels,
            times: *times,
            max_rate,
            tiers,
            gpus,
            confirm,
            open: open.control,
            dispersion: open.arrivals.dispersion(),
            baseline,
            peak,
            profile: None,
            recovery: None,
        })
    }

    /// Returns what to measure next in a series, from all steps of the sweep so far. An interrupted step is measured
    /// again.
    pub fn next(&self, series: &str, steps: &[Step]) -> Next {
        let own = of_series(series, steps);
        let beside = || {
            let recovery = self.recovery_step(&own, series, steps);
            let peak = || self.saturate(&own, series, steps);
            recovery.or_else(peak).or_else(|| self.under_profiler(&own, series, steps))
        };
        let ask = self.decide(&own).ok().or_else(beside);
        ask.map_or(Next::Done, Next::Measure)
    }

    /// Returns the step at saturation once the search is done, unless it was already measured or the server is gone.
    /// `own` are the steps of the search.
    fn saturate(&self, own: &[&Step], series: &str, steps: &[Step]) -> Option<Ask> {
        let peak = self.peak?;
        let measured = |s: &Step| s.series == series && s.kind == StepKind::Peak && !interrupted(s);
        let gone = own.iter().any(|s| s.abort == Some(Abort::ServerGone));
        if gone || steps.iter().any(measured) {
            return None;
        }
        let ask = self.ask(Level::concurrency(peak.concurrency.get()), StepKind::Peak, Ends::AtItsTime);
        let (settle, measure) = (peak.settle.map(|s| s.0), peak.measure.map(|s| s.0));
        let (settle, measure) = (settle.unwrap_or(ask.settle), measure.unwrap_or(ask.measure));
        Some(Ask { settle, measure, extend: false, ..ask })
    }

    /// Returns the next step of a series, or why it is done. A soak ends the series, even if the search would go on
    /// with the counts.
    fn decide(&self, own: &[&Step]) -> Result<Ask, Stop> {
        let soaked = own.iter().find(|s| s.kind == StepKind::Confirm && !interrupted(s));
        let searched = confirm::before(own);
        let stop = match (self.searched(&searched), soaked) {
            (Ok(ask), None) => return Ok(ask),
            // The budget was raised since: a soak at another level would be a separate sweep.
            (Ok(_), Some(soak)) => Stop::Soaked { level: soak.level },
            (Err(stop), _) => stop,
        };
        let (Some(length), None, None) = (self.confirm, soaked, dead(own)) else { return Err(stop) };
        let answer = self.tiers.first().map(|slo| self.goodput(&searched, &Ended::NotSearched, slo));
        let confidence = match &self.levels {
            Levels::Adaptive(policy) => policy.confidence,
            Levels::Listed(_) | Levels::Ramp(_) | Levels::Ladder(_) | Levels::Burst(_) => CONFIDENCE,
        };
        let soak = answer.and_then(|a| confirm::soak(&a, self.control(), length, &self.times, confidence));
        soak.ok_or(stop)
    }

    /// Returns the next step of the search without the soak, or why the search is done.
    fn searched(&self, own: &[&Step]) -> Result<Ask, Stop> {
        let own = &spoilt::without_first_halted(own)[..];
        let done = finished(own);
        match &self.levels {
            Levels::Adaptive(policy) => policy.next(&done),
            Levels::Listed(_) if self.baseline && done.is_empty() && dead(own).is_none() => {
                Ok(self.ask(Level::concurrency(1), StepKind::Baseline, Ends::AtItsTime))
            }
            Levels::Ladder(ladder) => {
                super::ceiling::ladder(ladder, &done, dead(own).or_else(|| failing(own)))
                    .map(|(level, least)| self.ask(level, StepKind::List, Ends::AtItsTime).lasting(least))
            }
            Levels::Burst(n) => match (dead(own), done.first()) {
                (Some(stop), _) => Err(stop),
                (None, Some(_)) => Err(Stop::ListDone { levels: 1 }),
                (None, None) => Ok(super::ceiling::burst(*n, &self.times)),
            },
            Levels::Listed(levels) => match dead(own) {
                Some(stop) => Err(stop),
                None => {
                    let windows = windows(levels, &self.times);
                    let (level, measure) = next_listed(&windows, &done[usize::from(self.baseline)..])?;
                    let ask = self.ask(level, StepKind::List, Ends::AtItsTime);
                    let extend = measure >= ask.measure;
                    Ok(Ask { measure, extend, ..ask })
                }
            },
            Levels::Ramp(ramp) => match dead(own) {
                Some(stop) => Err(stop),
                None => {
                    let (rate, ends) = self.course(ramp).next(&done)?;
                    Ok(self.ask(Level::new(self.open, rate), StepKind::Ramp, ends))
                }
            },
        }
    }

    fn course<'a>(&'a self, ramp: &'a Ramp) -> Course<'a> {
        Course { ramp, max_rate: self.max_rate, control: self.open, tiers: &self.tiers }
    }

    /// Returns a step with the times of the plan.
    pub(super) fn ask(&self, level: Level, kind: StepKind, ends: Ends) -> Ask {
        let (settle, measure) = (self.times.settle.0, self.times.window(level.per_s()));
        let (tail, drain) = (self.times.tail(), self.times.drain.0);
        Ask { level, kind, settle, measure, extend: true, tail, drain, ends, confidence: CONFIDENCE }
    }

    /// Returns the answers of a series, one per tier, from the steps measured so far.
    pub fn answers(&self, series: &str, steps: &[Step]) -> Vec<Answer> {
        let own = of_series(series, steps);
        let ended = match self.decide(&own) {
            Err(stop) => Ended::Stopped(stop),
            Ok(_) => Ended::LevelsLeft,
        };
        let of_ramp = matches!(self.levels, Levels::Ramp(_)).then(|| ramp::found(&finished(&own))).flatten();
        let knee = of_ramp.or_else(|| of_steps(&own));
        let full = |g: Goodput| saturation::bounded(g, self.control(), series, steps);
        let answer = |slo: &Slo| Answer {
            series: series.to_owned(),
            tier: slo.tier().to_owned(),
            class: "all".into(),
            control: self.control(),
            goodput: full(self.goodput(&own, &ended, slo)),
            joint_goodput: full(self.read(&own, &ended, |s| joint_verdict(s, slo.tier()), slo, &joint(slo))),
            knee,
        };
        self.tiers.iter().map(answer).collect()
    }

    /// Returns this search with another SLO.
    #[must_use]
    pub fn for_slo(&self, slo: &Slo) -> Self {
        let tiers = vec![slo.clone()];
        let levels = match &self.levels {
            Levels::Adaptive(policy) => {
                Levels::Adaptive(Box::new(Policy { tiers: tiers.clone(), ..(**policy).clone() }))
            }
            other => other.clone(),
        };
        Self { levels, tiers, ..self.clone() }
    }

    /// Returns the goodput of the first tier, from the steps of a series. `None` without an SLO.
    pub fn goodput_of(&self, series: &str, steps: &[Step]) -> Option<Goodput> {
        let slo = self.tiers.first()?;
        Some(self.goodput(&of_series(series, steps), &Ended::NotSearched, slo))
    }

    /// Returns the confidence of the verdict of a step of this kind.
    pub fn confidence(&self, kind: StepKind) -> f64 {
        match &self.levels {
            Levels::Adaptive(_) if kind == StepKind::Baseline => BASELINE_CONFIDENCE,
            Levels::Adaptive(policy) => policy.confidence,
            Levels::Listed(_) | Levels::Ramp(_) | Levels::Ladder(_) | Levels::Burst(_) => CONFIDENCE,
        }
    }

    pub(super) fn control(&self) -> Control {
        match &self.levels {
            Levels::Listed(levels) => levels.first().map_or(self.open, |l| l.control),
            Levels::Ramp(_) => self.open,
            Levels::Ladder(_) | Levels::Burst(_) => Control::Concurrency,
            Levels::Adaptive(policy) => policy.control,
        }
    }

    pub(super) fn goodput(&self, own: &[&Step], ended: &Ended, slo: &Slo) -> Goodput {
        self.read(own, ended, |s| step_verdict(s, slo.tier()), slo, &limits(slo))
    }

    /// Returns the goal of the adaptive search; `None` in the other modes.
    pub fn terms(&self) -> Option<Terms> {
        match &self.levels {
            Levels::Adaptive(p) => {
                let lowest = self.tiers.iter().map(|slo| lowest(p, slo)).fold(0.0, f64::max);
                Some(Terms { confidence: p.confidence, lowest })
            }
            Levels::Listed(_) | Levels::Ramp(_) | Levels::Ladder(_) | Levels::Burst(_) => None,
        }
    }

    /// Returns the posterior of a tier's boundary; `None` if no step ran under load, and for a burst, which has no
    /// levels.
    pub(super) fn posterior(&self, steps: &[&Step], tier: &str) -> Option<Posterior> {
        let slo = self.tiers.iter().find(|slo| slo.tier() == tier)?;
        match &self.levels {
            Levels::Adaptive(policy) => {
                let steps = retry::confirmed(&finished(steps));
                Posterior::of(&steps, tier, &limits(slo), policy.dispersion, last_change(&steps))
            }
            _ => self.fit(steps, tier, &limits(slo)).map(|(posterior, _)| posterior),
        }
    }

    /// Returns the posterior for levels that were chosen beforehand, with the steps that it rests on.
    fn fit<'a>(
        &self,
        steps: &[&'a Step],
        tier: &str,
        limits: &[(String, f64)],
    ) -> Option<(Posterior, Vec<&'a Step>)> {
        if matches!(self.levels, Levels::Adaptive(_) | Levels::Burst(_)) {
            return None;
        }
        let dispersion = if self.control() == Control::Concurrency { 1.0 } else { self.dispersion };
        let evidence = listed::evidence(&finished(steps), tier);
        let posterior = Posterior::of(&evidence, tier, limits, dispersion, last_change(&evidence))?;
        Some((posterior, evidence))
    }

    fn read(
        &self,
        steps: &[&Step],
        ended: &Ended,
        verdict: impl Fn(&Step) -> (Verdict, Option<String>),
        slo: &Slo,
        limits: &[(String, f64)],
    ) -> Goodput {
        let adaptive = matches!(self.levels, Levels::Adaptive(_));
        let steps = spoilt::without_repeated_halted(steps);
        let confirmed = if adaptive { retry::confirmed(&steps) } else { steps };
        let steps = &confirmed[..];
        let since = if adaptive { since(last_change(steps)) } else { f64::NEG_INFINITY };
        let point = |step: &&Step| {
            let (verdict, binding) = verdict(step);
            let counts = step_evidence(step, slo.tier(), verdict, binding.as_deref());
            let evidence = LevelEvidence { level: step.level, achieved_rate: step.achieved_rate, counts };
            // The adaptive search has a baseline for this: a loaded step does not show that lower rates fail as well.
            let inherent = !adaptive && inherent(step) && !blames(step, binding.as_deref());
            Point { evidence, verdict, binding, inherent }
        };
        // A baseline offers no load, so it is no level of the curve.
        let (baselines, loaded): (Vec<&Step>, Vec<&Step>) =
            steps.iter().partition(|s| s.kind == StepKind::Baseline);
        let loaded: Vec<&Step> = loaded.into_iter().filter(|s| s.started_s >= since).collect();
        let levels = together(&loaded, &self.tiers, &self.times);
        let points: Vec<Point> = levels.iter().map(|s| point(&&**s)).collect();
        let mut goodput = bracket(&points, ended.clone());
        if let Levels::Adaptive(policy) = &self.levels
            && goodput.status() != Status::Invalid
            && let finished = finished(steps)
            && let Some(posterior) =
                Posterior::of(&finished, slo.tier(), limits, policy.dispersion, last_change(&finished))
        {
            goodput.reason = Reason::new([decided(&points)], ended.clone());
            goodput = estimate(policy, slo, &finished, &posterior, goodput);
            goodput.basis = Basis::Search;
            let refused = || loaded.iter().any(|s| s.refused_beyond(self.put_up_with()));
            if goodput.conclusion == Conclusion::None && refused() {
                goodput.conclusion = Conclusion::OPEN;
            }
        } else {
            if let Some((posterior, evidence)) = self.fit(steps, slo.tier(), limits) {
                goodput = listed::answer(&posterior, &evidence, slo.tier(), goodput);
            }
            if let Some(at) = goodput.conclusion.level_mut() {
                at.throughput = self.throughput(&loaded, at.level);
            }
        }
        if let Some(at) = goodput.conclusion.level_mut() {
            at.per_gpu = self.gpus.filter(|gpus| *gpus > 0).map(|gpus| at.level / f64::from(gpus));
        }
        // A failed soak revokes the safe rate of the answer that chose its level, and every safe rate at or above that
        // level.
        let soak = steps.iter().rfind(|s| s.kind == StepKind::Confirm && verdict(s).0 == Verdict::Fails);
        let first = self.tiers.first().is_some_and(|t| t.tier() == slo.tier()) && *limits != joint(slo);
        let promised = |level: f64| first || goodput.safe_rate().is_some_and(|safe| level <= safe);
        if let Some(soak) = soak.filter(|s| promised(s.level.value)) {
            goodput = distrusted(goodput, NotSafe::SoakFailed { level: soak.level });
        }
        if goodput.status() == Status::Undecided
            && let Some(refused) = because(steps, self.put_up_with())
        {
            goodput.reason = goodput.reason.preceded_by(refused);
        }
        if let Some(missed) = missed_unloaded(&baselines, slo) {
            goodput.conclusion = Conclusion::None;
            goodput.binding = Some(missed.limit.clone());
            goodput.reason = Reason::new([Evidence::MissedUnloaded(missed)], ended.clone());
        }
        if steps.iter().any(|s| s.abort == Some(Abort::ServerGone)) {
            // A server that goes away under load has no goodput yet; the levels met and failed before remain as
            // evidence.
            goodput.conclusion = Conclusion::OPEN;
        }
        goodput
    }

    /// Returns the share of failed requests that the plan allows.
    fn put_up_with(&self) -> f64 {
        self.times.max_error_share.map_or(1.0, Fraction::get)
    }

    /// Returns the completed requests per second at a level of the answer.
    fn throughput(&self, loaded: &[&Step], rate: f64) -> Option<f64> {
        if self.control() == Control::Rate {
            return Some(rate);
        }
        let measured = loaded.iter().rfind(|s| (s.level.value - rate).abs() < 1e-9);
        measured.map(|s| s.achieved_rate).or_else(|| listed::achieved(loaded, rate))
    }
}

fn listed(open: Control, rates: &NonEmpty<Rate>) -> Vec<Level> {
    rates.iter().map(|r| Level::new(open, r.get())).collect()
}

/// Returns the steps of the search of a series. Auxiliary steps have no part in verdicts and answers, nor have those that a
/// worker spoilt.
pub(super) fn of_series<'a>(series: &str, steps: &'a [Step]) -> Vec<&'a Step> {
    let own: Vec<&Step> = steps.iter().filter(|s| s.series == series && !s.kind.is_auxiliary()).collect();
    spoilt::without_worker_faults(&own)
}

/// Returns the steps that were not interrupted.
fn finished<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    steps.iter().copied().filter(|s| !interrupted(s)).collect()
}

/// Returns the next window of a list, in its order. After a level at which too many requests failed, that level and all
/// above it are skipped.
fn next_listed(windows: &[(Level, Duration)], done: &[&Step]) -> Result<(Level, Duration), Stop> {
    let (mut left, mut failing, mut left_out) = (done.to_vec(), None::<Level>, false);
    let mut refused = false;
    for (level, measure) in windows {
        let too_much = failing.is_some_and(|f| level.value >= f.value);
        // Matched by level, not by index: the plan may have changed since (`--resume --force`).
        let measured = left.iter().position(|s| s.level == *level).map(|i| left.remove(i));
        match measured {
            Some(step) if is_failing(step) && !too_much => {
                (failing, refused) = (Some(*level), step.mostly_refused())
            }
            Some(_) => {}
            None if too_much => left_out = true,
            None => return Ok((*level, *measure)),
        }
    }
    match failing.filter(|_| left_out) {
        Some(level) if refused => Err(Stop::Refused { level }),
        Some(level) => Err(Stop::Errors { level }),
        None => Err(Stop::ListDone { levels: windows.chunk_by(|a, b| a.0 == b.0).count() }),
    }
}

#[cfg(test)]
pub(super) mod tests;
