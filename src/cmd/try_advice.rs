//! `sweep --try-advice`: measures the first remedies that the report of a sweep advises.

use crate::cmd::within::{self, Outcome};
use crate::diagnosis::{Advice, Remedy};
use crate::plan::{Plan, Series, Trial};
use crate::rundir::tried::{ChosenRemedies, FOLDER};
use crate::rundir::{self, RESULT, Run};
use crate::sweep::Resumption;
use std::path::Path;

/// Measures the first `most` remedies of a finished run, in the folder `advice` of the run, and the next one for each with which
/// the server could not be measured. What was measured there before is kept, unless it is to be measured `again`.
pub(crate) fn after_sweep(dir: &Path, plan: &Plan, most: usize, again: bool) -> Outcome {
    within::or_warn("the advice was not tried", try_all(dir, plan, most, again))
}

fn try_all(dir: &Path, plan: &Plan, most: usize, again: bool) -> Outcome {
    let run = rundir::read(dir)?;
    if !within::is_whole(&run) || !run.purpose.is_goodput() {
        return Ok(Ok(()));
    }
    let all = plan.series();
    let Some((series, mut remedies)) = first_remedies(&run, &all) else {
        tracing::info!(
            "no advice can be tried: none names a value for a setting of a server that the plan simulates or starts"
        );
        return Ok(Ok(()));
    };
    let mut next = remedies.split_off(most.min(remedies.len())).into_iter();
    let mut measured = try_these(dir, plan, &run, series, &remedies, again)?;
    // Read again, since what was tried is part of the run.
    while measured.is_ok() && succeeded(&rundir::read(dir)?, &remedies) < most {
        let Some(one) = next.next() else { break };
        remedies.push(one);
        measured = try_these(dir, plan, &run, series, &remedies, false)?;
    }
    Ok(measured)
}

/// Returns how many of these remedies a server could be measured with.
fn succeeded(run: &Run, remedies: &[(String, Trial)]) -> usize {
    let outcomes = run.why.tried.iter().flat_map(|tried| &tried.outcomes);
    outcomes.filter(|o| o.status.is_some() && remedies.iter().any(|(name, _)| *name == o.remedy)).count()
}

fn try_these(
    dir: &Path,
    plan: &Plan,
    run: &Run,
    series: &Series,
    remedies: &[(String, Trial)],
    again: bool,
) -> Outcome {
    let names: Vec<String> = remedies.iter().map(|(name, _)| name.clone()).collect();
    tracing::info!("trying the advice: {}", names.join(", "));
    let trying = plan.trying(series, remedies)?;
    let folder = dir.join(FOLDER);
    if let Some(earlier) = earlier(&folder, &trying).filter(|_| !again) {
        let remedies = earlier.plan().variants.iter().map(|v| v.name.clone()).collect();
        ChosenRemedies { series: series.name.clone(), remedies }.write(dir)?;
        return within::resume(dir, &folder, earlier);
    }
    ChosenRemedies { series: series.name.clone(), remedies: names }.write(dir)?;
    within::measure(dir, run, FOLDER, &trying, None)
}

/// Opens an earlier trial in a folder, to go on with the remedies of `trying` as well. Returns `None` if there is none, or if it
/// measured something else.
fn earlier(folder: &Path, trying: &Plan) -> Option<Resumption> {
    if !folder.join(RESULT).is_file() {
        return None;
    }
    let opened = Resumption::open(folder, None).and_then(|earlier| {
        let plan = with_earlier(trying, earlier.plan());
        earlier.with_variants(plan)
    });
    opened.inspect_err(|e| tracing::warn!("the advice is measured anew: {e:#}")).ok()
}

/// Returns the plan of a trial with the variants of an earlier one before its own; of one that both have its own, since the
/// earlier plan was read from a file, in which secrets are masked.
fn with_earlier(trying: &Plan, earlier: &Plan) -> Plan {
    let of = |plan: &Plan, name: &str| plan.variants.iter().find(|v| v.name == name).cloned();
    let before = earlier.variants.iter().map(|v| of(trying, &v.name).unwrap_or_else(|| v.clone()));
    let new = trying.variants.iter().filter(|v| of(earlier, &v.name).is_none()).cloned();
    let variants = before.chain(new).collect();
    Plan { variants, ..trying.clone() }
}

/// Returns the remedies of the first series that has any, in the order of its findings, each with the change that it makes.
fn first_remedies<'a>(run: &Run, all: &'a [Series]) -> Option<(&'a Series, Vec<(String, Trial)>)> {
    run.why.findings.iter().find_map(|finding| {
        let series = all.iter().find(|s| s.name == finding.series)?;
        let remedies = remedies(run, series);
        (!remedies.is_empty()).then_some((series, remedies))
    })
}

/// Returns the remedies of a series, each once.
fn remedies(run: &Run, series: &Series) -> Vec<(String, Trial)> {
    let own = run.why.findings.iter().filter(|f| f.series == series.name);
    let mut all: Vec<(String, Trial)> = Vec::new();
    for (name, trial) in own.flat_map(|f| &f.advice).filter_map(|advice| trial(advice, series)) {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, trial));
        }
    }
    all
}

/// Returns an advice as a change of the plan; `None` for one that changes no setting of a server that the plan simulates or starts.
fn trial(advice: &Advice, series: &Series) -> Option<(String, Trial)> {
    let remedy = Remedy::of(advice)?;
    if remedy.is_simulated() {
        let keys = remedy
            .changes
            .iter()
            .map(|(flag, value)| Some(((*flag).to_owned(), toml::Value::try_from(value).ok()?)));
        return Some((remedy.name, Trial::Keys(keys.collect::<Option<_>>()?)));
    }
    let start = series.variant.as_ref()?.start()?;
    let command = remedy.command(&start.command)?;
    Some((remedy.name, Trial::Command(command)))
}
