//! `compare`: compares runs and checks gates on the changes.

mod measure;

use crate::cli::CompareArgs;
use crate::cmd::{pretty, print_line, print_result, warn_if_unprinted};
use crate::compare::gate::{self, Gate, GateResult};
use crate::compare::{self, Comparison, Side};
use crate::report::render::markdown;
use crate::report::sections::comparison;
use crate::report::write::{write_comparison, write_junit};
use anyhow::{Context, Result, anyhow, bail};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Compares the runs, writes the requested files and prints the comparison. Returns the exit code of the gates.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    if args.schema {
        return print_line(&pretty(&comparison::schema())?).map(|()| ExitCode::SUCCESS);
    }
    let gates = gates(&args.gate)?;
    for (flag, file) in [("--junit", &args.junit), ("--summary", &args.summary)] {
        if let Some(file) = file {
            is_file_name(flag, file)?;
        }
    }
    let (runs, out) = if args.measure {
        match measure::measure(args)? {
            Err(code) => return Ok(code),
            Ok(dir) => (vec![dir.display().to_string()], Some(dir)),
        }
    } else {
        (args.runs.clone(), args.out.clone())
    };
    let (sides, mut comparison) = match compare::group::groups(&runs, &args.against)? {
        Some(groups) => {
            let comparison = compare::compare_groups(&groups, args.force)?;
            (groups.into_iter().flat_map(|group| group.runs).collect(), comparison)
        }
        None => {
            let sides = compare::side::sides(&runs)?;
            let comparison = compare::compare(&sides, args.force)?;
            (sides, comparison)
        }
    };
    comparison.asked = replay_arguments(args, &runs);
    comparison.gates = gates.iter().flat_map(|gate| gate.judge(&comparison)).collect();
    write_and_print(args, &comparison, &sides, out.as_deref())?;
    let server_gone = sides.iter().any(|s| s.gone().is_some());
    Ok(ExitCode::from(match gate::overall(&comparison.gates) {
        GateResult::Fails => 2,
        GateResult::Undecided => 3,
        // Gates hold only on the steps before the server stopped answering.
        GateResult::Holds if server_gone => 3,
        GateResult::Holds => 0,
    }))
}

/// Returns the arguments that repeat the comparison.
fn replay_arguments(args: &CompareArgs, runs: &[String]) -> Vec<String> {
    let gates = args.gate.iter().flat_map(|g| ["--gate".to_owned(), g.clone()]);
    let force = (args.force && !args.measure).then(|| "--force".to_owned());
    let against = (!args.against.is_empty()).then(|| "--against".to_owned());
    let against = against.into_iter().chain(args.against.iter().cloned());
    runs.iter().cloned().chain(against).chain(force).chain(gates).collect()
}

/// Parses all gates, so that a mistake is reported before anything is measured.
fn gates(texts: &[String]) -> Result<Vec<Gate>> {
    texts.iter().map(|text| Gate::parse(text).map_err(|e| anyhow!("--gate: {e}"))).collect()
}

/// Writes the files of `--out`, `--summary` and `--junit`, and prints the comparison.
fn write_and_print(
    args: &CompareArgs,
    comparison: &Comparison,
    sides: &[Side],
    out: Option<&Path>,
) -> Result<()> {
    let mut files = Vec::new();
    if let Some(dir) = out {
        files = write_comparison(comparison, sides, dir)
            .with_context(|| format!("failed to write the comparison into {}", dir.display()))?;
    }
    if let Some(file) = &args.summary {
        append(file, &markdown::page(&comparison::summary(comparison), 2))?;
    }
    if let Some(file) = &args.junit {
        files.push(write_junit(comparison, sides, file)?);
    }
    let content = comparison::content(comparison);
    warn_if_unprinted(print_result(args.json, &content, || comparison::brief(comparison, &files)));
    Ok(())
}

/// Checks that a file can be of this name, before anything is measured for it.
fn is_file_name(flag: &str, file: &Path) -> Result<()> {
    if file.is_dir() {
        bail!("{flag} {} is a folder: name a file", file.display());
    }
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            bail!("{flag} {}: there is no folder {}: create it", file.display(), folder.display())
        }
        Some(_) | None => Ok(()),
    }
}

/// Appends text and a line break to a file, which is created if missing.
fn append(file: &Path, text: &str) -> Result<()> {
    let failure = || format!("failed to write {}", file.display());
    let mut to = OpenOptions::new().create(true).append(true).open(file).with_context(failure)?;
    to.write_all(format!("{text}\n").as_bytes()).with_context(failure)
}
