//! Runs beside one another, for people: what differs first, then the table, then the sentence that answers.

pub mod markdown;
pub mod terminal;

use super::words;
use anyhow::{Context, Result};
use goodput_core::units::thousands;
use goodput_run::compare::answer::{bare, signed};
use goodput_run::compare::{Basis, Beyond, Change, Column, Comparison, Infinite, Note, Place, Row, Side};
use goodput_run::rundir::{Run, Traces, make_folder, replace};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A row as cells: its title, the value of each side, and for every side but the first the change and what of it is noise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cells {
    pub(super) title: String,
    pub(super) values: Vec<String>,
    pub(super) changes: Vec<(String, &'static str)>,
}

/// The parts of the table: a heading, and its rows.
pub(super) fn sections(c: &Comparison) -> Vec<(String, Vec<Cells>)> {
    let whole: Vec<&Row> = c.rows.iter().filter(|r| r.place == Place::Whole).collect();
    let pooled: Vec<&Row> = c.rows.iter().filter(|r| r.place == Place::Pooled).collect();
    // Rates that were listed were not searched: what they bracket is told with each run.
    let whole = if c.alternating { Vec::new() } else { whole };
    let mut out = vec![("The run as a whole".to_owned(), whole)];
    let n = c.levels.len();
    out.push((if n == 1 { "All turns".to_owned() } else { format!("Over all {n} rates, in turns") }, pooled));
    for level in &c.levels {
        let own = |r: &&Row| matches!(r.place, Place::At(l) if l == level.level);
        let requests: Vec<String> = level.requests.iter().map(|n| thousands(*n as f64)).collect();
        let heading = format!("At {} ({} requests)", level.level, requests.join(" / "));
        out.push((heading, c.rows.iter().filter(own).collect()));
    }
    // That nothing failed goes without saying.
    let none_failed = |r: &Row| r.column == Column::Failures && r.values.iter().all(|v| *v == Some(0.0));
    let full = |(heading, rows): (String, Vec<&Row>)| {
        (heading, rows.into_iter().filter(|r| !none_failed(r)).map(|r| cells(r, c.sides.len())).collect())
    };
    out.into_iter().filter(|(_, rows)| !rows.is_empty()).map(full).collect()
}

fn cells(row: &Row, sides: usize) -> Cells {
    let unit = match row.column {
        c if c.is_share() => "%",
        _ => row.unit.as_str(),
    };
    let title = row.column.title();
    let title = if unit.is_empty() { title } else { format!("{title}, {unit}") };
    let values = (0..sides).map(|i| value(row, i)).collect();
    Cells { title, values, changes: row.changes.iter().map(|c| (change(row.column, c), noise(c))).collect() }
}

fn value(row: &Row, side: usize) -> String {
    let text = |x: f64| figure(row.column, x);
    match (row.values[side], row.intervals[side]) {
        (None, _) => "–".to_owned(),
        (Some(v), Some([low, high])) => format!("{} [{}, {}]", text(v), text(low), text(high)),
        (Some(v), None) => text(v),
    }
}

/// A value in three digits; shares in per cent.
fn figure(column: Column, x: f64) -> String {
    if x.is_infinite() {
        return "∞".to_owned();
    }
    match column {
        c if c.is_share() => {
            let percent = x * 100.0;
            if (99.0..100.0).contains(&percent) { format!("{percent:.2}") } else { format!("{percent:.1}") }
        }
        Column::Preemptions => thousands(x),
        _ if x.abs() >= 1_000.0 => thousands(x),
        _ => super::words::precise(x),
    }
}

/// `+15 % [12, 18]`; of shares the change in percentage points.
fn change(column: Column, c: &Change) -> String {
    let points = column.is_share();
    let (value, interval) = if points { (c.absolute, c.absolute_interval) } else { (c.share, c.interval) };
    let Some(value) = value else {
        match (c.infinite, interval) {
            (Some(Infinite::New), _) => return "∞ now".to_owned(),
            (Some(Infinite::Old), _) => return "no longer ∞".to_owned(),
            // From nothing, to what lies beyond an end.
            (None, Some([low, high])) => return format!("[{}, {}]", bare(low), bare(high)),
            (None, None) => {}
        }
        let plain = c.absolute.filter(|_| column == Column::Preemptions);
        return plain
            .map_or("–".to_owned(), |d| format!("{}{}", if d > 0.0 { "+" } else { "" }, thousands(d)));
    };
    let shown = if points { signed(value).replace(" %", " pp") } else { signed(value) };
    let reach = |[low, high]: [f64; 2]| format!(" [{}, {}]", bare(low), bare(high));
    format!("{shown}{}", interval.map_or(String::new(), reach))
}

/// Whether it exceeds noise, in a word or two.
pub(super) const fn noise(c: &Change) -> &'static str {
    match (c.beyond, c.basis) {
        (Beyond::Yes, Basis::Brackets) => "yes, brackets apart",
        (Beyond::Yes, _) => "yes",
        (Beyond::No, _) => "no",
        (Beyond::Unknown, _) => "?",
    }
}

