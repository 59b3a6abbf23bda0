//! `/v1/messages`: Anthropic's Messages API, as Anthropic, vLLM, llama-server and gateways serve it.
//!
//! Each event names its `type`. Content blocks are text, thinking or calls of tools, and their deltas carry the tokens. `message_delta` has
//! the stop reason and the usage, and `message_stop` ends the answer.

use super::{
    Dialect, PartFormat, PromptWriter, begin_messages, end_messages, escape, message_list, stream_fields,
};
use crate::client::answer_text::{AnswerText, add};
use crate::client::encoder::Pinning;
use crate::client::event::wire::{Count, Field, Finish};
use crate::client::event::{Event, Parsed, Usage, message, parse_json};
use crate::client::sse::Item;
use bytes::Bytes;
use goodput_core::message::{Message, Role, ToolCall, Tools};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

/// Parts with sources.
const PARTS: PartFormat = PartFormat {
    image: [r#"{"type":"image","source":{"type":"base64","media_type":""#, r#"","data":""#, r#""}}"#],
    text: r#"{"type":"text","text":""#,
};

pub(super) const DIALECT: Dialect = Dialect {
    content_type: "application/json",
    headers: &[("anthropic-version", "2023-06-01")],
    key_header: Some("x-api-key"),
    // vLLM ignores both fields here.
    pinning: Pinning::NONE,
    asks_for_usage: false,
    fields: |model, _, _| stream_fields(model),
    length_fields: &["max_tokens"],
    prompt: PromptWriter::Text { begin, end: end_messages, conversation, parts: Some(PARTS) },
    event,
    document,
    answer_text,
    carries_tokens: Event::has_text,
    choices_with_tokens: |_| 0,
    is_content: |event| event.content.some(),
    document_has_tokens: Event::has_text,
    finish_completes: false,
};

/// Begins the messages, after the shared text as the system text.
fn begin(out: &mut Vec<u8>, system: Option<&str>) {
    if let Some(system) = system {
        out.extend_from_slice(b"\"system\":\"");
        escape(out, system);
        out.extend_from_slice(b"\",");
    }
    out.extend_from_slice(b"\"messages\":");
    begin_messages(out, None);
}

/// Writes the system messages at the beginning as the system text, each on a new line.
fn conversation(out: &mut Vec<u8>, messages: &[Message], images: &[Bytes]) {
    let first = messages.iter().position(|m| m.role != Role::System).unwrap_or(messages.len());
    let (system, rest) = messages.split_at(first);
    for (i, message) in system.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"\"system\":\"" } else { b"\\n" });
        escape(out, &message.content);
    }
    if !system.is_empty() {
        out.extend_from_slice(b"\",");
    }
    out.extend_from_slice(b"\"messages\":");
    let images = images.get(first..).unwrap_or_default();
    let role = |role| match role {
        // There are only two roles: the output of a tool needs the id of its call.
        Role::System | Role::Tool => Role::User,
        role => role,
    };
    message_list(out, rest, images, role, tools);
}

/// Returns a message with calls or their output as blocks.
fn tools(message: &Message, tools: &Tools) -> Vec<Value> {
    let (role, content): (_, Vec<Value>) = match tools {
        Tools::Calls(calls) => {
            let text =
                (!message.content.is_empty()).then(|| json!({ "type": "text", "text": message.content }));
            let call = |c: &ToolCall| {
                // Arguments are checked when a data set is read.
                let input: Map<String, Value> = serde_json::from_str(&c.arguments).unwrap_or_default();
                json!({ "type": "tool_use", "id": c.id, "name": c.name, "input": input })
            };
            ("assistant", text.into_iter().chain(calls.iter().map(call)).collect())
        }
        Tools::OutputOf(id) => {
            ("user", vec![json!({ "type": "tool_result", "tool_use_id": id, "content": message.content })])
        }
    };
    vec![json!({ "role": role, "content": content })]
}

/// The `type` of an event, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    MessageDelta,
    MessageStop,
    Ping,
    Error,
    #[serde(other)]
    Other,
}

/// An event. Its fields are parsed once its kind is known, since events of other kinds may have any values there.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WireEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<Kind>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    error: Option<Value>,
}

/// A content block, whole or a delta of one; or the delta of a message.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Block {
    text: Field,
    thinking: Field,
    name: Field,
    partial_json: Field,
    /// The arguments of a call: an object, which is empty where deltas follow.
    input: Field,
    stop_reason: Finish,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireMessage {
    usage: Option<WireUsage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
}

impl WireUsage {
    fn usage(self) -> Usage {
        // Unlike in the other APIs, the input does not include what the cache reads and writes.
        let cache = [self.cache_read_input_tokens.0, self.cache_creation_input_tokens.0];
        let cache = cache.into_iter().flatten().fold(0, u64::saturating_add);
        Usage {
            prompt: self.input_tokens.0.map(|n| n.saturating_add(cache)),
            completion: self.output_tokens.0,
            cached: self.cache_read_input_tokens.0,
            reasoning: None,
        }
    }
}

