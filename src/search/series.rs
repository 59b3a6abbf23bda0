//! The search of a series, by mode, and its answers. Nothing is remembered: what comes next follows from the steps alone.

use super::adaptive::{Policy, missed_unloaded};
use super::answer::{Answer, Goodput, Status};
use super::ask::{Ask, Ends, Next};
use super::bracket::{Point, bracket};
use super::config::{Mode, Over, Ramp, SearchPlan, Until};
use super::knee::of_steps;
use super::stop::{Stop, dead, overloaded, plateau};
use crate::level::{Control, Level};
use crate::load::config::StepTimes;
use crate::slo::Slo;
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use crate::stats::summary::{ERRORS, blamed, step_verdict, tier_verdict, worst};
use crate::units::{NonEmpty, Rate, short};

/// The levels of a series: all of a list, those of a ramp until a stop rule fires, or the search's own.
#[derive(Debug, Clone, PartialEq)]
enum Levels {
    Listed(Vec<Level>),
    Ramp(Ramp),
    Adaptive(Box<Policy>),
}

/// The search of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    levels: Levels,
    times: StepTimes,
    max_rate: Option<f64>,
    tiers: Vec<Slo>,
    gpus: Option<u32>,
}

/// Confidence of the verdicts of listed steps.
const CONFIDENCE: f64 = 0.95;

impl Search {
    /// The search of a plan. `times` is its `[step]`, `tiers` the resolved tiers of its SLO; `gpus` is what it declares.
    ///
    /// # Errors
    /// What is not supported, with what to write instead: the adaptive search over a closed loop, and `confirm`.
    pub fn new(
        plan: &SearchPlan,
        times: &StepTimes,
        tiers: &[Slo],
        gpus: Option<u32>,
    ) -> Result<Self, String> {
        if plan.confirm.is_some() {
            return Err("[search] confirm is not in this version: leave it out".into());
        }
        let max_rate = plan.max_rate.map(Rate::get);
        let levels = match &plan.mode {
            Mode::Adaptive(a) if a.over == Over::Concurrency => {
                return Err("[search] adaptive over = \"concurrency\" is not in this version: leave it out to search \
                    for a rate, or list the levels: concurrency = [1, 2, 4, 8]"
                    .into());
            }
            Mode::Adaptive(a) => {
                let slo = tiers.first().ok_or("there is no SLO to search for")?;
                Levels::Adaptive(Box::new(Policy::new(a, max_rate, times, slo)))
            }
            Mode::Rates(rates) => Levels::Listed(listed(rates)),
            Mode::Ramp(ramp) => Levels::Ramp(*ramp),
            Mode::Concurrency(list) => {
                Levels::Listed(list.iter().map(|n| Level::concurrency(n.get())).collect())
            }
        };
        let tiers = tiers.to_vec();
        Ok(Self { levels, times: *times, max_rate, tiers, gpus })
    }

    /// What to measure next in a series, from all steps of the sweep so far. A step that was interrupted is measured again.
    pub fn next(&self, series: &str, steps: &[Step]) -> Next {
        self.decide(&of_series(series, steps)).map_or(Next::Done, Next::Measure)
    }

    /// The next step of a series, or why it is done.
    fn decide(&self, own: &[&Step]) -> Result<Ask, Stop> {
        let done = finished(own);
        match &self.levels {
            Levels::Adaptive(policy) => policy.next(&done),
            Levels::Listed(levels) => match (dead(own), levels.get(done.len())) {
                (Some(stop), _) => Err(stop),
                (None, Some(level)) => Ok(self.ask(*level, StepKind::List, Ends::AtItsTime)),
                (None, None) => Err(Stop::ListDone { levels: levels.len() }),
            },
            Levels::Ramp(ramp) => {
                let stop = dead(own).or_else(|| overloaded(&done)).or_else(|| self.ramp_stop(ramp, &done));
                let level = Level::rate(self.ramp_rate(ramp, done.len()));
                stop.map_or_else(|| Ok(self.ask(level, StepKind::Ramp, Ends::WhenGross)), Err)
            }
        }
    }

    /// A step with the times that the plan gives.
    fn ask(&self, level: Level, kind: StepKind, ends: Ends) -> Ask {
        let (settle, measure) = (self.times.settle.0, self.times.window(level.per_s()));
        let (tail, drain) = (self.times.tail(), self.times.drain.0);
        Ask { level, kind, settle, measure, extend: true, tail, drain, ends, confidence: CONFIDENCE }
    }

    /// The answers of a series, one per tier, from whatever steps there are.
    pub fn answers(&self, series: &str, steps: &[Step]) -> Vec<Answer> {
        let own = of_series(series, steps);
        let ended = match self.decide(&own) {
            Err(stop) => format!("ended because {stop}"),
            Ok(_) => "ended early: levels were left to measure".into(),
        };
        let knee = of_steps(&own);
        let control = match &self.levels {
            Levels::Listed(levels) => levels.first().map_or(Control::Rate, |l| l.control),
            Levels::Ramp(_) | Levels::Adaptive(_) => Control::Rate,
        };
        let answer = |slo: &Slo| Answer {
            series: series.to_owned(),
            tier: slo.tier().to_owned(),
            class: "all".into(),
            control,
            goodput: self.read(&own, &ended, |s| step_verdict(s, slo.tier()), slo),
            joint_goodput: self.read(&own, &ended, |s| joint_verdict(s, slo.tier()), slo),
            knee,
        };
        self.tiers.iter().map(answer).collect()
    }

