//! Whether answers were what the plan says they must be, for `report.md` and the terminal.

use super::charts::thousands;
use super::escape::{clip, markdown, plain};
use super::tables;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{CheckRow, Step};

/// The checks of a run, in the order of the plan, by class and name.
fn checks(run: &Run) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for row in run.steps.iter().flat_map(|s| &s.checks) {
        if !found.contains(&(&row.class, &row.check)) {
            found.push((&row.class, &row.check));
        }
    }
    found
}

fn of<'a>(step: &'a Step, (class, check): (&str, &str)) -> Option<&'a CheckRow> {
    step.checks.iter().find(|r| (r.class.as_str(), r.check.as_str()) == (class, check))
}

/// Answers asked and failed over all steps.
fn total(run: &Run, check: (&str, &str)) -> (u64, u64) {
    let rows = run.steps.iter().filter_map(|s| of(s, check));
    rows.fold((0, 0), |(n, failed), r| (n + r.n, failed + r.failed))
}

/// The name, behind its class where that is not all there is.
fn title((class, check): (&str, &str)) -> String {
    if class == "all" { clip(check, 40) } else { clip(&format!("{class}: {check}"), 60) }
}

/// The share that passed; empty where nothing was asked.
fn passed(n: u64, failed: u64) -> String {
    let share = (n > 0).then(|| n.saturating_sub(failed) as f64 / n as f64);
    tables::percent(share)
}

/// The share of answers that passed each check in each step, and a sample of those that failed; empty without checks.
pub fn section(run: &Run) -> String {
    let all = checks(run);
    if all.is_empty() {
        return String::new();
    }
    let titles: Vec<String> = all.iter().map(|c| markdown(&title(*c))).collect();
    let mut head = vec!["step", "level"];
    head.extend(titles.iter().map(String::as_str));
    let cell = |n: u64, failed: u64| match failed {
        _ if n == 0 => tables::UNKNOWN.to_owned(),
        0 => format!("100 % of {}", thousands(n as f64)),
        _ => format!("{} of {}, {} failed", passed(n, failed), thousands(n as f64), thousands(failed as f64)),
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for step in run.steps.iter().filter(|s| !s.checks.is_empty()) {
        let cells = all.iter().map(|c| of(step, *c).map_or(tables::UNKNOWN.into(), |r| cell(r.n, r.failed)));
        rows.push([tables::number_of(step), tables::name(run, step)].into_iter().chain(cells).collect());
    }
    let sums = all.iter().map(|c| total(run, *c)).map(|(n, failed)| cell(n, failed));
    rows.push(["all".to_owned(), String::new()].into_iter().chain(sums).collect());
    let mut out = String::from(
        "The share of measured answers that passed. An answer that fails a check came all the same: it counts as answered in \
         every latency, verdict and goodput.\n\n",
    );
    out.push_str(&tables::table(&head, &["step", "level"], rows));
    for (check, title) in all.iter().zip(&titles) {
        let failed = run.steps.iter().filter_map(|s| of(s, *check)).find(|r| r.failed > 0);
        if let Some(row) = failed {
            let said = if row.sample.is_empty() {
                "an empty answer".into()
            } else {
                markdown(&clip(&row.sample, 160))
            };
            out.push_str(&format!("\n\nOne that failed {title}: {said}"));
        }
    }
    out
}

/// A line for each check, over all steps; empty without checks.
pub fn lines(run: &Run) -> String {
    let line = |check: (&str, &str)| {
        let (n, failed) = total(run, check);
        let worst = run.steps.iter().filter_map(|s| Some((s, of(s, check)?))).filter(|(_, r)| r.failed > 0);
        let worst = worst.max_by(|a, b| {
            let share = |r: &CheckRow| r.failed as f64 / r.n.max(1) as f64;
            share(a.1).total_cmp(&share(b.1))
        });
        let worst = worst.map(|(s, r)| format!("; worst in step {}: {}", s.step, passed(r.n, r.failed)));
        let said = format!(
            "{}: {} of {} answers passed{}",
            title(check),
            passed(n, failed),
            thousands(n as f64),
            worst.unwrap_or_default()
        );
        format!("  {}\n", plain(&said))
    };
    let lines: String = checks(run).into_iter().map(line).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nAnswer checks (apart from outcome and latency):\n{lines}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{markdown, terminal};
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
        let report = markdown::render(&run, &[]);
        assert!(report.contains("## Answer checks\n") && report.contains("came all the same"));
        assert!(report.contains("90 % of 3,840, 384 failed"), "{}", section(&run));
        assert!(report.contains("is \\| json") && report.contains("One that failed"), "{}", section(&run));
        let said = terminal::answer(&run, &[]);
        assert!(said.contains("said: 100 % of") && said.contains("worst in step"), "{said}");
        assert!(!markdown::render(&fixture::found(), &[]).contains("Answer checks"));
        assert_eq!(lines(&fixture::found()), "");
    }
}
