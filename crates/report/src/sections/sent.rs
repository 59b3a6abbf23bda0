//! The requests sent, as measured: lengths of prompts and answers, and notes on the files they came from.

use crate::document::{Block, Cell, Column, Field, Kind, Section, Table};
use crate::escape::clip;
use goodput_core::distribution::Distribution;
use goodput_run::rundir::{Run, Sent};

/// Lengths of a class of requests of a series.
struct Row<'a> {
    of: &'a Sent,
    what: &'static str,
    lengths: &'a Distribution,
}

/// Returns the section of the report; empty if nothing is known.
pub(super) fn section(run: &Run) -> Section {
    let mut blocks: Vec<Block> =
        run.meta.traffic.iter().map(|note| Block::paragraph(clip(note, 600))).collect();
    let sent = &run.meta.sent;
    let mut rows: Vec<Row<'_>> = Vec::new();
    for of in sent {
        for (what, lengths) in [("prompts", &of.input), ("answers", &of.output)] {
            rows.extend(lengths.as_ref().map(|lengths| Row { of, what, lengths }));
        }
    }
    if !rows.is_empty() {
        blocks.push(Block::paragraph("As the server counted them, over all steps:"));
        blocks.push(table(sent, &rows).into());
    }
    Section::new(Kind::Sent, blocks)
}

fn table(sent: &[Sent], rows: &[Row<'_>]) -> Table {
    let (series, classes) = (several(sent, |s| &s.series), several(sent, |s| &s.class));
    let mut fields: Vec<Field<'_, Row<'_>>> = Vec::new();
    fields.extend(
        series.then(|| Field::new(Column::text("series"), |r: &Row<'_>| Cell::text(clip(&r.of.series, 40)))),
    );
    fields.extend(
        classes.then(|| Field::new(Column::text("class"), |r: &Row<'_>| Cell::text(clip(&r.of.class, 40)))),
    );
    fields.push(Field::new(Column::text("tokens"), |r: &Row<'_>| Cell::text(r.what)));
    type Figure = fn(&Distribution) -> f64;
    let columns: [(&str, Figure); 6] = [
        ("requests", |d| d.n as f64),
        ("mean", |d| d.mean),
        ("p50", |d| d.p50 as f64),
        ("p90", |d| d.p90 as f64),
        ("p99", |d| d.p99 as f64),
        ("longest", |d| d.max as f64),
    ];
    fields.extend(
        columns.map(|(head, of)| {
            Field::new(Column::number(head), move |r: &Row<'_>| Cell::Count(of(r.lengths)))
        }),
    );
    let table = Table::of(fields, rows);
    if series { table.sorted_by_readers(0) } else { table }
}

/// Returns true if `name` takes several values.
fn several(sent: &[Sent], name: impl Fn(&Sent) -> &String) -> bool {
    sent.iter().any(|s| name(s) != name(&sent[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_core::distribution::LengthHistogram;
    use goodput_run::fixture;

    #[test]
    fn lengths_and_notes_are_shown() {
        let mut run = fixture::found();
        assert!(section(&run).is_empty());
        let mut lengths = LengthHistogram::default();
        (1..=100).for_each(|n| lengths.push(10 * n));
        let sent = |series: &str, class: &str| Sent {
            series: series.into(),
            class: class.into(),
            input: lengths.finish(),
            output: None,
        };
        run.meta.sent = vec![sent("main", "all")];
        run.meta.traffic = vec!["Of 9 rows, 1 could not be read.".into()];
        let text = blocks(&section(&run).blocks, 3);
        assert!(text.starts_with("Of 9 rows, 1 could not be read.\n\n"), "{text}");
        assert!(text.contains("| prompts | 100 | 505 | 500 | 900 | 990 | 1,000 |"), "{text}");
        assert!(!text.contains("answers"), "the server counted none: {text}");
        run.meta.sent = vec![sent("main", "all"), sent("main", "chat"), sent("main", "rag")];
        let text = blocks(&section(&run).blocks, 3);
        assert!(text.contains("| class | tokens |") && text.contains("| chat | prompts | 100 |"), "{text}");
        run.meta.sent = vec![sent("A", "all"), sent("B", "all")];
        let text = blocks(&section(&run).blocks, 3);
        assert!(text.contains("| series | tokens |") && text.contains("| B | prompts | 100 |"), "{text}");
    }
}
