//! The English that reports add to `result.json`, as types, and its JSON Schema.

use goodput_core::output_schema;
use goodput_run::rundir::json as facts;
use goodput_stats::diagnosis::{Basis, Expected, Origin, Value as Setting};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

/// The English of a caveat.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CaveatEnglish")]
pub(super) struct CaveatEnglish {
    /// The caveat in English.
    pub(super) text: String,
    /// The advice, in English.
    pub(super) advice: &'static str,
}

/// The English of a finding, and its advice as data.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindingEnglish")]
pub(super) struct FindingEnglish<'a> {
    /// The finding in a few words.
    pub(super) title: &'static str,
    /// Changes that would help, in English, the best first.
    pub(super) advice: Vec<String>,
    /// The advice as data, in the same order.
    pub(super) changes: Vec<SettingChange<'a>>,
}

/// A change of one setting of the server. Every field is null for a change that is no setting.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SettingChange")]
pub(super) struct SettingChange<'a> {
    /// Flag or key of the server.
    pub(super) flag: Option<&'static str>,
    /// The present value; null if unknown.
    pub(super) from: Option<&'a Setting>,
    /// Source of the present value.
    pub(super) source: Option<Origin>,
    /// The value to set; null if too little is known for one.
    pub(super) to: Option<&'a Setting>,
    /// The reason for the value to set.
    pub(super) basis: Option<Basis>,
    /// The goodput that a model of the server foresees; null if the change was not simulated.
    pub(super) expected: Option<Expected>,
}

/// The English of a measurement that would settle a finding.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NextEnglish")]
pub(super) struct NextEnglish {
    /// The measurement in English.
    pub(super) text: String,
}

/// The English of the evidence of a finding.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EvidenceEnglish")]
pub(super) struct EvidenceEnglish {
    /// The evidence in English.
    pub(super) text: String,
}

/// The English of a cause that could not be checked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UntoldEnglish")]
pub(super) struct UntoldEnglish {
    /// The missing sources in English.
    pub(super) missing: Vec<String>,
}

/// The English of the answer to a row of a matrix.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RowEnglish")]
pub(super) struct RowEnglish {
    /// Evidence for the bottleneck in English, or the reason why it is undecided.
    pub(super) evidence: String,
}

/// The English of figures that are no capacity.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OfflineEnglish")]
pub(super) struct OfflineEnglish {
    /// Why these figures are not the capacity of the server.
    pub(super) not_capacity: &'static str,
}

/// Sets the English of an object of `result.json`.
pub(super) fn add(to: &mut Value, english: &impl Serialize) {
    if let (Value::Object(to), Value::Object(english)) = (to, json!(english)) {
        to.extend(english);
    }
}

/// Returns the JSON Schema of `result.json`. None of the English is required, because a running sweep writes only the facts.
pub fn schema() -> Value {
    let mut generator = output_schema::generator();
    let added = [
        definition::<CaveatEnglish>(&mut generator, "CaveatEntry"),
        definition::<FindingEnglish<'_>>(&mut generator, "Finding"),
        definition::<NextEnglish>(&mut generator, "Next"),
        definition::<EvidenceEnglish>(&mut generator, "FindingEvidence"),
        definition::<UntoldEnglish>(&mut generator, "Untold"),
        definition::<RowEnglish>(&mut generator, "RowAnswer"),
        definition::<OfflineEnglish>(&mut generator, "Offline"),
    ];
    let mut whole = facts::schema(generator);
    for (english, facts) in added {
        let definitions = whole["$defs"].as_object_mut();
        let english = definitions.and_then(|all| all.remove(&*english)).unwrap_or_default();
        describe(&mut whole["$defs"][facts]["properties"], &english["properties"]);
    }
    whole
}

/// Makes the definition of English; returns its name and that of the facts that it is added to.
fn definition<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    facts: &'static str,
) -> (std::borrow::Cow<'static, str>, &'static str) {
    generator.subschema_for::<T>();
    (T::schema_name(), facts)
}

/// Adds the properties of English to those of facts. A property that both have may be either.
fn describe(facts: &mut Value, english: &Value) {
    for (key, schema) in english.as_object().into_iter().flatten() {
        facts[key] = match facts.get(key) {
            Some(fact) => json!({ "description": fact["description"], "anyOf": [fact, schema] }),
            None => schema.clone(),
        };
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
