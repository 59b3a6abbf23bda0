//! `[grid]`: variants that differ in one knob at a time, since many knobs at once explain nothing; or in all of them, where that is
//! asked for.

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

/// More points than this are a mistake: each is a sweep.
const MOST: usize = 1000;

/// Knobs, their values, and what is made of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawGrid", into = "RawGrid")]
pub struct Grid {
    /// Each knob with its values; at least one.
    knobs: BTreeMap<String, Knob>,
    /// Whether every value of a knob is tried with every value of the others.
    full: bool,
    /// Where the server is, if not where the plan says.
    url: Option<BaseUrl>,
    /// How the server of each point is started, if it is; `{knob}` stands for the value.
    start: Option<Start>,
    /// What of the plan is otherwise at each point; `{knob}` likewise.
    set: toml::Table,
}

/// A knob of the grid.
#[derive(Debug, Clone, PartialEq)]
struct Knob {
    /// What it is tried at; at least one, none twice.
    values: Vec<Value>,
    /// What it is at while another one is varied.
    baseline: Value,
    /// What `{knob}` stands for in the command, by value, where that is not the value itself.
    args: BTreeMap<String, Vec<String>>,
}

/// The table as written.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawGrid {
    /// Every value of a knob with every value of the others, in place of one knob varied at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    /// Where the server of each point listens, if not where `[server]` says; `{knob}` stands for the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<BaseUrl>,
    /// The server's command, a word each: started, waited for, measured and stopped. `${NAME}` is filled in from the environment and written nowhere. `{knob}` stands for the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The page that answers with success once the server is ready; `/health` and `/v1/models` where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_url: Option<ReadyUrl>,
    /// The longest time that the server may take until it is ready; ten minutes where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    /// How long the server has to end by itself before it is killed; 30 s where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_timeout: Option<Span>,
    /// Where the command is started, as seen from the plan's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<PathBuf>,
    /// A pause after the server has ended, before the next one is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down: Option<Span>,
    /// Variables of the command's environment, beside those of this process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    /// What of the plan is otherwise at each point; `{knob}` stands for the value.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    set: toml::Table,
    /// Each knob with the values that it is tried at: a list, whose first value is the baseline, or a table.
    knobs: BTreeMap<String, Knob>,
}

/// A knob as a table; one that has only values may be written as a list of them.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawKnob {
    /// What the knob is tried at.
    #[schemars(with = "Vec<serde_json::Value>")]
    values: Vec<Value>,
    /// What it is at while another one is varied; the first value where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    baseline: Option<Value>,
    /// What `{knob}` stands for in the command, by value, where that is not the value itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<String, Vec<String>>,
}

/// A value as it stands in names and commands.
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
            return Err(format!("{odd} is no value of a knob: write numbers, strings, true or false"));
        }
        let texts: Vec<String> = raw.values.iter().map(text).collect();
        if let Some((_, twice)) = texts.iter().enumerate().find(|(i, t)| texts[..*i].contains(t)) {
            return Err(format!("the value {twice} is there twice"));
        }
        let first = raw.values.first().ok_or("the knob has no values")?.clone();
        let baseline = raw.baseline.unwrap_or(first);
        if !raw.values.contains(&baseline) {
            return Err(format!(
                "the baseline {} is none of its values ({})",
                text(&baseline),
                texts.join(", ")
            ));
        }
        if !raw.args.is_empty() {
            if let Some(missing) = texts.iter().find(|t| !raw.args.contains_key(*t)) {
                return Err(format!(
                    "args says nothing of the value {missing}: write args.{missing} = [] for no argument"
                ));
            }
            if let Some(odd) = raw.args.keys().find(|k| !texts.contains(k)) {
                return Err(format!("args has {odd}, which is none of its values ({})", texts.join(", ")));
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

/// A place in a text where a knob's value is to be: `{knob}`, or `{2*knob}` for a multiple of it.
struct Hole<'a> {
    before: &'a str,
    factor: Option<f64>,
    knob: &'a str,
    after: &'a str,
}

/// The first place of a text where a value is to be. Braces that hold anything else, such as JSON, are none.
fn hole(text: &str) -> Option<Hole<'_>> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        from = open + 1;
        // `${NAME}` is a variable of the environment.
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
            return Some(Hole { before: &text[..open], factor, knob, after: &text[close + 1..] });
        }
    }
    None
}

/// The knobs that a text names.
fn named(text: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some(hole) = hole(rest) {
        all.push(hole.knob);
        rest = hole.after;
    }
    all
}

/// A multiple of a value; whole where both are.
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

/// A point of the grid: each knob with its value.
type Point<'a> = Vec<(&'a str, &'a Value)>;

impl Grid {
    /// Every text in which a knob may be named.
    fn texts(&self) -> Vec<&str> {
        let start =
            self.start.iter().flat_map(|s| s.command.iter().chain(s.env.values())).map(String::as_str);
        start.chain(self.set.values().filter_map(Value::as_str)).collect()
    }

