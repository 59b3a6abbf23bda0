//! `[slo]` once, or `[[slo]]` once per tier.

use goodput_core::slo::{ClassSlo, Slo};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// The tiers of the SLO, all judged on the same steps; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiers(Vec<Slo>);

impl Default for Tiers {
    /// One without limits: every class of the mix has its own.
    fn default() -> Self {
        Self(vec![Slo::default()])
    }
}

impl Tiers {
    /// The tiers in the plan's order; the first is the one that the answer is about.
    pub fn as_slice(&self) -> &[Slo] {
        &self.0
    }

    /// No limit at all, where a plan is not about any.
    pub(crate) fn none() -> Self {
        Self(vec![Slo::default()])
    }

    /// Whether there is no limit to judge by.
    pub fn is_none(&self) -> bool {
        *self == Self::none()
    }

    /// One tier.
    pub(crate) fn of(slo: Slo) -> Self {
        Self(vec![slo.resolve()])
    }

    /// Whether the plan has none to write: a single tier without a key.
    pub(crate) fn is_left_out(&self) -> bool {
        let own = |slo: &Slo| Slo { classes: Vec::new(), ..slo.clone() };
        matches!(self.0.as_slice(), [one] if own(one) == Slo::default())
    }

    /// The limits of classes, which hold in every tier.
    pub(crate) fn set_classes(&mut self, classes: &[ClassSlo]) {
        for slo in &mut self.0 {
            slo.classes = classes.to_vec();
        }
    }

    /// Every tier's limits in one line.
    pub fn summary(&self) -> String {
        if self.is_none() {
            return "none".into();
        }
        self.0.iter().map(Slo::summary).collect::<Vec<_>>().join("; ")
    }

    /// With every profile's limits filled in.
    pub(crate) fn resolve(self) -> Self {
        Self(self.0.into_iter().map(Slo::resolve).collect())
    }

    /// What is wrong with the tiers, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.0.len() > 1 {
            let mut names: Vec<_> = self.0.iter().map(|s| s.name.as_deref()).collect();
            if names.contains(&None) {
                return Some("every one of several [[slo]] tables needs a name".into());
            }
            names.sort_unstable();
            if let Some(w) = names.windows(2).find(|w| w[0] == w[1]) {
                return Some(format!("two [[slo]] tables are named {}", w[0].unwrap_or_default()));
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
        struct Either;
        impl<'de> de::Visitor<'de> for Either {
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
        d.deserialize_any(Either)
    }
}
