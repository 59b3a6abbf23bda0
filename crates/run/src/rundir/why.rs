//! Diagnosis of a run: collects its input from the plan and the files of the run folder, and stores its findings.

mod lengths;
mod mix;
pub(super) mod settings;

use super::tried::{self, Tried};
use super::{Run, client_faults, forecasts};
use anyhow::Result;
use goodput_core::caveat::ClientCaveat;
use goodput_core::slo::{Metric, limit_percentile};
use goodput_core::units::Percentile;
use goodput_engine::config::Engine;
use goodput_plan::{Plan, Series};
use goodput_stats::diagnosis::{
    Accepts, Curve, Facts, Finding, Knob, Origin, OwnLimit, Roofline, Settings, StepFailures, Untold,
    diagnose,
};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::server::facts::Facts as ServerFacts;
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};
use goodput_workload::config::Cache;
use goodput_workload::kind::RequestSource;
use goodput_workload::lengths::Lengths;
use goodput_workload::sources::Prompts;
use std::borrow::Cow;
use std::path::Path;

/// Largest factor between the level of a step and an estimate at which the step still shows the binding limit.
const NEAR: f64 = 1.1;
/// Flags for the maximum number of concurrent sequences: vLLM, SGLang, llama.cpp.
const SEATS: [&str; 3] = ["max_num_seqs", "max_running_requests", "total_slots"];
/// Number of requests needed for a p99 with an upper confidence bound.
const ENOUGH: u64 = 368;

/// Findings of the diagnosis, and measurements against the hardware limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Why {
    /// Findings, the binding ones first.
    pub findings: Vec<Finding>,
    /// Questions that the data cannot answer, with the reason.
    pub untold: Vec<Untold>,
    /// Hardware floors of each series, if the plan has a `[model]`.
    pub roofline: Vec<Roofline>,
    /// Gains of the advice, if it was tried.
    pub tried: Option<Tried>,
    /// Forecasts of the series, or the reasons why there are none.
    pub forecasts: Vec<forecasts::Attempt>,
}

impl Why {
    /// Diagnoses a run that has its answers. Reads `requests.csv` for steps with one request at a time.
    ///
    /// # Errors
    /// Fails if `requests.csv` exists but cannot be read.
    pub(crate) fn of(plan: &Plan, run: &Run, dir: &Path) -> Result<Self> {
        let tried = Tried::read(dir, run)?;
        let trials = tried.as_ref().map(Tried::trials).unwrap_or_default();
        let attempts = forecasts::read(dir)?;
        let forecasts = attempts.iter().filter_map(|attempt| attempt.forecast().cloned()).collect();
        let facts = Facts { forecasts, trials, ..facts(plan, run, dir)? };
        let steps = of_one_choice(plan, &run.steps);
        let found = diagnose(&steps, &facts);
        let mut roofline: Vec<Roofline> = Vec::new();
        for curve in &facts.curves {
            let at = at_goodput(run, curve);
            let at = at.and_then(|at| steps.iter().find(|s| s.series == at.series && s.step == at.step));
            let known = roofline.iter().any(|r| r.series == curve.series);
            roofline.extend(Roofline::of(curve, &steps, at).filter(|r| !known && !r.is_empty()));
        }
        Ok(Self { findings: found.findings, untold: found.untold, roofline, tried, forecasts: attempts })
    }

    /// Returns the findings of one series.
    pub(super) fn part(&self, series: &str) -> Self {
        Self {
            findings: self.findings.iter().filter(|f| f.series == series).cloned().collect(),
            untold: self.untold.iter().filter(|u| u.series == series).cloned().collect(),
            roofline: self.roofline.iter().filter(|r| r.series == series).cloned().collect(),
            tried: self.tried.clone().filter(|tried| tried.series == series),
            forecasts: self.forecasts.iter().filter(|f| f.series() == series).cloned().collect(),
        }
    }
}

/// Returns the steps with the mean length of a choice in place of that of an answer: the diagnosis follows sequences, and an engine makes one
/// of each choice.
fn of_one_choice<'a>(plan: &Plan, steps: &'a [Step]) -> Cow<'a, [Step]> {
    let choices = plan.mean_choices();
    if choices <= 1.0 {
        return Cow::Borrowed(steps);
    }
    let of_one =
        |s: &Step| Step { output_tokens_mean: s.output_tokens_mean.map(|n| n / choices), ..s.clone() };
    steps.iter().map(of_one).collect()
}

