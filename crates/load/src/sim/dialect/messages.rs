//! `/v1/messages`.

use super::Dialect;
use crate::sim::rules::{EVENTS, Refusal, json_string};
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
    error,
};

/// The content of a message that has none yet.
const NO_CONTENT: &str = r#""content":[]"#;

fn head(id: u64, _: bool, _: u64, model: &str) -> String {
    format!(r#""id":"chatcmpl-{id:016x}","type":"message","role":"assistant",{NO_CONTENT},"model":{model}"#)
}

fn open(writer: &mut Writer, out: &mut String) {
    out.extend([
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{",
        &writer.head,
        r#","stop_reason":null,"stop_sequence":null,"usage":{"#,
    ]);
    let _ = write!(out, "\"input_tokens\":{},\"output_tokens\":0}}}}}}\n\n", writer.input_tokens);
}

fn delta(writer: &mut Writer, out: &mut String, tokens: u32, _: bool, channel: Channel) {
    if tokens == 0 {
        return;
    }
    if writer.begins_block(channel) {
        end_block(writer, out);
        writer.begin_block(channel);
        out.push_str(
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":",
        );
        out.push_str(match channel {
            Channel::Content => r#"{"type":"text","text":""}"#,
            Channel::Reasoning => r#"{"type":"thinking","thinking":""}"#,
        });
        end_event(writer, out);
    }
    begin_delta(out);
    out.push_str(match channel {
        Channel::Content => r#"{"type":"text_delta","text":""#,
        Channel::Reasoning => r#"{"type":"thinking_delta","thinking":""#,
    });
    writer.words(out, tokens);
    out.push_str("\"}");
    end_event(writer, out);
}

fn begin_delta(out: &mut String) {
    out.push_str("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":");
}

/// Appends the end of an event about the latest block.
fn end_event(writer: &Writer, out: &mut String) {
    let _ = write!(out, ",\"index\":{}}}\n\n", writer.blocks.len().saturating_sub(1));
}

/// Appends the signature of a thinking block, which is the id of the answer.
fn signature(writer: &Writer, out: &mut String) {
    let id = writer.head.split('"').nth(3).unwrap_or_default();
    let _ = write!(out, r#""signature":"{}""#, id.strip_prefix("chatcmpl-").unwrap_or(id));
}

/// Appends the end of the open block, if there is one.
fn end_block(writer: &Writer, out: &mut String) {
    let Some(block) = writer.blocks.last() else { return };
    if block.channel == Channel::Reasoning {
        begin_delta(out);
        out.push_str(r#"{"type":"signature_delta","#);
        signature(writer, out);
        out.push('}');
        end_event(writer, out);
    }
    out.push_str("event: content_block_stop\ndata: {\"type\":\"content_block_stop\"");
    end_event(writer, out);
}

/// Appends the usage. Its input tokens are those that were not in the cache.
fn usage(writer: &Writer, out: &mut String) {
    let input = writer.input_tokens.saturating_sub(writer.cached_tokens.unwrap_or(0));
    let _ = write!(out, r#""usage":{{"input_tokens":{input},"output_tokens":{}"#, writer.output_tokens);
    if let Some(cached) = writer.cached_tokens {
        let _ = write!(out, r#","cache_read_input_tokens":{cached}"#);
    }
    out.push('}');
}

fn close(writer: &mut Writer, out: &mut String) {
    end_block(writer, out);
    out.push_str("event: message_delta\ndata: {\"type\":\"message_delta\",");
    out.push_str(r#""delta":{"stop_reason":"max_tokens","stop_sequence":null},"#);
    usage(writer, out);
    out.push_str("}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

fn document(writer: &Writer) -> String {
    let mut content = String::from("\"content\":[");
    for (i, Block { channel, from, tokens }) in writer.blocks.iter().enumerate() {
        if i > 0 {
            content.push(',');
        }
        content.push_str(match channel {
            Channel::Content => r#"{"type":"text","text":""#,
            Channel::Reasoning => r#"{"type":"thinking","thinking":""#,
        });
        words(&mut content, *from, *tokens);
        content.push('"');
        if *channel == Channel::Reasoning {
            content.push(',');
            signature(writer, &mut content);
        }
        content.push('}');
    }
    content.push(']');
    let head = writer.head.replacen(NO_CONTENT, &content, 1);
    let mut out = format!(r#"{{{head},"stop_reason":"max_tokens","#);
    usage(writer, &mut out);
    out.push('}');
    out
}

/// Formats an error as Anthropic does.
fn error(refusal: &Refusal) -> String {
    let message = json_string(&refusal.message);
    format!(r#"{{"type":"error","error":{{"type":"{}","message":{message}}}}}"#, refusal.kind)
}
