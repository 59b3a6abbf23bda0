//! `/v1/responses`.

use super::{Dialect, choices};
use crate::sim::rules::EVENTS;
use crate::sim::writer::{Block, Channel, Writer, words};
use std::fmt::Write;

pub(super) const DIALECT: Dialect = Dialect {
    template_tokens: 8,
    default_output: None,
    streams: super::if_asked,
    stream_type: EVENTS,
    head,
    open,
    delta,
    close,
    document,
    error: choices::error,
};

/// The fields between the output of a response and its status.
const SETTINGS: &str = r#","parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":null,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto""#;
/// The fields between its status and its usage, and after it.
const OPTIONS: &str = r#","text":null,"top_logprobs":null,"truncation":"disabled""#;
const REST: &str = r#","user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null"#;
/// The details of a response that is not complete, or not complete yet.
const NO_DETAILS: &str = r#""incomplete_details":null"#;
const DETAILS: &str = r#""incomplete_details":{"reason":"max_output_tokens"}"#;

fn head(id: u64, _: bool, created: u64, model: &str) -> String {
    format!(
        r#""id":"resp_{id:016x}","created_at":{created},{NO_DETAILS},"instructions":null,"metadata":null,"model":{model},"object":"response""#
    )
}

/// Appends one event; `body` appends its fields in front of the sequence number.
fn event(writer: &mut Writer, out: &mut String, kind: &str, body: impl FnOnce(&mut Writer, &mut String)) {
    out.extend(["event: ", kind, "\ndata: {"]);
    body(writer, out);
    let _ = write!(out, ",\"sequence_number\":{}", writer.sequence);
    writer.sequence += 1;
    end_event(out, kind);
}

fn end_event(out: &mut String, kind: &str) {
    out.extend([",\"type\":\"", kind, "\"}\n\n"]);
}

fn open(writer: &mut Writer, out: &mut String) {
    for kind in ["response.created", "response.in_progress"] {
        event(writer, out, kind, |writer, out| {
            out.extend(["\"response\":{", &writer.head, ",\"output\":[]", SETTINGS]);
            out.extend([",\"status\":\"in_progress\"", OPTIONS, ",\"usage\":null", REST, "}"]);
        });
    }
}

