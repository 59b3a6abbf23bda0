//! `report`: makes every report and chart from the files of a run folder. `sweep` ends with the same code.

use crate::cli::{ReportArgs, ReportFile};
use crate::cmd::{pretty, print_line, print_result, repeat, warn_if_unprinted};
use crate::peers;
use crate::report::result::{result, schema};
use crate::report::sections::brief;
use crate::report::write::pictures;
use crate::report::{ChartFiles, write_all};
use crate::rundir::repeats::is_repeated;
use crate::rundir::{self, Run};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Rebuilds the reports and prints the answer. With chart options, draws only charts and prints their paths.
pub(crate) fn report(args: &ReportArgs) -> Result<()> {
    let Some(dir) = &args.run else {
        let schema = match args.schema {
            Some(ReportFile::Repeats) => rundir::repeats::schema(),
            Some(ReportFile::Result) | None => schema(),
        };
        return print_line(&pretty(&schema)?);
    };
    rundir::remove_unfinished(dir);
    if is_repeated(dir) {
        if args.as_tool.is_some() || args.charts.wanted(dir).is_some() {
            bail!(
                "{0} holds several runs, but charts and --as need one: name a run, such as {0}/run-01",
                dir.display()
            );
        }
        return repeat::summarise(dir, args.json).map(drop);
    }
    if let Some(tool) = args.as_tool {
        let run = rundir::read(dir)?;
        let as_tool = peers::of(&run, dir, tool)?;
        let shown = (!args.every_step).then_some(&run);
        return print_result(args.json, &as_tool, || crate::report::sections::peers::brief(&as_tool, shown));
    }
    let Some((wanted, charts_dir)) = args.charts.wanted(dir) else {
        let run = rundir::read_with_scale(dir)?;
        let written = write(&run, dir, ChartFiles::Drawn);
        // Prints the answer even if the reports cannot be written, as on a full or read-only disk.
        warn_if_unprinted(print(&run, written.as_deref().unwrap_or_default(), args.json));
        return written.map(drop);
    };
    if wanted.title.is_some() && wanted.only.len() != 1 {
        bail!("--title is the headline of one chart: name it with a single --chart");
    }
    let run = match &args.charts.tier {
        Some(tier) => rundir::read_tier(dir, tier).context("--tier")?,
        None if args.json || wanted.needs_scale() => rundir::read_with_scale(dir)?,
        None => rundir::read(dir)?,
    };
    let files = pictures::draw(&run, dir, &wanted, &charts_dir)
        .with_context(|| format!("failed to draw charts into {}", charts_dir.display()))?;
    if args.json {
        return print(&run, &files, true);
    }
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    print_line(&names.join("\n"))
}

/// Reads the run folder and writes result.json, report.md, report.html and, if they are to be drawn, the charts. Returns the run
/// and the report files.
pub(crate) fn remake(dir: &Path, charts: ChartFiles) -> Result<(Run, Vec<PathBuf>)> {
    rundir::remove_unfinished(dir);
    let run = rundir::read_with_scale(dir)?;
    let files = write(&run, dir, charts)?;
    Ok((run, files))
}

fn write(run: &Run, dir: &Path, charts: ChartFiles) -> Result<Vec<PathBuf>> {
    rundir::write_result(dir, &result(run))?;
    write_all(run, dir, charts).with_context(|| format!("failed to write the reports into {}", dir.display()))
}

/// Prints the answer to standard output, as text or as JSON.
pub(crate) fn print(run: &Run, files: &[PathBuf], json: bool) -> Result<()> {
    print_result(json, &result(run), || brief::document(run, files))
}
