//! `[[variant]]`: the same sweep on another server, or with other settings.

use super::MAIN;
use super::start::{Start, server_table};
use goodput_core::endpoint::BaseUrl;
use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

server_table! {
    /// One variant of a plan. It is a series of the same name, on its own server.
    #[derive(Default)]
    pub struct Variant {
        /// Name of the variant, in reports and as the file name of its log.
        pub name: String,
        /// URL of the server, if it differs from `[server]`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub url: Option<BaseUrl>,
        /// Command that starts the server, one list item per word; goodput waits until the server is ready, measures it and stops it. `${NAME}` is replaced from the environment and never written to files.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) command: Option<Vec<String>>,
    }
    "Variant" {
        /// Overrides of the plan for this variant, with keys as in `--set`, quoted (`"server.model" = "…"`), or as tables.
        #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        pub set: toml::Table,
        /// Knobs and their values, for a point of the grid; else empty.
        #[serde(skip)]
        pub knobs: Vec<(String, String)>,
    }
}

/// Returns the problem with the name of a variant, which is also a file name.
pub(super) fn name_problem(name: &str) -> Option<String> {
    let odd = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
    if name.trim().is_empty() || name == MAIN {
        return Some(format!("a variant needs a name, other than \"{MAIN}\""));
    }
    if name.trim() != name || name.starts_with(['.', '-']) || name.len() > 100 || name.contains(odd) {
        return Some(
            "the name is also a file name: use at most 100 bytes, none of / \\ : * ? \" < > |, no blank at either end and no dot or dash at the start"
                .into(),
        );
    }
    None
}

impl Variant {
    /// Makes a variant that overrides keys of the plan, on a server that it does not start.
    pub fn new(name: String, set: toml::Table) -> Self {
        Self { name, set, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        let problem = name_problem(&self.name).map_or_else(|| self.check_start(), Err);
        problem.map_err(|problem| format!("[[variant]] {}: {problem}", self.name))
    }

    /// Returns the name in messages.
    pub(super) fn title(&self) -> String {
        if self.knobs.is_empty() {
            format!("[[variant]] {}", self.name)
        } else {
            format!("[grid] at {}", self.name)
        }
    }

    /// Returns a text that occurs in the line of the plan where the variant begins.
    pub(super) fn marker(&self) -> String {
        if self.knobs.is_empty() { format!("\"{}\"", self.name) } else { "[grid".to_owned() }
    }
}

#[cfg(test)]
#[path = "variant_tests.rs"]
mod tests;
