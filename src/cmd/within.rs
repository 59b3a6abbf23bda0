//! Sweeps within the folder of a run: what is measured after its search, in a run folder of its own.

use crate::caveat::{Caveat, SweepCaveat};
use crate::cmd::sweep::{INTERRUPTED, drive, hint_with};
use crate::plan::Plan;
use crate::rundir::tried::FOLDER;
use crate::rundir::{self, Run};
use crate::sweep::{self, Options, Resumption};
use anyhow::Result;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The outcome of a sweep within a run; the inner error is the exit code of an interruption.
pub(super) type Outcome = Result<Result<(), ExitCode>>;

/// Returns true if nothing ended a run before its time, so that more can be measured after it.
pub(super) fn is_whole(run: &Run) -> bool {
    !run.caveats.iter().any(|c| c.ends_sweep() || *c == Caveat::Sweep(SweepCaveat::Interrupted))
}

/// Measures a plan in a folder of the run `dir`, in place of an earlier sweep there, by the run's clock.
pub(super) fn measure(dir: &Path, run: &Run, name: &str, plan: &Plan, budget: Option<Duration>) -> Outcome {
    let folder = dir.join(name);
    let options = Options {
        out: folder.clone(),
        force: true,
        virtual_time: run.meta.virtual_time,
        budget,
        progress: std::io::stderr().is_terminal(),
        ..Options::default()
    };
    let measured = drive(options.virtual_time, &folder, &options.groups, async |interrupt| {
        sweep::run(plan, &options, interrupt).await.map(drop)
    })?;
    Ok(measured.and_then(|()| interrupted(dir, &folder)))
}

/// Resumes an earlier sweep in a folder of the run `dir`. Measures nothing if nothing of it is left.
pub(super) fn resume(dir: &Path, folder: &Path, resumption: Resumption) -> Outcome {
    resumption.check_plan(false)?;
    if resumption.is_done() {
        resumption.close(false)?;
        return Ok(Ok(()));
    }
    let options = Options { progress: std::io::stderr().is_terminal(), ..Options::default() };
    let groups = resumption.groups();
    let measured = drive(resumption.virtual_time(), folder, &groups, async |interrupt| {
        Box::pin(sweep::resume(resumption, &options, interrupt)).await.map(drop)
    })?;
    Ok(measured.and_then(|()| interrupted(dir, folder)))
}

/// Returns the exit code as an error if the sweep in a folder of the run was interrupted, and logs how to resume.
fn interrupted(dir: &Path, folder: &Path) -> Result<(), ExitCode> {
    let interrupted = Caveat::Sweep(SweepCaveat::Interrupted);
    if rundir::read(folder).is_ok_and(|run| run.caveats.contains(&interrupted)) {
        // The remedies that were asked for are those of the folder.
        let tried = folder.file_name().is_some_and(|name| name == FOLDER);
        hint_with(dir, if tried { " --try-advice" } else { "" });
        return Err(ExitCode::from(INTERRUPTED));
    }
    Ok(())
}

/// Logs a failure with `what` was not done, since the run keeps its answer without it.
pub(super) fn or_warn(what: &str, outcome: Outcome) -> Outcome {
    outcome.or_else(|e| {
        tracing::warn!("warning: {what}: {e:#}");
        Ok(Ok(()))
    })
}