/// Collects the input of a diagnosis, other than forecasts. Reads `requests.csv` for steps with one request at a time.
///
/// # Errors
/// Fails if `requests.csv` exists but cannot be read.
pub fn facts(plan: &Plan, run: &Run, dir: &Path) -> Result<Facts> {
    let series = plan.series();
    let virtual_time = if run.meta.virtual_time { " --virtual-time" } else { "" };
    Ok(Facts {
        own: own_limits(plan, run),
        imported: run.meta.imported.is_some(),
        failures: failures(run),
        lengths: lengths::points(dir, run, &series)?,
        again: format!("goodput sweep plan.toml{virtual_time}"),
        try_advice: "goodput sweep --resume . --try-advice".into(),
        trial_again: format!("goodput sweep {}/plan.toml{virtual_time}", tried::FOLDER),
        trials: Vec::new(),
        accepts: accepts(plan, run.meta.virtual_time),
        curves: series.iter().flat_map(|one| curves(run, one)).collect(),
        forecasts: Vec::new(),
    })
}

/// Returns the check whether the plan of the run folder takes overrides. Prompts of one kind in place of classes, or lengths from token counts that
/// include images, would measure other requests, not the same ones with one change.
fn accepts(plan: &Plan, virtual_time: bool) -> Accepts {
    let plan = plan.clone();
    let has_own_prompts = !plan.workload.classes().is_empty() || plan.workload.has_images();
    Accepts::new(move |sets| {
        if has_own_prompts && sets.iter().any(|set| set.starts_with("workload.prompts")) {
            return false;
        }
        let taken = plan.with_overrides(sets);
        taken.is_ok_and(|plan| !virtual_time || plan.check_virtual().is_ok())
    })
}

/// Returns the failures of all steps, the most frequent kind of each first.
fn failures(run: &Run) -> Vec<StepFailures> {
    let mut all: Vec<StepFailures> = run
        .failures
        .iter()
        .filter(|row| row.step > 0)
        .map(|row| StepFailures {
            step: row.step,
            kind: row.kind.clone(),
            status: row.status,
            count: row.count,
        })
        .collect();
    all.sort_by(|a, b| a.step.cmp(&b.step).then(b.count.cmp(&a.count)));
    all
}

/// Returns the steps in which the client was the limit.
fn own_limits(plan: &Plan, run: &Run) -> Vec<OwnLimit> {
    let limit = |caveat: ClientCaveat| match caveat {
        ClientCaveat::OwnLimit { step, fault, .. } => Some(OwnLimit { step, fault }),
        ClientCaveat::BeyondCalibration { .. }
        | ClientCaveat::WorkerApart { .. }
        | ClientCaveat::WorkerFaults { .. } => None,
    };
    client_faults::faults(plan, &run.steps, &run.failures).into_iter().filter_map(limit).collect()
}

/// Returns a key of the server and its hardware; curves with equal keys may be analysed together.
pub(super) fn deployment(plan: &Plan) -> String {
    let text = |of: Result<String, toml::ser::Error>| of.unwrap_or_default();
    format!("{}\n{}", text(toml::to_string(&plan.server)), text(toml::to_string(&plan.hardware)))
}

/// Returns the curves of a series: one for each of its answers, or one for the heaviest step if there are none.
fn curves(run: &Run, one: &Series) -> Vec<Curve> {
    let plan = &one.plan;
    let part = run.parts.iter().find(|p| p.series() == one.name).unwrap_or(run);
    let (flags, settings) = settings::of(one, part);
    let known = Curve {
        series: one.name.clone(),
        deployment: deployment(plan),
        flags,
        variant_keys: one.variant.iter().flat_map(|v| v.set.keys().cloned()).collect(),
        command: one.variant.as_ref().and_then(|v| v.start()).map(|start| start.command),
        tensor_parallel: plan.hardware.tensor_parallel(),
        replicas: plan.hardware.replicas(),
        seats: seats(plan, part).or_else(|| started_seats(plan, &settings)),
        shared: plan.workload.shared_share().filter(|_| plan.workload.cache == Cache::Warm),
        cold: cold_twin(run, one),
        settings,
        fixed_input: fixed_input(plan).filter(|_| run.matrix.is_empty()),
        hardware: plan.model.and_then(|m| Some((plan.hardware.machine(&m)?, m))),
        ..Curve::default()
    };
    if let Some(row) = run.matrix.iter().find(|r| r.row == one.name) {
        let Some(figures) = row.figures else { return Vec::new() };
        let question = Some(row.metric.name().to_owned());
        return vec![Curve { step: figures.step, question, ..known }];
    }
    let own = part.answers.iter().filter(|a| a.series == one.name);
    let missed = |a: &Answer| {
        let (step, limit) = examined(part, a)?;
        let (tier, mix) = (Some(a.tier.clone()), mix::of(run, a, step));
        Some(Curve { step: step.step, limit, tier, mix, ..known.clone() })
    };
    let mut all: Vec<Curve> = own.filter_map(missed).collect();
    if let Some(step) = heaviest(run, &one.name).filter(|_| all.is_empty()) {
        all.push(Curve { step: step.step, ..known.clone() });
    }
    // The saturated server shows the effect of more load: it preempts, or has no cache left.
    let full =
        run.steps.iter().rfind(|s| s.series == one.name && s.kind == StepKind::Peak && s.completed > 0);
    all.extend(full.map(|s| Curve { step: s.step, ..known }));
    all
}

