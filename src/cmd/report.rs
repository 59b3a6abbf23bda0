//! `report`: makes every report and chart from the files of a run folder. `sweep` ends with the same code.

use crate::cli::ReportArgs;
use crate::cmd::{print_coloured, print_line, repeat};
use crate::peers;
use crate::report::result::result;
use crate::report::{pictures, several, terminal, write_all};
use crate::rundir::repeats::is_repeated;
use crate::rundir::{self, Run};
use anyhow::{Context, Result, bail};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Maximum width of terminal output, in columns; longer lines are hard to read.
pub(crate) const WIDEST: usize = 100;

/// Rebuilds the reports and prints the answer. With chart options, draws only charts and prints their paths.
pub(crate) fn report(args: &ReportArgs) -> Result<()> {
    if is_repeated(&args.run) {
        if args.as_tool.is_some() || args.charts.wanted(&args.run).is_some() {
            bail!(
                "{0} holds several runs, but charts and --as need one: name a run, such as {0}/run-01",
                args.run.display()
            );
        }
        return repeat::summarise(&args.run, args.json).map(drop);
    }
    if let Some(tool) = args.as_tool {
        let as_tool = peers::of(&rundir::read(&args.run)?, &args.run, tool)?;
        return print_line(&match args.json {
            true => serde_json::to_string_pretty(&as_tool).context("failed to write the figures as JSON")?,
            false => crate::report::peers::render(&as_tool),
        });
    }
    let Some((wanted, dir)) = args.charts.wanted(&args.run) else {
        let run = rundir::read_with_scale(&args.run)?;
        let written = write(&run, &args.run);
        // Prints the answer even if the reports cannot be written, as on a full or read-only disk.
        print(&run, written.as_deref().unwrap_or_default(), args.json)?;
        return written.map(drop);
    };
    let scale = args.json || wanted.needs_scale();
    let run = if scale { rundir::read_with_scale(&args.run)? } else { rundir::read(&args.run)? };
    let files = pictures::draw(&run, &args.run, &wanted, &dir)
        .with_context(|| format!("failed to draw charts into {}", dir.display()))?;
    if args.json {
        return print(&run, &files, true);
    }
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    print_line(&names.join("\n"))
}

/// Reads the run folder and writes result.json, report.md, report.html and the charts. Returns the run and the report files.
pub(crate) fn remake(dir: &Path) -> Result<(Run, Vec<PathBuf>)> {
    let run = rundir::read_with_scale(dir)?;
    let files = write(&run, dir)?;
    Ok((run, files))
}

fn write(run: &Run, dir: &Path) -> Result<Vec<PathBuf>> {
    rundir::write_result(dir, &result(run))?;
    write_all(run, dir).with_context(|| format!("failed to write the reports into {}", dir.display()))
}

/// Prints the answer to standard output, as text or as JSON.
pub(crate) fn print(run: &Run, files: &[PathBuf], json: bool) -> Result<()> {
    if json {
        return print_line(
            &serde_json::to_string_pretty(&result(run)).context("failed to write the result as JSON")?,
        );
    }
    let both = |width| {
        let usual = || match run.parts.is_empty() {
            true => (terminal::table(run, width), terminal::answer(run, files)),
            false => (several::terminal::table(run, width), several::terminal::answer(run, files)),
        };
        terminal::own(run, files, width).unwrap_or_else(usual)
    };
    if !std::io::stdout().is_terminal() {
        let (table, answer) = both(None);
        return print_line(format!("{table}\n\n{answer}").trim_end());
    }
    let width = textwrap::termwidth().clamp(40, WIDEST);
    let (table, answer) = both(u16::try_from(width).ok());
    let text = format!("{table}\n\n{}", wrapped(&answer, width));
    print_coloured(text.trim_end())
}

/// Wraps lines between words. Continuation lines are indented to the text they continue.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let lines = text.lines().map(|line| {
        let indent = line.len() - line.trim_start().len();
        let marked = line.starts_with("! ") || line.trim_start().starts_with('→');
        let indent = value_column(line).unwrap_or(if marked { indent + 2 } else { indent });
        let indent = " ".repeat(indent);
        let options = textwrap::Options::new(width)
            .subsequent_indent(&indent)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(line, options.break_words(false))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the start of the second column: after the first gap of two or more blanks that is not the indent.
fn value_column(line: &str) -> Option<usize> {
    let (name, rest) = line.split_once("  ").filter(|(name, _)| !name.is_empty())?;
    let gap = 2 + rest.len() - rest.trim_start().len();
    Some(name.chars().count() + gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_keeps_columns_aligned_and_names_whole() {
        for (text, width, want) in [
            ("requests  one two three", 18, "requests  one two\n          three"),
            (
                "goodput          at least two",
                24,
                "goodput          at\n                 least\n                 two",
            ),
            ("in runs/a-b-c/latency-offered.png", 20, "in\nruns/a-b-c/latency-offered.png"),
        ] {
            assert_eq!(wrapped(text, width), want);
        }
    }

    #[test]
    fn wrapping_keeps_the_indent() {
        let text = "one two three\n! four five six\n  → seven eight nine";
        assert_eq!(wrapped(text, 12), "one two\nthree\n! four five\n  six\n  → seven\n    eight\n    nine");
    }
}
