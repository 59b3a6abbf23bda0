//! Searches that step through a list or a ramp. Nothing is remembered: what comes next follows from the steps alone.

use super::answer::{Answer, Goodput, Status};
use super::bracket::{Point, bracket};
use super::config::{Mode, Ramp, SearchPlan, Until};
use super::knee::of_steps;
use super::stop::{Stop, dead, overloaded, plateau};
use crate::level::{Control, Level};
use crate::slo::Slo;
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use crate::stats::summary::{ERRORS, blamed, step_verdict, tier_verdict, worst};
use crate::units::{NonEmpty, Rate, short};

/// What to do next in a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Measure a step.
    Measure {
        /// At this level.
        level: Level,
        /// For this purpose.
        kind: StepKind,
        /// Whether the step may end as soon as its misses are gross. Steps of a list run to their end: they were asked for.
        stop_when_failed: bool,
    },
    /// The series is done.
    Done,
}

/// The levels of a series: all of a list, or those of a ramp until a stop rule fires.
#[derive(Debug, Clone, PartialEq)]
enum Levels {
    Listed(Vec<Level>),
    Ramp(Ramp),
}

/// A search through a list of levels or a ramp.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    levels: Levels,
    max_rate: Option<f64>,
    tiers: Vec<String>,
    gpus: Option<u32>,
}

impl Search {
    /// The search of a plan. `tiers` are the resolved tiers of the SLO; `gpus` is what the plan declares.
    ///
    /// # Errors
    /// What is not supported, with what to write instead: the adaptive mode, and `confirm`.
    pub fn new(plan: &SearchPlan, tiers: &[Slo], gpus: Option<u32>) -> Result<Self, String> {
        if plan.confirm.is_some() {
            return Err(
                "search.confirm is not supported yet: drop it, and give step.measure more time".into()
            );
        }
        let levels = match &plan.mode {
            Mode::Adaptive(_) => {
                return Err("the adaptive search is not supported yet: write search.rates = [1, 2, 4, 8], \
                    search.ramp = { start = 1, factor = 1.5, until = \"knee\" } or search.concurrency = [1, 2, 4, 8]"
                    .into());
            }
            Mode::Rates(rates) => Levels::Listed(listed(rates)),
            Mode::Ramp(ramp) => Levels::Ramp(*ramp),
            Mode::Concurrency(list) => {
                Levels::Listed(list.iter().map(|n| Level::concurrency(n.get())).collect())
            }
        };
        let tiers = tiers.iter().map(|t| t.tier().to_owned()).collect();
        Ok(Self { levels, max_rate: plan.max_rate.map(Rate::get), tiers, gpus })
    }

    /// What to measure next in a series, from all steps of the sweep so far. A step that was interrupted is measured again.
    pub fn next(&self, series: &str, steps: &[Step]) -> Next {
        let own = of_series(series, steps);
        if self.stop(&own).is_some() {
            return Next::Done;
        }
        let done = finished(&own).len();
        let (level, kind) = match &self.levels {
            Levels::Listed(levels) => match levels.get(done) {
                Some(level) => (*level, StepKind::List),
                None => return Next::Done,
            },
            Levels::Ramp(ramp) => (Level::rate(self.ramp_rate(ramp, done)), StepKind::Ramp),
        };
        Next::Measure { level, kind, stop_when_failed: kind == StepKind::Ramp }
    }

    /// The answers of a series, one per tier, from whatever steps there are.
    pub fn answers(&self, series: &str, steps: &[Step]) -> Vec<Answer> {
        let own = of_series(series, steps);
        let ended = match self.stop(&own) {
            Some(stop) => format!("ended because {stop}"),
            None => "ended early: levels were left to measure".into(),
        };
        let knee = of_steps(&own);
        let control = match &self.levels {
            Levels::Listed(levels) => levels.first().map_or(Control::Rate, |l| l.control),
            Levels::Ramp(_) => Control::Rate,
        };
        let answer = |tier: &String| Answer {
            series: series.to_owned(),
            tier: tier.clone(),
            class: "all".into(),
            control,
            goodput: self.read(&own, &ended, |s| step_verdict(s, tier), tier),
            joint_goodput: self.read(&own, &ended, |s| joint_verdict(s, tier), tier),
            knee,
        };
        self.tiers.iter().map(answer).collect()
    }

    fn read(
        &self,
        steps: &[&Step],
        ended: &str,
        verdict: impl Fn(&Step) -> (Verdict, Option<String>),
        tier: &str,
    ) -> Goodput {
        let point = |step: &&Step| {
            let (verdict, binding) = verdict(step);
            let evidence = evidence(step, tier, verdict, binding.as_deref());
            let (value, level, inherent) = (step.level.value, level_words(step), inherent(step));
            Point { value, level, verdict, binding, evidence, inherent }
        };
        let mut goodput = bracket(&steps.iter().map(point).collect::<Vec<_>>(), ended, self.gpus);
        if steps.iter().any(|s| s.abort == Some(Abort::ServerGone)) {
            // A server that dies under the load has no goodput yet; what was met and failed before stays as evidence.
            (goodput.status, goodput.rate, goodput.per_gpu) = (Status::Undecided, None, None);
        }
        goodput
    }

    /// Why a series is done; `None` while there is something left to measure.
    fn stop(&self, own: &[&Step]) -> Option<Stop> {
        if let Some(stop) = dead(own) {
            return Some(stop);
        }
        let done = finished(own);
        match &self.levels {
            Levels::Listed(levels) => {
                (done.len() >= levels.len()).then_some(Stop::ListDone { levels: levels.len() })
            }
            Levels::Ramp(ramp) => overloaded(&done).or_else(|| self.ramp_stop(ramp, &done)),
        }
    }

    fn ramp_stop(&self, ramp: &Ramp, done: &[&Step]) -> Option<Stop> {
        let last = done.last()?;
        let fails = |tier: &String| tier_verdict(&last.limits, tier).0 == Verdict::Fails;
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
    let of = |limit: &str| step.limits.iter().find(|r| r.tier == tier && r.limit == limit);
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
    let row = step.limits.iter().find(|r| r.tier == tier && Some(r.limit.as_str()) == binding);
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
