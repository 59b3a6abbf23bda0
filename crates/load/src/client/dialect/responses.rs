//! `/v1/responses`: OpenAI's Responses API, as OpenAI and vLLM serve it.
//!
//! Each event names its `type`. Deltas carry the tokens; `response.completed` or `response.incomplete` ends the answer and has its usage.
//! vLLM sends `response.completed` for both, with `incomplete_details` in an answer that reached its length.

use super::{Dialect, PartFormat, PromptWriter, begin_messages, end_messages, message_list, stream_fields};
use crate::client::answer_text::{AnswerText, add};
use crate::client::encoder::Pinning;
use crate::client::event::wire::{Count, Details, Field, Finish};
use crate::client::event::{Event, Parsed, Usage, message, parse_json};
use crate::client::sse::Item;
use bytes::Bytes;
use goodput_core::message::{Message, Role, ToolCall, Tools};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

/// Parts with data URLs.
const PARTS: PartFormat = PartFormat {
    image: [r#"{"type":"input_image","image_url":"data:"#, ";base64,", r#""}"#],
    text: r#"{"type":"input_text","text":""#,
};

pub(super) const DIALECT: Dialect = Dialect {
    content_type: "application/json",
    headers: &[],
    key_header: None,
    // vLLM ignores `min_tokens` here.
    pinning: Pinning { ignore_eos: true, min_tokens: false },
    asks_for_usage: false,
    fields,
    length_fields: &["max_output_tokens"],
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

fn fields(model: &str, pinning: Pinning, _usage: bool) -> Map<String, Value> {
    let mut fields = stream_fields(model);
    // By default the server would keep every answer, which costs it memory and is not part of the measurement.
    fields.insert("store".into(), false.into());
    if pinning.ignore_eos {
        fields.insert("ignore_eos".into(), true.into());
    }
    fields
}

/// Begins the input, with the shared text as the system message.
fn begin(out: &mut Vec<u8>, system: Option<&str>) {
    out.extend_from_slice(b"\"input\":");
    begin_messages(out, system);
}

fn conversation(out: &mut Vec<u8>, messages: &[Message], images: &[Bytes]) {
    out.extend_from_slice(b"\"input\":");
    let role = |role| match role {
        // There is no such role: the output of a tool needs the id of its call.
        Role::Tool => Role::User,
        role => role,
    };
    message_list(out, messages, images, role, tools);
}

/// Returns the calls as items of their own, after the text if there is any.
fn tools(message: &Message, tools: &Tools) -> Vec<Value> {
    match tools {
        Tools::Calls(calls) => {
            let text = (!message.content.is_empty())
                .then(|| json!({ "role": "assistant", "content": message.content }));
            let call = |c: &ToolCall| json!({ "type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments });
            text.into_iter().chain(calls.iter().map(call)).collect()
        }
        Tools::OutputOf(id) => {
            vec![json!({ "type": "function_call_output", "call_id": id, "output": message.content })]
        }
    }
}

/// The `type` of an event, as far as it matters.
#[derive(Clone, Copy, Deserialize)]
enum Kind {
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Content,
    #[serde(rename = "response.reasoning_text.delta", alias = "response.reasoning_summary_text.delta")]
    Reasoning,
    #[serde(
        rename = "response.function_call_arguments.delta",
        alias = "response.custom_tool_call_input.delta",
        alias = "response.mcp_call_arguments.delta",
        alias = "response.code_interpreter_call_code.delta"
    )]
    ToolCall,
    #[serde(rename = "response.output_item.added")]
    ItemAdded,
    #[serde(rename = "response.completed")]
    Completed,
    #[serde(rename = "response.incomplete")]
    Incomplete,
    #[serde(rename = "response.failed")]
    Failed,
    #[serde(rename = "error")]
    Error,
    #[serde(other)]
    Other,
}

/// An event. Its response is parsed once its kind is known: most events have none, and those of other kinds any value.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WireEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<Kind>,
    delta: Field,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    error: Option<Value>,
    message: Option<Value>,
}

/// The state of an answer, in the event that ends it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Response {
    status: Finish,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IncompleteDetails {
    reason: Finish,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
}

impl WireUsage {
    fn usage(self) -> Usage {
        Usage {
            prompt: self.input_tokens.0,
            completion: self.output_tokens.0,
            cached: self.input_tokens_details.and_then(|d| d.cached_tokens.0),
            reasoning: self.output_tokens_details.and_then(|d| d.reasoning_tokens.0),
        }
    }
}

impl Response {
    /// Returns the event that ends an answer. `status` applies if the response has none.
    fn last(self, status: &str) -> Event {
        let status = self.status.0.unwrap_or_else(|| status.into());
        let reason = match self.incomplete_details.and_then(|details| details.reason.0) {
            Some(reason) if &*reason == "max_output_tokens" => "length".into(),
            Some(reason) => reason,
            None if &*status == "completed" => "stop".into(),
            None => status,
        };
        Event {
            finish_reason: Some(reason),
            usage: self.usage.map(WireUsage::usage),
            error: self.error.as_ref().and_then(message),
            is_last: true,
            ..Event::default()
        }
    }
}

fn event(item: Item<'_>) -> Parsed {
    // Some gateways append it. An answer without its own last event before it is truncated.
    if item.data.trim_ascii() == b"[DONE]" {
        return Parsed::Ignored;
    }
    parse_json(item, |raw: WireEvent<'_>| raw.event().map_or(Parsed::Malformed, Parsed::Event))
}

impl WireEvent<'_> {
    fn event(&self) -> serde_json::Result<Event> {
        let piece = Event { has_choice: true, text_bytes: self.delta.bytes, ..Event::default() };
        let text = self.delta.text;
        let event = match self.kind {
            Some(Kind::Content) => Event { content: text, ..piece },
            Some(Kind::Reasoning) => Event { reasoning: text, ..piece },
            Some(Kind::ToolCall) => Event { tool_calls: text, ..piece },
            Some(Kind::Completed) => self.response()?.last("completed"),
            Some(Kind::Incomplete) => self.response()?.last("incomplete"),
            Some(Kind::Failed) => {
                let error = self.response()?.error.as_ref().and_then(message);
                Event { error: error.or_else(|| Some("response.failed".into())), ..Event::default() }
            }
            Some(Kind::Error) => {
                let error = self.message.as_ref().and_then(message);
                Event { error: error.or_else(|| Some("error".into())), ..Event::default() }
            }
            Some(Kind::ItemAdded | Kind::Other) | None => Event::default(),
        };
        Ok(Event { error: self.error.as_ref().and_then(message).or(event.error), ..event })
    }

    fn response(&self) -> serde_json::Result<Response> {
        let parse = |raw: &RawValue| serde_json::from_str::<Option<Response>>(raw.get());
        Ok(self.response.map(parse).transpose()?.flatten().unwrap_or_default())
    }
}

/// An answer that is one document.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    status: Finish,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
    usage: Option<WireUsage>,
    output: Option<Vec<OutputItem>>,
}