/// The sides as one run of several series, for the charts that set these beside one another.
fn together(sides: &[Side]) -> Option<Run> {
    let parts: Vec<Run> = sides.iter().map(relabelled).collect();
    let first = parts.first()?;
    let labels: Vec<&str> = sides.iter().map(|s| s.label.as_str()).collect();
    Some(Run {
        name: labels.join(", "),
        answers: parts.iter().flat_map(|p| p.answers.clone()).collect(),
        steps: parts.iter().flat_map(|p| p.steps.clone()).collect(),
        caveats: Vec::new(),
        variants: Vec::new(),
        ..first.clone()
    })
    .map(|run| Run { parts, ..run })
}

/// The run of a side under the name of the side, and judged by its tier alone.
fn relabelled(side: &Side) -> Run {
    let mut run = side.run.clone();
    run.answers.retain(|a| a.tier == side.tier);
    run.tiers.retain(|t| t.tier() == side.tier);
    run.answers.iter_mut().for_each(|a| a.series.clone_from(&side.label));
    run.steps.iter_mut().for_each(|s| s.series.clone_from(&side.label));
    run.name.clone_from(&side.label);
    run
}

/// Returns the remarks of a comparison in English, each once.
pub(super) fn notes(c: &Comparison) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in &c.notes {
        let text = match note {
            Note::Text(text) => text.clone(),
            Note::Caveat { side, caveat } => {
                let text = words::caveat(caveat, words::Context::default()).text;
                side.as_ref().map_or_else(|| text.clone(), |side| format!("{side}: {text}"))
            }
        };
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    notes
}

/// A comparison as `compare.json` holds it: its facts, and its remarks in English.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    notes: Vec<String>,
}

/// Returns the text of `compare.json`.
///
/// # Errors
/// The comparison cannot be written as JSON.
pub fn json_of(c: &Comparison) -> Result<String> {
    let written = Written { comparison: c, notes: notes(c) };
    serde_json::to_string_pretty(&written).context("failed to write the comparison as JSON")
}

/// Writes `compare.md`, `compare.json` and the charts into a folder and returns their paths, the page first.
///
/// # Errors
/// A chart cannot be drawn or a file not be written; the message names it.
pub fn write_all(c: &Comparison, sides: &[Side], dir: &Path) -> Result<Vec<PathBuf>> {
    let pictures = dir.join("compare-charts");
    let mut charts = Vec::new();
    // Tiers are judged on the same steps: their curves are one.
    let curves = sides.iter().any(|s| s.dir != sides[0].dir || s.series() != sides[0].series());
    if let Some(run) = together(sides).filter(|_| curves) {
        let (none, look) = (Traces::default(), super::charts::Look::default());
        for chart in super::charts::over(&run, &none) {
            make_folder(&pictures)?;
            let png = pictures.join(format!("{}.png", chart.name));
            replace(&png, &chart.png(&run, &none, &look)?)?;
            let svg = pictures.join(format!("{}.svg", chart.name));
            replace(&svg, chart.svg(&run, &none, &look).as_bytes())?;
            charts.push((chart.name, chart.caption));
        }
    }
    fs::create_dir_all(dir).with_context(|| format!("failed to create the folder {}", dir.display()))?;
    let page = dir.join("compare.md");
    replace(&page, markdown::page(c, &charts).as_bytes())?;
    let json = dir.join("compare.json");
    replace(&json, json_of(c)?.as_bytes())?;
    let pictures = charts.iter().map(|(name, _)| pictures.join(format!("{name}.png")));
    Ok([page, json].into_iter().chain(pictures).collect())
}

#[cfg(test)]
mod tests;
