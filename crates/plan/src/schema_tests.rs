//! Checks that `docs/plan.md` matches the types that parse plans, and writes it if `GOODPUT_WRITE_DOCS` is set.

use super::schema;
use crate::SWEEPS;
use boon::{Compiler, Schemas};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The tables of a plan, in the order of the page.
const ORDER: &[&str] = &[
    "server",
    "slo",
    "workload",
    "step",
    "client",
    "search",
    "hardware",
    "model",
    "profile",
    "recovery",
    "sensitivity",
    "variant",
    "grid",
    "row",
    "check",
    "metrics",
    "environment",
];

/// Returns the short name of a simple type for the column "value".
fn word(name: &str) -> Option<&'static str> {
    Some(match name {
        "Duration" => "duration",
        "Rate" | "Positive" => "number above 0",
        "Fraction" => "share, 0 to 1",
        "Factor" => "number from 1.01",
        "TokenCount" => "tokens, from 1",
        "BaseUrl" | "ReadyUrl" | "PageUrl" => "URL",
        "JsonPath" => "JSONPath",
        "ProfileName" => "name of a profile",
        "Selector" => "series",
        "Headers" => "table of strings",
        "Faults" => "table of shares",
        "Bandwidth" => "`\"600 GB/s\"`",
        "FlopRate" => "`\"150 TFLOP/s\"`",
        "Parameters" => "`\"8B\"`",
        _ => return None,
    })
}

struct Reference {
    defs: Map<String, Value>,
    /// Structured types that stand in several places: each has a section of its own.
    shared: BTreeSet<String>,
}

fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/"))
}

fn count_refs(schema: &Value, into: &mut BTreeMap<String, usize>) {
    if let Some(name) = target(schema) {
        *into.entry(name.to_owned()).or_default() += 1;
    }
    match schema {
        Value::Object(map) => map.values().for_each(|v| count_refs(v, into)),
        Value::Array(all) => all.iter().for_each(|v| count_refs(v, into)),
        _ => {}
    }
}

/// Joins a text into one line and escapes it for a table cell.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn sentence(schema: &Value) -> String {
    line(schema["description"].as_str().unwrap_or_default())
}

fn anchor(name: &str) -> String {
    name.to_lowercase()
}

impl Reference {
    fn new(schema: &Value) -> Self {
        let defs = schema["$defs"].as_object().unwrap().clone();
        let mut refs = BTreeMap::new();
        count_refs(schema, &mut refs);
        let mut this = Self { defs, shared: BTreeSet::new() };
        let several = refs.into_iter().filter(|(name, n)| *n > 1 && this.is_structured(&this.defs[name]));
        this.shared = several.map(|(name, _)| name).collect();
        this
    }

    /// Returns true if a schema has keys.
    fn is_structured(&self, schema: &Value) -> bool {
        let tables = |forms: &Value| {
            forms.as_array().is_some_and(|w| w.iter().any(|s| self.is_structured(self.resolve(s))))
        };
        schema["properties"].is_object() || tables(&schema["oneOf"]) || tables(&schema["anyOf"])
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        target(schema).map_or(schema, |name| &self.defs[name])
    }