/// Picks the step of an answer to diagnose, with the limit that binds there. Tries in order: the step nearest to an
/// estimate, the lightest step that misses the limit by its own counts, the step that the answer names, of an answer without a
/// verdict the lightest step whose requests mostly miss a limit, the heaviest step that the server could sustain.
fn examined<'a>(run: &'a Run, a: &Answer) -> Option<(&'a Step, Option<String>)> {
    let g = &a.goodput;
    let loaded = || {
        let own =
            |s: &&Step| s.series == a.series && s.level.control == a.control && !s.kind.is_outside_search();
        run.steps.iter().filter(own)
    };
    let lightest = |a: &&Step, b: &&Step| a.level.value.total_cmp(&b.level.value).then(b.due_n.cmp(&a.due_n));
    if g.status() == Status::Invalid {
        let invalid = loaded().filter(|s| run.judged(a, s).0 == Verdict::Invalid).min_by(lightest)?;
        return Some((invalid, g.binding.clone()));
    }
    let binding = |s: &Step| g.binding.clone().or_else(|| run.judged(a, s).1);
    if g.status() == Status::None {
        let alone = || run.steps.iter().filter(|s| s.series == a.series && s.kind == StepKind::Baseline);
        // What one request alone misses, no rate meets.
        let misses = alone().filter(|s| run.judged(a, s).0 == Verdict::Fails).max_by_key(|s| s.due_n);
        if let Some(step) = misses {
            return Some((step, run.judged(a, step).1));
        }
        if g.bracket.failed.is_none() {
            let step = alone().max_by_key(|s| s.due_n)?;
            return Some((step, binding(step)));
        }
    }
    let from = g.rate().or(g.bracket.met).unwrap_or(0.0) * 0.98;
    let misses = |s: &&Step| {
        let of = |key: &str| s.row(&a.tier, key).is_some_and(misses);
        s.level.value >= from && s.verdict != Verdict::Invalid && g.binding.as_deref().is_some_and(of)
    };
    let named = || g.bracket.failed.and_then(|level| run.step_at(a, level, Verdict::Fails));
    // The binding limit shows at the boundary itself; far beyond it everything is slow.
    let near = || {
        let at = g.rate().filter(|_| g.interval90().is_some() && g.binding.is_some())?;
        let close =
            |s: &&Step| (s.level.value / at).ln().abs() < NEAR.ln() && s.due_n >= ENOUGH && !s.overloaded();
        // A step beyond a cliff shows what one before it does not.
        let meets = |s: &Step| run.judged(a, s).0 == Verdict::Meets;
        let far = |s: &&Step| (meets(s), (s.level.value / at).ln().abs());
        loaded().filter(close).filter(|s| s.verdict != Verdict::Invalid).min_by(|a, b| {
            let (a, b) = (far(a), far(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    };
    let missing = || loaded().filter(misses).min_by(lightest);
    if let Some(step) = near().or_else(missing).or_else(named) {
        return Some((step, binding(step)));
    }
    if g.status() == Status::Undecided {
        // Too few requests for a verdict may still be nearly all that were sent.
        let mostly = loaded().filter_map(|s| Some((s, mostly_missed(s, &a.tier)?)));
        if let Some((step, row)) = mostly.min_by(|(a, _), (b, _)| lightest(a, b)) {
            return Some((step, Some(row.key())));
        }
    }
    heaviest(run, &a.series).map(|s| (s, None))
}

/// Returns the limit of a tier that most requests of a valid step missed; `None` if there is none, or a few requests may be
/// chance.
fn mostly_missed<'s>(step: &'s Step, tier: &str) -> Option<&'s LimitRow> {
    const SEVERAL: u64 = 5;
    // `joint` counts the misses of every limit, and says nothing of their cause.
    let own = |row: &&LimitRow| row.tier == tier && row.limit != "joint" && step.verdict != Verdict::Invalid;
    let rows = step.limits.iter().filter(own);
    let most = rows.max_by_key(|row| row.misses)?;
    (most.misses >= SEVERAL && 2 * most.misses > most.n).then_some(most)
}

/// Returns true if more requests missed a limit than it allows.
fn misses(row: &LimitRow) -> bool {
    match limit_percentile(&row.limit).map(Percentile::miss_share) {
        Some(share) => row.n >= 100 && row.misses as f64 > share * row.n as f64,
        None => row.verdict == Verdict::Fails,
    }
}

/// Returns the heaviest step of a series that the server could sustain.
fn heaviest<'a>(run: &'a Run, series: &str) -> Option<&'a Step> {
    let told = |s: &&Step| {
        s.series == series
            && !s.overloaded()
            && s.verdict != Verdict::Invalid
            && s.completed > 0
            && !s.kind.is_auxiliary()
    };
    let key = |s: &&Step| (s.kind != StepKind::Baseline, s.level.value);
    run.steps.iter().filter(told).max_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

/// Returns the step nearest to the goodput of a series; for a matrix row, or without an answer, the diagnosed step.
fn at_goodput<'a>(run: &'a Run, curve: &Curve) -> Option<&'a Step> {
    let answer = run.answers.iter().find(|a| a.series == curve.series);
    match answer {
        Some(a) if run.matrix.is_empty() => {
            let g = &a.goodput;
            run.nearest(a, g.rate().or(g.safe_rate()).or(g.bracket.met)?)
        }
        _ => run.steps.iter().find(|s| s.series == curve.series && s.step == curve.step),
    }
}

