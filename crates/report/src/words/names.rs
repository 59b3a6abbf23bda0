//! Names of the system under test, of workloads and of answers, for people.

use super::units::list;
use crate::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use goodput_plan::MeasuredWorkload;
use goodput_run::rundir::{Meta, Run};
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::Step;
use goodput_workload::summary::{Pacing, WorkloadSummary};

/// Returns the workload in one line. The arrival process of the plan is left out for a closed loop, which has none.
pub(crate) fn workload(run: &Run) -> String {
    let closed = run.answers.first().is_some_and(|a| a.control == Control::Concurrency);
    match &run.meta.workload {
        MeasuredWorkload::Traffic(workload) if closed && !workload.pacing.is_closed() => {
            let pacing = Pacing::ClosedLoop { max_rate: None };
            WorkloadSummary { pacing, ..workload.clone() }.to_string()
        }
        workload => workload.to_string(),
    }
}

/// Returns true if several GPUs were measured, so that the subject is plural.
pub(crate) fn plural(meta: &Meta) -> bool {
    meta.gpu.is_some() && meta.gpus.unwrap_or(1) > 1
}

/// Returns the [`subject`] for use within a sentence: `one A40`.
pub(crate) fn lower(who: &str) -> String {
    who.replacen("One ", "one ", 1).replacen("The ", "the ", 1)
}

/// Returns the system under test: `One A40`, `4 × A100`, `The simulated server`.
pub(crate) fn subject(meta: &Meta) -> String {
    let simulated = if meta.server.is_simulated() { "simulated " } else { "" };
    match (&meta.gpu, meta.gpus.unwrap_or(1)) {
        (Some(gpu), 1) => format!("One {simulated}{}", clip(gpu, 40)),
        (Some(gpu), n) => format!("{n} × {simulated}{}", clip(gpu, 40)),
        (None, _) => format!("The {simulated}server"),
    }
}

/// Maximum number of workers that are named in a sentence.
const MOST_WORKERS: usize = 8;

/// Returns the workers that sent the load: `4 workers: node-1, node-2, node-3 and node-4`; `None` with a single machine.
pub(crate) fn workers(meta: &Meta) -> Option<String> {
    let mut names: Vec<String> = meta.workers.iter().take(MOST_WORKERS).map(|w| clip(&w.id, 40)).collect();
    let count = match meta.workers.len() {
        0 => return None,
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    let more = meta.workers.len() - names.len();
    names.extend((more > 0).then(|| format!("{more} more")));
    Some(format!("{count}: {}", list(&names)))
}

/// Returns the name of the SLO that an answer is about: `the SLO`, or `the SLO of gold` if it is one of several.
pub(crate) fn slo_name(run: &Run, a: &Answer) -> String {
    if several_tiers(run) || run.is_of_tier {
        format!("the SLO of {}", clip(&a.tier, 40))
    } else {
        "the SLO".into()
    }
}

/// Returns true if the steps are judged by several SLOs.
pub(crate) fn several_tiers(run: &Run) -> bool {
    run.answers.iter().any(|a| a.tier != run.answers[0].tier)
}

/// Returns the fields that distinguish an answer from the others of its run: `gold`; empty if there is only one.
pub(crate) fn whose(run: &Run, a: &Answer) -> String {
    let names: [fn(&Answer) -> &str; 3] = [|a| &a.series, |a| &a.tier, |a| &a.class];
    let differ = |of: &fn(&Answer) -> &str| run.answers.iter().any(|other| of(other) != of(a));
    let own: Vec<String> = names.iter().filter(|of| differ(of)).map(|of| clip(of(a), 40)).collect();
    own.join(", ")
}

/// Returns true if steps were measured for several purposes: a table then has a column for it.
pub(crate) fn mixed(run: &Run) -> bool {
    run.steps.iter().any(|s| s.kind != run.steps[0].kind)
}

/// Returns the steps of an answer's series.
pub(crate) fn steps_of<'a>(run: &'a Run, answer: &Answer) -> Vec<&'a Step> {
    run.steps_of(answer)
}

/// Returns the tier that an answer is about.
pub(crate) fn tier_of<'a>(run: &'a Run, answer: &Answer) -> Option<&'a Slo> {
    run.tiers.iter().find(|t| t.tier() == answer.tier).or_else(|| run.tiers.first())
}

/// Returns the date of an RFC 3339 time.
pub(crate) fn date(time: &str) -> String {
    clip(time.split('T').next().unwrap_or(time), 10)
}

/// Formats an RFC 3339 time to the second, for people: `2026-11-20 10:15:00 UTC`.
pub(crate) fn moment(time: &str) -> String {
    let whole = time.split('.').next().unwrap_or(time).trim_end_matches('Z').replacen('T', " ", 1);
    if time.ends_with('Z') { format!("{whole} UTC") } else { whole }
}

/// Returns the number of requests due in the measured windows of all steps.
pub(crate) fn requests(run: &Run) -> u64 {
    run.steps.iter().map(|s| s.due_n).sum()
}
