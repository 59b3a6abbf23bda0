//! `sensitivity`: paired steps near the goodput of a run, each with one property of the workload changed.

mod design;

use crate::cli::SensitivityArgs;
use crate::cmd::consent;
use crate::cmd::offline::quoted;
use crate::cmd::sweep::{After, answer, measure, options};
use crate::cmd::within::{self, Outcome};
use crate::plan::{Plan, SensitivityPlan, Source};
use crate::rundir::sensitivity::FOLDER;
use crate::rundir::{self, PLAN, RESULT};
use crate::sweep::Resumption;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::ExitCode;

/// Runs the sweep of a plan, unless given a run folder; then measures the pairs, writes the reports and prints the answer.
pub(crate) fn sensitivity(args: &SensitivityArgs) -> Result<ExitCode> {
    if args.target.join(RESULT).is_file() {
        return of_run(&args.target, args);
    }
    let mut sets: Vec<String> = args.measure.set.clone();
    sets.extend(args.url.as_deref().map(|url| quoted("server.url", url)));
    sets.extend(args.budget.map(|b| quoted("sensitivity.budget", &b.to_string())));
    let mut plan = Plan::load(&Source::find(&args.target)?, &sets)?;
    // Puts the table into the plan of the run folder, so that a resumed sweep measures the pairs too.
    let asked = plan.sensitivity.get_or_insert_default().clone();
    if let Some(problem) = asked.problem(&plan) {
        bail!("{problem}");
    }
    consent::ask(&[&plan], args.measure.yes)?;
    measure(&plan, &options(&plan, &args.measure, &args.folder), After::only(&args.folder))
}

/// Measures the pairs of an existing run.
fn of_run(dir: &Path, args: &SensitivityArgs) -> Result<ExitCode> {
    if !args.measure.set.is_empty()
        || args.url.is_some()
        || args.folder.out.is_some()
        || args.measure.virtual_time
    {
        bail!(
            "{} is a run folder with its own plan, server and clock: leave out --set, --url, --out and --virtual-time, or name a plan",
            dir.display()
        );
    }
    let path = dir.join(PLAN);
    rundir::files::is_there(&path)?;
    let plan = Plan::load(&Source::find(&path)?, &[])?;
    consent::ask(&[&plan], args.measure.yes)?;
    let mut asked = plan.sensitivity.clone().unwrap_or_default();
    asked.budget = args.budget.unwrap_or(asked.budget);
    if let Some(problem) = asked.problem(&plan) {
        bail!("{problem}");
    }
    if args.budget.is_some() && !args.folder.force && dir.join(FOLDER).join(RESULT).is_file() {
        bail!(
            "{} already has pairs, measured within their own budget: --force measures them again",
            dir.display()
        );
    }
    if let Err(code) = pairs(dir, &plan, &asked, args.folder.force)? {
        return Ok(code);
    }
    answer(dir, &plan, args.folder.output())
}

/// Measures the pairs after a sweep whose plan asks for them.
pub(crate) fn after_sweep(dir: &Path, plan: &Plan) -> Outcome {
    match &plan.sensitivity {
        Some(asked) if within::is_whole(&rundir::read(dir)?) => {
            within::or_warn("the sensitivity was not measured", pairs(dir, plan, asked, false))
        }
        Some(_) | None => Ok(Ok(())),
    }
}

/// Measures the pairs of a run in their own folder, or resumes them.
///
/// # Errors
/// The run has no goodput, the budget is too small, or the server cannot be measured.
fn pairs(dir: &Path, plan: &Plan, asked: &SensitivityPlan, again: bool) -> Outcome {
    let folder = dir.join(FOLDER);
    if folder.join(RESULT).is_file() && !again {
        return within::resume(dir, &folder, Resumption::open(&folder, None)?);
    }
    let run = rundir::read(dir)?;
    let design = design::of(&run, plan, asked)?;
    let paired = plan.paired(&design.factors, &design.pairing)?;
    tracing::info!("{}", design::summary(&design, plan));
    within::measure(dir, &run, FOLDER, &paired, Some(asked.budget.0))
}
