//! The plan's `[environment]`: free-form facts about the server that no API reports.

use goodput_core::secrets::masked;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Free-form facts (driver, precision, command line), by key. Copied into the report, with secrets masked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Table", into = "BTreeMap<String, String>")]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Iterates over keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Returns true if there are no facts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<toml::Table> for Environment {
    type Error = String;
    fn try_from(table: toml::Table) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (key, value) in &table {
            // A key is refused if its value would be masked as the option of a command.
            if masked(&format!("--{key}=some-value")).ends_with("=***") {
                return Err(format!(
                    "[environment] {key} may hold a secret, which would be written into the run folder and the report: leave it out"
                ));
            }
            let text = as_text(value).ok_or_else(|| {
                format!("[environment] {key}: write a string, a number, true or false, or a list of these (a command line)")
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

/// Formats a value as text, a list as a command line. `None` for tables and dates.
fn as_text(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(s) => s.clone(),
        toml::Value::Integer(i) => i.to_string(),
        toml::Value::Float(x) => x.to_string(),
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Array(all) => {
            let words: Option<Vec<String>> = all.iter().map(as_text).collect();
            words?.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
        }
        toml::Value::Table(_) | toml::Value::Datetime(_) => return None,
    })
}

/// Quotes a word of a command line if it has white space.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_with_secrets_masked() {
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
        assert_eq!(again, all, "masking twice changes nothing");
        for (text, message) in [("api-key = \"hunter2\"", "a secret"), ("x = { y = 1 }", "write a string")] {
            let error = toml::from_str::<Environment>(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
