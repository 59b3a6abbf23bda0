//! The comparison as a page with charts, and as a summary for a CI run.

use super::notes::notes as remarks;
use super::parts::{ShownTable, parts};
use crate::charts::Chart;
use crate::document::{
    Block, Cell, Column, Document, Field, Picture, Table, Text, code, emphasis, plain, strong,
};
use crate::escape::argument;
use crate::sections::repeats::lines;
use crate::words::{self, date};
use goodput_run::compare::gate::{self, GateResult, Outcome};
use goodput_run::compare::{Comparison, Difference, SideSummary};

/// Maximum number of table parts in a summary: a CI run shows at most a megabyte, and three levels are enough.
const IN_SUMMARY: usize = 4;

/// Returns the page; `charts` are the charts stored with it.
pub(crate) fn page(c: &Comparison, charts: &[&Chart]) -> Document {
    let mut lead = head(c);
    for chart in charts {
        lead.push(Block::Picture(Picture {
            path: format!("compare-charts/{}.png", chart.name),
            caption: chart.caption.into(),
            alternative: String::new(),
        }));
        lead.push(Block::paragraph(emphasis(format!("{}.", chart.caption))));
    }
    lead.extend(figures(c, usize::MAX));
    lead.extend(sides(c));
    Document { title: title(c).into(), lead, ..Document::default() }
}

/// Returns a summary for a CI run: verdict, answer, differences, the table; without charts, which it cannot show.
pub fn summary(c: &Comparison) -> Document {
    let mut title = Text::from(title(c));
    match gate::overall(&c.gates) {
        _ if c.gates.is_empty() => {}
        GateResult::Holds => title.push_str(": the gate holds"),
        GateResult::Fails => title = title.and(Text::of([plain(": "), strong("the gate fails")])),
        GateResult::Undecided => title.push_str(": the gate is undecided"),
    }
    let mut lead = head(c);
    lead.push(Block::Folded { summary: "Figures".into(), blocks: figures(c, IN_SUMMARY) });
    Document { title, lead, ..Document::default() }
}

fn title(c: &Comparison) -> String {
    let labels: Vec<&str> = c.sides.iter().skip(1).map(|s| s.label.as_str()).collect();
    let first = c.sides.first().map(|s| s.label.as_str()).unwrap_or_default();
    format!("{} against {first}", labels.join(", "))
}

/// Returns the blocks that a reader must see first: the answers, the gates, and the differences.
fn head(c: &Comparison) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        c.answers.iter().map(|answer| Block::paragraph(strong(words::comparison(answer)))).collect();
    blocks.push(gates(c).into());
    blocks.extend(differs(c));
    blocks
}

/// Returns the first `most` tables, and how to read them.
fn figures(c: &Comparison, most: usize) -> Vec<Block> {
    let all = parts(c);
    let left = all.len().saturating_sub(most);
    let mut blocks = Vec::new();
    for part in all.into_iter().take(most) {
        blocks.push(Block::Heading(part.heading.as_str().into()));
        blocks.push(table(c, &part).captioned(part.heading).into());
    }
    if left > 0 {
        blocks.push(Block::paragraph(format!("{left} more levels stand in compare.md and compare.json.")));
    }
    blocks.extend(runs(c));
    blocks.extend(notes(c));
    blocks
}

fn gates(c: &Comparison) -> Table {
    let held = |g: &Outcome| match g.result {
        GateResult::Holds => Cell::text("holds"),
        GateResult::Fails => Cell::text(strong("fails")),
        GateResult::Undecided => Cell::text("undecided"),
    };
    let fields: Vec<Field<'_, Outcome>> = vec![
        Field::new(Column::text("gate"), |g: &Outcome| Cell::text(g.gate.as_str())),
        Field::new(Column::text("of"), |g: &Outcome| Cell::text(g.side.as_str())),
        Field::new(Column::text("figure"), |g: &Outcome| Cell::text(g.row.as_str())),
        Field::new(Column::text("came to"), held),
        Field::new(Column::text("why"), |g: &Outcome| Cell::text(words::gate_reason(g))),
    ];
    Table::of(fields, &c.gates).captioned("Gates")
}

