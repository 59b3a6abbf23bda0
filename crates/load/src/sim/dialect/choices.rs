//! Pieces of the APIs whose answers have `choices`.

use crate::sim::rules::{Refusal, json_string};
use crate::sim::writer::{Block, Channel, Thought, Writer, words};
use std::fmt::Write;

const FINGERPRINT: &str = concat!("goodput-", env!("CARGO_PKG_VERSION"));

/// Formats the fields that all events of an answer have.
pub(super) fn head(prefix: &str, object: &str, id: u64, created: u64, model: &str) -> String {
    format!(r#""id":"{prefix}-{id:016x}","object":"{object}","created":{created},"model":{model}"#)
}

fn begin(writer: &Writer, out: &mut String) {
    for part in ["data: {", &writer.head, ",\"choices\":["] {
        out.push_str(part);
    }
}

/// Appends the beginning of an event up to the index of its choice.
fn begin_choice(writer: &Writer, out: &mut String) {
    begin(writer, out);
    let _ = write!(out, "{{\"index\":{},", writer.index);
}

/// Appends an event without tokens: its choice after the index, and the rest after its usage.
pub(super) fn event(writer: &Writer, out: &mut String, choice: &str, rest: &str) {
    begin_choice(writer, out);
    out.push_str(choice);
    usage(writer, out, writer.options.continuous_usage_stats, None);
    out.push_str(rest);
}

/// Appends an event with tokens, between the two parts of its choice after the index.
pub(super) fn delta(writer: &mut Writer, out: &mut String, tokens: u32, choice: [&str; 2]) {
    begin_choice(writer, out);
    out.push_str(choice[0]);
    writer.words(out, tokens);
    out.push_str(choice[1]);
    usage(writer, out, writer.options.continuous_usage_stats, None);
    out.push_str("}\n\n");
}

/// Appends the usage, if requested, and `[DONE]`.
pub(super) fn close(writer: &mut Writer, out: &mut String) {
    if writer.options.include_usage {
        begin(writer, out);
        out.push(']');
        usage(writer, out, true, writer.cached_tokens);
        let _ = write!(out, ",\"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n");
    }
    out.push_str("data: [DONE]\n\n");
}

/// Formats the reasoning details of the usage, if any.
fn details(thought: Thought) -> String {
    let details = |n| format!(r#","completion_tokens_details":{{"reasoning_tokens":{n}}}"#);
    thought.reported.map_or_else(String::new, details)
}

fn usage(writer: &Writer, out: &mut String, wanted: bool, cached_tokens: Option<u32>) {
    if wanted {
        let (input, output) = (writer.input_tokens, writer.output_tokens);
        let total = u64::from(input) + u64::from(output);
        let _ = write!(
            out,
            r#","usage":{{"prompt_tokens":{input},"total_tokens":{total},"completion_tokens":{output}"#
        );
        if let Some(cached) = cached_tokens {
            let _ = write!(out, r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#);
        }
        out.push_str(&details(writer.thought));
        out.push('}');
    }
}

/// Appends the words of the block on a channel, if the answer has one. Returns true if it does.
pub(super) fn block(writer: &Writer, out: &mut String, channel: Channel) -> bool {
    let block = writer.blocks.iter().find(|block| block.channel == channel);
    if let Some(Block { from, tokens, .. }) = block {
        words(out, *from, *tokens);
    }
    block.is_some()
}

/// Formats an answer that is one document; `answer` appends the text of each choice.
pub(super) fn document(writer: &Writer, answer: impl Fn(&mut String)) -> String {
    let input = writer.input_tokens;
    let output = writer.output_tokens.saturating_mul(writer.choices);
    let mut out = format!("{{{},\"choices\":[", writer.head);
    for index in 0..writer.choices {
        let _ = write!(out, "{}{{\"index\":{index},", if index > 0 { "," } else { "" });
        answer(&mut out);
        out.push_str(r#","logprobs":null,"finish_reason":"length","stop_reason":null}"#);
    }
    let total = u64::from(input) + u64::from(output);
    let cached = writer.cached_tokens.map_or("null".into(), |n| format!(r#"{{"cached_tokens":{n}}}"#));
    let reported = writer.thought.reported.map(|n| n.saturating_mul(writer.choices));
    let _ = write!(
        out,
        concat!(
            r#"],"system_fingerprint":"{}","#,
            r#""usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},"prompt_tokens_details":{}{}}}}}"#
        ),
        FINGERPRINT,
        input,
        total,
        output,
        cached,
        details(Thought { reported, ..writer.thought })
    );
    out
}

/// Formats an error as OpenAI does.
pub(in crate::sim) fn error(refusal: &Refusal) -> String {
    let param = refusal.param.as_deref().map_or("null".into(), json_string);
    let (message, kind, code) = (json_string(&refusal.message), refusal.kind, refusal.status.as_u16());
    format!(r#"{{"error":{{"message":{message},"type":"{kind}","param":{param},"code":{code}}}}}"#)
}
