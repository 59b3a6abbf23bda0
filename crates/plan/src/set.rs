//! `--set key=value`: changes to a plan before it is read.

use anyhow::{Context, Result, anyhow, bail};
use goodput_core::secrets::masked;
use toml::{Table, Value};

/// Where prompts come from.
const PROMPTS: &[&str] = &["synthetic", "sharegpt", "jsonl", "csv", "aiperf", "spec-bench", "text"];
/// How long they are, and how many turns there are.
const LENGTHS: &[&str] = &["fixed", "uniform", "normal", "lognormal", "quantiles"];
/// How long users think.
const THINK: &[&str] = &["fixed", "exponential", "recorded"];

/// Tables of which only one key may stand: setting one removes the others. Named by the end of their path.
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

/// Applies one `key=value`, the key written as in TOML (`step.measure`, `slo.e2e."p99.9"`), the value as in TOML or as plain
/// text. The value takes the place of what was there, whole; of tables on the way the other keys stay.
///
/// Fails where the text is no `key=value`, or the plan has something else than a table on the way; the message names the key, never the
/// value, which may be a secret.
pub fn apply(plan: &mut Table, text: &str) -> Result<()> {
    let (key, value) = text.split_once('=').with_context(|| {
        // Without a sign what stands behind the key is a value.
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

/// Puts a value in the place of a dotted key, as [`apply`] does.
///
/// Fails likewise.
pub(super) fn insert_at(plan: &mut Table, key: &str, value: Value) -> Result<()> {
    insert(plan, &path(key)?, value)
}

/// The parts of a dotted key, unquoted.
pub(super) fn path(key: &str) -> Result<Vec<String>> {
    let parsed = toml::from_str::<Table>(&format!("{key} = 0"));
    let mut table = parsed.map_err(|e| anyhow!("{:?} is no key: {}", masked(key.trim()), e.message()))?;
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
    let (last, way) = path.split_last().context("the key is empty")?;
    let (mut table, mut here) = (plan, "");
    for part in way {
        remove_siblings(table, here, part);
        table = match table.entry(part.clone()).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(below) => below,
            Value::Array(_) => {
                bail!("{part} is a list in this plan; one of its entries cannot be set from here")
            }
            _ => bail!("{part} is no table in this plan: set it as a whole"),
        };
        here = part;
    }
    remove_siblings(table, here, last);
    table.insert(last.clone(), value);
    Ok(())
}

/// Removes what may not stand beside `key` in the table named `here`.
fn remove_siblings(table: &mut Table, here: &str, key: &str) {
    for (_, alternatives) in ONE_OF.iter().filter(|(name, keys)| *name == here && keys.contains(&key)) {
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
    fn choosing_an_alternative_removes_its_siblings() {
        let plan = "server.simulated.preset = \"md1\"\nserver.model = \"m\"\nsearch.rates = [1]";
        let out = set(plan, "server.url=http://127.0.0.1:1").unwrap();
        assert!(!out.contains("simulated") && out.contains("model"), "{out}");
        assert!(!set(plan, "search.concurrency=[4]").unwrap().contains("rates"));
        let lengths = "workload.prompts.synthetic.input-tokens.fixed = 3";
        let out = set(lengths, "workload.prompts.synthetic.input-tokens.uniform={min=1,max=2}").unwrap();
        assert!(!out.contains("fixed"), "{out}");
        let out = set(lengths, "workload.prompts.jsonl.file=rows.jsonl").unwrap();
        assert!(out.contains("jsonl") && !out.contains("synthetic"), "{out}");
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
    fn a_table_replaces_what_was_there() {
        let out = set("slo.ttft.p99 = \"50ms\"", "slo={profile=\"batch\"}").unwrap();
        assert!(out.contains("batch") && !out.contains("ttft"), "{out}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [("seed", "write key=value"), ("slo.name=x", "is a list"), ("a b=1", "is no key")]
        {
            let e = format!("{:#}", set("[[slo]]\nname = \"a\"", text).unwrap_err());
            assert!(e.contains(part), "{text}: {e}");
        }
    }

    #[test]
    fn mistakes_quote_no_value() {
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
