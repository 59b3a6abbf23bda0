//! `[grid]`: variants generated from the values of knobs (parameters of the server), varied one at a time or in all combinations.

mod placeholder;

use super::start::{Start, server_table};
use super::variant::{Variant, name_problem};
use goodput_core::endpoint::BaseUrl;
use goodput_core::secrets::{masked, masked_command};
use goodput_core::units::Span;
use placeholder::{fill, fill_value, placeholders};
use schemars::{Schema, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toml::Value;

/// Maximum number of points; since each is a sweep, more are a mistake.
const MAX_POINTS: usize = 1000;

server_table! {
    /// Knobs with their values, and where the values are used.
    pub struct Grid {
        /// Measures all combinations of values, instead of varying one knob at a time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        full: bool,
        /// URL of the server of each point, if it differs from `[server]`.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<BaseUrl>,
        /// Command that starts the server, one list item per word; goodput waits until the server is ready, measures it and stops it. `${NAME}` is replaced from the environment and never written to files; `{knob}` is replaced by the value.
        #[serde(skip_serializing_if = "Option::is_none")]
        command: Option<Vec<String>>,
    }
    "Grid" {
        /// Overrides of the plan at each point, with keys as in `--set`; `{knob}` is replaced by the value.
        #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        pub(super) set: toml::Table,
        /// The knobs with their values: a list, whose first value is the baseline, or a table.
        knobs: BTreeMap<String, Knob>,
    }
}

/// A knob of the grid. Written as a table, or as a list of its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Knob", transform = list_or_table)]
struct Knob {
    /// Values to measure.
    #[schemars(with = "Vec<serde_json::Value>")]
    values: Vec<Value>,
    /// Value while another knob is varied; the first value by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    baseline: Option<Value>,
    /// Arguments that replace `{knob}` in the command, for each value; by default the value itself replaces it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", serialize_with = "masked_args")]
    args: BTreeMap<String, Vec<String>>,
}

fn list_or_table(schema: &mut Schema) {
    let table = std::mem::take(schema);
    *schema = json_schema!({ "anyOf": [{ "type": "array", "minItems": 1 }, table] });
}

fn masked_args<S: Serializer>(args: &BTreeMap<String, Vec<String>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(args.iter().map(|(value, args)| (value, masked_command(args, &BTreeMap::new()))))
}

/// Formats a value as in names and commands.
fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

impl Knob {
    /// Checks the knob as written, and fills in its baseline.
    fn checked(mut self) -> Result<Self, String> {
        let plain = |v: &&Value| !matches!(v, Value::Table(_) | Value::Array(_) | Value::Datetime(_));
        if let Some(odd) = self.values.iter().find(|v| !plain(v)) {
            return Err(format!(
                "{odd} cannot be the value of a knob: write numbers, strings, true or false"
            ));
        }
        let texts: Vec<String> = self.values.iter().map(text).collect();
        if let Some((_, twice)) = texts.iter().enumerate().find(|(i, t)| texts[..*i].contains(t)) {
            return Err(format!("the value {twice} is listed twice"));
        }
        let first = self.values.first().ok_or("the knob has no values")?;
        let baseline = self.baseline.get_or_insert_with(|| first.clone());
        if !self.values.contains(baseline) {
            return Err(format!(
                "the baseline {} is not one of the values ({})",
                text(baseline),
                texts.join(", ")
            ));
        }
        if !self.args.is_empty() {
            if let Some(missing) = texts.iter().find(|t| !self.args.contains_key(*t)) {
                return Err(format!(
                    "args has no entry for the value {missing}: write args.{missing} = [] for no argument"
                ));
            }
            if let Some(odd) = self.args.keys().find(|k| !texts.contains(k)) {
                return Err(format!("args has {odd}, which is not one of the values ({})", texts.join(", ")));
            }
        }
        Ok(self)
    }

    /// Returns the value while another knob is varied.
    fn baseline(&self) -> &Value {
        self.baseline.as_ref().unwrap_or(&self.values[0])
    }
}

impl Serialize for Knob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // The inherent function that `remote = "Self"` derives.
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Knob {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct ListOrTable;
        impl<'de> Visitor<'de> for ListOrTable {
            type Value = Knob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the values of the knob, [8, 16, 32], or a table with values, baseline and args")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Knob, A::Error> {
                let values = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                let knob = Knob { values, baseline: None, args: BTreeMap::new() };
                knob.checked().map_err(de::Error::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Knob, A::Error> {
                let knob = Knob::deserialize(MapAccessDeserializer::new(map))?;
                knob.checked().map_err(de::Error::custom)
            }
        }
        d.deserialize_any(ListOrTable)
    }
}

/// A point of the grid: a value for each knob.
type Point<'a> = Vec<(&'a str, &'a Value)>;

impl Grid {
    /// Returns every text that may contain placeholders.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let start = self.command.iter().flatten().chain(self.env.values()).map(String::as_str);
        start.chain(self.set.values().filter_map(Value::as_str))
    }

    fn check(&self) -> Result<(), String> {
        let problem = self.check_start().err().or_else(|| self.problem());
        problem.map_or(Ok(()), |problem| Err(format!("[grid] {problem}")))
    }

    /// Returns the first problem with the knobs and their use.
    fn problem(&self) -> Option<String> {
        if self.knobs.is_empty() {
            return Some("has no knobs: write knobs.max-num-seqs = [8, 16, 32]".into());
        }
        for used in self.texts().flat_map(placeholders) {
            let name = used.knob;
            let Some(knob) = self.knobs.get(name) else {
                let names = self.knobs.keys().cloned().collect::<Vec<_>>().join(", ");
                return Some(format!("uses {{{name}}}, which is not one of its knobs ({names})"));
            };
            if let Some(problem) = used.factor_problem(&knob.values) {
                return Some(problem);
            }
        }
        for (name, knob) in &self.knobs {
            let uses = |text: &str| placeholders(text).any(|used| used.knob == name);
            if !self.texts().any(uses) {
                return Some(format!(
                    "does not use the knob {name}: write \"{{{name}}}\" where its value belongs, in command or as set = {{ \"server.…\" = \"{{{name}}}\" }}"
                ));
            }
            let within = |text: &&String| **text != format!("{{{name}}}") && uses(text);
            if let Some(text) = self.command.iter().flatten().find(within).filter(|_| !knob.args.is_empty()) {
                return Some(format!(
                    "{name} has args, which are whole arguments: write \"{{{name}}}\" as its own word in command, not inside {:?}",
                    masked(text)
                ));
            }
        }
        let points = self.count();
        if points > MAX_POINTS {
            return Some(format!("has {points} points, each of them a sweep: the maximum is {MAX_POINTS}"));
        }
        let bad = |v: &Variant| Some(format!("at {}: {}", v.name, name_problem(&v.name)?));
        self.points().iter().find_map(bad)
    }

    /// Returns the number of points.
    fn count(&self) -> usize {
        let sizes = self.knobs.values().map(|k| k.values.len());
        if self.full {
            return sizes.fold(1_usize, usize::saturating_mul);
        }
        1 + sizes.map(|n| n - 1).sum::<usize>()
    }

    /// Returns the values at every point: all combinations if `full`, else the baseline and each single deviation from it.
    fn values(&self) -> Vec<Point<'_>> {
        if self.full {
            let start: Vec<Point<'_>> = vec![Vec::new()];
            return self.knobs.iter().fold(start, |points, (name, knob)| {
                let mut all = Vec::with_capacity(points.len() * knob.values.len());
                for point in points {
                    all.extend(
                        knob.values.iter().map(|v| [point.as_slice(), &[(name.as_str(), v)]].concat()),
                    );
                }
                all
            });
        }
        let baseline = || self.knobs.iter().map(|(name, k)| (name.as_str(), k.baseline()));
        if let [(name, only)] = &self.knobs.iter().collect::<Vec<_>>()[..] {
            return only.values.iter().map(|v| vec![(name.as_str(), v)]).collect();
        }
        let mut all: Vec<Point<'_>> = vec![baseline().collect()];
        for (name, knob) in &self.knobs {
            for value in knob.values.iter().filter(|v| *v != knob.baseline()) {
                let at = |(n, v)| if n == name { (n, value) } else { (n, v) };
                all.push(baseline().map(at).collect());
            }
        }
        all
    }

    /// Returns the points as variants, in the order of measurement.
    pub(super) fn points(&self) -> Vec<Variant> {
        self.values().iter().map(|point| self.variant(point)).collect()
    }

    fn name(&self, point: &Point<'_>) -> String {
        let several = !self.full && self.knobs.len() > 1;
        let shown = |(name, v): &&(&str, &Value)| !several || self.knobs[*name].baseline() != *v;
        let parts: Vec<String> =
            point.iter().filter(shown).map(|(name, v)| format!("{name}={}", text(v))).collect();
        if parts.is_empty() { "baseline".to_owned() } else { parts.join(" ") }
    }

    fn variant(&self, point: &Point<'_>) -> Variant {
        let arguments =
            |words: &Vec<String>| words.iter().flat_map(|word| self.arguments(word, point)).collect();
        Variant {
            name: self.name(point),
            url: self.url.clone(),
            command: self.command.as_ref().map(arguments),
            ready_url: self.ready_url.clone(),
            timeout: self.timeout,
            stop_timeout: self.stop_timeout,
            working_directory: self.working_directory.clone(),
            cool_down: self.cool_down,
            env: self.env.iter().map(|(k, v)| (k.clone(), fill(v, point))).collect(),
            set: self.set.iter().map(|(key, v)| (key.clone(), fill_value(v, point))).collect(),
            knobs: point.iter().map(|(name, v)| ((*name).to_owned(), text(v))).collect(),
        }
    }

    /// Fills in an argument of the command at a point; a knob with args may expand to several arguments or none.
    fn arguments(&self, word: &str, point: &Point<'_>) -> Vec<String> {
        for (name, value) in point {
            let knob = &self.knobs[*name];
            if !knob.args.is_empty() && word == format!("{{{name}}}") {
                return knob.args.get(&text(value)).cloned().unwrap_or_default();
            }
        }
        vec![fill(word, point)]
    }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
