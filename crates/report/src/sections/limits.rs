//! Misses of each limit at each step.

use super::cells::{mark, step_table};
use crate::document::{Block, Cell, Column, Field, Table};
use crate::escape::clip;
use crate::words;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{LimitRow, Step, Verdict};

/// The tier, the class and the name of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    tier: String,
    class: String,
    limit: String,
}

impl Key {
    fn of(l: &LimitRow) -> Self {
        Self { tier: l.tier.clone(), class: l.class.clone(), limit: l.limit.clone() }
    }
}

/// Returns the blocks of the section of the report; empty if no step was judged.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let mut keys: Vec<Key> = Vec::new();
    for l in run.steps.iter().flat_map(|s| &s.limits) {
        if !keys.contains(&Key::of(l)) {
            keys.push(Key::of(l));
        }
    }
    if keys.is_empty() {
        return Vec::new();
    }
    let said = "Requests that missed each limit, of those that count; a request that failed is a miss.";
    let mut blocks = vec![Block::paragraph(said)];
    // Each tier has a table: all of them side by side are wider than a window.
    let mut tiers: Vec<&str> = Vec::new();
    for key in &keys {
        if !tiers.contains(&key.tier.as_str()) {
            tiers.push(&key.tier);
        }
    }
    for tier in &tiers {
        if tiers.len() > 1 {
            blocks.push(Block::Heading(clip(tier, 40).into()));
        }
        let own: Vec<&Key> = keys.iter().filter(|k| k.tier == *tier).collect();
        blocks.push(of_tier(run, &own).into());
    }
    blocks
}

/// Returns the limits of a tier at each step.
fn of_tier(run: &Run, keys: &[&Key]) -> Table {
    let field = |k: &&Key| {
        let key = (*k).clone();
        Field::new(Column::number(title(k, keys)), move |s: &&Step| {
            s.limits.iter().find(|l| Key::of(l) == key).map_or(Cell::Unknown, cell)
        })
    };
    let steps: Vec<&Step> = run.steps.iter().collect();
    step_table(run, &steps, keys.iter().map(field).collect())
}

/// Returns the name of a limit, after its class if there are several; the SLO gives its numbers.
fn title(key: &Key, all: &[&Key]) -> String {
    let several = all.iter().any(|k| k.class != key.class);
    let whose = if several { format!("{}: ", clip(&key.class, 40)) } else { String::new() };
    format!("{whose}{}", words::binding(&key.limit))
}

fn cell(l: &LimitRow) -> Cell {
    let marked = |words: String, value| Cell::Marked { mark: mark(l.verdict), words, value };
    if l.limit == "stability" {
        return marked(l.verdict.name().into(), None);
    }
    if l.n == 0 {
        let why = if l.verdict == Verdict::Meets { "does not apply" } else { "no answer to judge" };
        return marked(why.into(), None);
    }
    let unknown = if l.censored > 0 { format!(" (+{} unknown)", l.censored) } else { String::new() };
    let words = format!("{} of {}{unknown}", thousands(l.misses as f64), thousands(l.n as f64));
    marked(words, Some(l.misses as f64 / l.n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn limits_that_judged_nothing_say_so() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let row = |n, verdict| LimitRow { n, misses: 0, verdict, ..run.steps[0].limits[0].clone() };
        for (n, v, want) in [
            (9, Verdict::Meets, "● 0 of 9"),
            (0, Verdict::Meets, "● does not apply"),
            (0, Verdict::Undecided, "○ no answer to judge"),
        ] {
            assert_eq!(cell(&row(n, v)).words(), want);
        }
    }
}
