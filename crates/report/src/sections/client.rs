//! The client's lateness, and other signs that it was the limit.

use super::cells::step_table;
use crate::document::{Block, Cell, Column, Field};
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::Step;

/// Returns the blocks of the section of the report; empty if there is no step.
pub(super) fn section(run: &Run) -> Vec<Block> {
    if run.steps.is_empty() {
        return Vec::new();
    }
    let field = |head: &str, of: fn(&Step) -> Cell| Field::new(Column::number(head), move |s: &&Step| of(s));
    let mut fields = vec![
        field("lateness p50 ms", |s| Cell::number(s.lateness_p50_ms)),
        field("lateness p99 ms", |s| Cell::number(s.lateness_p99_ms)),
        field("receive lag p99 ms", |s| Cell::number(s.receive_lag_p99_ms)),
        field("threads busy", |s| Cell::share(s.client_busy)),
        field("waiting for a core", |s| Cell::share(s.client_waiting)),
        field("new connections", |s| Cell::figure(s.conn_new.to_string(), Some(s.conn_new as f64))),
        field("sent again", |s| Cell::figure(s.retried.to_string(), Some(s.retried as f64))),
    ];
    if run.steps.iter().any(|s| s.resets > 0) {
        fields.push(field("attempts", |s| Cell::figure(s.attempts.to_string(), Some(s.attempts as f64))));
        fields
            .push(field("connections reset", |s| Cell::figure(s.resets.to_string(), Some(s.resets as f64))));
    }
    if run.steps.iter().any(|s| s.upload_p50_ms.is_some()) {
        fields.push(field("upload p50 ms", |s| Cell::number(s.upload_p50_ms)));
        fields.push(field("upload p99 ms", |s| Cell::number(s.upload_p99_ms)));
    }
    let steps: Vec<&Step> = run.steps.iter().collect();
    let said = "Lateness is sent − due: the client's own fault. It is part of every latency above. How far the client was from its own limits:";
    vec![
        Block::paragraph(said),
        Block::List(words::client_lines(run)),
        step_table(run, &steps, fields).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn attempts_and_resets_are_shown_where_there_are_resets() {
        let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let shown = |run: &Run| format!("{:?}", section(run));
        assert!(!shown(&run).contains("connections reset"));
        (run.steps[1].attempts, run.steps[1].resets) = (2689, 289);
        let with = shown(&run);
        for part in ["connections reset", "attempts", "2689", "289"] {
            assert!(with.contains(part), "{part}");
        }
    }

    #[test]
    fn the_upload_of_large_requests_is_shown() {
        let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        assert!(!format!("{:?}", section(&run)).contains("upload"));
        (run.steps[1].upload_p50_ms, run.steps[1].upload_p99_ms) = (Some(3.25), Some(41.5));
        let with = format!("{:?}", section(&run));
        for part in ["upload p50 ms", "upload p99 ms", "Number(3.25)", "Number(41.5)"] {
            assert!(with.contains(part), "{part}");
        }
    }
}
