//! The plan's `[workload.prompts]` table.

use super::data::config::{self, DataSource, OutputFrom, RawTable, Turns};
use super::data::text::TextTable;
use super::synthetic::Synthetic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A source of prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Prompts {
    /// Generated prompts of given lengths.
    Synthetic(Synthetic),
    /// ShareGPT: an array, or lines, of `{ id, conversations: [{ from, value }] }`.
    #[serde(deserialize_with = "config::sharegpt")]
    #[schemars(with = "RawTable")]
    Sharegpt(Box<DataSource>),
    /// Lines, or an array, of JSON objects; the plan names their fields.
    #[serde(deserialize_with = "config::jsonl")]
    #[schemars(with = "RawTable")]
    Jsonl(Box<DataSource>),
    /// Comma-separated values with a header.
    #[serde(deserialize_with = "config::csv")]
    #[schemars(with = "RawTable")]
    Csv(Box<DataSource>),
    /// AIPerf's `single_turn`, `multi_turn` and `random_pool`.
    #[serde(deserialize_with = "config::aiperf")]
    #[schemars(with = "RawTable")]
    Aiperf(Box<DataSource>),
    /// Spec-Bench: lines of `{ question_id, category, turns }`.
    #[serde(deserialize_with = "config::spec_bench")]
    #[schemars(with = "RawTable")]
    SpecBench(Box<DataSource>),
    /// Excerpts of a plain text.
    Text(TextTable),
}

impl Prompts {
    /// Returns the data set; `None` if the prompts are generated, or excerpts of a text.
    pub fn data(&self) -> Option<&DataSource> {
        match self {
            Self::Sharegpt(d) | Self::Jsonl(d) | Self::Csv(d) | Self::Aiperf(d) | Self::SpecBench(d) => {
                Some(d)
            }
            Self::Synthetic(_) | Self::Text(_) => None,
        }
    }

    /// Returns the longest answer that the plan asks for, if it sets lengths.
    pub fn longest_output(&self) -> Option<u32> {
        match self {
            Self::Synthetic(s) => Some(s.output_tokens.longest()),
            Self::Text(t) => Some(t.output_tokens.longest()),
            Self::Sharegpt(d) | Self::Jsonl(d) | Self::Csv(d) | Self::Aiperf(d) | Self::SpecBench(d) => {
                d.output_tokens.filter(|_| d.output_from == Some(OutputFrom::Plan)).map(|t| t.longest())
            }
        }
    }

    /// Returns true if a row may be a conversation of several turns.
    pub fn may_have_turns(&self) -> bool {
        self.data().is_some_and(|d| d.turns == Turns::All)
    }
}

impl fmt::Display for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic(s) => s.fmt(f),
            Self::Text(t) => {
                let file = name(&t.file);
                write!(f, "{} in / {} out tokens, text of {file}", t.input_tokens, t.output_tokens)
            }
            Self::Sharegpt(d) | Self::Jsonl(d) | Self::Csv(d) | Self::Aiperf(d) | Self::SpecBench(d) => {
                let files: Vec<String> = d.files.iter().map(|f| name(f)).collect();
                write!(f, "{} ({})", files.join(", "), d.format)
            }
        }
    }
}

/// Returns the name of a file without its directory.
pub(super) fn name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}
