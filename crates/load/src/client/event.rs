//! Parses one payload of a stream: which channels carry text, the finish reason, the usage, an error.
//!
//! Tolerant by design (see the reference on stream quirks): `choices`, `delta` and `usage` may be null or absent,
//! unknown fields are skipped, and text is examined without being copied.

mod items;
mod reader;
mod transcript;
mod whole;
pub(super) mod wire;

pub(in crate::client) use items::{VectorSize, parse_items};
pub use reader::EventReader;
pub(in crate::client) use transcript::parse_transcript;
pub use whole::parse_whole;

use super::sse::Item;
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU32;
use wire::WireEvent;

/// Presence of a text field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Text {
    /// Null or missing.
    #[default]
    Absent,
    /// Present but empty.
    Empty,
    /// Present with text.
    Some,
}

impl Text {
    /// Returns true if the field has text.
    pub fn some(self) -> bool {
        self == Self::Some
    }

    pub(super) const fn of(empty: bool) -> Self {
        if empty { Self::Empty } else { Self::Some }
    }
}

/// Token counts of the server, as far as it reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens.
    pub prompt: Option<u64>,
    /// Output tokens: so far, or the total.
    pub completion: Option<u64>,
    /// Input tokens taken from the prefix cache.
    pub cached: Option<u64>,
    /// Reasoning tokens among the output.
    pub reasoning: Option<u64>,
}

/// The choices that an event or a document is about, as sets of indices: bit `i` stands for choice `i`, and the highest bit for
/// all indices that no request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChoiceSets {
    /// Choices with an entry, even if it is empty.
    pub present: u64,
    /// Choices with text on any channel.
    pub with_text: u64,
    /// Choices with a finish reason.
    pub finished: u64,
}

impl ChoiceSets {
    /// Returns the set of one index.
    pub(super) fn of(index: u64) -> u64 {
        1 << index.min(u64::from(u64::BITS) - 1)
    }
}

/// The contents of one payload. All choices are merged; `choices` tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The answer: `delta.content`, or a refusal instead.
    pub content: Text,
    /// The reasoning before the answer: `delta.reasoning` or `delta.reasoning_content`.
    pub reasoning: Text,
    /// Names or arguments of tool calls: `delta.tool_calls`.
    pub tool_calls: Text,
    /// `text`, of the completions API.
    pub text: Text,
    /// Size of the text of all channels and choices in bytes, as JSON: an escaped character counts as its escape.
    pub text_bytes: u64,
    /// Number of results, in an answer that has one for each item of the request.
    pub results: u32,
    /// Milliseconds of audio by the server's count, in an answer that transcribes it.
    pub audio_ms: Option<NonZeroU32>,
    /// True if there is at least one choice; in an API without choices, if the event is a piece of the answer.
    pub has_choice: bool,
    /// The choices that it is about, in an API with choices.
    pub choices: ChoiceSets,
    /// The reason why the answer ended. If choices ended for different reasons, all of them, such as `length+stop`.
    pub finish_reason: Option<Box<str>>,
    /// Token counts.
    pub usage: Option<Usage>,
    /// The message of an error that arrives under HTTP 200.
    pub error: Option<Box<str>>,
    /// True if the answer ends with this event, in an API that has such an event instead of `[DONE]`.
    pub is_last: bool,
}

impl Event {
    /// Returns true if a channel of a chat has text: the answer, its reasoning, or a tool call.
    pub(super) fn has_text(&self) -> bool {
        [self.content, self.reasoning, self.tool_calls].iter().any(|t| t.some())
    }
}

/// Joins the finish reasons of several choices: each once, in alphabetical order, with a `+` between them.
pub(super) fn joined_reasons(one: Option<Box<str>>, other: Option<Box<str>>) -> Option<Box<str>> {
    let (Some(a), Some(b)) = (&one, &other) else { return one.or(other) };
    let mut all: Vec<&str> = a.split('+').chain(b.split('+')).collect();
    all.sort_unstable();
    all.dedup();
    Some(all.join("+").into())
}

/// The result of parsing a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// An event.
    Event(Event),
    /// `[DONE]`.
    Done,
    /// A payload to skip: empty, or a comment that a proxy wrapped into `data:`.
    Ignored,
    /// Not JSON, or not an object of the expected shape.
    Malformed,
}

/// Parses one payload of an API with `choices`.
pub fn parse(item: Item<'_>) -> Parsed {
    parse_json(item, |raw: WireEvent| Parsed::Event(raw.into_event()))
}

/// Parses one payload: `event` converts its JSON.
pub(super) fn parse_json<'a, T: Deserialize<'a>>(item: Item<'a>, event: impl FnOnce(T) -> Parsed) -> Parsed {
    let data = match json_of(item) {
        Ok(data) => data,
        Err(other) => return other.parsed(),
    };
    // One UTF-8 check of the whole is faster than serde_json's check of each string.
    let raw = match str::from_utf8(data) {
        Ok(text) => serde_json::from_str::<T>(text),
        Err(_) => serde_json::from_slice(data),
    };
    match raw {
        Ok(raw) if data[0] == b'{' => event(raw),
        _ => Parsed::Malformed,
    }
}

/// A payload that is read otherwise than as the JSON of an event.
pub(super) enum NotJson {
    /// `[DONE]`.
    Done,
    /// An event that is an error by name, with its message.
    Error(Box<str>),
    /// Empty, or a comment.
    Ignored,
}

impl NotJson {
    /// Returns the result of parsing it.
    pub(super) fn parsed(self) -> Parsed {
        match self {
            Self::Done => Parsed::Done,
            Self::Error(error) => Parsed::Event(Event { error: Some(error), ..Event::default() }),
            Self::Ignored => Parsed::Ignored,
        }
    }
}

/// Returns the JSON of a payload.
///
/// # Errors
/// The payload has none.
pub(super) fn json_of(item: Item<'_>) -> Result<&[u8], NotJson> {
    let data = item.data.trim_ascii();
    if data == b"[DONE]" {
        return Err(NotJson::Done);
    }
    if item.error {
        let error = serde_json::from_slice(data).ok().and_then(|v: Value| message(&v));
        let error = error.unwrap_or_else(|| String::from_utf8_lossy(data).into());
        return Err(NotJson::Error(error));
    }
    if data.is_empty() || data[0] == b':' {
        return Err(NotJson::Ignored);
    }
    Ok(data)
}

/// Extracts the message of an error body: `{"error": {"message": …}}`, `{"error": …}`, `{"message": …}`, `{"detail":
/// …}`. Returns `None` if it contains no error; falsy values are no error.
pub fn error_message(body: &[u8]) -> Option<Box<str>> {
    let value: Value = serde_json::from_slice(body).ok()?;
    // `detail` is FastAPI's.
    ["error", "message", "detail"].into_iter().find_map(|key| message(value.get(key)?))
}

/// Returns the message of an error; `None` for falsy values.
pub(super) fn message(error: &Value) -> Option<Box<str>> {
    match error {
        Value::Null | Value::Bool(false) => None,
        Value::Number(n) if n.as_f64() == Some(0.0) => None,
        Value::String(s) => (!s.is_empty()).then(|| s.as_str().into()),
        Value::Array(a) if a.is_empty() => None,
        Value::Object(o) if o.is_empty() => None,
        Value::Object(o) => {
            let inner = o.get("error").and_then(message);
            inner
                .or_else(|| Some(o.get("message")?.as_str()?.into()))
                .or_else(|| Some(error.to_string().into()))
        }
        other => Some(other.to_string().into()),
    }
}

#[cfg(test)]
mod tests;