    /// Describes the type of a value.
    fn kind(&self, schema: &Value) -> String {
        if let Some(name) = target(schema) {
            if let Some(word) = word(name) {
                return word.into();
            }
            if self.shared.contains(name) {
                return format!("[{name}](#{})", anchor(name));
            }
            return self.kind(&self.defs[name]);
        }
        let forms = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
        if let Some(forms) = forms {
            let mut kinds: Vec<String> = Vec::new();
            for kind in forms.iter().map(|form| self.kind(form)) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            return kinds.join(" or ");
        }
        if let Some(names) = schema["enum"].as_array() {
            return names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" or ");
        }
        if !schema["const"].is_null() {
            return format!("`{}`", schema["const"]);
        }
        match schema["type"].as_str() {
            Some("array") => {
                format!("list of {}", self.kind(&schema["items"])).trim_end_matches(" of any value").into()
            }
            Some("integer") if schema["minimum"] == 1 => "whole number from 1".into(),
            Some("integer") => "whole number".into(),
            Some("boolean") => "`true` or `false`".into(),
            Some("object") => "table".into(),
            Some(other) => other.into(),
            None => "any value".into(),
        }
    }

    /// Lists the names of an enum with their meanings.
    fn names(&self, schema: &Value) -> String {
        let variants = self.resolve(schema)["oneOf"].as_array().cloned().unwrap_or_default();
        let described = variants.iter().filter(|w| !w["const"].is_null() && w["description"].is_string());
        described.map(|w| format!(" `{}`: {}", w["const"], sentence(w))).collect()
    }

    /// Writes the row of a key and, if its value is a table, the rows of its keys.
    fn rows(&self, key: &str, schema: &Value, required: bool, out: &mut String) {
        let shared = target(schema).is_some_and(|name| self.shared.contains(name));
        let whole = self.resolve(schema);
        let meaning =
            [sentence(schema), sentence(whole)].into_iter().find(|s| !s.is_empty()).unwrap_or_default();
        let default = match &schema["default"] {
            Value::Null if required => "*required*".into(),
            Value::Null | Value::Object(_) => String::new(),
            value => format!("`{value}`"),
        };
        let names = if shared { String::new() } else { self.names(schema) };
        out.push_str(&format!("| `{key}` | {} | {default} | {meaning}{names} |\n", self.kind(schema)));
        if !shared {
            self.keys(&format!("{key}."), whole, out);
        }
    }

    /// Writes the rows of the keys of a table, in each of its forms.
    fn keys(&self, prefix: &str, table: &Value, out: &mut String) {
        let required: Vec<&str> =
            table["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (key, value) in table["properties"].as_object().into_iter().flatten() {
            self.rows(&format!("{prefix}{key}"), value, required.contains(&key.as_str()), out);
        }
        for form in ["oneOf", "anyOf"].into_iter().filter_map(|of| table[of].as_array()).flatten() {
            if target(form).is_some_and(|name| self.shared.contains(name)) {
                continue;
            }
            let mut form = self.resolve(form).clone();
            let single = form["properties"].as_object().is_some_and(|p| p.len() == 1);
            if single {
                // A single key selects the form, such as `gamma` of the arrivals, so it is not required and has the form's description.
                let description = form["description"].clone();
                form["required"] = Value::Null;
                for value in form["properties"].as_object_mut().unwrap().values_mut() {
                    if value["description"].is_null() {
                        value["description"] = description.clone();
                    }
                }
            }
            self.keys(prefix, &form, out);
        }
        let items = &table["items"];
        if items.is_object() && !target(items).is_some_and(|name| self.shared.contains(name)) {
            self.keys(prefix, self.resolve(items), out);
        }
        let values = &table["additionalProperties"];
        if self.is_structured(self.resolve(values)) {
            self.keys(&format!("{prefix}NAME."), self.resolve(values), out);
        }
    }
}

const HEAD: &str = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";

fn page() -> String {
    let schema = schema();
    let reference = Reference::new(&schema);
    let top = schema["properties"].as_object().unwrap();
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut out = String::from(
        "# Every key of a plan\n\n\
         This page is generated from the types that parse plans (`GOODPUT_WRITE_DOCS=1 cargo test -p goodput-plan schema`). \
         `goodput check --schema` prints the same as a JSON Schema, for editors. Durations are written `\"200ms\"`, `\"90s\"`, \
         `\"1h 30m\"`. An unknown key is an error, which names its line and the known keys.\n\n\
         How to use the keys: [write a plan](recipes.md), [workloads](workloads.md), [servers](server.md), [variants](variants.md), \
         [why](why.md).\n\n## Top level\n\n",
    );
    out.push_str(HEAD);
    let missing: Vec<&String> = top
        .keys()
        .filter(|k| !ORDER.contains(&k.as_str()) && reference.is_structured(reference.resolve(&top[*k])))
        .collect();
    assert!(missing.is_empty(), "put {missing:?} into ORDER");
    for (key, value) in top.iter().filter(|(k, _)| !ORDER.contains(&k.as_str())) {
        reference.rows(key, value, required.contains(&key.as_str()), &mut out);
    }
    for key in ORDER {
        let value = &top[*key];
        let list = value["type"] == "array";
        let title = if list { format!("[[{key}]]") } else { format!("[{key}]") };
        out.push_str(&format!("\n## `{title}`\n\n{}\n\n", sentence(value)));
        let mut rows = String::new();
        if let Some(name) = target(value).filter(|name| reference.shared.contains(*name)) {
            out.push_str(&format!("See [{name}](#{}).\n", anchor(name)));
            continue;
        }
        let table = if list { reference.resolve(&value["items"]) } else { reference.resolve(value) };
        reference.keys("", table, &mut rows);
        if rows.is_empty() {
            let kind = reference.kind(value);
            out.push_str(&format!("{}.\n", if kind == "table" { "Choose your own keys" } else { &kind }));
        } else {
            out.push_str(HEAD);
            out.push_str(&rows);
        }
    }
    out.push_str("\n# Tables used in several places\n");
    for name in &reference.shared {
        let table = &reference.defs[name];
        out.push_str(&format!("\n## {name}\n\n{}{}\n\n", sentence(table), reference.names(table)));
        out.push_str(HEAD);
        reference.keys("", table, &mut out);
    }
    out
}