/// An item of the output: a message, reasoning, or a call of a tool.
#[derive(Deserialize, Default)]
#[serde(default)]
struct OutputItem {
    #[serde(rename = "type")]
    kind: Option<ItemKind>,
    content: Option<Vec<Part>>,
    summary: Option<Vec<Part>>,
    name: Field,
    arguments: Field,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum ItemKind {
    #[serde(rename = "reasoning")]
    Reasoning,
    #[serde(other)]
    Other,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Part {
    text: Field,
    refusal: Field,
}

fn document(body: &[u8]) -> Parsed {
    let Ok(document) = serde_json::from_slice::<Document>(body) else { return Parsed::Malformed };
    let Document { status, error, incomplete_details, usage, output } = document;
    let is_answer = output.is_some();
    let response = Response { status, error, incomplete_details, usage };
    let mut event = Event { has_choice: is_answer, ..response.last("completed") };
    for item in output.into_iter().flatten() {
        event.add_item(&item);
    }
    // A document cannot end early.
    event.is_last = false;
    if is_answer || event.error.is_some() { Parsed::Event(event) } else { Parsed::Malformed }
}

impl Event {
    fn add_item(&mut self, item: &OutputItem) {
        let text = |parts: &Option<Vec<Part>>| {
            let parts = parts.iter().flatten().map(|part| part.text.and(part.refusal));
            parts.fold(Field::default(), Field::and)
        };
        let call = item.name.and(item.arguments);
        let (content, summary) = (text(&item.content), text(&item.summary));
        if item.kind == Some(ItemKind::Reasoning) {
            self.reasoning = self.reasoning.max(content.and(summary).text);
        } else {
            self.content = self.content.max(content.text);
        }
        self.tool_calls = self.tool_calls.max(call.text);
        self.text_bytes += content.and(summary).and(call).bytes;
    }
}

fn answer_text(body: &[u8], stream: bool) -> AnswerText {
    if stream {
        return AnswerText::of_events(body, add_event);
    }
    let mut answer = AnswerText::default();
    let document = serde_json::from_slice::<TextDocument<'_>>(body).ok();
    for item in document.and_then(|document| document.output).into_iter().flatten() {
        let is_reasoning = item.kind == Some(ItemKind::Reasoning);
        let out = if is_reasoning { &mut answer.other_channels } else { &mut answer.text };
        add(out, item.content);
        add(&mut answer.other_channels, item.summary);
        add(&mut answer.other_channels, item.name);
        add(&mut answer.other_channels, item.arguments);
    }
    answer
}

fn add_event(answer: &mut AnswerText, json: &[u8]) -> ControlFlow<()> {
    let Ok(event) = serde_json::from_slice::<TextEvent<'_>>(json) else { return ControlFlow::Continue(()) };
    match event.kind {
        Some(Kind::Content) => add(&mut answer.text, event.delta),
        Some(Kind::Reasoning | Kind::ToolCall) => add(&mut answer.other_channels, event.delta),
        Some(Kind::ItemAdded) => add(&mut answer.other_channels, event.item.and_then(|item| item.name)),
        Some(Kind::Completed | Kind::Incomplete | Kind::Failed | Kind::Error) => {
            return ControlFlow::Break(());
        }
        Some(Kind::Other) | None => {}
    }
    ControlFlow::Continue(())
}

#[derive(Deserialize)]
struct TextEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<Kind>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<TextItem<'a>>,
}

#[derive(Deserialize)]
struct TextDocument<'a> {
    #[serde(borrow)]
    output: Option<Vec<TextItem<'a>>>,
}

#[derive(Deserialize)]
struct TextItem<'a> {
    #[serde(rename = "type")]
    kind: Option<ItemKind>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests;
