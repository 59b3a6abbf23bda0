//! The comparison for a terminal.

use super::notes::notes;
use super::parts::{Part, Shown, parts};
use crate::document::{Advice, Block, Cell, Column, Document, Field, Section, Setting, Table, Text};
use crate::sections::repeats::lines;
use crate::words;
use goodput_run::compare::gate::GateResult;
use goodput_run::compare::{Comparison, Difference};
use std::path::PathBuf;

/// Returns the whole comparison: the differences, the table, the gates, the answer, and the paths of its files.
pub fn brief(c: &Comparison, files: &[PathBuf]) -> Document {
    let mut sections = vec![differs(c)];
    sections.extend(parts(c).iter().map(|part| untitled(vec![table(c, part).into()])));
    for group in &c.runs {
        let runs =
            if group.runs.len() == 1 { "one run".to_owned() } else { format!("{} runs", group.runs.len()) };
        let pooled = group.pooled.iter().filter(|p| p.runs > 1).flat_map(lines);
        let pooled = pooled.map(|(name, text)| (name.into(), text.into())).collect();
        let title = Block::paragraph(format!("{}: {runs}", group.label));
        sections.push(untitled(vec![title, Block::Facts(pooled)]));
    }
    sections.push(gates(c));
    let note = |n: String| Advice { text: n.into(), advice: Text::default() };
    let mut last = vec![Block::Caveats(notes(c).into_iter().map(note).collect())];
    last.extend(c.answers.iter().map(|answer| Block::paragraph(words::comparison(answer))));
    sections.push(untitled(last));
    sections
        .push(untitled(vec![Block::List(files.iter().map(|f| f.display().to_string().into()).collect())]));
    Document { sections, ..Document::default() }
}

fn untitled(blocks: Vec<Block>) -> Section {
    Section::titled("", blocks)
}

fn table(c: &Comparison, part: &Part) -> Table {
    let title = Column::text(part.heading.as_str()).indented();
    let mut fields = vec![Field::new(title, |r: &Shown| Cell::text(r.title.as_str()))];
    if !part.is_pooled() {
        fields.extend(c.sides.iter().enumerate().map(|(i, s)| {
            Field::new(Column::number(s.label.as_str()), move |r: &Shown| {
                r.values[i].as_ref().map_or(Cell::Unknown, |v| Cell::figure(v.as_str(), None))
            })
        }));
    }
    let several = c.sides.len() > 2;
    for (i, side) in c.sides.iter().skip(1).enumerate() {
        let head = if several { format!("change, {}", side.label) } else { "change".to_owned() };
        fields.push(Field::new(Column::number(head), move |r: &Shown| Cell::text(r.changes[i].0.as_str())));
        fields.push(Field::new(Column::number("beyond noise"), move |r: &Shown| {
            Cell::text(r.changes[i].1.words())
        }));
    }
    Table::of(fields, &part.rows).set(Setting::Whole)
}

fn gates(c: &Comparison) -> Section {
    let one = |g: &goodput_run::compare::gate::Outcome| {
        let mark = match g.result {
            GateResult::Holds => "holds",
            GateResult::Fails => "FAILS",
            GateResult::Undecided => "undecided",
        };
        Block::paragraph(format!(
            "gate {}: {mark} for {}, {}: {}",
            g.gate,
            g.side,
            g.row,
            words::gate_reason(g)
        ))
    };
    untitled(c.gates.iter().map(one).collect())
}

/// Returns the differences, those that make the sides incomparable first.
fn differs(c: &Comparison) -> Section {
    let labels: Vec<&str> = c.sides.iter().map(|s| s.label.as_str()).collect();
    let labels = labels.join(" → ");
    if c.differs.is_empty() {
        let said = format!("{labels}: nothing of plan, server, client or version differs");
        return untitled(vec![Block::paragraph(said)]);
    }
    let line = |d: &Difference| {
        let text = format!("{}: {d}", d.about.title());
        if d.unlike { Block::Warning(text.into()) } else { Block::List(vec![text.into()]) }
    };
    let mut blocks: Vec<Block> = c.differs.iter().map(line).collect();
    if c.unlike {
        blocks.push(Block::Warning(
            "They did not measure the same thing: compared only because of --force.".into(),
        ));
    }
    Section::titled(format!("What differs ({labels})"), blocks)
}
