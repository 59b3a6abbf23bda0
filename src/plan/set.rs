//! `--set key=value`: changes to a plan before it is read.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// Tables of which only one key may stand: setting one removes the others. Named by the end of their path.
const ONE_OF: &[(&str, &[&str])] = &[
    ("server", &["url", "urls", "simulated"]),
    ("server", &["api-key-env", "api-key-file"]),
    ("search", &["adaptive", "rates", "ramp", "concurrency"]),
    ("workload", &["prompts", "trace", "class"]),
    ("input-tokens", &["fixed", "uniform", "normal", "lognormal"]),
    ("output-tokens", &["fixed", "uniform", "normal", "lognormal"]),
];

/// Applies one `key=value`, the key written as in TOML (`step.measure`, `slo.e2e."p99.9"`), the value as in TOML or as plain
/// text. Fails where the text is no `key=value` or the plan has something else than a table on the way.
pub fn apply(plan: &mut Table, text: &str) -> Result<()> {
    let (key, value) = text
        .split_once('=')
        .with_context(|| format!("--set {text}: write key=value, such as --set step.measure=30s"))?;
    let parsed = toml::from_str::<Table>(&format!("{key} = {value}"))
        .or_else(|_| toml::from_str::<Table>(&format!("{key} = {}", Value::String(value.trim().into()))))
        .map_err(|e| anyhow::anyhow!("--set {text}: {}", e.message()))?;
    merge(plan, parsed, "").with_context(|| format!("--set {text}"))
}

fn merge(into: &mut Table, from: Table, path: &str) -> Result<()> {
    for (key, value) in from {
        let here = path.rsplit('.').next().unwrap_or_default();
        for (table, alternatives) in ONE_OF {
            if *table == here && alternatives.contains(&key.as_str()) {
                into.retain(|k, _| k == key || !alternatives.contains(&k));
            }
        }
        let below = format!("{path}.{key}");
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new, &below)?,
            (Some(Value::Array(_)), Value::Table(_)) => {
                bail!("{} is a list in this plan; one of its entries cannot be set from here", below.trim_start_matches('.'))
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
    Ok(())
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
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [("seed", "write key=value"), ("slo.name=x", "is a list"), ("a b=1", "--set a b=1")] {
            let e = format!("{:#}", set("[[slo]]\nname = \"a\"", text).unwrap_err());
            assert!(e.contains(part), "{text}: {e}");
        }
    }
}
