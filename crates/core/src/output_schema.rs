//! JSON Schemas of the files that goodput writes, derived from the types that are serialized.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// Returns a generator of schemas in draft 2020-12 that describe values as they are written.
pub fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(open))
        .with_transform(RecursiveTransform(null_for_infinite))
        .with_transform(RecursiveTransform(for_readers))
        .into_generator()
}

/// Returns the schema of the values of a type.
pub fn of<T: JsonSchema>(title: &str) -> Value {
    root::<T>(generator(), title)
}

/// Returns the schema of the values of a type, with the definitions that the generator has made before.
pub fn root<T: JsonSchema>(generator: SchemaGenerator, title: &str) -> Value {
    let mut whole = generator.into_root_schema_for::<T>();
    whole.insert("title".into(), title.into());
    whole.to_value()
}

/// Allows unknown keys, because later versions may add fields. Tables of plans refuse them.
fn open(schema: &mut Schema) {
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        schema.remove("additionalProperties");
    }
}

/// Allows null for every number without a declared range: numbers that are not finite are written as null.
fn null_for_infinite(schema: &mut Schema) {
    let has_range = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    if schema.get("type").is_some_and(|t| t == "number")
        && !has_range.iter().any(|k| schema.get(*k).is_some())
    {
        schema.insert("type".into(), json!(["number", "null"]));
    }
}

/// Makes a description of Rust code one of JSON: without links to items, `None`, and line breaks within paragraphs. Removes
/// defaults, which only apply to reading.
fn for_readers(schema: &mut Schema) {
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n").replace("[`", "`").replace("`]", "`");
        *text = text.replace("`None`", "null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    /// Figures of a [`Step`],
    /// in a struct.
    #[derive(Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Figures {
        /// A mean; `None` if it is unknown.
        #[serde(default)]
        mean: Option<f64>,
        computed: f64,
        #[schemars(range(min = 0.0))]
        level: f64,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rare: Vec<u32>,
    }

    #[test]
    fn a_schema_describes_values_as_they_are_written() {
        let schema = of::<Figures>("Figures");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!((&schema["title"], &schema["additionalProperties"]), (&json!("Figures"), &Value::Null));
        assert_eq!(schema["required"], json!(["mean", "computed", "level"]));
        assert_eq!(schema["description"], "Figures of a `Step`, in a struct.");
        let properties = &schema["properties"];
        assert_eq!(properties["mean"]["description"], "A mean; null if it is unknown.");
        assert!(!properties["mean"].as_object().unwrap().contains_key("default"));
        assert_eq!(properties["computed"]["type"], json!(["number", "null"]));
        assert_eq!(properties["level"]["type"], "number");
        assert_eq!(properties["level"]["minimum"], 0.0);
    }
}
