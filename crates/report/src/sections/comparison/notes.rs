//! The remarks of a comparison in English, and `compare.json`, which has them.

use crate::words;
use goodput_core::level::Control;
use goodput_run::compare::answer::Answer;
use goodput_run::compare::gate::Outcome;
use goodput_run::compare::group::GroupedRuns;
use goodput_run::compare::lost_turns::LostTurns;
use goodput_run::compare::{ComparedFigure, ComparedLevel, Comparison, Difference, SideSummary};
use serde::Serialize;

/// Returns the remarks of a comparison in English, each once.
pub(super) fn notes(c: &Comparison) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in c.remarks.iter().map(words::remark) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The content of `compare.json`: the facts of a comparison, see [`Comparison`], with its English.
#[derive(Serialize)]
struct Written<'a> {
    schema: &'a str,
    goodput_version: &'a str,
    sides: &'a [SideSummary],
    differs: &'a [Difference],
    unlike: bool,
    alternating: bool,
    levels: &'a [ComparedLevel],
    lost: &'a [LostTurns],
    rows: &'a [ComparedFigure],
    answers: Vec<WrittenAnswer<'a>>,
    gates: Vec<WrittenOutcome<'a>>,
    control: Control,
    asked: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    runs: &'a [GroupedRuns],
    notes: Vec<String>,
}

#[derive(Serialize)]
struct WrittenAnswer<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    text: String,
}

#[derive(Serialize)]
struct WrittenOutcome<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    why: String,
}

/// Returns the content of `compare.json`.
pub fn content(c: &Comparison) -> impl Serialize {
    let answer = |answer| WrittenAnswer { answer, text: words::comparison(answer) };
    let outcome = |outcome| WrittenOutcome { outcome, why: words::gate_reason(outcome) };
    Written {
        schema: c.schema,
        goodput_version: c.goodput_version,
        sides: &c.sides,
        differs: &c.differs,
        unlike: c.unlike,
        alternating: c.alternating,
        levels: &c.levels,
        lost: &c.lost,
        rows: &c.rows,
        answers: c.answers.iter().map(answer).collect(),
        gates: c.gates.iter().map(outcome).collect(),
        control: c.control,
        asked: &c.asked,
        runs: &c.runs,
        notes: notes(c),
    }
}
