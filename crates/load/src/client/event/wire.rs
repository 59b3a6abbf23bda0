//! The JSON of events and answers, as far as it matters; anything else is skipped.

use super::{ChoiceSets, Event, Text, Usage, joined_reasons, message};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, value::RawValue};
use std::fmt;

#[derive(serde::Deserialize, Default)]
#[serde(default)]
pub(super) struct WireEvent {
    choices: Choices,
    usage: Option<WireUsage>,
    error: Option<Value>,
    object: IsError,
    message: Option<Value>,
}

impl WireEvent {
    pub(super) fn into_event(self) -> Event {
        let error = error_of(self.error.as_ref(), &self.object, self.message.as_ref());
        Event { usage: self.usage.map(WireUsage::usage), error, ..self.choices.0 }
    }
}

/// Returns the error of an event or a document.
pub(super) fn error_of(error: Option<&Value>, object: &IsError, text: Option<&Value>) -> Option<Box<str>> {
    // Old vLLM: {"object": "error", "message": …}.
    let old = || object.0.then(|| text.and_then(message).unwrap_or_else(|| "error".into()));
    error.and_then(message).or_else(old)
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    prompt_cache_hit_tokens: Count,
    // SGLang reports reasoning tokens here.
    reasoning_tokens: Count,
}

/// The details of one count.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
pub(in crate::client) struct Details {
    pub(in crate::client) cached_tokens: Count,
    pub(in crate::client) reasoning_tokens: Count,
}

