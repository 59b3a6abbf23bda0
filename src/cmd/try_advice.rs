//! `sweep --try-advice`: measures the first remedies that the report of a sweep advises.

use super::sensitivity;
use super::sweep::drive;
use crate::caveat::{Caveat, SweepCaveat};
use crate::diagnosis::{Advice, Finding, Origin, Remedy, Settings};
use crate::plan::{Plan, Series, Trial};
use crate::rundir::tried::{Asked, FILE, FOLDER};
use crate::rundir::{self, Run};
use crate::sweep::{self, Options};
use anyhow::{Context, Result};
use std::fs;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// Measures the first `most` remedies of a finished run, in the folder `advice` of the run. A failure to do so is logged, and the sweep
/// keeps its answer. The inner error is the exit code of an interruption.
pub(crate) fn after_sweep(dir: &Path, plan: &Plan, most: usize) -> Result<Result<(), ExitCode>> {
    match try_first(dir, plan, most) {
        Err(e) => {
            tracing::warn!("warning: the advice was not tried: {e:#}");
            Ok(Ok(()))
        }
        other => other,
    }
}

fn try_first(dir: &Path, plan: &Plan, most: usize) -> Result<Result<(), ExitCode>> {
    let run = rundir::read(dir)?;
    let ended = run.caveats.iter().any(Caveat::ends_sweep);
    if ended || run.caveats.contains(&Caveat::Sweep(SweepCaveat::Interrupted)) || !run.purpose.is_goodput() {
        return Ok(Ok(()));
    }
    let all = plan.series();
    let Some((series, remedies)) = first_remedies(&run, &all, most) else {
        tracing::info!(
            "no advice can be tried: none names a value for a setting of a server that the plan simulates or starts"
        );
        return Ok(Ok(()));
    };
    let names: Vec<String> = remedies.iter().map(|(name, _)| name.clone()).collect();
    tracing::info!("trying the advice: {}", names.join(", "));
    let trying = plan.trying(series, &remedies)?;
    let folder = dir.join(FOLDER);
    let asked = Asked { series: series.name.clone(), remedies: names };
    let text = serde_json::to_string_pretty(&asked).context("failed to write the remedies as JSON")?;
    fs::write(dir.join(FILE), text)
        .with_context(|| format!("failed to write {}", dir.join(FILE).display()))?;
    let options = Options {
        out: folder.clone(),
        force: true,
        virtual_time: run.meta.virtual_time,
        progress: std::io::stderr().is_terminal(),
        ..Options::default()
    };
    let measured = drive(options.virtual_time, &folder, &options.groups, async |interrupt| {
        sweep::run(&trying, &options, interrupt).await.map(drop)
    })?;
    Ok(measured.and_then(|()| sensitivity::interrupted(dir, &folder)))
}

/// Returns the first remedies of the first series that has any, each with the change that it makes.
fn first_remedies<'a>(
    run: &Run,
    all: &'a [Series],
    most: usize,
) -> Option<(&'a Series, Vec<(String, Trial)>)> {
    let mut found: Option<(&Series, Vec<(String, Trial)>)> = None;
    for finding in &run.why.findings {
        let Some(series) = all.iter().find(|s| s.name == finding.series) else { continue };
        if found.as_ref().is_some_and(|(known, _)| known.name != series.name) {
            continue;
        }
        for (remedy, trial) in finding.advice.iter().filter_map(|advice| trial(advice, finding, series)) {
            let (_, remedies) = found.get_or_insert_with(|| (series, Vec::new()));
            if remedies.len() < most && !remedies.iter().any(|(name, _)| *name == remedy) {
                remedies.push((remedy, trial));
            }
        }
    }
    found
}

/// Returns an advice as a change of the plan; `None` for one that changes no setting of a server that the plan simulates or starts.
fn trial(advice: &Advice, finding: &Finding, series: &Series) -> Option<(String, Trial)> {
    debug_assert_eq!(finding.series, series.name, "a finding is of its series");
    let remedy = Remedy::of(advice)?;
    let simulated = remedy.changes.iter().all(|(flag, _)| flag.starts_with("server.simulated."));
    if simulated {
        let keys = remedy.changes.iter().map(|(flag, value)| Some(format!("{flag}={}", value.toml()?)));
        return Some((remedy.name.clone(), Trial::Keys(keys.collect::<Option<_>>()?)));
    }
    let start = series.variant.as_ref()?.start()?;
    let flags = Settings::default().read_command(&start.command, Origin::CommandLine)?;
    let mut command = start.command;
    for (flag, value) in &remedy.changes {
        command = flags.with_flag(&command, flag, value)?;
    }
    Some((remedy.name, Trial::Command(command)))
}
