//! `[grid]`: variants generated from the values of knobs (parameters of the server), varied one at a time or in all combinations.

use super::secret;
use super::variant::{RawStart, ReadyUrl, Start, Variant, name_problem};
use goodput_core::endpoint::BaseUrl;
use goodput_core::secrets::masked;
use goodput_core::units::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toml::Value;

/// Maximum number of points; since each is a sweep, more are a mistake.
const MAX_POINTS: usize = 1000;

/// Knobs with their values, and where the values are used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawGrid", into = "RawGrid")]
pub struct Grid {
    /// The knobs by name; at least one.
    knobs: BTreeMap<String, Knob>,
    /// True for all combinations of values, false for one knob varied at a time.
    full: bool,
    /// Server URL, if it differs from the plan's.
    url: Option<BaseUrl>,
    /// Start command of the server of each point, if the plan starts it; may contain `{knob}`.
    start: Option<Start>,
    /// Overrides of the plan at each point; values may contain `{knob}`.
    set: toml::Table,
}

/// A knob of the grid.
#[derive(Debug, Clone, PartialEq)]
struct Knob {
    /// Values to measure; at least one, no duplicates.
    values: Vec<Value>,
    /// Value while another knob is varied.
    baseline: Value,
    /// Arguments that replace `{knob}` in the command, by value; empty if the value itself does.
    args: BTreeMap<String, Vec<String>>,
}

/// The `[grid]` table as written.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawGrid {
    /// Measures all combinations of values, instead of varying one knob at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    /// URL of the server of each point, if it differs from `[server]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<BaseUrl>,
    /// Command that starts the server, one list item per word; goodput waits until the server is ready, measures it and stops it. `${NAME}` is replaced from the environment and never written to files; `{knob}` is replaced by the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// URL or path that answers with success once the server is ready; `/health`, or else `/v1/models`, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_url: Option<ReadyUrl>,
    /// Maximum time until the server is ready; 10 minutes by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    /// Time for the server to exit after SIGTERM, before it is killed; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_timeout: Option<Span>,
    /// Working directory of the command, relative to the plan's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<PathBuf>,
    /// Pause after the server has stopped, before the next one starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down: Option<Span>,
    /// Environment variables of the command, in addition to those of goodput.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    /// Overrides of the plan at each point, with keys as in `--set`; `{knob}` is replaced by the value.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    set: toml::Table,
    /// The knobs with their values: a list, whose first value is the baseline, or a table.
    knobs: BTreeMap<String, Knob>,
}

/// A knob written as a table; a knob that has only values may be a list.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawKnob {
    /// Values to measure.
    #[schemars(with = "Vec<serde_json::Value>")]
    values: Vec<Value>,
    /// Value while another knob is varied; the first value by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    baseline: Option<Value>,
    /// Arguments that replace `{knob}` in the command, for each value; by default the value itself replaces it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<String, Vec<String>>,
}

/// Formats a value as in names and commands.
fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

impl TryFrom<RawKnob> for Knob {
    type Error = String;
    fn try_from(raw: RawKnob) -> Result<Self, String> {
        let plain = |v: &&Value| !matches!(v, Value::Table(_) | Value::Array(_) | Value::Datetime(_));
        if let Some(odd) = raw.values.iter().find(|v| !plain(v)) {
            return Err(format!(
                "{odd} cannot be the value of a knob: write numbers, strings, true or false"
            ));
        }
        let texts: Vec<String> = raw.values.iter().map(text).collect();
        if let Some((_, twice)) = texts.iter().enumerate().find(|(i, t)| texts[..*i].contains(t)) {
            return Err(format!("the value {twice} is listed twice"));
        }
        let first = raw.values.first().ok_or("the knob has no values")?.clone();
        let baseline = raw.baseline.unwrap_or(first);
        if !raw.values.contains(&baseline) {
            return Err(format!(
                "the baseline {} is not one of the values ({})",
                text(&baseline),
                texts.join(", ")
            ));
        }
        if !raw.args.is_empty() {
            if let Some(missing) = texts.iter().find(|t| !raw.args.contains_key(*t)) {
                return Err(format!(
                    "args has no entry for the value {missing}: write args.{missing} = [] for no argument"
                ));
            }
            if let Some(odd) = raw.args.keys().find(|k| !texts.contains(k)) {
                return Err(format!("args has {odd}, which is not one of the values ({})", texts.join(", ")));
            }
        }
        Ok(Self { values: raw.values, baseline, args: raw.args })
    }
}

