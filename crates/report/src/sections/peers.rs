//! The figures that another tool would report for a run.

use crate::document::{Block, Cell, Column, Document, Field, Section, Setting, Table};
use crate::words::{self, messages};
use goodput_run::peers::{AsTool, Figure, StepAs};
use goodput_run::rundir::Run;

/// Returns the figures for a terminal, and below them why they differ from ours. Given the run, they are those of the step of each answer;
/// else, and if no answer has a step, those of every step.
pub fn brief(of: &AsTool, run: Option<&Run>) -> Document {
    let of_answers = run.map(answer_steps).unwrap_or_default();
    let is_shown = |s: &&StepAs| of_answers.is_empty() || of_answers.contains(&(s.series.as_str(), s.step));
    let shown: Vec<&StepAs> = of.steps.iter().filter(is_shown).collect();
    let head = format!(
        "The measured requests as {} {} counts them; the limits of request goodput are those of the SLO, each on single requests.",
        of.tool.title(),
        of.version
    );
    let mut sections = vec![Section::untitled(vec![Block::paragraph(head)])];
    sections.extend(shown.iter().map(|step| step_section(of, step)));
    if shown.len() < of.steps.len() {
        let said = format!("{} more steps: --every-step.", of.steps.len() - shown.len());
        sections.push(Section::untitled(vec![Block::paragraph(said)]));
    }
    if shown.iter().any(|s| s.figures.iter().any(|f| f.approximate && f.value.is_some())) {
        let said = "≈ to three significant figures: made from histograms.csv.";
        sections.push(Section::untitled(vec![Block::paragraph(said)]));
    }
    let list = |all: &[&'static str]| vec![Block::list(all.iter().copied())];
    sections.push(Section::titled("Where its definitions differ from ours", list(of.differences)));
    sections.push(Section::titled("Reported by it, and not to be had from a run folder", list(of.untold)));
    Document::of(sections)
}

/// Returns the series and the number of the step of each answer of the first tier.
fn answer_steps(run: &Run) -> Vec<(&str, u32)> {
    let parts: Vec<&Run> = if run.parts.is_empty() { vec![run] } else { run.parts.iter().collect() };
    let step = |part: &&'_ Run| {
        let a = part.answers.first()?;
        let (step, _) = messages::answer_step(part, a, |_| true)?;
        Some(step.step)
    };
    parts.into_iter().filter_map(|part| Some((part.series(), step(&part)?))).collect()
}

fn step_section(of: &AsTool, step: &StepAs) -> Section {
    let shown: Vec<&Figure> =
        step.figures.iter().filter(|f| f.value.is_some() || f.reported.is_some()).collect();
    let precise = |value: Option<f64>| value.map_or(Cell::Unknown, Cell::Precise);
    let counted = move |f: &&Figure| match (f.approximate, f.value) {
        (true, Some(value)) => Cell::figure(format!("≈ {}", words::precise(value)), Some(value)),
        _ => precise(f.value),
    };
    let mut fields = vec![
        Field::new(Column::text(format!("{} says", of.tool.title())), |f: &&Figure| {
            Cell::text(f.name.as_str())
        }),
        Field::new(Column::number("as it counts"), counted),
    ];
    fields.extend(
        of.own.then(|| Field::new(Column::number("it reported"), move |f: &&Figure| precise(f.reported))),
    );
    fields.extend([
        Field::new(Column::text("unit"), |f: &&Figure| Cell::text(f.unit)),
        Field::new(Column::text("ours"), |f: &&Figure| f.ours.map_or(Cell::Empty, Cell::text)),
        Field::new(Column::number("as we count"), move |f: &&Figure| match f.ours {
            Some(_) => precise(f.our_value),
            None => Cell::Empty,
        }),
    ]);
    let title = format!("Step {} at {}, over {} s", step.step, step.level, words::figure(step.duration_s));
    let table = Table::of(fields, &shown).set(Setting::Whole);
    Section::untitled(vec![Block::paragraph(title), table.into()])
}