#[test]
fn the_page_of_keys_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md");
    let page = page();
    if std::env::var_os("GOODPUT_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/plan.md is out of date: run GOODPUT_WRITE_DOCS=1 cargo test -p goodput-plan schema"
    );
}

#[test]
fn every_key_is_documented() {
    for row in page().lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        assert!(cells.last().unwrap().trim_end_matches('|').trim().len() > 5, "{row}");
    }
}

fn errors(plan: &str) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("plan.json", schema()).unwrap();
    let index = compiler.compile("plan.json", &mut schemas).unwrap();
    let value: toml::Table = toml::from_str(plan).unwrap();
    let value = serde_json::to_value(value).unwrap();
    schemas.validate(&value, index).err().map(|e| e.to_string())
}

#[test]
fn built_in_plans_match_the_schema() {
    for (name, text) in SWEEPS {
        assert_eq!(errors(text), None, "{name}");
    }
    assert_eq!(errors(include_str!("../../../src/cmd/init.toml")), None);
}

/// Cases: a line of a plan, and whether the schema accepts it.
#[test]
fn the_schema_checks_keys_types_and_ranges() {
    const BASE: &str = "name = \"x\"\nslo.profile = \"chat\"\n\
                        workload.prompts.synthetic = { input-tokens = { fixed = 10 }, output-tokens = { fixed = 2 } }\n";
    for (line, valid) in [
        ("server.simulated = { preset = \"md1\", service = \"50ms\" }", true),
        ("server.simulated = { preset = \"md2\" }", false),
        ("server.simulated = { preset = \"md1\", servise = \"50ms\" }", false),
        ("server.url = \"http://127.0.0.1:8000\"", true),
        ("server.url = 8000", false),
        ("server = { url = \"http://a\", modle = \"x\" }", false),
        ("server.url = \"http://a\"\nsearch.rates = [1, 2.5]", true),
        ("server.url = \"http://a\"\nsearch.rates = []", false),
        ("server.url = \"http://a\"\nsearch.rates = [-1]", false),
        ("server.url = \"http://a\"\nsearch.ramp = { start = 1, until = \"knee\" }", true),
        ("server.url = \"http://a\"\nsearch.ramp = { start = 1, until = \"never\" }", false),
        ("server.url = \"http://a\"\nslo.ttft.p99 = \"200ms\"\nslo.e2e = { \"p99.9\" = \"8s\" }", true),
        ("server.url = \"http://a\"\nslo.ttft.ninety-nine = \"200ms\"", false),
        ("server.url = \"http://a\"\nprofile = \"step\"", true),
        ("server.url = \"http://a\"\nprofile = { measure = \"5s\" }", true),
        ("server.url = \"http://a\"\ngrid.knobs.max-num-seqs = [8, 16]", true),
        ("server.url = \"http://a\"\nhardware.memory-bandwidth = \"600 GB/s\"", true),
        ("server.url = \"http://a\"\nhardware.gpus = 0", false),
    ] {
        let errors = errors(&format!("{BASE}{line}"));
        assert_eq!(errors.is_none(), valid, "{line}: {errors:?}");
    }
}
