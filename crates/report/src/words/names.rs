//! What was measured, and whose an answer is, for people.

use crate::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use goodput_plan::MeasuredWorkload;
use goodput_run::rundir::{Meta, Run};
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::Step;
use goodput_workload::summary::{Pacing, WorkloadSummary};

/// Returns the workload in one line. A closed loop has no arrivals of its own, whatever the plan says of them.
pub fn workload(run: &Run) -> String {
    let closed = run.answers.first().is_some_and(|a| a.control == Control::Concurrency);
    match &run.meta.workload {
        MeasuredWorkload::Traffic(workload) if closed && !workload.pacing.is_closed() => {
            let pacing = Pacing::ClosedLoop { max_rate: None };
            WorkloadSummary { pacing, ..workload.clone() }.to_string()
        }
        workload => workload.to_string(),
    }
}

/// Whether several GPUs were measured, so that what is said of them is in the plural.
pub fn plural(meta: &Meta) -> bool {
    meta.gpu.is_some() && meta.gpus.unwrap_or(1) > 1
}

/// What was measured, within a sentence: `one A40`.
pub fn lower(who: &str) -> String {
    who.replacen("One ", "one ", 1).replacen("The ", "the ", 1)
}

/// What was measured: `One A40`, `4 × A100`, `The simulated server`.
pub fn subject(meta: &Meta) -> String {
    let simulated = if meta.server.is_simulated() { "simulated " } else { "" };
    match (&meta.gpu, meta.gpus.unwrap_or(1)) {
        (Some(gpu), 1) => format!("One {simulated}{}", clip(gpu, 40)),
        (Some(gpu), n) => format!("{n} × {simulated}{}", clip(gpu, 40)),
        (None, _) => format!("The {simulated}server"),
    }
}

/// The name of the SLO that an answer is about: `the SLO`, and `the SLO of gold` where there are several.
pub fn slo_name(run: &Run, a: &Answer) -> String {
    if several_tiers(run) { format!("the SLO of {}", clip(&a.tier, 40)) } else { "the SLO".into() }
}

/// Whether the steps are judged by several SLOs.
pub fn several_tiers(run: &Run) -> bool {
    run.answers.iter().any(|a| a.tier != run.answers[0].tier)
}

/// Which of several answers one is, by what differs among them: `gold`; empty where there is one.
pub fn whose(run: &Run, a: &Answer) -> String {
    let names: [fn(&Answer) -> &str; 3] = [|a| &a.series, |a| &a.tier, |a| &a.class];
    let differ = |of: &fn(&Answer) -> &str| run.answers.iter().any(|other| of(other) != of(a));
    let own: Vec<String> = names.iter().filter(|of| differ(of)).map(|of| clip(of(a), 40)).collect();
    own.join(", ")
}

/// Whether steps were measured for several purposes: then a table says for which.
pub fn mixed(run: &Run) -> bool {
    run.steps.iter().any(|s| s.kind != run.steps[0].kind)
}

/// The steps of an answer's series.
pub fn steps_of<'a>(run: &'a Run, answer: &Answer) -> Vec<&'a Step> {
    run.steps_of(answer)
}

/// The tier that an answer is about.
pub fn tier_of<'a>(run: &'a Run, answer: &Answer) -> Option<&'a Slo> {
    run.tiers.iter().find(|t| t.tier() == answer.tier).or_else(|| run.tiers.first())
}

/// The date of an RFC 3339 time.
pub fn date(time: &str) -> String {
    clip(time.split('T').next().unwrap_or(time), 10)
}

/// An RFC 3339 time to the second, for people: `2026-11-20 10:15:00 UTC`.
pub fn moment(time: &str) -> String {
    let whole = time.split('.').next().unwrap_or(time).trim_end_matches('Z').replacen('T', " ", 1);
    if time.ends_with('Z') { format!("{whole} UTC") } else { whole }
}

/// Requests due in the measured windows of all steps.
pub fn requests(run: &Run) -> u64 {
    run.steps.iter().map(|s| s.due_n).sum()
}