impl WireUsage {
    pub(super) fn usage(self) -> Usage {
        Usage {
            prompt: self.prompt_tokens.0,
            completion: self.completion_tokens.0,
            cached: self
                .prompt_tokens_details
                .and_then(|d| d.cached_tokens.0)
                .or(self.prompt_cache_hit_tokens.0),
            reasoning: self
                .completion_tokens_details
                .and_then(|d| d.reasoning_tokens.0)
                .or(self.reasoning_tokens.0),
        }
    }
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct WireChoice {
    index: Count,
    delta: Option<Delta>,
    text: Field,
    finish_reason: Finish,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
pub(super) struct Delta {
    content: Field,
    refusal: Field,
    // Two fields, not an alias: some servers send both, and serde refuses a duplicate field.
    reasoning: Field,
    reasoning_content: Field,
    tool_calls: Calls,
    function_call: Option<Function>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Call {
    function: Option<Function>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Function {
    name: Field,
    arguments: Field,
}

impl Function {
    fn text(&self) -> Field {
        self.name.and(self.arguments)
    }
}

/// The text of a field, or of several: its presence, and its size as JSON in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::client) struct Field {
    pub(in crate::client) text: Text,
    pub(in crate::client) bytes: u64,
}

impl Field {
    /// Returns the text of both.
    pub(in crate::client) fn and(self, other: Self) -> Self {
        Self { text: self.text.max(other.text), bytes: self.bytes + other.bytes }
    }
}

/// All choices, merged into one event while parsing.
#[derive(Default)]
struct Choices(Event);

impl Choices {
    fn add(&mut self, choice: WireChoice) {
        self.0.add_choice(choice.index.0.unwrap_or(0), choice.text, choice.delta, choice.finish_reason);
    }
}

/// A number that may be missing, null, a float, or of another type.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::client) struct Count(pub(in crate::client) Option<u64>);

#[derive(Default)]
struct Calls(Field);

/// A finish reason, on one line; `None` if it is missing, null or empty.
#[derive(Default)]
pub(in crate::client) struct Finish(pub(in crate::client) Option<Box<str>>);

#[derive(Default)]
pub(super) struct IsError(bool);

/// Limits a finish reason, which appears in tables and reports, to one line: escapes control characters and truncates
/// it.
fn one_line(reason: &str) -> Box<str> {
    const LONGEST: usize = 200;
    reason
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect::<String>()
        .into()
}

/// Implements `Deserialize` by a visitor that accepts every type: each visitor handles the types it understands, and
/// skips the rest.
macro_rules! lenient {
    ($type:ty, $visitor:ident { $($understood:tt)* }) => {
        struct $visitor;
        impl<'de> Visitor<'de> for $visitor {
            type Value = $type;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<$type, E> {
                Ok(<$type>::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<$type, E> {
                Ok(<$type>::default())
            }
            $($understood)*
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_any($visitor)
            }
        }
    };
}

macro_rules! skip {
    ($type:ty, numbers) => {
        fn visit_i64<E>(self, _: i64) -> Result<$type, E> {
            Ok(<$type>::default())
        }
        fn visit_u64<E>(self, _: u64) -> Result<$type, E> {
            Ok(<$type>::default())
        }
        fn visit_f64<E>(self, _: f64) -> Result<$type, E> {
            Ok(<$type>::default())
        }
    };
    ($type:ty, text) => {
        fn visit_str<E>(self, _: &str) -> Result<$type, E> {
            Ok(<$type>::default())
        }
    };
    ($type:ty, seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<$type, A::Error> {
            while a.next_element::<IgnoredAny>()?.is_some() {}
            Ok(<$type>::default())
        }
    };
    ($type:ty, map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<$type, A::Error> {
            while a.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(<$type>::default())
        }
    };
}

/// Examines the raw JSON, so that text with escapes is not unescaped only to see whether it is empty. Besides strings,
/// it accepts content parts (an array of objects with text) and a tool's arguments as an object.
impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(d)?.get().as_bytes();
        let inner = match raw {
            [b'"', inner @ .., b'"'] => inner,
            [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => inner.trim_ascii(),
            _ => return Ok(Self::default()),
        };
        Ok(Self { text: Text::of(inner.is_empty()), bytes: inner.len() as u64 })
    }
}

lenient!(Calls, CallsVisitor {
    skip!(Calls, numbers);
    skip!(Calls, text);
    skip!(Calls, map);
    fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<Calls, A::Error> {
        let mut text = Field { text: Text::Empty, bytes: 0 };
        while let Some(call) = a.next_element::<Call>()? {
            text = text.and(call.function.map(|f| f.text()).unwrap_or_default());
        }
        Ok(Calls(text))
    }
});

lenient!(Choices, ChoicesVisitor {
    skip!(Choices, numbers);
    skip!(Choices, text);
    skip!(Choices, map);
    fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<Choices, A::Error> {
        let mut all = Choices::default();
        while let Some(choice) = a.next_element::<Option<WireChoice>>()? {
            all.add(choice.unwrap_or_default());
        }
        Ok(all)
    }
});

lenient!(Finish, FinishVisitor {
    skip!(Finish, numbers);
    skip!(Finish, seq);
    fn visit_str<E>(self, s: &str) -> Result<Finish, E> {
        Ok(Finish((!s.is_empty()).then(|| one_line(s))))
    }
    // SGLang's format: {"type": "length", …}.
    fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<Finish, A::Error> {
        let mut kind = None;
        while let Some((key, value)) = a.next_entry::<String, Value>()? {
            if key == "type" {
                kind = value.as_str().map(one_line);
            }
        }
        Ok(Finish(kind))
    }
});

lenient!(Count, CountVisitor {
    skip!(Count, text);
    skip!(Count, seq);
    skip!(Count, map);
    fn visit_u64<E>(self, x: u64) -> Result<Count, E> {
        Ok(Count(Some(x)))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
        Ok(Count(None))
    }
    fn visit_f64<E>(self, x: f64) -> Result<Count, E> {
        // Beyond the range of integers it is as implausible as the largest of them.
        Ok(Count((x >= 0.0).then_some(x as u64)))
    }
});

lenient!(IsError, IsErrorVisitor {
    skip!(IsError, numbers);
    skip!(IsError, seq);
    skip!(IsError, map);
    fn visit_str<E>(self, s: &str) -> Result<IsError, E> {
        Ok(IsError(s == "error"))
    }
});

impl Event {
    /// Merges one choice: its text, or the delta or message of a chat, and its finish reason.
    pub(super) fn add_choice(&mut self, index: u64, text: Field, delta: Option<Delta>, finish: Finish) {
        let (before, set) = (self.text_bytes, ChoiceSets::of(index));
        self.has_choice = true;
        self.text = self.text.max(text.text);
        self.text_bytes += text.bytes;
        if let Some(delta) = delta {
            self.add(delta);
        }
        self.choices.present |= set;
        if self.text_bytes > before {
            self.choices.with_text |= set;
        }
        if finish.0.is_some() {
            self.choices.finished |= set;
        }
        self.finish_reason = joined_reasons(self.finish_reason.take(), finish.0);
    }

    /// Merges the delta of one choice.
    fn add(&mut self, delta: Delta) {
        let content = delta.content.and(delta.refusal);
        let reasoning = delta.reasoning.and(delta.reasoning_content);
        let calls = delta.tool_calls.0.and(delta.function_call.map(|f| f.text()).unwrap_or_default());
        self.content = self.content.max(content.text);
        self.reasoning = self.reasoning.max(reasoning.text);
        self.tool_calls = self.tool_calls.max(calls.text);
        self.text_bytes += content.bytes + reasoning.bytes + calls.bytes;
    }
}
