//! The plan as a JSON Schema, for editors: made from the types that read it, so that it knows every key that they know.

use super::Plan;
use goodput_engine::config::Simulated;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema of a plan's TOML, in the draft of 2020-12. It knows keys, types, ranges and names; what holds between keys
/// (`exactly one of url, urls, simulated`) only the plan's own reader checks.
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    // The client keeps the table of the simulated server as it stands, since it knows nothing of simulated servers.
    let simulated = generator.subschema_for::<Simulated>().to_value();
    let mut whole = generator.into_root_schema_for::<Plan>().to_value();
    whole["title"] = "A sweep plan of goodput".into();
    if let Some(place) = whole.pointer_mut("/$defs/Server/properties/simulated") {
        let said = place["description"].take();
        *place = simulated;
        place["description"] = said;
    }
    without_null(&mut whole);
    whole
}

/// What may be left out may not be null: TOML has none.
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
