//! `--set key=value`: overrides of a plan, applied before it is parsed.

use super::parser_message::reworded;
use anyhow::{Context, Result, anyhow, bail};
use goodput_core::secrets::masked;
use toml::{Table, Value};

/// Sources of prompts.
const PROMPTS: &[&str] =
    &["synthetic", "sharegpt", "jsonl", "csv", "aiperf", "spec-bench", "text", "items", "audio"];
/// Distributions of lengths and of the number of turns.
const LENGTHS: &[&str] = &["fixed", "uniform", "normal", "lognormal", "quantiles"];
/// Distributions of think time.
const THINK: &[&str] = &["fixed", "exponential", "recorded"];

/// Mutually exclusive keys: setting one removes the others. A table is named by the last part of its path.
const ONE_OF: &[(&str, &[&str])] = &[
    ("server", &["url", "urls", "simulated"]),
    ("server", &["api-key-env", "api-key-file"]),
    ("server", &["metrics-url", "metrics-urls"]),
    ("search", &["adaptive", "rates", "ramp", "concurrency", "ladder", "burst"]),
    ("workload", &["prompts", "trace", "class"]),
    ("prompts", PROMPTS),
    ("input-tokens", LENGTHS),
    ("output-tokens", LENGTHS),
    ("turns", LENGTHS),
    ("think", THINK),
];

/// Applies one `key=value` override. The key is written as in TOML (`step.measure`, `slo.e2e."p99.9"`), the value as in TOML or as plain text.
/// It replaces the old value, also if that is a table.
///
/// # Errors
/// The text is not `key=value`, or part of the path is not a table. The message names the key, never the value, which may be a secret.
pub fn apply(plan: &mut Table, text: &str) -> Result<()> {
    let (key, value) = text.split_once('=').with_context(|| {
        // Whatever follows the first word may be a value, so the message leaves it out.
        let key = text.split([' ', ':']).next().unwrap_or_default();
        format!("--set {}: write key=value, such as --set step.measure=30s", masked(key))
    })?;
    let of_key = || format!("--set {}", masked(key.trim()));
    let path = path(key).with_context(of_key)?;
    let value = toml::from_str::<Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut t| t.remove("value"))
        .unwrap_or_else(|| Value::String(value.trim().into()));
    insert(plan, &path, value).with_context(of_key)
}

/// Sets the value of a dotted key, as [`apply`] does.
///
/// # Errors
/// The key does not parse, or part of the path is not a table.
pub(super) fn insert_at(plan: &mut Table, key: &str, value: Value) -> Result<()> {
    insert(plan, &path(key)?, value)
}

/// Returns true if a key of a variant's overrides, however it is written, is this dotted path.
pub(super) fn is_at(key: &str, dotted: &str) -> bool {
    path(key).is_ok_and(|parts| parts.join(".") == dotted)
}

/// Splits a dotted key into its parts, without quotes.
pub(super) fn path(key: &str) -> Result<Vec<String>> {
    let parsed = toml::from_str::<Table>(&format!("{key} = 0"));
    let mut table =
        parsed.map_err(|e| anyhow!("{:?} is not a key: {}", masked(key.trim()), reworded(e.message())))?;
    let mut path = Vec::new();
    while let Some((part, value)) = std::mem::take(&mut table).into_iter().next() {
        path.push(part);
        if let Value::Table(below) = value {
            table = below;
        }
    }
    Ok(path)
}

fn insert(plan: &mut Table, path: &[String], value: Value) -> Result<()> {
    let (last, parents) = path.split_last().context("the key is empty")?;
    let (mut table, mut name) = (plan, "");
    for part in parents {
        remove_siblings(table, name, part);
        table = match table.entry(part.clone()).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(below) => below,
            Value::Array(_) => {
                bail!(
                    "{part} is a list in this plan, and --set cannot change an entry of a list: edit the plan"
                )
            }
            _ => bail!("{part} is not a table in this plan: set it as a whole"),
        };
        name = part;
    }
    remove_siblings(table, name, last);
    table.insert(last.clone(), value);
    Ok(())
}