    fn read(
        &self,
        steps: &[&Step],
        ended: &str,
        verdict: impl Fn(&Step) -> (Verdict, Option<String>),
        slo: &Slo,
    ) -> Goodput {
        let adaptive = matches!(self.levels, Levels::Adaptive(_));
        let point = |step: &&Step| {
            let (verdict, binding) = verdict(step);
            let evidence = evidence(step, slo.tier(), verdict, binding.as_deref());
            // The adaptive search has a baseline for it: that lower rates fail as well is not read off a loaded step.
            let inherent = !adaptive && inherent(step);
            let (value, level) = (step.level.value, level_words(step));
            Point { value, level, verdict, binding, evidence, inherent }
        };
        // A baseline offers no load: what it shows is no level of the curve.
        let (baselines, loaded): (Vec<&Step>, Vec<&Step>) =
            steps.iter().partition(|s| s.kind == StepKind::Baseline);
        let mut goodput = bracket(&loaded.iter().map(point).collect::<Vec<_>>(), ended, self.gpus);
        if let Some(missed) = missed_unloaded(&baselines, slo) {
            (goodput.status, goodput.binding) = (Status::None, Some(missed.limit.clone()));
            goodput.reason = format!("{missed}; {ended}");
        }
        if steps.iter().any(|s| s.abort == Some(Abort::ServerGone)) {
            // A server that dies under the load has no goodput yet; what was met and failed before stays as evidence.
            (goodput.status, goodput.rate, goodput.per_gpu) = (Status::Undecided, None, None);
        }
        goodput
    }

    fn ramp_stop(&self, ramp: &Ramp, done: &[&Step]) -> Option<Stop> {
        let last = done.last()?;
        let fails = |slo: &Slo| tier_verdict(&last.limits, slo.tier()).0 == Verdict::Fails;
        let by_rule = match ramp.until {
            Until::Knee => plateau(done),
            Until::SloMissed => (!self.tiers.is_empty() && self.tiers.iter().all(fails))
                .then(|| Stop::SloMissed { level: last.level.to_string() }),
        };
        let at_max = || self.max_rate.filter(|max| last.level.value >= max * (1.0 - 1e-9));
        by_rule.or_else(|| at_max().map(|rate| Stop::MaxRate { rate }))
    }

    /// The rate of the ramp's step number `done`, from 0; never above the plan's highest.
    fn ramp_rate(&self, ramp: &Ramp, done: usize) -> f64 {
        let rate = ramp.start.get() * ramp.factor.get().powf(done as f64);
        self.max_rate.map_or(rate, |max| rate.min(max))
    }
}

fn listed(rates: &NonEmpty<Rate>) -> Vec<Level> {
    rates.iter().map(|r| Level::rate(r.get())).collect()
}

fn of_series<'a>(series: &str, steps: &'a [Step]) -> Vec<&'a Step> {
    steps.iter().filter(|s| s.series == series).collect()
}

/// Steps that were not interrupted.
fn finished<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    steps.iter().copied().filter(|s| s.abort != Some(Abort::Interrupted)).collect()
}

/// A server with fewer requests in flight than this is as good as empty.
const EMPTY: f64 = 2.0;

/// Whether a fail of this step is the server's own and not that of too much load, so that lower levels would fail as well.
///
/// Open loop: the step ran to its end with a level backlog, or the server was as good as empty (mean in flight below 2)
/// and its backlog is not shown to grow. Closed loop: one request in flight. A step in which every request failed says so
/// of any level.
fn inherent(step: &Step) -> bool {
    let unloaded = match step.level.control {
        Control::Concurrency => step.level.value <= 1.0,
        _ => match step.stable {
            Some(false) => false,
            Some(true) if step.abort.is_none() => true,
            _ => step.in_flight_mean < EMPTY,
        },
    };
    unloaded || step.all_failed()
}

/// The verdict on all limits of a tier together, with stability.
fn joint_verdict(step: &Step, tier: &str) -> (Verdict, Option<String>) {
    let of = |limit: &str| step.row(tier, limit);
    let Some(joint) = of("joint") else { return (Verdict::Undecided, None) };
    let stability = of("stability").map_or(Verdict::Undecided, |r| r.verdict);
    let binding = if stability == Verdict::Fails { "stability" } else { "joint" };
    let verdict = worst([joint.verdict, stability].into_iter());
    let binding = (verdict != Verdict::Invalid).then(|| binding.to_owned());
    (verdict, blamed(binding, verdict, &step.limits, tier, step.failed))
}

fn level_words(step: &Step) -> String {
    match step.level.control {
        Control::Rate => step.level.to_string(),
        _ => format!("{} ({} req/s)", step.level, short(step.achieved_rate)),
    }
}

fn evidence(step: &Step, tier: &str, verdict: Verdict, binding: Option<&str>) -> String {
    let row = binding.and_then(|limit| step.row(tier, limit));
    match (verdict, row) {
        (Verdict::Invalid, _) => "the client was the limit".into(),
        _ if step.all_failed() => "every request failed".into(),
        _ if binding == Some(ERRORS) => format!("{} of {} requests failed", step.failed, step.due_n),
        (Verdict::Fails, Some(row)) if row.limit == "stability" => "stability: the backlog grew".into(),
        (_, Some(row)) if row.limit == "stability" => "stability: not known".into(),
        (_, Some(row)) => format!("{}: {} of {} missed", row.limit, row.misses, row.n),
        (_, None) => "no counts".into(),
    }
}

#[cfg(test)]
mod tests;