    /// What is wrong with it, if anything.
    fn problem(&self) -> Option<String> {
        if self.knobs.is_empty() {
            return Some("has no knobs: knobs.max-num-seqs = [8, 16, 32]".into());
        }
        let names = || self.knobs.keys().cloned().collect::<Vec<_>>().join(", ");
        let used: Vec<&str> = self.texts().into_iter().flat_map(named).collect();
        if let Some(odd) = used.iter().find(|name| !self.knobs.contains_key(**name)) {
            return Some(format!("names {{{odd}}}, which is none of its knobs ({})", names()));
        }
        if let Some(idle) = self.knobs.keys().find(|name| !used.contains(&name.as_str())) {
            return Some(format!(
                "varies nothing with {idle}: name it where its value belongs, in command as \"{{{idle}}}\", or as set = {{ \"server.…\" = \"{{{idle}}}\" }}"
            ));
        }
        for (name, knob) in &self.knobs {
            if let Some(problem) = self.misused(name, knob) {
                return Some(problem);
            }
        }
        let points = self.count();
        if points > MOST {
            return Some(format!("has {points} points, and each is a sweep: {MOST} are the most"));
        }
        let bad = |v: &Variant| Some(format!("at {}: {}", v.name, name_problem(&v.name)?));
        self.points().iter().find_map(bad)
    }

    /// A knob that is named in a way that its values do not allow.
    fn misused(&self, name: &str, knob: &Knob) -> Option<String> {
        let own = |text: &&str| named(text).contains(&name);
        let number = |v: &Value| matches!(v, Value::Integer(_) | Value::Float(_));
        let multiplied = |text: &str| {
            let mut rest = text;
            while let Some(hole) = hole(rest) {
                if hole.knob == name && hole.factor.is_some() {
                    return true;
                }
                rest = hole.after;
            }
            false
        };
        if self.texts().iter().any(|t| multiplied(t)) && !knob.values.iter().all(number) {
            return Some(format!("multiplies {name}, whose values are not all numbers"));
        }
        let command = self.start.iter().flat_map(|s| &s.command).map(String::as_str);
        let part = command.filter(own).find(|t| *t != format!("{{{name}}}"));
        part.filter(|_| !knob.args.is_empty()).map(|text| {
            format!("{name} has args, which are arguments of their own: \"{{{name}}}\" stands alone in command, not in {:?}", masked(text))
        })
    }

    /// How many points it has.
    fn count(&self) -> usize {
        let sizes = self.knobs.values().map(|k| k.values.len());
        if self.full {
            return sizes.fold(1_usize, usize::saturating_mul);
        }
        1 + sizes.map(|n| n - 1).sum::<usize>()
    }

    /// The values at every point. One knob at a time: the baseline, and each knob at each other value while the others stay.
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

    /// Its points as variants, in the order in which they are measured.
    pub(super) fn points(&self) -> Vec<Variant> {
        self.values().iter().map(|point| self.variant(point)).collect()
    }

    fn name(&self, point: &Point<'_>) -> String {
        let several = !self.full && self.knobs.len() > 1;
        let told = |(name, v): &&(&str, &Value)| !several || self.knobs[*name].baseline != **v;
        let parts: Vec<String> =
            point.iter().filter(told).map(|(name, v)| format!("{name}={}", text(v))).collect();
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

    /// What an argument of the command comes to at a point: itself, its value, or the arguments that stand for it.
    fn arguments(&self, part: &str, point: &Point<'_>) -> Vec<String> {
        for (name, value) in point {
            let knob = &self.knobs[*name];
            if !knob.args.is_empty() && part == format!("{{{name}}}") {
                return knob.args.get(&text(value)).cloned().unwrap_or_default();
            }
        }
        vec![filled(part, point)]
    }

    /// A value that is set: that of the knob, as it is, where the text is nothing else.
    fn set_to(&self, value: &Value, point: &Point<'_>) -> Value {
        let Some(said) = value.as_str() else { return value.clone() };
        let whole = hole(said).filter(|h| h.before.is_empty() && h.after.is_empty());
        let of = |h: Hole<'_>| times(h.factor, point.iter().find(|(name, _)| *name == h.knob)?.1);
        whole.and_then(of).unwrap_or_else(|| Value::String(filled(said, point)))
    }

    /// What of the plan is otherwise at each point.
    pub(super) fn set_mut(&mut self) -> &mut toml::Table {
        &mut self.set
    }

    /// The working directory of the command, to be found from somewhere else.
    pub(super) fn start_mut(&mut self) -> Option<&mut Start> {
        self.start.as_mut()
    }
}

/// A text with every value in its place.
fn filled(said: &str, point: &Point<'_>) -> String {
    let (mut out, mut rest) = (String::new(), said);
    while let Some(h) = hole(rest) {
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
