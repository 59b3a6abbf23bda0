//! Rows of a trace: checking and parsing of their fields.

use super::format::{FIELDS, Field, Format, Layout};
use super::time;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Longest value quoted in a message, in characters.
const SHOWN: usize = 40;

/// A recorded request, with its time on the trace's own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UncheckedRow {
    /// Time in ns; for a follow-up, that of the first row of its conversation.
    pub(super) at: i64,
    /// Line of the first row of its conversation, in formats with follow-ups; else 0.
    pub(super) conversation_line: u64,
    /// For a follow-up, the delay in ns after the answer to the previous row; `None` for a row with its own time.
    pub(super) after: Option<u64>,
    pub(super) input: u32,
    pub(super) output: Option<u32>,
    pub(super) blocks: Vec<u64>,
    pub(super) session: Option<u64>,
    /// Prompt tokens that the recorded server had cached.
    pub(super) cached: Option<u32>,
    /// True if a length was estimated from text.
    pub(super) estimated: bool,
}

/// Result of parsing one record of the file.
#[derive(Debug)]
pub(super) enum Item {
    /// A request.
    Row(UncheckedRow),
    /// A request that failed when it was recorded.
    Failed,
    /// A record that cannot be parsed.
    Bad(BadRow),
}

/// A row that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadRow {
    /// Line of the file, from 1.
    pub line: u64,
    /// Column or field; empty if the row as a whole is wrong.
    pub field: String,
    /// The problem, to be read after the field's name.
    pub reason: String,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.field.is_empty() {
            write!(f, ", {}", self.field)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The fields of a row as text, as far as present, in the order of [`Field`].
pub(super) type Values<'a> = [Option<Cow<'a, str>>; FIELDS];

/// Checks and parses a row's fields.
pub(super) fn check(values: &Values<'_>, layout: &Layout, line: u64) -> Item {
    match parse(values, layout) {
        Ok(Some(row)) => Item::Row(row),
        Ok(None) => Item::Failed,
        Err((field, reason)) => Item::Bad(BadRow { line, field: layout.name(field).to_owned(), reason }),
    }
}

/// Parses a row; `None` if the request failed when recorded. Errors name the field.
fn parse(values: &Values<'_>, layout: &Layout) -> Result<Option<UncheckedRow>, (Field, String)> {
    let value = |field: Field| values[field as usize].as_deref().map(str::trim);
    let given = |field: Field| value(field).filter(|text| !text.is_empty());
    let missing = |field: Field| (field, "is missing".to_owned());
    let failed = value(Field::Failed).map_or(Ok(false), parse_bool).map_err(|e| (Field::Failed, e))?;
    let (at, after) = parse_time(values, layout)?;
    let input = value(Field::Input).ok_or_else(|| missing(Field::Input))?;
    let input = tokens(input).map_err(|e| (Field::Input, e))?;
    let output = given(Field::Output).map(tokens).transpose().map_err(|e| (Field::Output, e))?;
    let has_every_output = layout.format.properties().csv && layout.format != Format::Csv;
    if output.is_none() && has_every_output {
        return Err(missing(Field::Output));
    }
    if failed || (layout.format == Format::Burstgpt && (input == 0 || output == Some(0))) {
        return Ok(None);
    }
    if input == 0 {
        return Err((Field::Input, "is 0: a prompt has at least one token".into()));
    }
    if output == Some(0) {
        let why = "is 0: an answer has at least one token (did the request fail?)";
        return Err((Field::Output, why.into()));
    }
    let session = value(Field::Session).map(session);
    let blocks = given(Field::HashIds).map_or(Ok(Vec::new()), parse_ids);
    let mut blocks = blocks.map_err(|e| (Field::HashIds, e))?;
    if blocks.len() as u64 > u64::from(input.div_ceil(layout.block_tokens)) {
        return Err((Field::HashIds, too_many_blocks(blocks.len(), input, layout)));
    }
    if layout.format == Format::Weka
        && let Some(session) = session
    {
        // Block ids are unique only within their conversation.
        blocks.iter_mut().for_each(|b| *b = hash(&(session, *b)));
    }
    Ok(Some(UncheckedRow { at, after, input, output, blocks, session, ..UncheckedRow::default() }))
}

fn too_many_blocks(blocks: usize, input: u32, layout: &Layout) -> String {
    let size = layout.block_tokens;
    let advice = if layout.format == Format::Mooncake {
        "if it is a trace of vLLM, in seconds and with blocks of 16 tokens, set format = \"vllm\" (--format vllm); if it \
         is in milliseconds, set format = \"mooncake\" and block-tokens"
    } else {
        "set block-tokens"
    };
    format!("{blocks} blocks of {size} tokens hold more than the {input} tokens of the prompt: {advice}")
}

/// Parses the time of a row, or the delay of a follow-up after the previous answer of its conversation.
fn parse_time(values: &Values<'_>, layout: &Layout) -> Result<(i64, Option<u64>), (Field, String)> {
    let value = |field: Field| values[field as usize].as_deref();
    if let Some(text) = value(Field::Timestamp) {
        let at = time::parse(text, layout.unit).map_err(|e| (Field::Timestamp, e))?;
        return Ok((at, None));
    }
    if layout.names[Field::Delay as usize].is_none() || value(Field::Session).is_none() {
        return Err((Field::Timestamp, "is missing".into()));
    }
    let after = value(Field::Delay).map_or(Ok(0), |text| time::parse(text, layout.unit));
    let after = after.and_then(|ns| u64::try_from(ns).map_err(|_| "is negative".into()));
    Ok((0, Some(after.map_err(|e| (Field::Delay, e))?)))
}

/// Parses a number of tokens: a whole number up to about 4·10⁹.
pub(super) fn tokens(text: &str) -> Result<u32, String> {
    if let Ok(n) = text.parse::<u32>() {
        return Ok(n);
    }
    match text.parse::<f64>() {
        Ok(x) if x.fract().abs() < f64::EPSILON && (0.0..4.29e9).contains(&x) => Ok(x as u32),
        _ => Err(format!("{} is not a number of tokens", shown(text))),
    }
}

fn parse_ids(text: &str) -> Result<Vec<u64>, String> {
    serde_json::from_str(text).or_else(|_| {
        // Some programs write hashes as signed numbers.
        let signed: Result<Vec<i64>, _> = serde_json::from_str(text);
        signed
            .map(|v| v.into_iter().map(i64::cast_unsigned).collect())
            .map_err(|_| format!("{} is not a list of whole numbers", shown(text)))
    })
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" | "" => Ok(false),
        _ => Err(format!("{} is neither true nor false", shown(text))),
    }
}

/// Returns the id of a conversation: its name if that is a number, else a hash of it.
pub(super) fn session(name: &str) -> u64 {
    name.trim().parse().unwrap_or_else(|_| hash(&name.trim()))
}

/// Hashes a value; stable between runs.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Quotes a value for a message, truncated if it is long.
pub(crate) fn shown(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() { format!("{head:?}…") } else { format!("{head:?}") }
}

/// Truncates a number for a message, without quotes.
pub(super) fn truncated(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() { head + "…" } else { head }
}
