//! What was sent, as it was measured: how long prompts and answers were, and what is to be known of the files they came from.

use super::escape::{clip, markdown};
use super::tables::table;
use crate::charts::thousands;
use goodput_core::distribution::Distribution;
use goodput_run::rundir::{Run, Sent};

/// The section of the Markdown report; empty where nothing is known.
pub(super) fn section(run: &Run) -> String {
    let notes: Vec<String> =
        run.meta.traffic.iter().map(|note| markdown(&clip(note, 600)) + "\n\n").collect();
    let sent = &run.meta.sent;
    let (series, classes) = (several(sent, |s| &s.series), several(sent, |s| &s.class));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for s in sent {
        let of = [(series, &s.series), (classes, &s.class)].into_iter().filter(|(shown, _)| *shown);
        let of: Vec<String> = of.map(|(_, name)| markdown(&clip(name, 40))).collect();
        for (what, d) in [("prompts", &s.input), ("answers", &s.output)] {
            rows.extend(d.as_ref().map(|d| [of.clone(), row(what, d)].concat()));
        }
    }
    if rows.is_empty() {
        return notes.concat();
    }
    let of = [(series, "series"), (classes, "class")].into_iter().filter(|(shown, _)| *shown);
    let of: Vec<&str> = of.map(|(_, name)| name).collect();
    let head = [&of[..], &["tokens", "requests", "mean", "p50", "p90", "p99", "longest"]].concat();
    let lengths = table(&head, &[&of[..], &["tokens"]].concat(), rows);
    format!("{}As the server counted them, over all steps:\n\n{lengths}", notes.concat())
}

/// Whether there are several of what one goes by.
fn several(sent: &[Sent], name: impl Fn(&Sent) -> &String) -> bool {
    sent.iter().any(|s| name(s) != name(&sent[0]))
}

fn row(what: &str, d: &Distribution) -> Vec<String> {
    let n = |n: u64| thousands(n as f64);
    vec![what.into(), n(d.n), thousands(d.mean), n(d.p50), n(d.p90), n(d.p99), n(d.max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::distribution::Lengths;
    use goodput_run::fixture;

    #[test]
    fn lengths_and_notes_are_shown() {
        let mut run = fixture::found();
        assert_eq!(section(&run), "");
        let mut lengths = Lengths::default();
        (1..=100).for_each(|n| lengths.push(10 * n));
        let sent = |series: &str, class: &str| Sent {
            series: series.into(),
            class: class.into(),
            input: lengths.finish(),
            output: None,
        };
        run.meta.sent = vec![sent("main", "all")];
        run.meta.traffic = vec!["Of 9 rows, 1 could not be read.".into()];
        let text = section(&run);
        assert!(text.starts_with("Of 9 rows, 1 could not be read.\n\n"), "{text}");
        assert!(text.contains("| prompts | 100 | 505 | 500 | 900 | 990 | 1,000 |"), "{text}");
        assert!(!text.contains("answers"), "the server counted none: {text}");
        run.meta.sent = vec![sent("main", "all"), sent("main", "chat"), sent("main", "rag")];
        let text = section(&run);
        assert!(text.contains("| class | tokens |") && text.contains("| chat | prompts | 100 |"), "{text}");
        run.meta.sent = vec![sent("A", "all"), sent("B", "all")];
        let text = section(&run);
        assert!(text.contains("| series | tokens |") && text.contains("| B | prompts | 100 |"), "{text}");
    }
}
