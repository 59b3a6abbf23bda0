//! What was sent, as it was measured: how long prompts and answers were, and what is to be known of the files they came from.

use super::escape::{clip, markdown};
use super::tables::table;
use crate::distribution::Distribution;
use crate::report::charts::thousands;
use crate::rundir::Run;

/// The section of the Markdown report; empty where nothing is known.
pub(super) fn section(run: &Run) -> String {
    let notes: Vec<String> =
        run.meta.traffic.iter().map(|note| markdown(&clip(note, 600)) + "\n\n").collect();
    let known =
        run.meta.sent.as_ref().map(|s| [("prompts", s.input.as_ref()), ("answers", s.output.as_ref())]);
    let rows: Vec<Vec<String>> =
        known.into_iter().flatten().filter_map(|(what, d)| Some(row(what, d?))).collect();
    if rows.is_empty() {
        return notes.concat();
    }
    let head = ["tokens", "requests", "mean", "p50", "p90", "p99", "longest"];
    let lengths = table(&head, &["tokens"], rows);
    format!("{}As the server counted them, over all steps:\n\n{lengths}", notes.concat())
}

fn row(what: &str, d: &Distribution) -> Vec<String> {
    let n = |n: u64| thousands(n as f64);
    vec![what.into(), n(d.n), thousands(d.mean), n(d.p50), n(d.p90), n(d.p99), n(d.max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Lengths;
    use crate::report::fixture;
    use crate::rundir::Sent;

    #[test]
    fn lengths_and_notes_are_shown() {
        let mut run = fixture::found();
        assert_eq!(section(&run), "");
        let mut lengths = Lengths::default();
        (1..=100).for_each(|n| lengths.push(10 * n));
        run.meta.sent = Some(Sent { input: lengths.finish(), output: None });
        run.meta.traffic = vec!["Of 9 rows, 1 could not be read.".into()];
        let text = section(&run);
        assert!(text.starts_with("Of 9 rows, 1 could not be read.\n\n"), "{text}");
        assert!(text.contains("| prompts | 100 | 505 | 500 | 900 | 990 | 1,000 |"), "{text}");
        assert!(!text.contains("answers"), "the server counted none: {text}");
    }
}
