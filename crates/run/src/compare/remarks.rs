//! Remarks that the reader of a comparison must know: caveats of the runs, and how the figures are to be read.

use super::carry::Slopes;
use super::common_levels::CommonLevel;
use super::lost_turns::LostTurns;
use super::{Basis, ComparedFigure, Side, side, whole_run};
use goodput_core::caveat::Caveat;
use goodput_core::level::Level;

/// Maximum number of figures that a remark names.
const MOST_NAMED: usize = 3;

/// A remark that limits the validity of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Remark {
    /// The sides are tiers judged on the same steps.
    OneSeries,
    /// The sides have no level in common, so no latencies are compared.
    NoCommonLevel,
    /// The intervals of latencies do not cover how much a server varies between runs.
    SeparateRuns,
    /// A percentile is infinite, since so many requests failed.
    InfinitePercentiles,
    /// Goodputs are compared by their brackets.
    Brackets,
    /// Figures are means over several runs.
    PooledRuns,
    /// Some runs lack these figures.
    MissingInRuns(Vec<String>),
    /// A caveat of the runs.
    Caveat {
        /// Label of the side with the caveat; `None` if all sides share it.
        side: Option<String>,
        /// The caveat.
        caveat: Caveat,
    },
    /// Turns that a side could not sustain are left out.
    LostTurns(LostTurns),
    /// The levels of a side and of the baseline are not quite equal.
    LevelsDiffer {
        /// True if the figures of the side are carried to the level of the baseline.
        is_carried: bool,
        /// Label of the side.
        side: String,
        /// Level of the side.
        level: f64,
        /// Label of the baseline.
        baseline: String,
        /// Level of the baseline.
        baseline_level: Level,
    },
    /// The sides give their costs in different currencies.
    Currencies,
}

/// Returns the remarks on sides with one run each.
pub(super) fn of_sides(
    sides: &[Side],
    levels: &[CommonLevel<'_>],
    lost: &[LostTurns],
    alternating: bool,
    rows: &[ComparedFigure],
) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if side::one_series(sides) {
        remarks.push(Remark::OneSeries);
    } else if levels.is_empty() {
        remarks.push(Remark::NoCommonLevel);
    } else if !alternating {
        remarks.push(Remark::SeparateRuns);
    }
    if rows.iter().any(|r| r.values.iter().flatten().any(|v| v.is_infinite())) {
        remarks.push(Remark::InfinitePercentiles);
    }
    if rows.iter().any(|r| r.changes.iter().any(|c| c.basis == Basis::Brackets)) {
        remarks.push(Remark::Brackets);
    }
    remarks.extend(of_data(sides, levels, lost));
    remarks
}

/// Returns the remarks on sides with several runs; `flat` lists all runs.
pub(super) fn of_groups(flat: &[Side], levels: &[CommonLevel<'_>], rows: &[ComparedFigure]) -> Vec<Remark> {
    let mut remarks = vec![Remark::PooledRuns];
    let short =
        rows.iter().filter(|r| r.each.iter().any(|own| own.len() > 1 && own.iter().any(Option::is_none)));
    let named: Vec<String> = short.map(|r| r.name.clone()).take(MOST_NAMED).collect();
    if !named.is_empty() {
        remarks.push(Remark::MissingInRuns(named));
    }
    remarks.extend(of_data(flat, levels, &[]));
    remarks
}

/// Returns the caveats of the runs, and the remarks on data that was left out.
fn of_data(sides: &[Side], levels: &[CommonLevel<'_>], lost: &[LostTurns]) -> Vec<Remark> {
    let mut remarks = caveats(sides);
    remarks.extend(lost.iter().cloned().map(Remark::LostTurns));
    for (level, side) in levels.iter().flat_map(|l| (1..sides.len()).map(move |i| (l, i))) {
        if let Some([old, new]) = level.off(side) {
            remarks.push(Remark::LevelsDiffer {
                is_carried: Slopes::of(sides, level, side, [old, new]).is_some(),
                side: sides[side].label.clone(),
                level: new,
                baseline: sides[0].label.clone(),
                baseline_level: Level::new(level.level.control, old),
            });
        }
    }
    let one_currency = sides.iter().all(|s| whole_run::one_currency(&sides[0], s));
    if sides.iter().filter(|s| s.run.currency.is_some()).count() > 1 && !one_currency {
        remarks.push(Remark::Currencies);
    }
    remarks
}

/// Returns the caveats of the runs: once if all sides share one run's caveats, else under the label of each side.
fn caveats(sides: &[Side]) -> Vec<Remark> {
    let one_run = sides.iter().all(|s| s.dir == sides[0].dir);
    let mut remarks: Vec<Remark> = Vec::new();
    for side in sides {
        for caveat in side.run.caveats.iter().filter(|c| c.scope().weakens_comparison) {
            let shared = one_run && sides.iter().all(|s| s.run.caveats.contains(caveat));
            let remark =
                Remark::Caveat { side: (!shared).then(|| side.label.clone()), caveat: caveat.clone() };
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
    }
    remarks
}
