//! The JSON Schema of plans, for editors, derived from the types that parse plans.

use super::Plan;
use goodput_engine::config::Simulated;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Returns the schema of plans, in draft 2020-12. It covers keys, types, ranges and names; only the parser checks relations between keys, such
/// as "exactly one of `url`, `urls`, `simulated`".
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    // `Server` holds this table as raw TOML, so its schema is inserted here.
    let simulated = generator.subschema_for::<Simulated>().to_value();
    let mut whole = generator.into_root_schema_for::<Plan>().to_value();
    whole["title"] = "A sweep plan of goodput".into();
    if let Some(place) = whole.pointer_mut("/$defs/Server/properties/simulated") {
        let description = place["description"].take();
        *place = simulated;
        place["description"] = description;
    }
    without_null(&mut whole);
    whole
}

/// Removes null from optional keys, since TOML has no null.
fn without_null(schema: &mut Value) {
    let Value::Object(map) = schema else {
        if let Value::Array(all) = schema {
            all.iter_mut().for_each(without_null);
        }
        return;
    };
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = &types[..] {
            map["type"] = only.clone();
        }
    }
    if let Some(Value::Array(ways)) = map.get_mut("anyOf") {
        ways.retain(|way| way["type"] != "null");
        if let [Value::Object(only)] = &mut ways[..] {
            let only = std::mem::take(only);
            map.remove("anyOf");
            map.extend(only);
        }
    }
    if map.get("default") == Some(&Value::Null) {
        map.remove("default");
    }
    map.values_mut().for_each(without_null);
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
