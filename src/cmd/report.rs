//! `report`: every report and chart from the files of a run folder alone. `sweep` ends by calling the same.

use crate::cli::ReportArgs;
use crate::cmd::say;
use crate::report::{terminal, write_all};
use crate::rundir::{self, Run, json};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Remakes the reports and prints the answer.
pub(crate) fn report(args: &ReportArgs) -> Result<()> {
    let (run, files) = remake(&args.run)?;
    print(&run, &files, args.json)
}

/// Reads the run folder and writes result.json, report.md and the charts; returns what was read and the files for people.
pub(crate) fn remake(dir: &Path) -> Result<(Run, Vec<PathBuf>)> {
    let run = rundir::read(dir)?;
    rundir::write_result(dir, &json::result(&run))?;
    let files = write_all(&run, dir)
        .with_context(|| format!("failed to write the reports into {}", dir.display()))?;
    Ok((run, files))
}

/// Prints the answer to standard output, in words or as JSON.
pub(crate) fn print(run: &Run, files: &[PathBuf], json: bool) -> Result<()> {
    if json {
        return say(&serde_json::to_string_pretty(&json::result(run))
            .context("failed to write the result as JSON")?);
    }
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = format!("{}\n\n{}", terminal::table(run, None), terminal::answer(run, files));
    say(terminal::paint(&text, color).trim_end())
}
