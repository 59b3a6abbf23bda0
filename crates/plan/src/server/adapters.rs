//! LoRA adapters that a sweep loads into the server.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// LoRA adapters to load before the first request and to unload after the last: their names, and their paths on the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Adapters(BTreeMap<String, String>);

impl Adapters {
    /// Returns names and paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, path)| (name.as_str(), path.as_str()))
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Adapters {
    type Error = String;
    fn try_from(all: BTreeMap<String, String>) -> Result<Self, String> {
        match all.iter().find(|(name, path)| name.trim().is_empty() || path.trim().is_empty()) {
            Some((name, _)) => Err(format!(
                "an adapter has a name and a path, and one of them is empty ({name:?}): write sql = \"/loras/sql\""
            )),
            None => Ok(Self(all)),
        }
    }
}

impl From<Adapters> for BTreeMap<String, String> {
    fn from(adapters: Adapters) -> Self {
        adapters.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_have_names_and_paths() {
        let parse = |text: &str| toml::from_str::<Adapters>(text).map_err(|e| e.message().to_owned());
        let adapters = parse("sql = \"/loras/sql\"\n\"org/chat\" = \"hub\"").unwrap();
        assert_eq!(adapters.iter().collect::<Vec<_>>(), [("org/chat", "hub"), ("sql", "/loras/sql")]);
        for text in ["sql = \"\"", "\"\" = \"/x\"", "sql = \" \""] {
            assert!(parse(text).unwrap_err().contains("one of them is empty"), "{text}");
        }
    }
}
