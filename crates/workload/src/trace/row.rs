//! Rows of a trace: checking and parsing of their fields.

use super::format::{Format, Layout};
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

/// The fields of a row as text, as far as present.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    pub(super) timestamp: Option<Cow<'a, str>>,
    pub(super) input: Option<Cow<'a, str>>,
    pub(super) output: Option<Cow<'a, str>>,
    pub(super) hash_ids: Option<Cow<'a, str>>,
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) failed: Option<Cow<'a, str>>,
    pub(super) delay: Option<Cow<'a, str>>,
}

/// Checks and parses a row's fields.
pub(super) fn check(values: &Values<'_>, layout: &Layout, line: u64) -> Item {
    match parse(values, layout, line) {
        Ok(Some(row)) => Item::Row(row),
        Ok(None) => Item::Failed,
        Err(bad) => Item::Bad(bad),
    }
}

fn parse(values: &Values<'_>, layout: &Layout, line: u64) -> Result<Option<UncheckedRow>, BadRow> {
    let bad = |field: &str, reason: String| BadRow { line, field: field.to_owned(), reason };
    let names = &layout.names;
    let name_of = |name: &Option<String>| name.clone().unwrap_or_default();
    let needed = |value: &Option<Cow<'_, str>>, name: &str| match value {
        Some(text) => Ok(text.trim().to_owned()),
        None => Err(bad(name, "is missing".into())),
    };
    let failed = values.failed.as_deref().map_or(Ok(false), parse_bool);
    let mut failed = failed.map_err(|e| bad(&name_of(&names.failed), e))?;
    let (at, after) = parse_time(values, layout).map_err(|(field, e)| bad(&field, e))?;
    let input = tokens(&needed(&values.input, &names.input)?).map_err(|e| bad(&names.input, e))?;
    let output = values.output.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(tokens).transpose();
    let output = output.map_err(|e| bad(&name_of(&names.output), e))?;
    if output.is_none() && layout.format.is_csv() && layout.format != Format::Csv {
        return Err(bad(&name_of(&names.output), "is missing".into()));
    }
    failed |= layout.format == Format::Burstgpt && (input == 0 || output == Some(0));
    if failed {
        return Ok(None);
    }
    if input == 0 {
        return Err(bad(&names.input, "is 0: a prompt has at least one token".into()));
    }
    if output == Some(0) {
        let why = "is 0: an answer has at least one token (did the request fail?)";
        return Err(bad(&name_of(&names.output), why.into()));
    }
    let session = values.session.as_deref().map(session);
    let mut blocks = match values.hash_ids.as_deref().map(str::trim).filter(|t| !t.is_empty()) {
        Some(text) => parse_ids(text).map_err(|e| bad(&name_of(&names.hash_ids), e))?,
        None => Vec::new(),
    };
    if blocks.len() as u64 > u64::from(input.div_ceil(layout.block_tokens)) {
        let advice = match layout.format {
            Format::Mooncake => {
                "if it is a trace of vLLM, in seconds and with blocks of 16 tokens, set format = \"vllm\" (--format vllm); if it \
                 is in milliseconds, set format = \"mooncake\" and block-tokens"
            }
            _ => "set block-tokens",
        };
        let reason = format!(
            "{} blocks of {} tokens hold more than the {input} tokens of the prompt: {advice}",
            blocks.len(),
            layout.block_tokens
        );
        return Err(bad(&name_of(&names.hash_ids), reason));
    }
    if layout.format == Format::Weka
        && let Some(session) = session
    {
        // Block ids are unique only within their conversation.
        blocks.iter_mut().for_each(|b| *b = hash(&(session, *b)));
    }
    Ok(Some(UncheckedRow {
        at,
        conversation_line: 0,
        after,
        input,
        output,
        blocks,
        session,
        cached: None,
        estimated: false,
    }))
}

/// Parses the time of a row, or the delay of a follow-up after the previous answer of its conversation; errors name the
/// field.
fn parse_time(values: &Values<'_>, layout: &Layout) -> Result<(i64, Option<u64>), (String, String)> {
    let names = &layout.names;
    if let Some(text) = &values.timestamp {
        let at = time::parse(text, layout.unit).map_err(|e| (names.timestamp.clone(), e))?;
        return Ok((at, None));
    }
    let Some(delay) = names.delay.as_ref().filter(|_| values.session.is_some()) else {
        return Err((names.timestamp.clone(), "is missing".into()));
    };
    let after = values.delay.as_deref().map_or(Ok(0), |text| time::parse(text, layout.unit));
    let after = after.and_then(|ns| u64::try_from(ns).map_err(|_| "is negative".into()));
    Ok((0, Some(after.map_err(|e| (delay.clone(), e))?)))
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
