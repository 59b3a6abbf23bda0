//! What was noted of the runs, and of what is left out, that the reader of a comparison must know.

use super::equal::Equal;
use super::lost::Lost;
use super::{Column, Side, whole};
use goodput_core::caveat::Caveat;
use goodput_core::level::Level;
use goodput_core::units::short;

/// The notes.
pub(super) fn notes(sides: &[Side], levels: &[Equal<'_>], lost: &[Lost]) -> Vec<String> {
    let mut notes = of_runs(sides);
    for one in lost {
        notes.push(format!(
            "{}: those turns are left out, so that the figures of that rate are of the others.",
            one.words()
        ));
    }
    for (level, side) in levels.iter().flat_map(|l| (1..sides.len()).map(move |i| (l, i))) {
        if let Some([old, new]) = level.off(side) {
            notes.push(format!(
                "{} was measured at {} where {} was at {}: their figures stand side by side, and no difference is claimed.",
                sides[side].label,
                short(new),
                sides[0].label,
                Level::new(level.level.control, old)
            ));
        }
    }
    let one_currency = sides.iter().all(|s| whole::one_currency(&sides[0], s));
    let costs = sides.iter().filter(|s| s.run.currency.is_some()).count();
    if costs > 1 && !one_currency {
        notes.push(format!(
            "The sides have their prices in different currencies: no change of {} is told.",
            Column::CostPerMtok.title()
        ));
    }
    notes
}

/// Whether it tells that a comparison is less than it seems.
const fn matters(caveat: &Caveat) -> bool {
    matches!(
        caveat,
        Caveat::ServerGone { .. }
            | Caveat::ServerRestarted { .. }
            | Caveat::ServerChanged { .. }
            | Caveat::BudgetSpent { .. }
            | Caveat::NotDrained { .. }
            | Caveat::Client { .. }
            | Caveat::Interrupted
            | Caveat::Deadline { .. }
            | Caveat::DiskLow { .. }
            | Caveat::PlanChanged { .. }
            | Caveat::Failures { .. }
            | Caveat::FailingReplica { .. }
            | Caveat::OtherClients { .. }
            | Caveat::PartialStep { .. }
    )
}

/// Those of the runs: once where all sides have them of one run, else under the name of each.
fn of_runs(sides: &[Side]) -> Vec<String> {
    let one_run = sides.iter().all(|s| s.dir == sides[0].dir);
    let mut notes: Vec<String> = Vec::new();
    for side in sides {
        for caveat in side.run.caveats.iter().filter(|c| matters(c)) {
            let shared = one_run && sides.iter().all(|s| s.run.caveats.contains(caveat));
            let text = caveat.text();
            let note = if shared { text } else { format!("{}: {text}", side.label) };
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}
