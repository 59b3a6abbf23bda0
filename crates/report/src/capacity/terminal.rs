//! The capacity for a terminal.

use super::rows::{Rows, of_one, of_several};
use super::{Capacity, explain, words};
use crate::escape::plain;
use crate::terminal::{STYLE, WIDTH};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use goodput_stats::capacity::sizing::{basis, by_currency};
use std::path::PathBuf;

/// What differs first, then the answer, its table, its formulas where they are asked for, and what to read with care.
pub fn print(c: &Capacity, files: &[PathBuf], width: Option<u16>) -> String {
    let width = width.unwrap_or(WIDTH);
    let mut out = String::new();
    for said in words::warnings(c) {
        out.push_str(&format!("! {}\n", plain(&said)));
    }
    for r in &c.refused {
        out.push_str(&format!(
            "! {} has no rate to plan with: {}\n  → {}\n",
            plain(&r.name),
            plain(&r.why),
            plain(&r.advice)
        ));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    if c.all.is_empty() {
        return out;
    }
    out.push_str(&format!("{}.\n", plain(&c.headline())));
    out.push_str(&limit(c));
    let mut rows = words::demand_rows(&c.demand, &c.reserve);
    rows.extend(words::measured_rows(c));
    out.push_str(&format!("\n{}\n", listed(&rows)));
    match &c.all[..] {
        [one] => {
            out.push_str(&table("", &of_one(&c.demand, &c.reserve, one), width));
            out.extend(words::bands(one).iter().map(|b| format!("{}\n", plain(b))));
        }
        all => {
            let by = basis(all);
            for group in by_currency(all) {
                out.push_str(&format!("{}\n", table("", &of_several(by, &group), width)));
            }
            if words::planned_apart(all) {
                out.push_str("Sorted by the goodput, since not every one has a safe rate; GPUs and costs are those of the rate to plan with.\n");
            }
            out.push_str(
                "Each by itself, at the safe rate and at the goodput: --out DIR, --json, or one run alone.\n",
            );
        }
    }
    if c.explain {
        out.push_str(&formulas(c));
    }
    let notes = words::notes(c);
    out.push_str("\nCaveats:\n");
    out.extend(notes.iter().map(|n| format!("! {}\n", plain(n))));
    if !files.is_empty() {
        let names: Vec<String> = files.iter().map(|f| plain(&f.display().to_string())).collect();
        out.push_str(&format!("\n{}\n", names.join("\n")));
    }
    out
}

/// Whether the limit on the cost is kept.
fn limit(c: &Capacity) -> String {
    let judged = c.all.iter().filter_map(|s| Some((s, s.cost_limit?, s.candidate.max_cost_per_mtok?)));
    judged
        .map(|(s, kept, max)| {
            let pay = |x| words::money(x, s.candidate.currency.as_deref());
            let cost = s.planned().cost.and_then(|c| c.per_mtok).map(pay).unwrap_or_default();
            let whose = if c.all.len() > 1 { format!("{}: ", plain(&s.candidate.name)) } else { String::new() };
            let full = s.planned().cost.and_then(|c| c.full_load_per_mtok).map(|x| format!(" ({} at full load)", pay(x)));
            let full = full.unwrap_or_default();
            format!(
                "{whose}Cost limit {}: a million output tokens cost {cost} at this demand{full}, at most {} may be.\n",
                kept.name(),
                pay(max)
            )
        })
        .collect()
}

/// Lines of a name and what it is, in two columns.
fn listed(rows: &[(&str, String)]) -> String {
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:widest$}  {}\n", plain(text))).collect()
}

fn table(corner: &str, rows: &Rows, width: u16) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header([corner.to_owned()].into_iter().chain(rows.heads.iter().map(|h| plain(h))));
    for row in &rows.rows {
        table.add_row(row.iter().map(|c| plain(c)));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if i == 0 { CellAlignment::Left } else { CellAlignment::Right });
    }
    let lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    format!("{}\n", lines.join("\n"))
}

fn formulas(c: &Capacity) -> String {
    let mut out = String::new();
    for (title, all) in explain::all(c) {
        out.push_str(&format!("\nReckoned of {}:\n", plain(&title)));
        for f in all {
            out.push_str(&format!(
                "  {} = {}\n    = {}\n    = {}\n",
                f.of,
                f.formula,
                f.numbers,
                plain(&f.result)
            ));
        }
    }
    out
}
