//! Schemas of latencies that are written under the names of their metrics.

use super::step::Quantiles;
use goodput_core::slo::Metric;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Schema of percentiles that [`super::step::by_column`] writes, for any of the metrics.
pub struct SomeColumns;

/// Schema of percentiles that [`super::step::by_column`] writes, for every metric.
pub struct AllColumns;

/// Returns the schema of the percentiles by name of the metric with its unit.
fn columns(generator: &mut SchemaGenerator) -> Schema {
    let all = Metric::ALL.map(|m| {
        let mut quantiles = generator.subschema_for::<Quantiles>();
        quantiles
            .insert("description".into(), format!("Percentiles of {}, in milliseconds.", m.title()).into());
        (format!("{}_ms", m.name()), quantiles.to_value())
    });
    json_schema!({ "type": "object", "properties": serde_json::Map::from_iter(all) })
}

impl JsonSchema for SomeColumns {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SomeColumns".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        columns(generator)
    }
}

impl JsonSchema for AllColumns {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AllColumns".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = columns(generator);
        schema.insert("required".into(), Metric::ALL.map(|m| format!("{}_ms", m.name())).as_slice().into());
        schema
    }
}
