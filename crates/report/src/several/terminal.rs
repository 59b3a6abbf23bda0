//! Several series for a terminal: beside one another, and then each in short.

use super::super::escape::plain;
use super::super::tables::UNKNOWN;
use super::super::{mixing, roofline, terminal, variants, why, words};
use super::{Row, Table as Compared, pairs, table as compared};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use goodput_run::rundir::Run;
use std::path::PathBuf;

/// Below this width the limits that bind are left out.
const NARROW: u16 = 96;

/// The series beside one another, in a table that fits into `width` columns (100 where it is not known).
pub fn table(run: &Run, width: Option<u16>) -> String {
    let width = width.unwrap_or(terminal::WIDTH);
    if variants::any(run) {
        return variants::terminal(run, width).0;
    }
    let Compared { level, rows, notes } = compared(run);
    let at = level
        .map(|l| format!("at {}", l.replacen(" requests/s", " req/s", 1)))
        .unwrap_or_else(|| "ms".into());
    type Cell = fn(&Row) -> String;
    let columns: [(String, bool, Cell); 8] = [
        ("series".into(), true, |r| r.name.clone()),
        ("goodput".into(), true, |r| r.goodput.clone()),
        ("90 %\ninterval".into(), false, |r| r.interval.clone()),
        ("safe\nrate".into(), false, |r| r.safe.clone()),
        ("limit\nthat binds".into(), true, |r| r.binding.clone()),
        (format!("TTFT p50\n{at}"), false, |r| r.ttft[0].clone()),
        (format!("TTFT p99\n{at}"), false, |r| r.ttft[1].clone()),
        ("cache\nhits".into(), false, |r| r.hit_rate.clone()),
    ];
    let known = |of: Cell| rows.iter().any(|r| !of(r).is_empty());
    let fits = |head: &str| width >= NARROW || !head.starts_with("limit");
    let columns: Vec<_> = columns.into_iter().filter(|(head, _, of)| known(*of) && fits(head)).collect();
    let mut table = Table::new();
    table.load_style(terminal::STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(columns.iter().map(|(head, ..)| head));
    for row in &rows {
        let cell = |text: String| if text.is_empty() { UNKNOWN.to_owned() } else { plain(&text) };
        table.add_row(columns.iter().map(|(_, _, of)| cell(of(row))));
    }
    for (column, (_, text, _)) in table.column_iter_mut().zip(&columns) {
        column.set_cell_alignment(if *text { CellAlignment::Left } else { CellAlignment::Right });
    }
    let mut lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    lines.extend(notes.iter().map(|n| plain(n)));
    lines.join("\n")
}

/// What became of the variant that a part is of, where nothing was measured on it.
fn unmeasured(run: &Run, part: &Run) -> Option<&'static str> {
    let v = run.variants.iter().find(|v| v.series == part.series())?;
    (part.steps.is_empty()).then(|| v.state.name())
}

/// What the comparison says, each series in short, caveats with advice, and where the files are.
pub fn answer(run: &Run, files: &[PathBuf]) -> String {
    let mut out = String::new();
    if variants::any(run) {
        out.push_str(&variants::terminal(run, terminal::WIDTH).1);
    }
    for sentence in pairs(run) {
        out.push_str(&format!("{}\n", plain(&sentence)));
    }
    for part in &run.parts {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("{} ({})\n", plain(part.series()), plain(&words::workload(part))));
        if let Some(state) = unmeasured(run, part) {
            out.push_str(&format!("  {state}\n"));
            continue;
        }
        match part.answers.first() {
            None => out.push_str("  not measured\n"),
            Some(a) => {
                let s = words::sentences(part, a);
                for said in [s.answer, s.plan, s.soak, s.evidence].iter().filter(|s| !s.is_empty()) {
                    out.push_str(&format!("  {}\n", plain(said)));
                }
                out.push_str(&format!("  {}\n", plain(&terminal::amounts(part, a))));
            }
        }
        out.push_str(&why::of_part(part));
        out.push_str(&part.answers.iter().skip(1).map(|a| terminal::other(part, a)).collect::<String>());
    }
    let mixing = mixing::in_short(run);
    if !mixing.is_empty() {
        out.push_str(&format!("\n{}\n", plain(&mixing)));
    }
    out.extend(roofline::lines(run).iter().map(|line| format!("\n{}\n", plain(line))));
    out.push_str(&terminal::caveats(run));
    out.push_str(&terminal::places(files));
    out
}
