//! The part of a model that fits on some GPUs: memory, KV cache and floors, each with its formula.

mod lines;
mod words;

use crate::document::{Block, Bullet, Cell, Column, Document, Entry, Field, Section, Setting, Table};
use goodput_stats::fit::{Fit, Setup};
use lines::{FigureGroup, Line};
pub use words::refusal;

/// A fit, with the choices that the command line left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The model and its GPUs.
    pub setup: Setup,
    /// Name of the GPU.
    pub gpu: String,
    /// The figures.
    pub fit: Fit,
    /// True if the lengths of requests are the default ones.
    pub default_lengths: bool,
    /// True if the memory for activations, CUDA and NCCL is the assumed one.
    pub default_reserved: bool,
    /// True to show every formula with its numbers.
    pub explain: bool,
}

/// Returns the answer in a sentence, the figures, their formulas if requested, and the caveats.
pub fn brief(f: &Fitted) -> Document {
    let mut sections = vec![
        Section::untitled(vec![Block::paragraph(words::about(f))]),
        Section::untitled(vec![Block::paragraph(words::headline(f))]),
    ];
    for part in FigureGroup::ALL {
        let lines = lines::of(f, part);
        sections.push(if f.explain {
            Section::titled(part.title(), vec![formulas(&lines)])
        } else {
            Section::untitled(vec![table(part, &lines).into()])
        });
    }
    sections.push(Section::titled("Caveats", vec![Block::Caveats(words::notes(f))]));
    Document::of(sections)
}

/// Returns everything as JSON: what was asked, what fits, every formula, and the caveats.
pub fn json(f: &Fitted) -> serde_json::Value {
    let lines: Vec<Line> = FigureGroup::ALL.into_iter().flat_map(|part| lines::of(f, part)).collect();
    let notes: Vec<String> = words::notes(f).iter().map(|note| note.text.words()).collect();
    serde_json::json!({ "gpu": f.gpu, "setup": f.setup, "fit": f.fit, "formulas": lines, "notes": notes })
}

/// Returns the figures below the title of their group.
fn table(part: FigureGroup, lines: &[Line]) -> Table {
    let fields: Vec<Field<'_, Line>> = vec![
        Field::new(Column::text(part.title()).indented(), |line: &Line| Cell::text(line.of.as_str())),
        Field::new(Column::quantity(""), |line: &Line| Cell::text(line.value.as_str())),
        Field::new(Column::text(""), |line: &Line| Cell::text(line.note.as_str())),
    ];
    Table::of(fields, lines).set(Setting::Bare)
}

fn formulas(lines: &[Line]) -> Block {
    let entry = |line: &Line| {
        let mut below = Vec::new();
        if let Some(numbers) = &line.numbers {
            below.push(Entry::new(Bullet::None, format!("= {numbers}")));
            below.push(Entry::new(Bullet::None, format!("= {}", line.value)));
            return Entry::line(format!("{} = {}", line.of, line.formula)).over(below);
        }
        let note = if line.note.is_empty() { String::new() } else { format!(" ({})", line.note) };
        Entry::line(format!("{} = {}{note}", line.of, line.value))
    };
    Block::Outline(lines.iter().map(entry).collect())
}