fn delta(writer: &mut Writer, out: &mut String, tokens: u32, _: bool, channel: Channel) {
    if tokens == 0 {
        return;
    }
    if writer.begins_block(channel) {
        end_item(writer, out);
        writer.begin_block(channel);
        begin_item(writer, out);
    }
    let kind = match channel {
        Channel::Content => "response.output_text.delta",
        Channel::Reasoning => "response.reasoning_text.delta",
    };
    event(writer, out, kind, |writer, out| {
        out.push_str(r#""content_index":0,"delta":""#);
        writer.words(out, tokens);
        out.push_str(r#"","item_id":""#);
        item_id(writer, out, channel);
        out.push('"');
        out.push_str(logprobs(channel));
        let _ = write!(out, ",\"output_index\":{}", writer.blocks.len() - 1);
    });
}

/// Returns the field of events about a text of the answer.
const fn logprobs(channel: Channel) -> &'static str {
    match channel {
        Channel::Content => r#","logprobs":[]"#,
        Channel::Reasoning => "",
    }
}

/// Appends the id of the item on a channel, of which there is one: that of the response with another prefix.
fn item_id(writer: &Writer, out: &mut String, channel: Channel) {
    out.push_str(match channel {
        Channel::Content => "msg_",
        Channel::Reasoning => "rs_",
    });
    let id = writer.head.split('"').nth(3).unwrap_or_default();
    out.push_str(id.strip_prefix("resp_").unwrap_or(id));
}

/// Appends an item of the output; with its text if it is complete.
fn item(writer: &Writer, out: &mut String, block: Block, complete: bool) {
    let status = if complete { "completed" } else { "in_progress" };
    out.push_str(r#"{"id":""#);
    item_id(writer, out, block.channel);
    match block.channel {
        Channel::Content => {
            out.push_str(r#"","content":["#);
            if complete {
                part(out, block, "null");
            }
            let _ =
                write!(out, r#"],"role":"assistant","status":"{status}","type":"message","phase":null}}"#);
        }
        Channel::Reasoning => {
            out.push_str(r#"","summary":[],"type":"reasoning","content":"#);
            if complete {
                out.push('[');
                part(out, block, "null");
                out.push(']');
            } else {
                out.push_str("null");
            }
            let _ = write!(out, r#","encrypted_content":null,"status":"{status}"}}"#);
        }
    }
}

/// Appends the part of an item that has its text.
fn part(out: &mut String, block: Block, logprobs: &str) {
    if block.channel == Channel::Content {
        out.push_str(r#"{"annotations":[],"text":""#);
        words(out, block.from, block.tokens);
        let _ = write!(out, r#"","type":"output_text","logprobs":{logprobs}}}"#);
    } else {
        out.push_str(r#"{"text":""#);
        words(out, block.from, block.tokens);
        out.push_str(r#"","type":"reasoning_text"}"#);
    }
}

fn begin_item(writer: &mut Writer, out: &mut String) {
    let (Some(block), index) = (writer.blocks.last().copied(), writer.blocks.len().saturating_sub(1)) else {
        return;
    };
    event(writer, out, "response.output_item.added", |writer, out| {
        out.push_str("\"item\":");
        item(writer, out, block, false);
        let _ = write!(out, ",\"output_index\":{index}");
    });
    event(writer, out, "response.content_part.added", |writer, out| {
        part_event(writer, out, block, index, "[]");
    });
}

fn part_event(writer: &Writer, out: &mut String, block: Block, index: usize, logprobs: &str) {
    out.push_str(r#""content_index":0,"item_id":""#);
    item_id(writer, out, block.channel);
    let _ = write!(out, r#"","output_index":{index},"part":"#);
    part(out, block, logprobs);
}

/// Appends the end of the open item, if there is one.
fn end_item(writer: &mut Writer, out: &mut String) {
    let (Some(block), index) = (writer.blocks.last().copied(), writer.blocks.len().saturating_sub(1)) else {
        return;
    };
    let kind = match block.channel {
        Channel::Content => "response.output_text.done",
        Channel::Reasoning => "response.reasoning_text.done",
    };
    out.extend(["event: ", kind, "\ndata: {\"content_index\":0,\"item_id\":\""]);
    item_id(writer, out, block.channel);
    out.extend(["\"", logprobs(block.channel)]);
    let _ = write!(out, r#","output_index":{index},"sequence_number":{},"text":""#, writer.sequence);
    writer.sequence += 1;
    words(out, block.from, block.tokens);
    out.push('"');
    end_event(out, kind);
    event(writer, out, "response.content_part.done", |writer, out| {
        part_event(writer, out, block, index, "null");
    });
    event(writer, out, "response.output_item.done", |writer, out| {
        out.push_str("\"item\":");
        item(writer, out, block, true);
        let _ = write!(out, ",\"output_index\":{index}");
    });
}

/// Appends the fields of a complete response, with its output and its usage.
fn response(writer: &Writer, out: &mut String) {
    out.push_str(&writer.head.replacen(NO_DETAILS, DETAILS, 1));
    out.push_str(",\"output\":[");
    for (i, block) in writer.blocks.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        item(writer, out, *block, true);
    }
    out.extend(["]", SETTINGS, ",\"status\":\"incomplete\"", OPTIONS]);
    let (input, output) = (writer.input_tokens, writer.output_tokens);
    let (cached, reasoning) = (writer.cached_tokens.unwrap_or(0), writer.thought.reported.unwrap_or(0));
    let _ = write!(
        out,
        concat!(
            r#","usage":{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"#,
            r#""output_tokens":{},"output_tokens_details":{{"reasoning_tokens":{},"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}},"total_tokens":{}}}"#
        ),
        input,
        cached,
        output,
        reasoning,
        u64::from(input) + u64::from(output)
    );
    out.push_str(REST);
}

fn close(writer: &mut Writer, out: &mut String) {
    end_item(writer, out);
    // As in vLLM, also at the maximum length, which the details tell.
    event(writer, out, "response.completed", |writer, out| {
        out.push_str("\"response\":{");
        response(writer, out);
        out.push('}');
    });
}

fn document(writer: &Writer) -> String {
    let mut out = String::from("{");
    response(writer, &mut out);
    out.push('}');
    out
}
