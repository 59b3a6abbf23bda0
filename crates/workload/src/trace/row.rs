//! One row of a trace: its fields as text, checked and turned into numbers.

use super::format::{Format, Reading};
use super::time;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Characters of a value that a message shows.
const SHOWN: usize = 40;

/// A request as it was recorded, before its time is counted from the first row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RawRow {
    /// Nanoseconds on the trace's own clock; of a row that follows another, those of the first row of its conversation.
    pub(super) at: i64,
    /// Line of the first row of its conversation, where rows follow one another; else 0.
    pub(super) place: u64,
    /// How many nanoseconds after the answer to the row before it is sent; `None` where it comes at a time of its own.
    pub(super) after: Option<u64>,
    pub(super) input: u32,
    pub(super) output: Option<u32>,
    pub(super) blocks: Vec<u64>,
    pub(super) session: Option<u64>,
    /// Prompt tokens that the recorded server had cached.
    pub(super) cached: Option<u32>,
    /// Whether a length was counted from its text.
    pub(super) estimated: bool,
}

/// What one record of the file turned out to be.
#[derive(Debug)]
pub(super) enum Item {
    /// A request.
    Row(RawRow),
    /// A request that failed where it was recorded.
    Failed,
    /// A row that cannot be read.
    Bad(BadRow),
}

/// A row that cannot be read: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadRow {
    /// Line of the file, from 1.
    pub line: u64,
    /// Column or field; empty where the row as a whole is wrong.
    pub field: String,
    /// What is wrong with it.
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

/// The fields of a row as text, where they are there.
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

/// Checks a row's fields.
pub(super) fn check(values: &Values<'_>, how: &Reading, line: u64) -> Item {
    match checked(values, how, line) {
        Ok(Some(row)) => Item::Row(row),
        Ok(None) => Item::Failed,
        Err(bad) => Item::Bad(bad),
    }
}

fn checked(values: &Values<'_>, how: &Reading, line: u64) -> Result<Option<RawRow>, BadRow> {
    let bad = |field: &str, reason: String| BadRow { line, field: field.to_owned(), reason };
    let names = &how.names;
    let of = |name: &Option<String>| name.clone().unwrap_or_default();
    let needed = |value: &Option<Cow<'_, str>>, name: &str| match value {
        Some(text) => Ok(text.trim().to_owned()),
        None => Err(bad(name, "is missing".into())),
    };
    let failed = values.failed.as_deref().map_or(Ok(false), truth);
    let mut failed = failed.map_err(|e| bad(&of(&names.failed), e))?;
    let (at, after) = moment(values, how).map_err(|(field, e)| bad(&field, e))?;
    let input = tokens(&needed(&values.input, &names.input)?).map_err(|e| bad(&names.input, e))?;
    let output = values.output.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(tokens).transpose();
    let output = output.map_err(|e| bad(&of(&names.output), e))?;
    if output.is_none() && how.format.is_csv() && how.format != Format::Csv {
        return Err(bad(&of(&names.output), "is missing".into()));
    }
    failed |= how.format == Format::Burstgpt && (input == 0 || output == Some(0));
    if failed {
        return Ok(None);
    }
    if input == 0 {
        return Err(bad(&names.input, "is 0: a prompt has at least one token".into()));
    }
    if output == Some(0) {
        let why = "is 0: an answer has at least one token (is it a failed request?)";
        return Err(bad(&of(&names.output), why.into()));
    }
    let session = values.session.as_deref().map(session);
    let mut blocks = match values.hash_ids.as_deref().map(str::trim).filter(|t| !t.is_empty()) {
        Some(text) => ids(text).map_err(|e| bad(&of(&names.hash_ids), e))?,
        None => Vec::new(),
    };
    if blocks.len() as u64 > u64::from(input.div_ceil(how.block_tokens)) {
        let advice = match how.format {
            Format::Mooncake => {
                "if it is a trace of vLLM, in seconds and with blocks of 16 tokens, set format = \"vllm\" (--format vllm); where \
                 it is in milliseconds, set format = \"mooncake\" and block-tokens"
            }
            _ => "set block-tokens",
        };
        let reason = format!(
            "{} blocks of {} tokens hold more than the {input} tokens of the prompt: {advice}",
            blocks.len(),
            how.block_tokens
        );
        return Err(bad(&of(&names.hash_ids), reason));
    }
    if how.format == Format::Weka
        && let Some(session) = session
    {
        // A number names a block within its conversation only.
        blocks.iter_mut().for_each(|b| *b = mixed(&(session, *b)));
    }
    Ok(Some(RawRow { at, place: 0, after, input, output, blocks, session, cached: None, estimated: false }))
}

/// When a row is sent: at its time, or so long after the answer to the row of its conversation before it.
fn moment(values: &Values<'_>, how: &Reading) -> Result<(i64, Option<u64>), (String, String)> {
    let names = &how.names;
    if let Some(text) = &values.timestamp {
        let at = time::parse(text, how.unit).map_err(|e| (names.timestamp.clone(), e))?;
        return Ok((at, None));
    }
    let Some(delay) = names.delay.as_ref().filter(|_| values.session.is_some()) else {
        return Err((names.timestamp.clone(), "is missing".into()));
    };
    let after = values.delay.as_deref().map_or(Ok(0), |text| time::parse(text, how.unit));
    let after = after.and_then(|ns| u64::try_from(ns).map_err(|_| "is less than nothing".into()));
    Ok((0, Some(after.map_err(|e| (delay.clone(), e))?)))
}

/// A number of tokens: whole, 0 to 4 thousand million.
pub(super) fn tokens(text: &str) -> Result<u32, String> {
    if let Ok(n) = text.parse::<u32>() {
        return Ok(n);
    }
    match text.parse::<f64>() {
        Ok(x) if x.fract().abs() < f64::EPSILON && (0.0..4.29e9).contains(&x) => Ok(x as u32),
        _ => Err(format!("{} is no number of tokens", shown(text))),
    }
}

fn ids(text: &str) -> Result<Vec<u64>, String> {
    serde_json::from_str(text).or_else(|_| {
        // Hashes of other programs may be signed.
        let signed: Result<Vec<i64>, _> = serde_json::from_str(text);
        signed
            .map(|v| v.into_iter().map(i64::cast_unsigned).collect())
            .map_err(|_| format!("{} is no list of whole numbers", shown(text)))
    })
}

fn truth(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" | "" => Ok(false),
        _ => Err(format!("{} is neither true nor false", shown(text))),
    }
}

/// A conversation's number: itself where it is one, else a hash of its name.
pub(super) fn session(name: &str) -> u64 {
    name.trim().parse().unwrap_or_else(|_| mixed(&name.trim()))
}

/// The same number for the same value, today and tomorrow.
fn mixed(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A value in a message: quoted, and not the whole of it where it is long.
pub(crate) fn shown(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() { format!("{head:?}…") } else { format!("{head:?}") }
}

/// The same of a number, which needs no quotes.
pub(super) fn clipped(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    if head.len() < text.len() { head + "…" } else { head }
}
