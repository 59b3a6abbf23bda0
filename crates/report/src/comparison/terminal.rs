//! The comparison in a terminal.

use super::sections;
use crate::escape::plain;
use crate::repeats::lines;
use crate::terminal::STYLE;
use comfy_table::{CellAlignment, Table};
use goodput_run::compare::gate::Held;
use goodput_run::compare::{Comparison, Difference};
use std::fmt::Write;

/// Everything: what differs, the table, the gates, the answer.
pub fn text(c: &Comparison) -> String {
    let mut out = differs(c);
    for (heading, rows) in sections(c) {
        let mut table = Table::new();
        table.load_style(STYLE);
        let mut heads = vec![heading];
        heads.extend(c.sides.iter().map(|s| plain(&s.label)));
        let several = c.sides.len() > 2;
        for side in c.sides.iter().skip(1) {
            heads.push(if several { format!("change, {}", plain(&side.label)) } else { "change".to_owned() });
            heads.push("beyond noise".to_owned());
        }
        let pooled = rows.iter().all(|r| r.values.iter().all(|v| v == "–"));
        // Several levels together have a change, and no value.
        let keep: Vec<usize> =
            (0..heads.len()).filter(|i| !pooled || *i == 0 || *i > c.sides.len()).collect();
        let pick = |all: Vec<String>| keep.iter().map(|i| all[*i].clone()).collect::<Vec<_>>();
        table.set_header(pick(heads));
        for row in rows {
            let mut cells = vec![format!("  {}", row.title)];
            cells.extend(row.values);
            cells.extend(row.changes.into_iter().flat_map(|(change, noise)| [change, noise.to_owned()]));
            table.add_row(pick(cells));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
        let _ = write!(out, "{}\n\n", lines.join("\n"));
    }
    for group in &c.runs {
        let runs =
            if group.runs.len() == 1 { "one run".to_owned() } else { format!("{} runs", group.runs.len()) };
        let _ = writeln!(out, "{}: {runs}", plain(&group.label));
        for (name, text) in group.pooled.iter().filter(|p| p.runs > 1).flat_map(lines) {
            let _ = writeln!(out, "  {name:15}  {text}");
        }
        out.push('\n');
    }
    for gate in &c.gates {
        let mark = match gate.held {
            Held::Holds => "holds",
            Held::Fails => "FAILS",
            Held::Undecided => "undecided",
        };
        let _ = writeln!(
            out,
            "gate {}: {mark} for {}, {}: {}",
            plain(&gate.gate),
            plain(&gate.side),
            gate.row,
            gate.why
        );
    }
    if !c.gates.is_empty() {
        out.push('\n');
    }
    for note in super::notes(c) {
        let _ = writeln!(out, "! {}", plain(&note));
    }
    for answer in &c.answers {
        let _ = writeln!(out, "{}", plain(&answer.text));
    }
    out.trim_end().to_owned()
}

/// What differs, what makes the sides unlike first.
fn differs(c: &Comparison) -> String {
    let labels: Vec<String> = c.sides.iter().map(|s| plain(&s.label)).collect();
    if c.differs.is_empty() {
        return format!("{}: nothing of plan, server, client or version differs\n\n", labels.join(" → "));
    }
    let mut out = format!("What differs ({}):\n", labels.join(" → "));
    let line = |d: &Difference| {
        let mark = if d.unlike { "!" } else { " " };
        format!("{mark} {}: {}\n", d.about.title(), plain(&d.to_string()))
    };
    c.differs.iter().for_each(|d| out.push_str(&line(d)));
    if c.unlike {
        out.push_str("! They did not measure the same thing: compared only because of --force.\n");
    }
    out.push('\n');
    out
}
