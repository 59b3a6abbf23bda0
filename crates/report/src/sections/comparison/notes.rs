//! The remarks of a comparison in English, and `compare.json`, which has them.

use crate::words;
use goodput_core::level::Control;
use goodput_core::output_schema;
use goodput_run::compare::answer::Answer;
use goodput_run::compare::gate::Outcome;
use goodput_run::compare::group::GroupedRuns;
use goodput_run::compare::lost_turns::LostTurns;
use goodput_run::compare::{ComparedFigure, ComparedLevel, Comparison, Difference, SCHEMA, SideSummary};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

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

/// Runs compared with a baseline. Fields may be added under the same `schema`; none changes its meaning. A number that is not
/// finite is null.
// The facts of a `Comparison`, with its English.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ComparisonFile")]
struct Written<'a> {
    /// Name and version of the format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    /// Version of goodput that made the comparison.
    goodput_version: &'a str,
    /// The sides; the baseline comes first.
    sides: &'a [SideSummary],
    /// Differences in setup between the sides.
    differs: &'a [Difference],
    /// True if the sides are not comparable and the comparison was forced.
    unlike: bool,
    /// True if the sides were measured in turns.
    alternating: bool,
    /// The levels at which latencies are compared.
    levels: &'a [ComparedLevel],
    /// Turns that a side or the baseline could not sustain, if the sides were measured in turns.
    lost: &'a [LostTurns],
    /// All compared figures.
    rows: &'a [ComparedFigure],
    /// The answers, one for each side but the first.
    answers: Vec<WrittenAnswer<'a>>,
    /// Results of the gates.
    gates: Vec<WrittenOutcome<'a>>,
    /// Quantity that the levels measure.
    control: Control,
    /// Command-line arguments that repeat the comparison.
    asked: &'a [String],
    /// Runs of each side and their combined figures, if sides consist of several runs.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    runs: &'a [GroupedRuns],
    /// Remarks that limit the validity of the comparison, in English.
    notes: Vec<String>,
}

/// The answer for one side.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AnswerEntry")]
struct WrittenAnswer<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    /// The answer in English.
    text: String,
}

/// The result of a gate.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GateEntry")]
struct WrittenOutcome<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// Reason for the result, in English.
    why: String,
}

/// Returns the JSON Schema of `compare.json`.
pub fn schema() -> Value {
    output_schema::of::<Written<'_>>("A comparison of goodput")
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
