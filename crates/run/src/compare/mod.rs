//! Runs beside one another: what differs between them, by how much their figures differ, and what of that may be chance.
//!
//! Everything here is made from run folders alone. The first side is the baseline; every other is held against it. Figures of a whole run
//! (goodput and what follows from it) differ as their intervals tell; latencies are compared where both sides measured the same level and
//! could take it, by a bootstrap over blocks of requests ([`equal`]). Where a plan measured both in turns ([`paired`]), pairs of steps with the
//! same requests take the place of blocks, and what drifted over the sweep falls out.

pub mod answer;
pub mod blocks;
pub mod bootstrap;
mod caveats;
pub mod column;
pub mod differ;
pub mod equal;
pub mod gate;
pub mod group;
pub mod lost;
pub mod noise;
pub mod pair;
pub mod paired;
pub mod requests;
pub mod side;
pub mod whole;

pub use column::Column;
pub use differ::Difference;
pub use group::Group;
pub use noise::{Basis, Beyond, Change, Infinite};
pub use side::Side;

use anyhow::Result;
use goodput_core::caveat::Caveat;
use goodput_core::level::{Control, Level};
use serde::Serialize;

/// Name of the format of `compare.json`.
pub const SCHEMA: &str = "goodput-compare/1";

/// Levels nearer than this are one level.
const SAME: f64 = 1.015;

/// One side as it is told of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct About {
    /// What it is called here.
    pub label: String,
    /// Its run folder.
    pub run: String,
    /// Its series.
    pub series: String,
    /// Its tier of the SLO.
    pub tier: String,
    /// When it was measured (RFC 3339).
    pub started: String,
    /// The server.
    pub server: String,
    /// The model.
    pub model: String,
    /// What was sent.
    pub workload: String,
    /// What had to hold.
    pub slo: String,
}

/// A remark that limits what a comparison shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A caveat of the runs.
    Caveat {
        /// Label of the side that it is of; `None` where all sides share it.
        side: Option<String>,
        /// The caveat.
        caveat: Caveat,
    },
    /// Any other remark, in English.
    Text(String),
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The run as a whole.
    Whole,
    /// A level that was measured on the baseline and on another side.
    At(Level),
    /// All equal levels together, where steps were measured in turns.
    Pooled,
}

/// A figure of every side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name, as gates have it: `goodput`, `ttft.p99@20`, `ttft.p99@pooled`.
    pub name: String,
    /// What it is.
    pub column: Column,
    /// The unit of its values.
    pub unit: String,
    /// Where it stands.
    pub place: Place,
    /// The value of each side.
    pub values: Vec<Option<f64>>,
    /// Both ends of what the value may be, of each side, where it has an interval: 90 % of a goodput.
    pub intervals: Vec<Option<[f64; 2]>>,
    /// The change of each side from the first, that one left out.
    pub changes: Vec<Change>,
    /// The values of each run of each side, where sides are several runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Vec<Option<f64>>>,
}

/// A level that is compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EqualLevel {
    /// The level, as the baseline has it.
    pub level: Level,
    /// The steps of each side.
    pub steps: Vec<Vec<u32>>,
    /// Measured requests of each side.
    pub requests: Vec<u64>,
}

/// Runs beside one another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version that compared.
    pub goodput_version: &'static str,
    /// The sides, the baseline first.
    pub sides: Vec<About>,
    /// What differs between them.
    pub differs: Vec<Difference>,
    /// Whether they are comparable only because it was insisted on.
    pub unlike: bool,
    /// Whether the sides were measured in turns.
    pub alternating: bool,
    /// The levels at which latencies are compared.
    pub levels: Vec<EqualLevel>,
    /// Turns at each level that a side or the baseline could not take, of sides that were measured in turns.
    pub lost: Vec<lost::Lost>,
    /// The figures.
    pub rows: Vec<Row>,
    /// The answer, a sentence for each side but the first.
    pub answers: Vec<answer::Answer>,
    /// Remarks that limit what the comparison shows. Left out of the JSON of this type: the report writes them in English.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// What became of the gates.
    pub gates: Vec<gate::Outcome>,
    /// What is held fixed in a step.
    pub control: Control,
    /// The arguments that compare the same again; empty where nobody asked by arguments.
    pub asked: Vec<String>,
    /// The runs of each side and what they come to together, where sides are several runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<group::GroupedRuns>,
}

