//! The capacity for a terminal.

use super::answer::Capacity;
use super::rows::{of_one, of_several};
use super::{explain, words};
use crate::document::{Advice, Block, Bullet, Document, Entry, Section};
use goodput_stats::capacity::sizing::{basis, by_currency};
use std::path::PathBuf;

/// Returns the differences first, then the answer, its table, its formulas if requested, and the caveats.
pub fn brief(c: &Capacity, files: &[PathBuf]) -> Document {
    let mut warnings: Vec<Advice> =
        words::warnings(c).into_iter().map(|said| Advice::new(said, "")).collect();
    warnings.extend(
        c.refused.iter().map(|r| {
            Advice::new(format!("{} has no rate to plan with: {}", r.name, r.why), r.advice.as_str())
        }),
    );
    let mut sections = vec![Section::untitled(vec![Block::Caveats(warnings)])];
    if !c.all.is_empty() {
        sections.extend(answer(c, files));
    }
    Document::of(sections)
}

fn answer(c: &Capacity, files: &[PathBuf]) -> Vec<Section> {
    let mut head = vec![Block::paragraph(format!("{}.", c.headline()))];
    head.extend(limits(c).into_iter().map(Block::paragraph));
    let mut rows = words::demand_rows(&c.demand, &c.reserve);
    rows.extend(words::measured_rows(c));
    let mut sections = vec![Section::untitled(head), Section::untitled(vec![Block::facts(rows)])];
    sections.extend(tables(c));
    if c.explain {
        sections.extend(formulas(c));
    }
    let notes = words::notes(c).into_iter().map(|note| Advice::new(note, ""));
    sections.push(Section::titled("Caveats", vec![Block::Caveats(notes.collect())]));
    sections
        .push(Section::untitled(files.iter().map(|f| Block::paragraph(f.display().to_string())).collect()));
    sections
}

fn tables(c: &Capacity) -> Vec<Section> {
    if let [one] = &c.all[..] {
        let mut blocks = vec![of_one(&c.demand, &c.reserve, one).into()];
        blocks.extend(words::bands(one).into_iter().map(Block::paragraph));
        return vec![Section::untitled(blocks)];
    }
    let by = basis(&c.all);
    let groups = by_currency(&c.all).into_iter();
    let mut sections: Vec<Section> =
        groups.map(|group| Section::untitled(vec![of_several(by, &group).into()])).collect();
    let mut notes = Vec::new();
    if words::planned_apart(&c.all) {
        notes.push(Block::paragraph("Sorted by the goodput, since not every one has a safe rate; GPUs and costs are those of the rate to plan with."));
    }
    notes.push(Block::paragraph(
        "Each by itself, at the safe rate and at the goodput: --out DIR, --json, or one run alone.",
    ));
    sections.push(Section::untitled(notes));
    sections
}

/// Returns the verdict on the cost limit for each candidate that has one.
fn limits(c: &Capacity) -> Vec<String> {
    let judged = c.all.iter().filter_map(|s| Some((s, s.cost_limit?, s.candidate.max_cost_per_mtok?)));
    judged
        .map(|(s, kept, max)| {
            let pay = |x| words::money(x, s.candidate.currency.as_deref());
            let cost = s.planned().cost.and_then(|c| c.per_mtok).map(pay).unwrap_or_default();
            let whose = if c.all.len() > 1 { format!("{}: ", s.candidate.name) } else { String::new() };
            let full = s.planned().cost.and_then(|c| c.full_load_per_mtok);
            let full = full.map(|x| format!(" ({} at full load)", pay(x))).unwrap_or_default();
            format!(
                "{whose}Cost limit {}: a million output tokens cost {cost} at this demand{full}, at most {} may be.",
                kept.name(),
                pay(max)
            )
        })
        .collect()
}

fn formulas(c: &Capacity) -> Vec<Section> {
    let entry = |f: &explain::Formula| {
        let steps = [&f.numbers, &f.result].map(|text| Entry::new(Bullet::None, format!("= {text}")));
        Entry::new(Bullet::None, format!("{} = {}", f.of, f.formula)).over(steps.into())
    };
    let part = |(title, all): (String, Vec<explain::Formula>)| {
        let entries = all.iter().map(entry).collect();
        let whole = Entry::line(format!("Reckoned of {title}:")).over(entries);
        Section::untitled(vec![Block::Outline(vec![whole])])
    };
    explain::all(c).into_iter().map(part).collect()
}
