//! `handoff`: writes files for operations from a run folder.

use crate::cli::HandoffArgs;
use crate::cmd::print_line;
use crate::rundir::{self, GaugeSamples, files};
use anyhow::{Context, Result, bail, ensure};
use goodput_handoff::{Figures, Handoff, NoFigures, Options, Replicas};
use goodput_stats::search::answer::Status;
use std::fs;
use std::process::ExitCode;

/// Writes the files and prints what was made. Returns exit code 3 if the run has no safe rate.
pub(crate) fn handoff(args: &HandoffArgs) -> Result<ExitCode> {
    let replicas = args.capacity.as_ref().map(|path| {
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        Replicas::read(&text, path)
    });
    let replicas = replicas.transpose()?;
    let (dir, part) = rundir::folder_and_part(&args.run);
    let run = rundir::answered(&dir)?.0;
    let options = Options {
        part: part.map(str::to_owned),
        labels: args.labels.clone(),
        replicas,
        start_up: args.start_up.map(|s| s.0),
        growth: args.growth / 100.0,
        deployment: args.deployment.clone(),
        prometheus: args.prometheus.clone(),
    };
    let figures = match Figures::of(&run, GaugeSamples::read(&dir)?, options) {
        Ok(figures) => figures,
        Err(NoFigures::NoSafeRate { status }) => {
            tracing::error!("{}: {}", args.run, no_safe_rate(status));
            return Ok(ExitCode::from(3));
        }
        Err(NoFigures::NoAnswer) => bail!("{} has no answer: its plan asks for no goodput", args.run),
        Err(NoFigures::NoSuchPart { part, known }) => {
            bail!("{} has no series or tier {part:?}; it has {}", dir.display(), known.join(", "))
        }
    };
    figures.check().map_err(anyhow::Error::msg)?;
    let made = goodput_handoff::handoff(&figures)?;
    write(args, &made)?;
    print_line(&summary(args, &made))?;
    Ok(ExitCode::SUCCESS)
}

fn no_safe_rate(status: Status) -> &'static str {
    match status {
        Status::None => "no rate meets the SLO, so there is none to hand over",
        Status::Invalid => {
            "the client was the limit, so no rate is shown to be safe: measure with a faster client"
        }
        Status::Found | Status::NotReached | Status::Undecided => {
            "no rate is shown to be safe: measure longer, with goodput sweep --resume RUN --budget TIME"
        }
    }
}

fn write(args: &HandoffArgs, made: &Handoff) -> Result<()> {
    ensure!(!args.out.is_file(), "--out {} is a file: name a folder", args.out.display());
    for file in &made.files {
        let path = args.out.join(file.path);
        files::make_folder(path.parent().unwrap_or(&args.out))?;
        files::replace(&path, file.text.as_bytes())?;
    }
    Ok(())
}

fn summary(args: &HandoffArgs, made: &Handoff) -> String {
    let paths = made.files.iter().map(|file| format!("  {}", args.out.join(file.path).display()));
    let missing = made.missing.iter().map(|why| format!("  {why}"));
    let mut lines: Vec<String> = vec!["Written:".into()];
    lines.extend(paths);
    if !made.missing.is_empty() {
        lines.push("Not made:".into());
        lines.extend(missing);
    }
    lines.join("\n")
}
