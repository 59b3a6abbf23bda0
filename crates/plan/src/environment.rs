//! The plan's `[environment]`: what the server is and runs on, in free words, as far as no endpoint tells it.

use goodput_core::secrets::masked;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Free keys and what they say: driver, precision, command, notes. Carried into the report; without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Table", into = "BTreeMap<String, String>")]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Keys and what they say, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<toml::Table> for Environment {
    type Error = String;
    fn try_from(table: toml::Table) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (key, value) in &table {
            // As the option of a command its value would be masked, so it is no place for it.
            if masked(&format!("--{key}=some-value")).ends_with("=***") {
                return Err(format!(
                    "[environment] {key} would write a secret into the plan and the report: leave it out"
                ));
            }
            let text = said(value).ok_or_else(|| {
                format!("[environment] {key}: write a text, a number, true or false, or a list of these (a command's words)")
            })?;
            all.insert(key.clone(), masked(&text));
        }
        Ok(Self(all))
    }
}

impl From<Environment> for BTreeMap<String, String> {
    fn from(e: Environment) -> Self {
        e.0
    }
}

/// A value in words; a list is a command line. `None` for tables and dates.
fn said(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(s) => s.clone(),
        toml::Value::Integer(i) => i.to_string(),
        toml::Value::Float(x) => x.to_string(),
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Array(all) => {
            let words: Option<Vec<String>> = all.iter().map(said).collect();
            words?.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
        }
        toml::Value::Table(_) | toml::Value::Datetime(_) => return None,
    })
}

/// A word of a command line: in quotes where it has white space.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_keys_without_secrets() {
        let all: Environment = toml::from_str(
            "driver = \"560.35\"\ntp = 4\nchunked = true\ncommand = [\"vllm\", \"serve\", \"my model\", \"--api-key\", \"hunter2\"]\n\
             notes = \"started with --api-key=hunter2\"\nlooked = \"curl http://h/?a=1&token=hunter2\"",
        )
        .unwrap();
        let shown: Vec<String> = all.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        assert_eq!(
            shown,
            [
                "chunked: true",
                "command: vllm serve 'my model' --api-key ***",
                "driver: 560.35",
                "looked: curl http://h/?a=1&token=***",
                "notes: started with --api-key=***",
                "tp: 4"
            ]
        );
        let again: Environment = toml::from_str(&toml::to_string(&all).unwrap()).unwrap();
        assert_eq!(again, all, "a masked command stays as it is");
        for (text, says) in [("api-key = \"hunter2\"", "a secret"), ("x = { y = 1 }", "write a text")] {
            let error = toml::from_str::<Environment>(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