fn differs(c: &Comparison) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("What differs".into())];
    if c.differs.is_empty() {
        blocks.push(Block::paragraph("Nothing of plan, server, client or version."));
        return blocks;
    }
    if c.unlike {
        blocks.push(Block::Paragraph(Text::of([
            strong("They did not measure the same thing"),
            plain(" (marked !): compared because it was insisted on."),
        ])));
    }
    let about = |d: &Difference| {
        let mark = if d.unlike { "! " } else { "" };
        Cell::text(format!("{mark}{}", d.about.title()))
    };
    let mut fields = vec![
        Field::new(Column::text("about"), about),
        Field::new(Column::text("key"), |d: &Difference| Cell::text(d.key.as_str())),
    ];
    fields.extend(c.sides.iter().enumerate().map(|(i, s)| {
        Field::new(Column::text(s.label.as_str()), move |d: &Difference| {
            Cell::known(d.values.get(i).cloned().unwrap_or_default())
        })
    }));
    blocks.push(Table::of(fields, &c.differs).captioned("What differs").into());
    blocks
}

fn table(c: &Comparison, part: &ShownTable) -> Table {
    part.table(c, Column::text(""), |change, noise| match noise.is_beyond() {
        true => Cell::strong(change),
        false => Cell::figure(change, None),
    })
}

/// Returns the runs of each side and their combined result, if sides have several runs.
fn runs(c: &Comparison) -> Vec<Block> {
    if c.runs.is_empty() {
        return Vec::new();
    }
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for group in &c.runs {
        rows.push(vec![
            Cell::text(group.label.as_str()),
            Cell::text("runs"),
            Cell::text(group.runs.join(", ")),
        ]);
        for (name, text) in group.pooled.iter().filter(|p| p.runs > 1).flat_map(lines) {
            rows.push(vec![Cell::Empty, Cell::text(name), Cell::text(text)]);
        }
    }
    let columns = vec![Column::text(""), Column::text(""), Column::text("")];
    vec![Block::Heading("The runs".into()), Table::new(columns, rows).captioned("The runs").into()]
}

fn notes(c: &Comparison) -> Vec<Block> {
    let how = Text::of([
        plain("Changes are from the first, with 95 % intervals. "),
        emphasis("Beyond noise"),
        plain(
            ": the change is more than chance makes of two alike servers, at a chance of about 5 % that any of the table's is wrongly called \
             so (Holm); ",
        ),
        code("?"),
        plain(": nothing tells the noise."),
    ]);
    vec![Block::Paragraph(how), Block::list(remarks(c))]
}

fn sides(c: &Comparison) -> Vec<Block> {
    let text = |head: &str, of: fn(&SideSummary) -> String| {
        Field::new(Column::text(head), move |s: &SideSummary| Cell::text(of(s)))
    };
    let fields = vec![
        text("", |s| s.label.clone()),
        text("run", |s| s.run.clone()),
        text("measured", |s| date(&s.started)),
        text("server", |s| s.server.clone()),
        text("model", |s| s.model.clone()),
        text("workload", |s| s.workload.clone()),
        text("SLO", |s| s.slo.clone()),
    ];
    let runs: Vec<String> = c.sides.iter().map(|s| s.run.clone()).collect();
    let one = runs.iter().all(|r| *r == runs[0]);
    let made_from = if one { runs[..1].to_vec() } else { runs };
    let asked = if c.asked.is_empty() { made_from } else { c.asked.clone() };
    let shown: Vec<String> = asked.iter().map(|a| argument(a)).collect();
    let made = Text::of([
        plain(format!("Made by goodput {}: ", c.goodput_version)),
        code(format!("goodput compare {}", shown.join(" "))),
    ]);
    vec![
        Block::Heading("The sides".into()),
        Table::of(fields, &c.sides).captioned("The sides").into(),
        Block::Paragraph(made),
    ]
}
