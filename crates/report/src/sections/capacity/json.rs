//! The capacity as JSON.

use super::answer::Capacity;
use super::explain::{self, Formula};
use super::refused::Refused;
use super::words;
use goodput_core::output_schema;
use goodput_stats::capacity::Demand;
use goodput_stats::capacity::fleet::{MONTH_DAYS, Reserve};
use goodput_stats::capacity::sizing::{Basis, Sizing, basis};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// The name and version of the form.
const SCHEMA: &str = "goodput-capacity/1";

/// The GPUs that a demand needs, and their cost. Fields may be added under the same `schema`; none changes its meaning. A number
/// that is not finite is null.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CapacityFile")]
struct CapacityFile<'a> {
    /// Name and version of the format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The answer in English, in one line.
    summary: String,
    /// The demand.
    demand: &'a Demand,
    /// The capacity reserved beyond it.
    reserve: &'a Reserve,
    /// Number of days of a month in the monthly costs.
    month_days: f64,
    /// The figure that ranks the candidates.
    ranked_by: Basis,
    /// The candidates with their fleets, the best first.
    candidates: &'a [Sizing],
    /// Answers without a rate to plan with.
    refused: &'a [Refused],
    /// Warnings in English.
    warnings: Vec<String>,
    /// Notes on the validity of the answer, in English.
    notes: Vec<String>,
    /// True if a candidate with a cost limit keeps it; null if none has one.
    cost_limit_kept: Option<bool>,
    /// Every formula with its numbers, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    formulas: Option<Vec<FormulaPart>>,
}

/// The formulas of the demand, or of a fleet.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FormulaPart")]
struct FormulaPart {
    /// Name of the demand or the fleet.
    part: String,
    /// The formulas.
    formulas: Vec<Formula>,
}

/// Returns demand, reserve, and every candidate with its fleets, the best first. Every number is finite or null.
pub fn json(c: &Capacity) -> Value {
    let part = |(part, formulas)| FormulaPart { part, formulas };
    json!(CapacityFile {
        schema: SCHEMA,
        summary: c.headline(),
        demand: &c.demand,
        reserve: &c.reserve,
        month_days: MONTH_DAYS,
        ranked_by: basis(&c.all),
        candidates: &c.all,
        refused: &c.refused,
        warnings: words::warnings(c),
        notes: words::notes(c),
        cost_limit_kept: c.cost_kept(),
        formulas: c.explain.then(|| explain::all(c).into_iter().map(part).collect()),
    })
}

/// Returns the JSON Schema of `capacity.json`.
pub fn schema() -> Value {
    output_schema::of::<CapacityFile<'_>>("A capacity of goodput")
}
