//! Differences between the sides before any figure: plan, server, environment, client, version, machine.

use super::Side;
use goodput_stats::server::facts::Facts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};

/// The subject of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// SLO limits.
    Slo,
    /// Requests sent.
    Workload,
    /// The state of the prefix cache.
    Cache,
    /// The controlled quantity (rate or concurrency), and the clock.
    Measurement,
    /// Server address and options.
    Server,
    /// Facts reported by the server.
    Facts,
    /// Hardware of the server.
    Hardware,
    /// Environment of the server as declared by the plan.
    Environment,
    /// Levels and lengths of the steps.
    Steps,
    /// Client settings.
    Client,
    /// Seed of the random numbers.
    Seed,
    /// Version of goodput.
    Version,
    /// The client's machine.
    Host,
    /// Any other key of the plan.
    Plan,
}

impl About {
    /// Returns the name shown to the user.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Slo => "SLO",
            Self::Workload => "workload",
            Self::Cache => "cache state",
            Self::Measurement => "measurement",
            Self::Server => "server",
            Self::Facts => "server, by its own word",
            Self::Hardware => "hardware",
            Self::Environment => "environment",
            Self::Steps => "steps",
            Self::Client => "client",
            Self::Seed => "seed",
            Self::Version => "goodput",
            Self::Host => "client's machine",
            Self::Plan => "plan",
        }
    }

    /// Returns true if sides that differ in this did not measure the same thing and cannot be compared.
    pub(super) const fn is_unlike(self) -> bool {
        matches!(self, Self::Slo | Self::Workload | Self::Cache | Self::Measurement)
    }
}

/// A value that is not equal on all sides.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// Subject of the difference.
    pub about: About,
    /// Key of the plan, or name of the fact.
    pub key: String,
    /// Value of each side; empty if the side has none.
    pub values: Vec<String>,
    /// True if the difference makes the sides incomparable.
    pub unlike: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<&str> =
            self.values.iter().map(|v| if v.is_empty() { "–" } else { v.as_str() }).collect();
        write!(f, "{}: {}", self.key, shown.join(" → "))
    }
}

/// Returns all differences; those that make sides incomparable come first.
///
/// Sides of one run folder differ because their plan asks for it, so no such difference makes them incomparable.
/// Files are compared by name only: the same data may have another path on another machine.
pub(super) fn all(sides: &[Side]) -> Vec<Difference> {
    let one_folder = sides.iter().all(|s| s.dir == sides[0].dir);
    let known: Vec<BTreeMap<(About, String), String>> = sides.iter().map(facts).collect();
    let mut keys: Vec<&(About, String)> = known.iter().flat_map(BTreeMap::keys).collect();
    keys.sort();
    keys.dedup();
    let mut out = Vec::new();
    for key in keys {
        let values: Vec<String> = known.iter().map(|k| k.get(key).cloned().unwrap_or_default()).collect();
        if values.iter().any(|v| *v != values[0]) {
            let unlike = key.0.is_unlike() && !one_folder;
            out.push(Difference { about: key.0, key: key.1.clone(), values, unlike });
        }
    }
    out.sort_by_key(|d| (!d.unlike, d.about));
    out
}

/// Returns the error that explains why the sides are not compared.
pub(super) fn refusal(sides: &[Side], differs: &[Difference]) -> anyhow::Error {
    let labels: Vec<&str> = sides.iter().map(|s| s.label.as_str()).collect();
    let lines: Vec<String> =
        differs.iter().filter(|d| d.unlike).map(|d| format!("  {}: {d}", d.about.title())).collect();
    anyhow::anyhow!(
        "{} did not measure the same thing, so their figures cannot be compared:\n{}\nmeasure both with the same SLO and workload, or insist with --force",
        labels.join(" and "),
        lines.join("\n")
    )
}

/// Collects all values of a side that may differ.
fn facts(side: &Side) -> BTreeMap<(About, String), String> {
    let mut out = BTreeMap::new();
    let mut put = |about: About, key: &str, value: String| {
        if !value.is_empty() {
            out.insert((about, key.to_owned()), value);
        }
    };
    for (key, value) in keys(&side.plan) {
        // As without it.
        if key == CHOICES && value == "1" {
            continue;
        }
        if let Some(about) = about(&key) {
            put(about, &key, value);
        }
    }
    if let Some(slo) = side.slo()
        && let Ok(mut table) = Table::try_from(slo)
    {
        table.remove("name");
        table.remove("profile");
        let mut flat = Vec::new();
        flatten("slo", &Value::Table(table), &mut flat);
        flat.into_iter().for_each(|(key, value)| put(About::Slo, &key, value));
    }
    let meta = &side.run.meta;
    put(About::Measurement, "levels", super::side::control(side).name().to_owned());
    put(About::Measurement, "clock", if meta.virtual_time { "simulated" } else { "real" }.to_owned());
    put(About::Measurement, "measured by", measured_by(meta));
    put(About::Version, "version", meta.goodput_version.clone());
    put(About::Host, "host", meta.host.clone());
    let workers = meta.workers.len();
    put(About::Host, "workers", if workers == 0 { String::new() } else { workers.to_string() });
    put(About::Facts, "model", side.model());
    let own = meta.variants.iter().find(|v| v.name == side.series());
    let (of_server, command) = own.map_or((&meta.facts, String::new()), |v| (&v.facts, v.command.join(" ")));
    put(About::Facts, "command", command);
    for facts in of_server.iter().take(1) {
        of_facts(facts).into_iter().for_each(|(key, value)| put(About::Facts, &key, value));
    }
    out
}

