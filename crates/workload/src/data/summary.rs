//! What a data set holds, for reports.

use goodput_core::distribution::Distribution;
use serde::Serialize;
use std::path::PathBuf;

/// Bad rows that are kept to be shown; all are counted.
pub(super) const SHOWN: usize = 5;

/// A row that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[error("{}{}: {}{reason}", .file.display(), self.place(), self.prefix())]
pub struct BadRow {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// Byte in the line, from 1; of mistakes in the syntax.
    pub column: Option<u64>,
    /// Its number in a JSON array, from 1.
    pub element: Option<u64>,
    /// The field; of mistakes in what a row says.
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
}

impl BadRow {
    fn place(&self) -> String {
        let element = self.element.map(|n| format!(", element {n}")).unwrap_or_default();
        let column = self.column.map(|n| format!(", column {n}")).unwrap_or_default();
        format!("{element}, line {}{column}", self.line)
    }

    fn prefix(&self) -> String {
        self.field.as_ref().map(|f| format!("`{f}` ")).unwrap_or_default()
    }
}

/// What a data set holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Rows in the files.
    pub rows: u64,
    /// Rows that cannot be read.
    pub bad: u64,
    /// The first of them.
    pub bad_rows: Vec<BadRow>,
    /// Sound rows without anything to send: conversations without a question and an answer.
    pub nothing: u64,
    /// Conversations (of one row or several) left out for their length.
    pub filtered: u64,
    /// Samples: prompts or conversations that can be sent.
    pub samples: u64,
    /// Turns of all samples: requests of one round.
    pub turns: u64,
    /// Turns of the longest conversation.
    pub turns_max: u64,
    /// Whether tokens were counted with a tokenizer; else they are estimated from characters.
    pub exact: bool,
    /// Input tokens of a request, the recorded conversation before it included.
    pub input: Distribution,
    /// Output tokens, of the turns whose length the data gives.
    pub output: Distribution,
    /// Turns whose length is the plan's.
    pub output_from_plan: u64,
    /// File and line of the longest prompt.
    pub longest: Option<(PathBuf, u64)>,
}

impl Summary {
    /// Turns of a conversation on average.
    pub fn turns_mean(&self) -> f64 {
        self.turns as f64 / self.samples.max(1) as f64
    }
}