/// Removes the alternatives of `key` from the table called `name`.
fn remove_siblings(table: &mut Table, name: &str, key: &str) {
    for (_, alternatives) in ONE_OF.iter().filter(|(table, keys)| *table == name && keys.contains(&key)) {
        table.retain(|k, _| k == key || !alternatives.contains(&k));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(plan: &str, text: &str) -> Result<String> {
        let mut table: Table = toml::from_str(plan)?;
        apply(&mut table, text)?;
        Ok(table.to_string())
    }

    #[test]
    fn values_are_toml_or_plain_text() {
        assert_eq!(set("", "seed=7").unwrap(), "seed = 7\n");
        assert_eq!(set("", "step.measure=30s").unwrap(), "[step]\nmeasure = \"30s\"\n");
        assert_eq!(set("", "search.rates=[1, 2]").unwrap(), "[search]\nrates = [1, 2]\n");
        assert!(set("", "slo.e2e.\"p99.9\"=8s").unwrap().contains("\"p99.9\" = \"8s\""));
        assert!(set("", "notes=it's = \"quoted\"").unwrap().contains("quoted"));
    }

    #[test]
    fn setting_a_key_removes_its_alternatives() {
        let plan = "server.simulated.preset = \"md1\"\nserver.model = \"m\"\nsearch.rates = [1]";
        let out = set(plan, "server.url=http://127.0.0.1:1").unwrap();
        assert!(!out.contains("simulated") && out.contains("model"), "{out}");
        assert!(!set(plan, "search.concurrency=[4]").unwrap().contains("rates"));
        let lengths = "workload.prompts.synthetic.input-tokens.fixed = 3";
        let out = set(lengths, "workload.prompts.synthetic.input-tokens.uniform={min=1,max=2}").unwrap();
        assert!(!out.contains("fixed"), "{out}");
        let out = set(lengths, "workload.prompts.jsonl.file=rows.jsonl").unwrap();
        assert!(out.contains("jsonl") && !out.contains("synthetic"), "{out}");
        for other in ["workload.prompts.audio.file=recordings", "workload.prompts.items.input-tokens.fixed=9"]
        {
            let out = set(lengths, other).unwrap();
            assert!(out.contains("prompts") && !out.contains("synthetic"), "{out}");
        }
        let talk = "workload.conversation = { turns.fixed = 3, think.exponential = \"3s\" }";
        let out = set(talk, "workload.conversation.think.fixed=2s").unwrap();
        assert!(out.contains("2s") && !out.contains("exponential"), "{out}");
        let out = set(talk, "workload.conversation.turns.uniform={min=1,max=4}").unwrap();
        assert!(
            out.contains("uniform") && out.contains("exponential") && !out.contains("turns.fixed = 3"),
            "{out}"
        );
    }

    #[test]
    fn a_table_replaces_the_old_table() {
        let out = set("slo.ttft.p99 = \"50ms\"", "slo={profile=\"batch\"}").unwrap();
        assert!(out.contains("batch") && !out.contains("ttft"), "{out}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, part) in
            [("seed", "write key=value"), ("slo.name=x", "is a list"), ("a b=1", "is not a key")]
        {
            let e = format!("{:#}", set("[[slo]]\nname = \"a\"", text).unwrap_err());
            assert!(e.contains(part), "{text}: {e}");
        }
    }

    #[test]
    fn errors_quote_no_value() {
        for text in [
            "server api-key=hunter2",
            "name.x=hunter2",
            "slo.name=hunter2",
            "server.api-key: hunter2",
            "server.api-key hunter2",
            "--api-key hunter2=1",
            "url http://me:hunter2@h/?a=1",
        ] {
            let e = format!("{:#}", set("name = \"a\"\n[[slo]]\nname = \"a\"", text).unwrap_err());
            assert!(!e.contains("hunter2") && e.contains("--set "), "{text}: {e}");
        }
    }
}
