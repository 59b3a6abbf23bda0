//! `repeats.csv`: one row per run of `sweep --repeat` and answer; a run without an answer has one row.

use super::file::{Column, table_text, text};
use crate::rundir::repeats::RepeatedRun;
use anyhow::Result;
use goodput_stats::search::answer::{Answer, Goodput};

/// A row: a run, and one of its answers if it has any.
struct RepeatRow<'a> {
    run: &'a RepeatedRun,
    answer: Option<&'a Answer>,
}

impl RepeatRow<'_> {
    fn goodput(&self) -> Option<&Goodput> {
        self.answer.map(|a| &a.goodput)
    }
}

/// Returns the columns; for their meaning see the fields of [`RepeatedRun`] and [`Answer`].
fn columns<'a>() -> [Column<RepeatRow<'a>>; 15] {
    [
        ("run", |r| text(r.run.run)),
        ("folder", |r| text(r.run.folder.clone())),
        ("seed", |r| text(r.run.seed)),
        ("started", |r| text(r.run.started.clone())),
        ("state", |r| r.run.state.name().to_owned()),
        ("series", |r| text(r.answer.map(|a| a.series.clone()))),
        ("tier", |r| text(r.answer.map(|a| a.tier.clone()))),
        ("class", |r| text(r.answer.map(|a| a.class.clone()))),
        ("control", |r| text(r.answer.map(|a| a.control))),
        ("status", |r| text(r.goodput().map(|g| g.status().name().to_owned()))),
        ("rate", |r| text(r.goodput().and_then(|g| g.rate()))),
        ("low", |r| text(r.goodput().and_then(|g| g.interval90()).map(|ends| ends[0]))),
        ("high", |r| text(r.goodput().and_then(|g| g.interval90()).map(|ends| ends[1]))),
        ("safe_rate", |r| text(r.goodput().and_then(|g| g.safe_rate()))),
        ("binding", |r| text(r.goodput().and_then(|g| g.binding.clone()))),
    ]
}

/// Returns the text of `repeats.csv`.
///
/// # Errors
/// Fails if a row cannot be written.
pub(crate) fn repeats_table(runs: &[RepeatedRun]) -> Result<Vec<u8>> {
    let rows = runs.iter().flat_map(|run| {
        let without = run.answers.is_empty().then_some(None);
        let answers = run.answers.iter().map(Some).chain(without);
        answers.map(move |answer| RepeatRow { run, answer })
    });
    table_text(&columns(), rows)
}
