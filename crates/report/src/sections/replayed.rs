//! The share of a trace that was replayed.

use crate::document::{Block, Text};
use crate::words;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::coverage;

/// Returns the blocks of the section of the report, a line for each series; empty if no trace was replayed.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let mut names: Vec<&str> = Vec::new();
    for step in &run.steps {
        if !names.contains(&step.series.as_str()) {
            names.push(&step.series);
        }
    }
    let line = |name: &&str| -> Option<Text> {
        let c = coverage(run.steps.iter().filter(|s| s.series == *name))?;
        let whose = if names.len() > 1 { format!("{name}: ") } else { String::new() };
        let said = format!(
            "{whose}{} of the trace's {} requests were sent at least once, {} times on average.",
            thousands(c.sent as f64),
            thousands(c.of as f64),
            words::figure(c.in_all as f64 / c.sent.max(1) as f64)
        );
        Some(said.into())
    };
    let lines: Vec<Text> = names.iter().filter_map(line).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let how = "In the steps under load, settling and tail included, counting requests that come at a time of their own. Each step begins \
               at a place of its own, drawn with the seed, and runs on from the last request to the first (trace_from, trace_n and trace_of \
               in steps.csv).";
    vec![Block::List(lines), Block::paragraph(how)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown;
    use crate::sections::report;
    use goodput_run::fixture;
    use goodput_stats::stats::step::TracePart;

    #[test]
    fn what_was_sent_of_a_trace_is_said() {
        let mut run = fixture::found();
        assert!(section(&run).is_empty());
        for (i, step) in run.steps.iter_mut().enumerate() {
            step.trace = Some(TracePart { from: 1_000 * (i as u64 % 2), n: 1_000, of: 4_000 });
        }
        let times = words::figure(run.steps.len() as f64 / 2.0);
        let said = markdown::blocks(&section(&run), 3);
        let want = format!(
            "- 2,000 of the trace's 4,000 requests were sent at least once, {times} times on average."
        );
        assert!(said.starts_with(&want), "{said}");
        let report = markdown::render(&report::document(&run, &[]));
        assert!(report.contains("## What was replayed\n"));
    }
}
