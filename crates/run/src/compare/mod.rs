//! Comparison of runs: the differences in setup, the changes of their figures, and the significance of these changes.
//!
//! Everything here is computed from run folders alone. The first side is the baseline, and every other is compared
//! with it. Figures of a whole run (goodput and figures derived from it) are compared by their intervals. Latencies
//! are compared at levels that both sides measured and could sustain, by a bootstrap over blocks of requests
//! ([`common_levels`]). If a plan measured both sides in turns ([`paired`]), pairs of steps with the same requests replace
//! the blocks, and drift over the sweep cancels out.

pub mod answer;
mod blocks;
mod bootstrap;
mod carry;
mod column;
pub mod common_levels;
pub mod gate;
pub mod group;
mod level_figures;
pub mod lost_turns;
mod noise;
pub mod pair;
pub mod paired;
mod remarks;
pub mod requests;
mod setup;
pub mod side;
pub mod whole_run;

pub use column::Column;
pub use group::Group;
pub use noise::{Basis, Beyond, Change, Infinite};
pub use remarks::Remark;
pub use setup::Difference;
pub use side::Side;

use answer::{Answer, Compared, Reason};
use anyhow::Result;
use goodput_core::level::{Control, Level};
use serde::Serialize;

/// Name of the format of `compare.json`.
pub const SCHEMA: &str = "goodput-compare/1";

/// Largest ratio between two levels that count as equal.
const SAME: f64 = 1.015;

/// Description of one side, for the report.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SideSummary {
    /// Label of the side.
    pub label: String,
    /// Path of the run folder.
    pub run: String,
    /// Name of the series.
    pub series: String,
    /// Name of the SLO tier.
    pub tier: String,
    /// Start time of the measurement (RFC 3339).
    pub started: String,
    /// Description of the server.
    pub server: String,
    /// Name of the model.
    pub model: String,
    /// Description of the workload.
    pub workload: String,
    /// Description of the SLO.
    pub slo: String,
}

/// The scope of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The run as a whole.
    Whole,
    /// One level that was measured on the baseline and on another side.
    At(Level),
    /// All equal levels pooled, for steps measured in turns.
    Pooled,
}

/// One figure of every side.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ComparedFigure {
    /// Name as used in gates: `goodput`, `ttft.p99@20`, `ttft.p99@pooled`.
    pub name: String,
    /// Kind of figure.
    pub column: Column,
    /// Unit of the values.
    pub unit: String,
    /// Scope of the figure.
    pub place: Scope,
    /// The value of each side.
    pub values: Vec<Option<f64>>,
    /// Interval of the value of each side, if it has one: the 90 % interval of a goodput.
    pub intervals: Vec<Option<[f64; 2]>>,
    /// Change of each side other than the first, against the first.
    pub changes: Vec<Change>,
    /// Values of each run of each side, if sides consist of several runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Vec<Option<f64>>>,
}

/// A level at which sides are compared.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ComparedLevel {
    /// The level of the baseline.
    pub level: Level,
    /// Step numbers of each side.
    pub steps: Vec<Vec<u32>>,
    /// Number of measured requests of each side.
    pub requests: Vec<u64>,
}

/// The result of comparing runs, as written to `compare.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Format name, [`SCHEMA`].
    pub schema: &'static str,
    /// Version of goodput that made the comparison.
    pub goodput_version: &'static str,
    /// The sides; the baseline comes first.
    pub sides: Vec<SideSummary>,
    /// Differences in setup between the sides.
    pub differs: Vec<Difference>,
    /// True if the sides are not comparable and the comparison was forced.
    pub unlike: bool,
    /// True if the sides were measured in turns.
    pub alternating: bool,
    /// The levels at which latencies are compared.
    pub levels: Vec<ComparedLevel>,
    /// Turns that a side or the baseline could not sustain, if the sides were measured in turns.
    pub lost: Vec<lost_turns::LostTurns>,
    /// All compared figures.
    pub rows: Vec<ComparedFigure>,
    /// The answers, one for each side but the first.
    pub answers: Vec<Answer>,
    /// Remarks that limit the validity of the comparison. Not part of this type's JSON: the report writes them in
    /// English.
    #[serde(skip)]
    pub remarks: Vec<Remark>,
    /// Results of the gates.
    pub gates: Vec<gate::Outcome>,
    /// Controlled quantity of a step (rate or concurrency).
    pub control: Control,
    /// Command-line arguments that repeat the comparison; empty if it was not made from the command line.
    pub asked: Vec<String>,
    /// Runs of each side and their combined figures, if sides consist of several runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<group::GroupedRuns>,
}

