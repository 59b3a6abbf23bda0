//! Caveats of the runs, and of levels that were left out, that the reader of a comparison must know.

use super::equal::Equal;
use super::lost::Lost;
use super::{Column, Note, Side, whole};
use goodput_core::level::Level;
use goodput_core::units::short;

/// Returns the notes on a comparison.
pub(super) fn notes(sides: &[Side], levels: &[Equal<'_>], lost: &[Lost]) -> Vec<Note> {
    let mut notes = of_runs(sides);
    for one in lost {
        notes.push(Note::Text(format!(
            "{}: those turns are left out, so that the figures of that rate are of the others.",
            one.words()
        )));
    }
    for (level, side) in levels.iter().flat_map(|l| (1..sides.len()).map(move |i| (l, i))) {
        if let Some([old, new]) = level.off(side) {
            notes.push(Note::Text(format!(
                "{} was measured at {} where {} was at {}: their figures stand side by side, and no difference is claimed.",
                sides[side].label,
                short(new),
                sides[0].label,
                Level::new(level.level.control, old)
            )));
        }
    }
    let one_currency = sides.iter().all(|s| whole::one_currency(&sides[0], s));
    let costs = sides.iter().filter(|s| s.run.currency.is_some()).count();
    if costs > 1 && !one_currency {
        notes.push(Note::Text(format!(
            "The sides have their prices in different currencies: no change of {} is told.",
            Column::CostPerMtok.title()
        )));
    }
    notes
}

/// Returns the caveats of the runs: once if all sides share one run's caveats, else under the label of each side.
fn of_runs(sides: &[Side]) -> Vec<Note> {
    let one_run = sides.iter().all(|s| s.dir == sides[0].dir);
    let mut notes: Vec<Note> = Vec::new();
    for side in sides {
        for caveat in side.run.caveats.iter().filter(|c| c.scope().weakens_comparison) {
            let shared = one_run && sides.iter().all(|s| s.run.caveats.contains(caveat));
            let note = Note::Caveat { side: (!shared).then(|| side.label.clone()), caveat: caveat.clone() };
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}
