//! The comparison for a terminal.

use super::notes::notes;
use super::parts::{ShownTable, parts};
use crate::document::{Advice, Block, Cell, Column, Document, Section, Setting, Table};
use crate::sections::repeats::lines;
use crate::words;
use goodput_run::compare::gate::GateResult;
use goodput_run::compare::{Comparison, Difference};
use std::path::PathBuf;

/// Returns the whole comparison: the differences, the table, the gates, the answer, and the paths of its files.
pub fn brief(c: &Comparison, files: &[PathBuf]) -> Document {
    let mut sections = vec![differs(c)];
    sections.extend(parts(c).iter().map(|part| Section::untitled(vec![table(c, part).into()])));
    for group in &c.runs {
        let runs =
            if group.runs.len() == 1 { "one run".to_owned() } else { format!("{} runs", group.runs.len()) };
        let pooled = group.pooled.iter().filter(|p| p.runs > 1).flat_map(lines);
        let title = Block::paragraph(format!("{}: {runs}", group.label));
        sections.push(Section::untitled(vec![title, Block::facts(pooled)]));
    }
    sections.push(gates(c));
    let mut last = vec![Block::Caveats(notes(c).into_iter().map(|note| Advice::new(note, "")).collect())];
    last.extend(c.answers.iter().map(|answer| Block::paragraph(words::comparison(answer))));
    sections.push(Section::untitled(last));
    sections.push(Section::untitled(vec![Block::list(files.iter().map(|f| f.display().to_string()))]));
    Document::of(sections)
}

fn table(c: &Comparison, part: &ShownTable) -> Table {
    let title = Column::text(part.heading.as_str()).indented();
    part.table(c, title, |change, _| Cell::text(change)).set(Setting::Whole)
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
    Section::untitled(c.gates.iter().map(one).collect())
}

/// Returns the differences, those that make the sides incomparable first.
fn differs(c: &Comparison) -> Section {
    let labels: Vec<&str> = c.sides.iter().map(|s| s.label.as_str()).collect();
    let labels = labels.join(" → ");
    if c.differs.is_empty() {
        let said = format!("{labels}: nothing of plan, server, client or version differs");
        return Section::untitled(vec![Block::paragraph(said)]);
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
