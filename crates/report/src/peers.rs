//! What another tool would report of a run, for a terminal and as JSON.

use super::terminal::STYLE;
use super::words;
use comfy_table::{CellAlignment, Table};
use goodput_run::peers::{AsTool, Figure, StepAs};

/// The figures of each step, and below them why they differ from ours.
pub fn render(of: &AsTool) -> String {
    let title = of.tool.title();
    let steps: String = of.steps.iter().map(|step| one(of, step)).collect();
    let lines = |all: &[&str]| all.iter().map(|line| format!("- {line}\n")).collect::<String>();
    let approximate = of.steps.iter().any(|s| s.figures.iter().any(|f| f.approximate && f.value.is_some()));
    let approximate =
        if approximate { "≈ to three significant figures: made from histograms.csv.\n\n" } else { "" };
    format!(
        "The measured requests as {title} {} counts them; the limits of request goodput are those of the SLO, each on single requests.\n\n\
         {steps}{approximate}Where its definitions differ from ours:\n{}\nReported by it, and not to be had from a run folder:\n{}",
        of.version,
        lines(of.differences),
        lines(of.untold)
    )
    .trim_end()
    .to_owned()
}

fn one(of: &AsTool, step: &StepAs) -> String {
    let mut head = vec![format!("{} says", of.tool.title()), "as it counts".into()];
    head.extend(of.own.then(|| "it reported".to_owned()));
    head.extend(["unit".to_owned(), "ours".into(), "as we count".into()]);
    let numbers: &[usize] = if of.own { &[1, 2, 5] } else { &[1, 4] };
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head);
    for figure in step.figures.iter().filter(|f| f.value.is_some() || f.reported.is_some()) {
        table.add_row(row(of, figure));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if numbers.contains(&i) {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        });
    }
    let table: String = table.to_string().lines().map(|l| format!("{}\n", l.trim_end())).collect();
    format!("Step {} at {}, over {} s\n{table}\n", step.step, step.level, words::figure(step.duration_s))
}

fn row(of: &AsTool, f: &Figure) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), words::precise);
    let own = match (f.approximate, f.value) {
        (true, Some(_)) => format!("≈ {}", shown(f.value)),
        _ => shown(f.value),
    };
    let mut cells = vec![f.name.clone(), own];
    cells.extend(of.own.then(|| shown(f.reported)));
    let ours = f.ours.map(str::to_owned).unwrap_or_default();
    cells.extend([f.unit.to_owned(), ours.clone(), if ours.is_empty() { ours } else { shown(f.our_value) }]);
    cells
}
