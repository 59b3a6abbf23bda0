//! Summary of a data set, for reports.

use goodput_core::distribution::Distribution;
use serde::Serialize;
use std::path::PathBuf;

/// A row that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[error("{}{}: {}{reason}", .file.display(), self.position(), self.prefix())]
pub struct BadRow {
    /// Path of the file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// Byte in the line, from 1, for syntax errors.
    pub column: Option<u64>,
    /// Index in a JSON array, from 1.
    pub element: Option<u64>,
    /// Field with an invalid value.
    pub field: Option<String>,
    /// The problem, to be read after the field's name.
    pub reason: String,
}

impl BadRow {
    fn position(&self) -> String {
        let element = self.element.map(|n| format!(", element {n}")).unwrap_or_default();
        let column = self.column.map(|n| format!(", column {n}")).unwrap_or_default();
        format!("{element}, line {}{column}", self.line)
    }

    fn prefix(&self) -> String {
        self.field.as_ref().map(|f| format!("`{f}` ")).unwrap_or_default()
    }
}

/// Summary of a data set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Number of rows in the files.
    pub rows: u64,
    /// Number of rows that cannot be read.
    pub bad: u64,
    /// The first few bad rows.
    pub bad_rows: Vec<BadRow>,
    /// Number of valid rows with nothing to send, such as conversations without a question and an answer.
    pub nothing: u64,
    /// Number of conversations (of one row or several) outside the length limits.
    pub filtered: u64,
    /// Number of prompts or conversations that can be sent.
    pub samples: u64,
    /// Number of turns of all samples: the requests of one round.
    pub turns: u64,
    /// Number of turns of the longest conversation.
    pub turns_max: u64,
    /// True if tokens were counted with a tokenizer, false if estimated from characters.
    pub exact: bool,
    /// Input tokens of a request, including the recorded conversation before it.
    pub input: Distribution,
    /// Output tokens of turns whose length the data has.
    pub output: Distribution,
    /// Number of turns with the plan's answer length.
    pub output_from_plan: u64,
    /// File and line of the longest prompt.
    pub longest: Option<(PathBuf, u64)>,
}

impl Summary {
    /// Returns the mean number of turns of a conversation.
    pub(crate) fn turns_mean(&self) -> f64 {
        self.turns as f64 / self.samples.max(1) as f64
    }
}
