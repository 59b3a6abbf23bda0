//! The capacity as JSON.

use super::answer::Capacity;
use super::{explain, words};
use goodput_stats::capacity::fleet::MONTH_DAYS;
use goodput_stats::capacity::sizing::basis;
use serde_json::{Value, json};

/// The name and version of the form.
const SCHEMA: &str = "goodput-capacity/1";

/// Returns demand, reserve, and every candidate with its fleets, the best first. Every number is finite or null.
pub fn json(c: &Capacity) -> Value {
    let mut value = json!({
        "schema": SCHEMA,
        "summary": c.headline(),
        "demand": c.demand,
        "reserve": c.reserve,
        "month_days": MONTH_DAYS,
        "ranked_by": basis(&c.all),
        "candidates": c.all,
        "refused": c.refused,
        "warnings": words::warnings(c),
        "notes": words::notes(c),
        "cost_limit_kept": c.cost_kept(),
    });
    if c.explain {
        let parts = explain::all(c);
        value["formulas"] =
            parts.into_iter().map(|(of, formulas)| json!({ "part": of, "formulas": formulas })).collect();
    }
    value
}
