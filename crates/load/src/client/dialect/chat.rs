//! `/v1/chat/completions`.

use super::{
    Dialect, PartFormat, PromptWriter, begin_messages, choices_fields, choices_text, end_messages,
    message_list,
};
use crate::client::encoder::Pinning;
use crate::client::event;
use bytes::Bytes;
use goodput_core::message::{Message, ToolCall, Tools};
use serde_json::{Value, json};

/// Parts with data URLs.
const PARTS: PartFormat = PartFormat {
    image: [r#"{"type":"image_url","image_url":{"url":"data:"#, ";base64,", r#""}}"#],
    text: r#"{"type":"text","text":""#,
};

pub(super) const DIALECT: Dialect = Dialect {
    content_type: "application/json",
    headers: &[],
    key_header: None,
    pinning: Pinning::FULL,
    asks_for_usage: true,
    fields: choices_fields,
    length_fields: &["max_completion_tokens", "max_tokens"],
    prompt: PromptWriter::Text { begin, end: end_messages, conversation, parts: Some(PARTS) },
    event: event::parse,
    document: event::parse_whole,
    answer_text: choices_text,
    // Any channel counts: content, reasoning, tool calls.
    carries_tokens: event::Event::has_text,
    choices_with_tokens: |choices| choices.with_text,
    is_content: |event| event.content.some(),
    document_has_tokens: |event| event.has_text() || event.text.some(),
    finish_completes: true,
};

/// Begins the messages, with the shared text as the system message.
fn begin(out: &mut Vec<u8>, system: Option<&str>) {
    out.extend_from_slice(b"\"messages\":");
    begin_messages(out, system);
}

fn conversation(out: &mut Vec<u8>, messages: &[Message], images: &[Bytes]) {
    out.extend_from_slice(b"\"messages\":");
    message_list(out, messages, images, |role| role, tools);
}

/// Returns a message that calls tools, or the output of a call.
pub(in crate::client) fn tools(message: &Message, tools: &Tools) -> Vec<Value> {
    vec![match tools {
        Tools::Calls(calls) => {
            let call = |c: &ToolCall| {
                let function = json!({ "name": c.name, "arguments": c.arguments });
                json!({ "id": c.id, "type": "function", "function": function })
            };
            let calls: Vec<Value> = calls.iter().map(call).collect();
            let content = Some(&message.content).filter(|content| !content.is_empty());
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        Tools::OutputOf(id) => json!({ "role": "tool", "tool_call_id": id, "content": message.content }),
    }]
}
