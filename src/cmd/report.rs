//! `report`: every report and chart from the files of a run folder alone. `sweep` ends by calling the same.

use crate::cli::ReportArgs;
use crate::cmd::say;
use crate::report::{terminal, write_all};
use crate::rundir::{self, Run, json};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::Path;

/// Remakes the reports and prints the answer.
pub(crate) fn report(args: &ReportArgs) -> Result<()> {
    let run = remake(&args.run)?;
    print(&run, &args.run, args.json)
}

/// Reads the run folder and writes result.json, report.md and the charts.
pub(crate) fn remake(dir: &Path) -> Result<Run> {
    let run = rundir::read(dir)?;
    rundir::write_result(dir, &json::result(&run))?;
    write_all(&run, dir).with_context(|| format!("failed to write the reports into {}", dir.display()))?;
    Ok(run)
}

/// Prints the answer to standard output, in words or as JSON.
pub(crate) fn print(run: &Run, dir: &Path, json: bool) -> Result<()> {
    if json {
        return say(&serde_json::to_string_pretty(&json::result(run)).context("failed to write the result as JSON")?);
    }
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    say(&terminal::page(run, dir, color))
}
