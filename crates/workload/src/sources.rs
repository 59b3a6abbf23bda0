//! The plan's `[workload.prompts]` table.

use super::data::config::{
    AiperfTable, CsvTable, DataSource, Format, JsonlTable, OutputFrom, ShareGptTable, SpecBenchTable, Turns,
};
use super::data::text::TextTable;
use super::synthetic::Synthetic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A source of prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "RawPrompts", into = "RawPrompts")]
pub enum Prompts {
    /// Generated prompts.
    Synthetic(Synthetic),
    /// Rows of a data set.
    Data(Box<DataSource>),
    /// Excerpts of a plain text.
    Text(TextTable),
}

#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum RawPrompts {
    /// Generated prompts of given lengths.
    Synthetic(Synthetic),
    /// ShareGPT: an array, or lines, of `{ id, conversations: [{ from, value }] }`.
    Sharegpt(ShareGptTable),
    /// Lines, or an array, of JSON objects; the plan names their fields.
    Jsonl(JsonlTable),
    /// Comma-separated values with a header.
    Csv(CsvTable),
    /// AIPerf's `single_turn`, `multi_turn` and `random_pool`.
    Aiperf(AiperfTable),
    /// Spec-Bench: lines of `{ question_id, category, turns }`.
    SpecBench(SpecBenchTable),
    /// Excerpts of a plain text.
    Text(TextTable),
}

impl From<RawPrompts> for Prompts {
    fn from(r: RawPrompts) -> Self {
        match r {
            RawPrompts::Synthetic(s) => Self::Synthetic(s),
            RawPrompts::Sharegpt(ShareGptTable(d))
            | RawPrompts::Jsonl(JsonlTable(d))
            | RawPrompts::Csv(CsvTable(d))
            | RawPrompts::Aiperf(AiperfTable(d))
            | RawPrompts::SpecBench(SpecBenchTable(d)) => Self::Data(Box::new(d)),
            RawPrompts::Text(t) => Self::Text(t),
        }
    }
}

impl From<Prompts> for RawPrompts {
    fn from(p: Prompts) -> Self {
        match p {
            Prompts::Synthetic(s) => Self::Synthetic(s),
            Prompts::Text(t) => Self::Text(t),
            Prompts::Data(d) => match d.format {
                Format::ShareGpt => Self::Sharegpt(ShareGptTable(*d)),
                Format::Jsonl(_) => Self::Jsonl(JsonlTable(*d)),
                Format::Csv(..) => Self::Csv(CsvTable(*d)),
                Format::Aiperf => Self::Aiperf(AiperfTable(*d)),
                Format::SpecBench => Self::SpecBench(SpecBenchTable(*d)),
            },
        }
    }
}

impl Prompts {
    /// Returns the longest answer that the plan asks for, if it sets lengths.
    pub fn longest_output(&self) -> Option<u32> {
        match self {
            Self::Synthetic(s) => Some(s.output_tokens.longest()),
            Self::Text(t) => Some(t.output_tokens.longest()),
            Self::Data(d) if d.output_from == Some(OutputFrom::Plan) => d.output_tokens.map(|t| t.longest()),
            Self::Data(_) => None,
        }
    }

    /// Returns true if a row may be a conversation of several turns.
    pub fn may_have_turns(&self) -> bool {
        matches!(self, Self::Data(d) if d.turns == Turns::All)
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
            Self::Data(d) => {
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