fn event(item: Item<'_>) -> Parsed {
    // Some gateways append it. An answer without `message_stop` before it is truncated.
    if item.data.trim_ascii() == b"[DONE]" {
        return Parsed::Ignored;
    }
    parse_json(item, WireEvent::parsed)
}

/// Parses a field that may be missing or null.
fn field<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> serde_json::Result<T> {
    Ok(raw.map(|raw| serde_json::from_str::<Option<T>>(raw.get())).transpose()?.flatten().unwrap_or_default())
}

impl WireEvent<'_> {
    fn parsed(self) -> Parsed {
        if let Some(error) = self.error() {
            return Parsed::Event(Event { error: Some(error), ..Event::default() });
        }
        match self.kind {
            Some(Kind::Ping) => Parsed::Ignored,
            Some(Kind::MessageStop) => Parsed::Done,
            _ => self.event().map_or(Parsed::Malformed, Parsed::Event),
        }
    }

    fn event(&self) -> serde_json::Result<Event> {
        let mut event = Event::default();
        match self.kind {
            Some(Kind::MessageStart) => {
                let usage = field::<WireMessage>(self.message)?.usage.map(WireUsage::usage);
                // Its output tokens are a placeholder, which some servers set to one.
                event.usage = usage.map(|usage| Usage { completion: None, ..usage });
            }
            Some(Kind::ContentBlockStart) => event.add_block(&field(self.content_block)?),
            Some(Kind::ContentBlockDelta) => event.add_block(&field(self.delta)?),
            Some(Kind::MessageDelta) => {
                event.finish_reason = field::<Block>(self.delta)?.stop_reason.0;
                event.usage = self.usage.map(|_| field(self.usage)).transpose()?.map(WireUsage::usage);
            }
            Some(Kind::MessageStop | Kind::Ping | Kind::Error | Kind::Other) | None => {}
        }
        Ok(event)
    }

    fn error(&self) -> Option<Box<str>> {
        let error = self.error.as_ref().and_then(message);
        if self.kind != Some(Kind::Error) {
            return error;
        }
        let text = || message(&serde_json::from_str::<Value>(self.message?.get()).ok()?);
        error.or_else(text).or_else(|| Some("error".into()))
    }
}

impl Event {
    fn add_block(&mut self, block: &Block) {
        let call = block.name.and(block.partial_json);
        self.has_choice = true;
        self.content = self.content.max(block.text.text);
        self.reasoning = self.reasoning.max(block.thinking.text);
        self.tool_calls = self.tool_calls.max(call.text);
        self.text_bytes += block.text.and(block.thinking).and(call).and(block.input).bytes;
    }
}

/// An answer that is one document.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    content: Option<Vec<Block>>,
    stop_reason: Finish,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

fn document(body: &[u8]) -> Parsed {
    let Ok(document) = serde_json::from_slice::<Document>(body) else { return Parsed::Malformed };
    let mut event = Event {
        has_choice: document.content.is_some(),
        finish_reason: document.stop_reason.0,
        usage: document.usage.map(WireUsage::usage),
        error: document.error.as_ref().and_then(message),
        ..Event::default()
    };
    for block in document.content.iter().flatten() {
        event.add_block(block);
    }
    if event.has_choice || event.error.is_some() { Parsed::Event(event) } else { Parsed::Malformed }
}

fn answer_text(body: &[u8], stream: bool) -> AnswerText {
    if stream {
        return AnswerText::of_events(body, add_event);
    }
    let mut answer = AnswerText::default();
    let document = serde_json::from_slice::<TextDocument<'_>>(body).ok();
    for block in document.and_then(|document| document.content).into_iter().flatten() {
        let input = block.input;
        add_block(&mut answer, block);
        add(&mut answer.other_channels, input);
    }
    answer
}

fn add_event(answer: &mut AnswerText, json: &[u8]) -> ControlFlow<()> {
    let Ok(event) = serde_json::from_slice::<TextEvent<'_>>(json) else { return ControlFlow::Continue(()) };
    match event.kind {
        Some(Kind::MessageStop | Kind::Error) => return ControlFlow::Break(()),
        Some(Kind::ContentBlockStart | Kind::ContentBlockDelta) => {
            event.content_block.into_iter().chain(event.delta).for_each(|block| add_block(answer, block));
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

fn add_block(answer: &mut AnswerText, block: TextBlock<'_>) {
    add(&mut answer.text, block.text);
    for other in [block.thinking, block.name, block.partial_json] {
        add(&mut answer.other_channels, other);
    }
}

#[derive(Deserialize)]
struct TextEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<Kind>,
    #[serde(borrow)]
    content_block: Option<TextBlock<'a>>,
    #[serde(borrow)]
    delta: Option<TextBlock<'a>>,
}

#[derive(Deserialize)]
struct TextDocument<'a> {
    #[serde(borrow)]
    content: Option<Vec<TextBlock<'a>>>,
}

#[derive(Deserialize)]
struct TextBlock<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests;