/// Compares sides, the first of which is the baseline.
///
/// # Errors
/// A run folder cannot be read, or the sides are unlike and it was not insisted on (`force`): the message lists what differs.
pub fn compare(sides: &[Side], force: bool) -> Result<Comparison> {
    let differs = differ::all(sides);
    let unlike = differs.iter().any(|d| d.unlike);
    if unlike && !force {
        return Err(differ::refusal(sides, &differs));
    }
    let alternating = side::alternating(sides);
    let mut rows = whole::rows(sides);
    let requests = side::requests(sides)?;
    let levels = equal::levels(sides);
    let mut notes = Vec::new();
    if alternating {
        rows.extend(paired::rows(sides, &levels, &requests));
    } else {
        rows.extend(equal::rows(sides, &levels, &requests));
    }
    if side::one_series(sides) {
        rows.retain(|r| r.column.is_judged());
    }
    judge(&mut rows);
    let lost = if alternating { lost::all(sides) } else { Vec::new() };
    notes.extend(answer::notes(sides, &levels, alternating, &rows).into_iter().map(Note::Text));
    notes.extend(caveats::notes(sides, &levels, &lost));
    let found = answer::Found { rows: &rows, levels: &levels, lost: &lost, alternating };
    let answers = (1..sides.len()).map(|i| answer::of(sides, i, &found)).collect();
    Ok(Comparison {
        schema: SCHEMA,
        goodput_version: env!("CARGO_PKG_VERSION"),
        sides: sides.iter().map(Side::about).collect(),
        differs,
        unlike,
        alternating,
        control: levels.first().map_or_else(|| side::control(&sides[0]), |l| l.level.control),
        levels: levels.iter().map(|l| l.told()).collect(),
        lost,
        rows,
        answers,
        notes,
        gates: Vec::new(),
        asked: Vec::new(),
        runs: Vec::new(),
    })
}

/// Compares groups of runs, the first of which is the baseline.
///
/// # Errors
/// A run folder cannot be read, or runs are unlike and it was not insisted on (`force`): the message lists what differs.
pub fn compare_groups(groups: &[Group], force: bool) -> Result<Comparison> {
    let flat: Vec<Side> = groups.iter().flat_map(|g| g.runs.clone()).collect();
    let places = group::places(groups);
    let sides: Vec<Side> = groups.iter().map(Group::representative).collect();
    let unlike = differ::all(&flat).iter().any(|d| d.unlike);
    if unlike && !force {
        return Err(differ::refusal(&flat, &differ::all(&flat)));
    }
    let requests = side::requests(&flat)?;
    let mut levels = equal::levels(&flat);
    levels.retain(|level| group::is_shared(level, &places));
    let mut rows = group::rows(groups, &flat, &levels, &requests);
    judge(&mut rows);
    let mut notes: Vec<Note> = answer::notes_of_groups(&rows).into_iter().map(Note::Text).collect();
    notes.extend(caveats::notes(&flat, &levels, &[]));
    let found = answer::Found { rows: &rows, levels: &levels, lost: &[], alternating: false };
    let answers = (1..sides.len()).map(|i| {
        let answer = answer::of(&sides, i, &found);
        let is_open = answer.finding == answer::Finding::Undecided && sides[0].gone().is_none();
        if is_open { answer.because(&group::why_not(groups, i)) } else { answer }
    });
    let answers = answers.collect();
    let about = groups
        .iter()
        .zip(&sides)
        .map(|(group, side)| About { run: group::shown(&group.runs), ..side.about() });
    Ok(Comparison {
        schema: SCHEMA,
        goodput_version: env!("CARGO_PKG_VERSION"),
        sides: about.collect(),
        differs: differ::all(&sides),
        unlike,
        alternating: false,
        control: levels.first().map_or_else(|| side::control(&flat[0]), |l| l.level.control),
        levels: levels.iter().map(|l| group::level(l, &places)).collect(),
        lost: Vec::new(),
        rows,
        answers,
        notes,
        gates: Vec::new(),
        asked: Vec::new(),
        runs: groups.iter().map(Group::grouped).collect(),
    })
}

/// Tells which changes exceed the noise: of each side, those at pooled levels are claims made together, and so are all others.
fn judge(rows: &mut [Row]) {
    let sides = rows.first().map_or(0, |r| r.changes.len());
    for side in 0..sides {
        for pooled in [true, false] {
            let own = |r: &&mut Row| (r.place == Place::Pooled) == pooled;
            noise::judge(rows.iter_mut().filter(own).map(|r| &mut r.changes[side]));
        }
    }
}

/// Whether two levels are one.
fn same(a: f64, b: f64) -> bool {
    a.max(b) <= a.min(b) * SAME
}
