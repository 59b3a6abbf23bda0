//! The result of a run for a terminal: the table, and below it the answer with its evidence.

use super::{
    amounts, answer, caveats, checks, figures, groups, matrix, mixing, offline, recovery, roofline,
    sensitivity, several, steps, variants, why,
};
use crate::document::{Block, Document, Section};
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::stats::groups::GroupBy;
use std::path::{Path, PathBuf};

/// The form of a run's answer.
enum Form {
    /// The rows of a matrix.
    Matrix,
    /// Measurements without an SLO.
    Levels,
    /// The goodput of one series.
    One,
    /// The goodput of several series.
    Several,
}

fn form(run: &Run) -> Form {
    match (run.purpose.is_goodput(), run.matrix.is_empty(), run.parts.is_empty()) {
        (false, ..) => Form::Levels,
        (true, false, _) => Form::Matrix,
        (true, true, true) => Form::One,
        (true, true, false) => Form::Several,
    }
}

/// Returns the table of a run: its steps, its series, variants or rows.
pub fn table(run: &Run) -> Document {
    let blocks = match form(run) {
        Form::Matrix => vec![matrix::brief_table(run)],
        Form::Levels => vec![offline::brief_table(run)],
        Form::One => steps::brief(run),
        Form::Several if variants::any(run) => vec![variants::brief_table(run)],
        Form::Several => several::brief_table(run),
    };
    Document::of(vec![Section::untitled(blocks)])
}

/// Returns the answer of a run with its figures, its caveats and the paths of its files. The answer itself comes last, with
/// the path of the report: that is what a terminal shows without scrolling.
pub fn answer(run: &Run, files: &[PathBuf]) -> Document {
    let mut sections = match form(run) {
        Form::Matrix => with_causes(run, matrix::brief(run)),
        Form::Levels => with_causes(run, offline::brief(run)),
        Form::One => of_one(run),
        Form::Several => of_several(run),
    };
    let report = report(files);
    let others: Vec<PathBuf> = files.iter().filter(|f| Some(*f) != report).cloned().collect();
    let mut last = match form(run) {
        Form::Matrix | Form::Levels => Vec::new(),
        Form::One => answer::brief(run),
        Form::Several => vec![Block::paragraph(format!("{}.", words::headline(run)))],
    };
    last.extend(report.map(|path| Block::paragraph(format!("Report: {}", path.display()))));
    sections.extend([caveats::brief(run), Section::untitled(places(&others)), Section::untitled(last)]);
    Document::of(sections)
}

/// Returns the report to open: the page, else the decision record.
fn report(files: &[PathBuf]) -> Option<&PathBuf> {
    let ends = |ending: &str| files.iter().find(|f| f.extension().is_some_and(|e| e == ending));
    ends("html").or_else(|| ends("md"))
}

/// Returns the table of a run with its answer below it.
pub fn document(run: &Run, files: &[PathBuf]) -> Document {
    let mut whole = table(run);
    whole.sections.extend(answer(run, files).sections);
    whole
}

fn of_one(run: &Run) -> Vec<Section> {
    let mut all = vec![Section::untitled(answer::details(run))];
    if let Some(a) = run.answers.first() {
        all.push(figures::brief(run, a));
        all.extend(amounts::brief(run, a));
    }
    all.extend(run.answers.iter().skip(1).map(|a| Section::untitled(vec![answer::other(run, a)])));
    for by in [GroupBy::Class, GroupBy::Turn] {
        all.push(Section::untitled(vec![Block::paragraph(groups::in_short(run, by))]));
    }
    all.extend([checks::brief(run), sensitivity::brief(run), recovery::brief(run)]);
    with_causes(run, all)
}

fn of_several(run: &Run) -> Vec<Section> {
    let mut all = Vec::new();
    if variants::any(run) {
        all.extend(variants::brief(run));
    }
    all.extend(several::brief(run));
    all.push(mixing::brief(run));
    all.extend(floors(run));
    all
}

/// Adds the comparison with the hardware's floors, and why limits were missed.
fn with_causes(run: &Run, mut sections: Vec<Section>) -> Vec<Section> {
    sections.extend(floors(run));
    sections.extend(why::brief(run));
    sections
}

/// Returns the measured latencies compared with the hardware's floors, a line for each series.
fn floors(run: &Run) -> Vec<Section> {
    let line = |line: String| Section::untitled(vec![Block::paragraph(line)]);
    roofline::lines(run).into_iter().map(line).collect()
}

/// Returns the paths of the files: single files by name, a folder of charts by the number of its files.
fn places(files: &[PathBuf]) -> Vec<Block> {
    let folder = |f: &Path| f.parent().unwrap_or(Path::new("")).to_path_buf();
    let ends = |f: &Path, ending: &str| f.extension().is_some_and(|e| e == ending);
    let slides = |f: &Path| folder(f).ends_with("slides");
    let charts = |f: &Path| ends(f, "png") && !slides(f);
    let mut lines: Vec<Block> = files
        .iter()
        .filter(|f| !ends(f, "png") && !ends(f, "svg"))
        .map(|f| Block::paragraph(f.display().to_string()))
        .collect();
    if let Some(first) = files.iter().find(|f| charts(f)) {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut parts =
            vec![format!("{} as PNG and SVG", count(files.iter().filter(|f| charts(f)).count(), "chart"))];
        let slides = files.iter().filter(|f| ends(f, "png") && slides(f)).count();
        parts.extend((slides > 0).then(|| count(slides, "slide")));
        lines.push(Block::paragraph(format!("{}: {}", folder(first).display(), parts.join(", "))));
    }
    lines
}

#[cfg(test)]
#[path = "brief_tests.rs"]
mod tests;