/// Compares sides, the first of which is the baseline.
///
/// # Errors
/// Fails if a run folder cannot be read, or if the sides are not comparable and `force` is not set; the message lists
/// the differences.
pub fn compare(sides: &[Side], force: bool) -> Result<Comparison> {
    let differs = setup::all(sides);
    let unlike = differs.iter().any(|d| d.unlike);
    if unlike && !force {
        return Err(setup::refusal(sides, &differs));
    }
    let alternating = side::alternating(sides);
    let mut rows = whole_run::rows(sides);
    let requests = side::requests(sides)?;
    let levels = common_levels::levels(sides);
    if alternating {
        rows.extend(paired::rows(sides, &levels, &requests));
    } else {
        rows.extend(common_levels::rows(sides, &levels, &requests));
    }
    if side::one_series(sides) {
        rows.retain(|r| r.column.is_judged());
    }
    judge(&mut rows);
    let lost = if alternating { lost_turns::all(sides) } else { Vec::new() };
    let remarks = remarks::of_sides(sides, &levels, &lost, alternating, &rows);
    let compared = Compared { rows: &rows, levels: &levels, lost: &lost, alternating };
    let answers = (1..sides.len()).map(|i| answer::answer(sides, i, &compared)).collect();
    Ok(Comparison {
        schema: SCHEMA,
        goodput_version: env!("CARGO_PKG_VERSION"),
        sides: sides.iter().map(Side::summary).collect(),
        differs,
        unlike,
        alternating,
        control: levels.first().map_or_else(|| side::control(&sides[0]), |l| l.level.control),
        levels: levels.iter().map(|l| l.summary()).collect(),
        lost,
        rows,
        answers,
        remarks,
        gates: Vec::new(),
        asked: Vec::new(),
        runs: Vec::new(),
    })
}

/// Compares groups of runs, the first of which is the baseline.
///
/// # Errors
/// Fails if a run folder cannot be read, or if runs are not comparable and `force` is not set; the message lists the
/// differences.
pub fn compare_groups(groups: &[Group], force: bool) -> Result<Comparison> {
    let flat: Vec<Side> = groups.iter().flat_map(|g| g.runs.clone()).collect();
    let places = group::places(groups);
    let sides: Vec<Side> = groups.iter().map(Group::representative).collect();
    let unlike = setup::all(&flat).iter().any(|d| d.unlike);
    if unlike && !force {
        return Err(setup::refusal(&flat, &setup::all(&flat)));
    }
    let requests = side::requests(&flat)?;
    let mut levels = common_levels::levels(&flat);
    levels.retain(|level| group::is_shared(level, &places));
    let mut rows = group::rows(groups, &flat, &levels, &requests);
    judge(&mut rows);
    let remarks = remarks::of_groups(&flat, &levels, &rows);
    let compared = Compared { rows: &rows, levels: &levels, lost: &[], alternating: false };
    let answers = (1..sides.len()).map(|i| {
        let answer = answer::answer(&sides, i, &compared);
        let is_open = answer.finding == answer::Finding::Undecided && sides[0].gone().is_none();
        let reason = Reason::Undecided(group::undecided(groups, i));
        if is_open { Answer { reason, ..answer } } else { answer }
    });
    let answers = answers.collect();
    let about = groups
        .iter()
        .zip(&sides)
        .map(|(group, side)| SideSummary { run: group::shown(&group.runs), ..side.summary() });
    Ok(Comparison {
        schema: SCHEMA,
        goodput_version: env!("CARGO_PKG_VERSION"),
        sides: about.collect(),
        differs: setup::all(&sides),
        unlike,
        alternating: false,
        control: levels.first().map_or_else(|| side::control(&flat[0]), |l| l.level.control),
        levels: levels.iter().map(|l| group::level(l, &places)).collect(),
        lost: Vec::new(),
        rows,
        answers,
        remarks,
        gates: Vec::new(),
        asked: Vec::new(),
        runs: groups.iter().map(Group::grouped).collect(),
    })
}

/// Decides the significance of all changes. For each side, the pooled rows form one family of claims and all other
/// rows another.
fn judge(rows: &mut [ComparedFigure]) {
    let sides = rows.first().map_or(0, |r| r.changes.len());
    for side in 0..sides {
        for pooled in [true, false] {
            let own = |r: &&mut ComparedFigure| (r.place == Scope::Pooled) == pooled;
            noise::judge(rows.iter_mut().filter(own).map(|r| &mut r.changes[side]));
        }
    }
}

/// Returns true if two levels count as equal.
fn same(a: f64, b: f64) -> bool {
    a.max(b) <= a.min(b) * SAME
}