impl Serialize for Knob {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let args = self
            .args
            .iter()
            .map(|(value, args)| (value.clone(), secret::hidden_command(args, &BTreeMap::new())));
        let (values, args) = (self.values.clone(), args.collect());
        RawKnob { values, baseline: Some(self.baseline.clone()), args }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Knob {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Knob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the values of the knob, [8, 16, 32], or a table with values, baseline and args")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Knob, A::Error> {
                let values = Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                let raw = RawKnob { values, baseline: None, args: BTreeMap::new() };
                raw.try_into().map_err(de::Error::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Knob, A::Error> {
                let raw = RawKnob::deserialize(de::value::MapAccessDeserializer::new(map))?;
                raw.try_into().map_err(de::Error::custom)
            }
        }
        d.deserialize_any(Either)
    }
}

impl JsonSchema for Knob {
    fn schema_name() -> Cow<'static, str> {
        "Knob".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<RawKnob>();
        json_schema!({ "anyOf": [{ "type": "array", "minItems": 1 }, table] })
    }
}

impl TryFrom<RawGrid> for Grid {
    type Error = String;
    fn try_from(raw: RawGrid) -> Result<Self, String> {
        let keys = RawStart {
            command: raw.command,
            env: raw.env,
            ready_url: raw.ready_url,
            timeout: raw.timeout,
            stop_timeout: raw.stop_timeout,
            working_directory: raw.working_directory,
            cool_down: raw.cool_down,
        };
        let start = keys.start().map_err(|problem| format!("[grid] {problem}"))?;
        let grid = Self { knobs: raw.knobs, full: raw.full, url: raw.url, start, set: raw.set };
        grid.problem().map_or(Ok(grid), |problem| Err(format!("[grid] {problem}")))
    }
}

impl From<Grid> for RawGrid {
    fn from(g: Grid) -> Self {
        let s = RawStart::shown(g.start);
        Self {
            full: g.full,
            url: g.url,
            command: s.command,
            ready_url: s.ready_url,
            timeout: s.timeout,
            stop_timeout: s.stop_timeout,
            working_directory: s.working_directory,
            cool_down: s.cool_down,
            env: s.env,
            set: g.set,
            knobs: g.knobs,
        }
    }
}

/// A placeholder in a text: `{knob}`, or `{2*knob}` for a multiple of the value.
struct Placeholder<'a> {
    before: &'a str,
    factor: Option<f64>,
    knob: &'a str,
    after: &'a str,
}

/// Returns the first placeholder in a text. Braces with other content, such as JSON, are not placeholders.
fn placeholder(text: &str) -> Option<Placeholder<'_>> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        from = open + 1;
        // `${NAME}` is an environment variable.
        if text[..open].ends_with('$') {
            continue;
        }
        let close = from + text[from..].find('}')?;
        let (factor, knob) = match text[from..close].split_once('*') {
            Some((factor, knob)) => match factor.trim().parse::<f64>() {
                Ok(factor) => (Some(factor), knob.trim()),
                Err(_) => continue,
            },
            None => (None, &text[from..close]),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        if knob.starts_with(|c: char| c.is_ascii_alphabetic()) && knob.chars().all(is_name) {
            return Some(Placeholder { before: &text[..open], factor, knob, after: &text[close + 1..] });
        }
    }
    None
}

/// Returns the knobs that a text refers to.
fn knobs_in(text: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some(found) = placeholder(rest) {
        all.push(found.knob);
        rest = found.after;
    }
    all
}

/// Multiplies a value; the result is an integer if possible. `None` if the value is not a number.
fn times(factor: Option<f64>, value: &Value) -> Option<Value> {
    let Some(factor) = factor else { return Some(value.clone()) };
    let float = match value {
        Value::Integer(n) => factor * *n as f64,
        Value::Float(x) => factor * x,
        _ => return None,
    };
    let whole = matches!(value, Value::Integer(_)) && float.fract() == 0.0 && float.abs() < 9e15;
    Some(if whole { Value::Integer(float as i64) } else { Value::Float(float) })
}

/// A point of the grid: a value for each knob.
type Point<'a> = Vec<(&'a str, &'a Value)>;

impl Grid {
    /// Returns every text that may contain placeholders.
    fn texts(&self) -> Vec<&str> {
        let start =
            self.start.iter().flat_map(|s| s.command.iter().chain(s.env.values())).map(String::as_str);
        start.chain(self.set.values().filter_map(Value::as_str)).collect()
    }

    /// Returns the first problem with the grid.
    fn problem(&self) -> Option<String> {
        if self.knobs.is_empty() {
            return Some("has no knobs: write knobs.max-num-seqs = [8, 16, 32]".into());
        }
        let names = || self.knobs.keys().cloned().collect::<Vec<_>>().join(", ");
        let used: Vec<&str> = self.texts().into_iter().flat_map(knobs_in).collect();
        if let Some(odd) = used.iter().find(|name| !self.knobs.contains_key(**name)) {
            return Some(format!("uses {{{odd}}}, which is not one of its knobs ({})", names()));
        }
        if let Some(unused) = self.knobs.keys().find(|name| !used.contains(&name.as_str())) {
            return Some(format!(
                "does not use the knob {unused}: write \"{{{unused}}}\" where its value belongs, in command or as set = {{ \"server.…\" = \"{{{unused}}}\" }}"
            ));
        }
        for (name, knob) in &self.knobs {
            if let Some(problem) = self.misuse(name, knob) {
                return Some(problem);
            }
        }
        let points = self.count();
        if points > MAX_POINTS {
            return Some(format!("has {points} points, each of them a sweep: the maximum is {MAX_POINTS}"));
        }
        let bad = |v: &Variant| Some(format!("at {}: {}", v.name, name_problem(&v.name)?));
        self.points().iter().find_map(bad)
    }