/// Returns the maximum number of sequences that the server processes at a time, if it is known.
fn seats(plan: &Plan, run: &Run) -> Option<u32> {
    let Some(simulated) = plan.simulated().ok().flatten() else {
        // The sum over all servers: together they process that many.
        let of = |f: &ServerFacts| {
            let told = SEATS.iter().find_map(|name| f.flags.get(*name)?.parse::<u32>().ok())?;
            let engines = f.engines.unwrap_or(1).max(1);
            told.checked_mul(engines)?.checked_mul(f.servers.len().max(1) as u32)
        };
        return run.meta.facts.iter().map(of).sum::<Option<u32>>().filter(|n| *n > 0);
    };
    match simulated.engine {
        Engine::Batch { deployment, .. } => Some(deployment.limits.max_num_seqs.get()),
        _ => None,
    }
}

/// Returns the sequences that servers started with a known command process at a time, all of them together.
fn started_seats(plan: &Plan, settings: &Settings) -> Option<u32> {
    let seats = settings.get(Knob::Sequences).filter(|c| c.origin == Origin::CommandLine)?.value.number()?;
    let copies = settings.count(Knob::Replicas).unwrap_or(1) * plan.server.target.urls().len().max(1) as u64;
    Some((seats * copies as f64) as u32)
}

/// Returns the name of the series that differs only in having a cold cache, if it was measured.
fn cold_twin(run: &Run, one: &Series) -> Option<String> {
    let name = one.name.strip_suffix(Cache::Warm.name())?;
    let cold = format!("{name}{}", Cache::Cold.name());
    run.steps.iter().any(|s| s.series == cold).then_some(cold)
}

/// Returns the prompt length in tokens if all prompts are synthetic and of one fixed length.
fn fixed_input(plan: &Plan) -> Option<u32> {
    match &plan.workload.kinds()[..] {
        [one] if one.conversation.is_none() && one.name.is_none() => match one.source {
            RequestSource::Prompts(Prompts::Synthetic(s)) => match s.input_tokens {
                Lengths::Fixed(n) => Some(n.get()),
                _ => None,
            },
            RequestSource::Prompts(_) | RequestSource::Trace(_) => None,
        },
        _ => None,
    }
}

/// Returns true if a step had one request at a time and is usable.
pub(super) fn one_at_a_time(s: &Step) -> bool {
    goodput_stats::diagnosis::is_one(s) && s.verdict != Verdict::Invalid && s.quantiles(Metric::Ttft).n > 0
}

#[cfg(test)]
mod tests;
