//! The plan's `[workload.prompts]` table.

use super::audio::Audio;
use super::data::config::{DataSource, Format, OutputFrom, RawTable, Turns};
use super::data::text::TextTable;
use super::items::Items;
use super::synthetic::Synthetic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A source of prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawPrompts", into = "RawPrompts")]
pub enum Prompts {
    /// Generated prompts.
    Synthetic(Synthetic),
    /// Rows of a data set.
    Data(Box<DataSource>),
    /// Excerpts of a plain text.
    Text(TextTable),
    /// Generated texts of requests that are answered item by item.
    Items(Items),
    /// Audio to transcribe.
    Audio(Audio),
}

/// The `[workload.prompts]` table as written.
// A mirror of `Prompts`: the name of a data set's table is its format, and all formats are one variant of `Prompts`.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum RawPrompts {
    /// Generated prompts of given lengths.
    Synthetic(Synthetic),
    /// ShareGPT: an array, or lines, of `{ id, conversations: [{ from, value }] }`.
    Sharegpt(RawTable),
    /// Lines, or an array, of JSON objects; the plan names their fields.
    Jsonl(RawTable),
    /// Comma-separated values with a header.
    Csv(RawTable),
    /// AIPerf's `single_turn`, `multi_turn` and `random_pool`.
    Aiperf(RawTable),
    /// Spec-Bench: lines of `{ question_id, category, turns }`.
    SpecBench(RawTable),
    /// Excerpts of a plain text.
    Text(TextTable),
    /// Generated texts for an API that answers items: embeddings, rerank, score, pooling, classify.
    Items(Items),
    /// Audio for the API that transcribes it, generated or from files.
    Audio(Audio),
}

impl TryFrom<RawPrompts> for Prompts {
    type Error = String;
    fn try_from(r: RawPrompts) -> Result<Self, String> {
        let data = |table, format: fn(&mut RawTable) -> Format| {
            DataSource::from_table(table, format).map(|source| Self::Data(Box::new(source)))
        };
        match r {
            RawPrompts::Synthetic(s) => Ok(Self::Synthetic(s)),
            RawPrompts::Text(t) => Ok(Self::Text(t)),
            RawPrompts::Items(items) => Ok(Self::Items(items)),
            RawPrompts::Audio(audio) => Ok(Self::Audio(audio)),
            RawPrompts::Sharegpt(table) => data(table, |_| Format::ShareGpt),
            RawPrompts::Jsonl(table) => data(table, |t| Format::Jsonl(t.fields.take().unwrap_or_default())),
            RawPrompts::Csv(table) => data(table, |t| {
                Format::Csv(t.fields.take().unwrap_or_default(), t.delimiter.take().unwrap_or_default())
            }),
            RawPrompts::Aiperf(table) => data(table, |_| Format::Aiperf),
            RawPrompts::SpecBench(table) => data(table, |_| Format::SpecBench),
        }
    }
}

impl From<Prompts> for RawPrompts {
    fn from(p: Prompts) -> Self {
        let source = match p {
            Prompts::Synthetic(s) => return Self::Synthetic(s),
            Prompts::Text(t) => return Self::Text(t),
            Prompts::Items(items) => return Self::Items(items),
            Prompts::Audio(audio) => return Self::Audio(audio),
            Prompts::Data(source) => source,
        };
        let variant = match source.format {
            Format::ShareGpt => Self::Sharegpt,
            Format::Jsonl(_) => Self::Jsonl,
            Format::Csv(..) => Self::Csv,
            Format::Aiperf => Self::Aiperf,
            Format::SpecBench => Self::SpecBench,
        };
        variant((*source).into())
    }
}

impl Prompts {
    /// Returns the longest answer that the plan asks for, if it sets lengths.
    pub fn longest_output(&self) -> Option<u32> {
        match self {
            Self::Synthetic(s) => Some(s.output_tokens.longest()),
            Self::Text(t) => Some(t.output_tokens.longest()),
            Self::Data(d) if d.output_from == Some(OutputFrom::Plan) => d.output_tokens.map(|t| t.longest()),
            Self::Data(_) | Self::Items(_) | Self::Audio(_) => None,
        }
    }

    /// Returns true if a row may be a conversation of several turns.
    pub(crate) fn may_have_turns(&self) -> bool {
        matches!(self, Self::Data(d) if d.turns == Turns::All)
    }
}

impl fmt::Display for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic(s) => s.fmt(f),
            Self::Items(items) => items.fmt(f),
            Self::Audio(audio) => audio.fmt(f),
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
