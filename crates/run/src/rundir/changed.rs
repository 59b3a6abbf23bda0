//! Changes of a plan between start and resume: a sweep is resumed only under the plan that it began with.

use anyhow::{Context, Result};
use goodput_core::caveat::PlanDifference;
use goodput_plan::Plan;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Keys and tables that may change, because neither the requests nor the verdicts depend on them.
const FREE: &[&str] =
    &["name", "notes", "search.adaptive.budget", "search.deadline", "hardware", "environment", "model"];

/// Returns a plan in the form stored in `meta` of `result.json`.
///
/// # Errors
/// Fails if the plan cannot be written as TOML.
pub fn stored(plan: &Plan) -> Result<Value> {
    let table: toml::Table = toml::from_str(&plan.to_toml()?).context("the plan is TOML")?;
    serde_json::to_value(table).context("failed to write the plan as JSON")
}

/// Reads a plan from its stored form.
///
/// # Errors
/// Fails if the value is not a plan.
pub fn plan(stored: &Value) -> Result<Plan> {
    let read = || Plan::from_text(&toml::to_string(&toml::Table::deserialize(stored)?)?);
    read().context("meta.plan of result.json is no plan")
}

/// Returns the changes since the plan was stored, one per key: `step.measure was "60s" and is "30s"`. Empty if
/// no relevant key changed.
///
/// # Errors
/// Fails if the stored value is not a plan.
pub fn differences(then: &Value, now: &Plan) -> Result<Vec<PlanDifference>> {
    // Older versions did not write keys that were added later: parsing adds their defaults.
    let then = plan(then)?;
    let (then, now) = (leaves(&stored(&then)?), leaves(&stored(now)?));
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let free = |key: &str| {
        FREE.iter().any(|f| key == *f || key.strip_prefix(f).is_some_and(|rest| rest.starts_with('.')))
    };
    let changed = keys.into_iter().filter(|key| then.get(*key) != now.get(*key) && !free(key));
    let difference = |key: &String| PlanDifference::Key {
        key: key.clone(),
        was: then.get(key).cloned(),
        is: now.get(key).cloned(),
    };
    Ok(changed.map(difference).collect())
}

/// Returns every value of a table under its dotted key; a list of plain values is one value.
fn leaves(value: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    below(value, String::new(), &mut all);
    all
}

fn below(value: &Value, key: String, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                below(value, key, all);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (i, value) in list.iter().enumerate() {
                // Named tables are keyed by name, so that inserting one does not change the keys of those after it.
                let name =
                    value.get("name").and_then(Value::as_str).map_or_else(|| i.to_string(), str::to_owned);
                below(value, format!("{key}[{name}]"), all);
            }
            // Order matters: the first tier decides, and a class is identified by its index.
            let names: Vec<&str> = list.iter().filter_map(|value| value.get("name")?.as_str()).collect();
            if names.len() > 1 {
                all.insert(format!("order of {key}"), names.join(", "));
            }
        }
        plain => {
            all.insert(key, plain.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rest: &str) -> Plan {
        Plan::from_text(&format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\n[workload.prompts.synthetic]\n\
             input-tokens.fixed = 9\noutput-tokens.fixed = 3\n{rest}"
        ))
        .unwrap()
    }

    #[test]
    fn every_stored_plan_reads_back_the_same() {
        for (name, text) in goodput_plan::SWEEPS {
            let plan = Plan::from_text(text).unwrap();
            let then: Value = serde_json::from_str(&stored(&plan).unwrap().to_string()).unwrap();
            assert_eq!(differences(&then, &plan).unwrap(), [], "{name}");
        }
    }

    /// Rows: text appended to the plan before and after, and the reported changes.
    #[test]
    fn each_key_that_matters_is_a_line() {
        for (then, now, says) in [
            ("[search]\nrates = [1, 2]", "[search]\nrates = [1.0, 2.0]", &[][..]),
            (
                "[search]\nrates = [1]",
                "[search]\nrates = [1, 2]",
                &["search.rates was [1.0] and is [1.0,2.0]"],
            ),
            (
                "[step]\nmeasure = \"60s\"",
                "[step]\nmeasure = \"1m\"\nsettle = \"1s\"",
                &["step.settle was \"10s\" and is \"1s\""],
            ),
            (
                "[search]\nadaptive.budget = \"1h\"",
                "[search]\nadaptive.budget = \"2h\"\ndeadline = \"9h\"",
                &[],
            ),
            ("[hardware]\ngpu = \"A40\"", "[hardware]\ngpu = \"H100\"\nprice-per-hour = 3.0", &[]),
            (
                "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"",
                "[[variant]]\nname = \"c\"\n[[variant]]\nname = \"b\"",
                &[
                    "order of variant was a, b and is c, b",
                    "variant[a].name was \"a\" and is not there",
                    "variant[c].name was not there and is \"c\"",
                ],
            ),
            (
                "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"",
                "[[variant]]\nname = \"b\"\n[[variant]]\nname = \"a\"",
                &["order of variant was a, b and is b, a"],
            ),
        ] {
            let then = stored(&plan(then)).unwrap();
            let texts =
                differences(&then, &plan(now)).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(texts, says, "{now}");
        }
        assert!(differences(&serde_json::json!({"name": 3}), &plan("")).is_err());
    }
}