    /// Returns the problem if a placeholder uses a knob in a way that its values do not allow.
    fn misuse(&self, name: &str, knob: &Knob) -> Option<String> {
        let refers = |text: &&str| knobs_in(text).contains(&name);
        let number = |v: &Value| matches!(v, Value::Integer(_) | Value::Float(_));
        let multiplied = |text: &str| {
            let mut rest = text;
            while let Some(found) = placeholder(rest) {
                if found.knob == name && found.factor.is_some() {
                    return true;
                }
                rest = found.after;
            }
            false
        };
        if self.texts().iter().any(|t| multiplied(t)) && !knob.values.iter().all(number) {
            return Some(format!("multiplies {name}, but not all of its values are numbers"));
        }
        let command = self.start.iter().flat_map(|s| &s.command).map(String::as_str);
        let part = command.filter(refers).find(|t| *t != format!("{{{name}}}"));
        part.filter(|_| !knob.args.is_empty()).map(|text| {
            format!("{name} has args, which are whole arguments: write \"{{{name}}}\" as its own word in command, not inside {:?}", masked(text))
        })
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
        let baseline = || self.knobs.iter().map(|(name, k)| (name.as_str(), &k.baseline));
        if let [(name, only)] = &self.knobs.iter().collect::<Vec<_>>()[..] {
            return only.values.iter().map(|v| vec![(name.as_str(), v)]).collect();
        }
        let mut all: Vec<Point<'_>> = vec![baseline().collect()];
        for (name, knob) in &self.knobs {
            for value in knob.values.iter().filter(|v| **v != knob.baseline) {
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
        let shown = |(name, v): &&(&str, &Value)| !several || self.knobs[*name].baseline != **v;
        let parts: Vec<String> =
            point.iter().filter(shown).map(|(name, v)| format!("{name}={}", text(v))).collect();
        if parts.is_empty() { "baseline".to_owned() } else { parts.join(" ") }
    }

    fn variant(&self, point: &Point<'_>) -> Variant {
        let start = self.start.as_ref().map(|s| Start {
            command: s.command.iter().flat_map(|part| self.arguments(part, point)).collect(),
            env: s.env.iter().map(|(k, v)| (k.clone(), filled(v, point))).collect(),
            ..s.clone()
        });
        let set = self.set.iter().map(|(key, v)| (key.clone(), self.set_to(v, point))).collect();
        let knobs = point.iter().map(|(name, v)| ((*name).to_owned(), text(v))).collect();
        Variant { name: self.name(point), set, url: self.url.clone(), start, knobs }
    }

    /// Fills in an argument of the command at a point; a knob with args may expand to several arguments or none.
    fn arguments(&self, part: &str, point: &Point<'_>) -> Vec<String> {
        for (name, value) in point {
            let knob = &self.knobs[*name];
            if !knob.args.is_empty() && part == format!("{{{name}}}") {
                return knob.args.get(&text(value)).cloned().unwrap_or_default();
            }
        }
        vec![filled(part, point)]
    }

    /// Fills in a value of `set` at a point. A text that is only a placeholder becomes the value itself, with its type.
    fn set_to(&self, value: &Value, point: &Point<'_>) -> Value {
        let Some(text) = value.as_str() else { return value.clone() };
        let whole = placeholder(text).filter(|h| h.before.is_empty() && h.after.is_empty());
        let of = |h: Placeholder<'_>| times(h.factor, point.iter().find(|(name, _)| *name == h.knob)?.1);
        whole.and_then(of).unwrap_or_else(|| Value::String(filled(text, point)))
    }

    /// Returns the overrides of the plan, to resolve paths in them.
    pub(super) fn set_mut(&mut self) -> &mut toml::Table {
        &mut self.set
    }

    /// Returns the start command, to resolve its working directory.
    pub(super) fn start_mut(&mut self) -> Option<&mut Start> {
        self.start.as_mut()
    }
}

/// Replaces all placeholders in a text.
fn filled(template: &str, point: &Point<'_>) -> String {
    let (mut out, mut rest) = (String::new(), template);
    while let Some(h) = placeholder(rest) {
        out.push_str(h.before);
        let value = point.iter().find(|(name, _)| *name == h.knob).and_then(|(_, v)| times(h.factor, v));
        out.push_str(&value.map(|v| text(&v)).unwrap_or_default());
        rest = h.after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
