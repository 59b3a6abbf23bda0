//! The remarks of a comparison in English.

use crate::words;
use anyhow::{Context as _, Result};
use goodput_run::compare::{Comparison, Note};
use serde::Serialize;

/// Returns the remarks of a comparison in English, each once.
pub(super) fn notes(c: &Comparison) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in &c.notes {
        let text = match note {
            Note::Text(text) => text.clone(),
            Note::Caveat { side, caveat } => {
                let text = words::caveat(caveat, words::Context::default()).text;
                side.as_ref().map_or_else(|| text.clone(), |side| format!("{side}: {text}"))
            }
        };
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    notes
}

/// The content of `compare.json`: the facts of the comparison, and its remarks in English.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    notes: Vec<String>,
}

/// Returns the text of `compare.json`.
///
/// # Errors
/// The comparison cannot be written as JSON.
pub fn json_of(c: &Comparison) -> Result<String> {
    let written = Written { comparison: c, notes: notes(c) };
    serde_json::to_string_pretty(&written).context("failed to write the comparison as JSON")
}
