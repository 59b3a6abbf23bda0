//! Checks of answers against the plan, for `report.md` and the terminal.

use super::cells;
use crate::document::{Block, Cell, Column, Section, Table, Text};
use crate::escape::clip;
use crate::words;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{CheckRow, Step};

/// Returns the checks of a run, in the order of the plan, by class and name.
fn checks(run: &Run) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for row in run.steps.iter().flat_map(|s| &s.checks) {
        if !found.contains(&(&row.class, &row.check)) {
            found.push((&row.class, &row.check));
        }
    }
    found
}

fn check_of<'a>(step: &'a Step, (class, check): (&str, &str)) -> Option<&'a CheckRow> {
    step.checks.iter().find(|r| (r.class.as_str(), r.check.as_str()) == (class, check))
}

/// Returns the number of answers checked and failed over all steps.
fn total(run: &Run, check: (&str, &str)) -> (u64, u64) {
    let rows = run.steps.iter().filter_map(|s| check_of(s, check));
    rows.fold((0, 0), |(n, failed), r| (n + r.n, failed + r.failed))
}

/// Returns the name of a check, after its class unless that is `all`.
fn title((class, check): (&str, &str)) -> String {
    if class == "all" { clip(check, 40) } else { clip(&format!("{class}: {check}"), 60) }
}

/// Returns the share that passed; empty if nothing was checked.
fn passed(n: u64, failed: u64) -> String {
    let share = (n > 0).then(|| n.saturating_sub(failed) as f64 / n as f64);
    share.map_or(crate::document::UNKNOWN.into(), words::percent)
}

/// Returns the share of answers that passed each check in each step, and a sample of those that failed; empty without
/// checks.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let all = checks(run);
    if all.is_empty() {
        return Vec::new();
    }
    let said = "The share of measured answers that passed. An answer that fails a check came all the same: it counts as answered in \
                every latency, verdict and goodput.";
    let mut blocks = vec![Block::paragraph(said), table(run, &all).into()];
    for check in &all {
        let failed = run.steps.iter().filter_map(|s| check_of(s, *check)).find(|r| r.failed > 0);
        blocks.extend(failed.map(|row| {
            let said = if row.sample.is_empty() { "an empty answer".into() } else { clip(&row.sample, 160) };
            Block::paragraph(format!("One that failed {}: {said}", title(*check)))
        }));
    }
    blocks
}

fn table(run: &Run, all: &[(&str, &str)]) -> Table {
    let mut columns = vec![Column::text("step"), Column::level()];
    columns.extend(all.iter().map(|c| Column::number(title(*c))));
    let cell = |n: u64, failed: u64| match failed {
        _ if n == 0 => Cell::Unknown,
        0 => Cell::figure(format!("100 % of {}", thousands(n as f64)), None),
        _ => Cell::figure(
            format!("{} of {}, {} failed", passed(n, failed), thousands(n as f64), thousands(failed as f64)),
            None,
        ),
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for step in run.steps.iter().filter(|s| !s.checks.is_empty()) {
        let mut row = vec![cells::number(step), cells::level(run, step)];
        row.extend(all.iter().map(|c| check_of(step, *c).map_or(Cell::Unknown, |r| cell(r.n, r.failed))));
        rows.push(row);
    }
    let mut sums = vec![Cell::text("all"), Cell::Empty];
    sums.extend(all.iter().map(|c| total(run, *c)).map(|(n, failed)| cell(n, failed)));
    rows.push(sums);
    Table::new(columns, rows)
}

/// Returns a line for each check, over all steps, for a terminal; empty without checks.
pub(super) fn brief(run: &Run) -> Section {
    let line = |check: (&str, &str)| -> Text {
        let (n, failed) = total(run, check);
        let worst =
            run.steps.iter().filter_map(|s| Some((s, check_of(s, check)?))).filter(|(_, r)| r.failed > 0);
        let worst = worst.max_by(|a, b| {
            let share = |r: &CheckRow| r.failed as f64 / r.n.max(1) as f64;
            share(a.1).total_cmp(&share(b.1))
        });
        let worst = worst.map(|(s, r)| format!("; worst in step {}: {}", s.step, passed(r.n, r.failed)));
        format!(
            "{}: {} of {} answers passed{}",
            title(check),
            passed(n, failed),
            thousands(n as f64),
            worst.unwrap_or_default()
        )
        .into()
    };
    let lines = checks(run).into_iter().map(line).collect();
    Section::titled("Answer checks (apart from outcome and latency)", vec![Block::List(lines)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{markdown, terminal};
    use crate::sections::{brief as for_terminal, report};
    use goodput_run::fixture;

    fn run() -> Run {
        let mut run = fixture::found();
        for step in &mut run.steps {
            let row = |check: &str, failed, sample: &str| CheckRow {
                class: "all".into(),
                check: check.into(),
                n: step.due_n,
                failed,
                sample: sample.into(),
            };
            let failed = if step.level.value > 30.0 { step.due_n / 10 } else { 0 };
            step.checks = vec![row("is | json", failed, "{\\n | oops"), row("said", 0, "")];
        }
        run
    }

    #[test]
    fn checks_stand_apart() {
        let run = run();
        let report = markdown::render(&report::document(&run, &[]));
        assert!(report.contains("## Answer checks\n") && report.contains("came all the same"));
        assert!(report.contains("90 % of 3,840, 384 failed"), "{report}");
        assert!(report.contains("is \\| json") && report.contains("One that failed"), "{report}");
        let said = terminal::render(&for_terminal::answer(&run, &[]), &terminal::Screen::default());
        assert!(said.contains("said: 100 % of") && said.contains("worst in step"), "{said}");
        let none = markdown::render(&report::document(&fixture::found(), &[]));
        assert!(!none.contains("Answer checks") && brief(&fixture::found()).is_empty());
    }
}
