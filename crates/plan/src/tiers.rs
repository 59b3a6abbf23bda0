//! SLO tiers: one `[slo]`, or several `[[slo]]`.

use goodput_core::slo::{ClassSlo, Slo};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// The SLO tiers of a plan, all judged on the same steps; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiers(Vec<Slo>);

impl Default for Tiers {
    /// Returns one tier without limits, for a mix in which every class has its own.
    fn default() -> Self {
        Self(vec![Slo::default()])
    }
}

impl Tiers {
    /// Returns the tiers in the order of the plan. The answer refers to the first one.
    pub fn as_slice(&self) -> &[Slo] {
        &self.0
    }

    /// Returns one tier without limits.
    pub(crate) fn none() -> Self {
        Self(vec![Slo::default()])
    }

    /// Returns true if there is no limit.
    pub fn is_none(&self) -> bool {
        *self == Self::none()
    }

    /// Returns a single tier, with its profile filled in.
    pub(crate) fn of(slo: Slo) -> Self {
        Self(vec![slo.resolve()])
    }

    /// Returns true if `[slo]` can be left out of the written plan: a single tier without keys.
    pub(crate) fn is_left_out(&self) -> bool {
        let without_classes = |slo: &Slo| Slo { classes: Vec::new(), ..slo.clone() };
        matches!(self.0.as_slice(), [one] if without_classes(one) == Slo::default())
    }

    /// Sets the limits of the classes, which apply in every tier.
    pub(crate) fn set_classes(&mut self, classes: &[ClassSlo]) {
        for slo in &mut self.0 {
            slo.classes = classes.to_vec();
        }
    }

    /// Describes the limits of all tiers in one line.
    pub fn summary(&self) -> String {
        if self.is_none() {
            return "none".into();
        }
        self.0.iter().map(Slo::summary).collect::<Vec<_>>().join("; ")
    }

    /// Fills in the limits of the profiles.
    pub(crate) fn resolve(self) -> Self {
        Self(self.0.into_iter().map(Slo::resolve).collect())
    }

    /// Returns the first problem with the tiers.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.0.len() > 1 {
            let mut names: Vec<_> = self.0.iter().map(|s| s.name.as_deref()).collect();
            if names.contains(&None) {
                return Some("an [[slo]] has no name: with several [[slo]], give each a name".into());
            }
            names.sort_unstable();
            if let Some(w) = names.windows(2).find(|w| w[0] == w[1]) {
                return Some(format!(
                    "two [[slo]] are named {}: give each its own name",
                    w[0].unwrap_or_default()
                ));
            }
        }
        self.0.iter().find_map(Slo::problem)
    }
}

impl Serialize for Tiers {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(s),
            many => many.serialize(s),
        }
    }
}

impl JsonSchema for Tiers {
    fn schema_name() -> Cow<'static, str> {
        "Tiers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Slo>();
        json_schema!({ "anyOf": [one.clone(), { "type": "array", "minItems": 1, "items": one }] })
    }
}

impl<'de> Deserialize<'de> for Tiers {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> de::Visitor<'de> for OneOrSeveral {
            type Value = Tiers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[slo], or [[slo]] once per tier")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Tiers, A::Error> {
                Slo::deserialize(de::value::MapAccessDeserializer::new(map)).map(|s| Tiers(vec![s]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Tiers, A::Error> {
                let tiers = Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                if tiers.is_empty() {
                    Err(de::Error::custom("the list is empty: it needs at least one [[slo]]"))
                } else {
                    Ok(Tiers(tiers))
                }
            }
        }
        d.deserialize_any(OneOrSeveral)
    }
}