/// Returns who measured: goodput, or the tool whose results were imported (`meta.imported` of `result.json`).
fn measured_by(meta: &crate::rundir::Meta) -> String {
    let meta = serde_json::to_value(meta).unwrap_or_default();
    match meta.get("imported").filter(|v| !v.is_null()) {
        None => "goodput".to_owned(),
        Some(by) => {
            format!("imported from {}", by.get("tool").and_then(|t| t.as_str()).unwrap_or("another tool"))
        }
    }
}

/// Returns every dotted key of a plan with its value.
pub(super) fn keys(plan: &goodput_plan::Plan) -> BTreeMap<String, String> {
    let mut flat = Vec::new();
    // Serialization cannot fail: the plan was itself parsed from TOML.
    if let Ok(table) = Table::try_from(plan) {
        flatten("", &Value::Table(table), &mut flat);
    }
    flat.into_iter().collect()
}

/// Returns the facts reported by a server, as names and values.
fn of_facts(facts: &Facts) -> Vec<(String, String)> {
    let text = |v: Option<String>| v.unwrap_or_default();
    let mut out = vec![
        ("version".to_owned(), text(facts.version.clone())),
        ("served model".to_owned(), text(facts.model.clone())),
        ("max model length".to_owned(), text(facts.max_model_len.map(|n| n.to_string()))),
        ("engines".to_owned(), text(facts.engines.map(|n| n.to_string()))),
    ];
    out.extend(facts.flags.iter().map(|(k, v)| (k.clone(), v.clone())));
    out
}

/// The key of the number of choices that a request asks for.
const CHOICES: &str = "server.body.n";

/// Returns the subject of a plan key; `None` for keys that do not affect the measurement or are compared elsewhere.
fn about(key: &str) -> Option<About> {
    let top = key.split('.').next().unwrap_or_default();
    Some(match top {
        "name" | "notes" | "slo" => return None,
        "workload" if key == "workload.cache" => About::Cache,
        "workload" => About::Workload,
        // It is part of what is asked of the server, and not of what it is.
        "server" if key == CHOICES => About::Workload,
        "purpose" => About::Measurement,
        "server" => About::Server,
        "hardware" | "model" => About::Hardware,
        "environment" => About::Environment,
        "step" | "search" | "profile" => About::Steps,
        "client" => About::Client,
        "seed" => About::Seed,
        _ => About::Plan,
    })
}

/// Appends every value of a table with its dotted key.
fn flatten(prefix: &str, value: &Value, into: &mut Vec<(String, String)>) {
    let key = |part: &str| if prefix.is_empty() { part.to_owned() } else { format!("{prefix}.{part}") };
    match value {
        Value::Table(table) => table.iter().for_each(|(part, value)| flatten(&key(part), value, into)),
        Value::Array(all) if all.iter().any(Value::is_table) => {
            all.iter().enumerate().for_each(|(i, value)| flatten(&key(&(i + 1).to_string()), value, into));
        }
        Value::String(text) => into.push((prefix.to_owned(), of_file(prefix, text))),
        other => into.push((prefix.to_owned(), other.to_string())),
    }
}

/// Reduces a file path to the file name; returns other values unchanged.
fn of_file(key: &str, text: &str) -> String {
    let is_file =
        key.starts_with("workload.") && matches!(key.rsplit('.').next(), Some("file" | "files" | "path"));
    match text.rsplit_once('/') {
        Some((_, name)) if is_file => name.to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_flattened_and_files_known_by_name() {
        let table: Table = toml::from_str(
            "seed = 3\n[workload.prompts.jsonl]\nfile = \"/data/a.jsonl\"\n[[variant]]\nname = \"x\"\n[server]\nurl = \"http://a/b\"",
        )
        .unwrap();
        let mut flat = Vec::new();
        flatten("", &Value::Table(table), &mut flat);
        let has = |key: &str, value: &str| flat.iter().any(|(k, v)| k == key && v == value);
        assert!(has("seed", "3") && has("workload.prompts.jsonl.file", "a.jsonl"), "{flat:?}");
        assert!(has("variant.1.name", "x") && has("server.url", "http://a/b"));
    }

    #[test]
    fn what_is_measured_makes_unlike_and_what_is_compared_does_not() {
        for (key, unlike) in [
            ("workload.cache", Some(true)),
            ("workload.arrivals", Some(true)),
            ("purpose", Some(true)),
            ("server.url", Some(false)),
            ("server.body.n", Some(true)),
            ("server.body.temperature", Some(false)),
            ("hardware.gpu", Some(false)),
            ("search.rates", Some(false)),
            ("seed", Some(false)),
            ("name", None),
        ] {
            assert_eq!(about(key).map(About::is_unlike), unlike, "{key}");
        }
    }
}
