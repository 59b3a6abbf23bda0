//! Ollama's `/api/generate`, whose streams have a JSON document in each line.

use super::{Dialect, choices};
use crate::sim::rules::{LINES, Refusal, json_string};
use crate::sim::writer::{Channel, Writer};
use jiff::Timestamp;
use std::fmt::Write;

pub(super) const DIALECT: Dialect = Dialect {
    template_tokens: 0,
    default_output: None,
    streams: |asked| asked.unwrap_or(true),
    stream_type: LINES,
    head,
    open: |_, _| {},
    delta,
    close,
    document,
    error,
};

fn head(_: u64, _: bool, created: u64, model: &str) -> String {
    let created =
        i64::try_from(created).ok().and_then(|at| Timestamp::from_second(at).ok()).unwrap_or_default();
    format!(r#""model":{model},"created_at":"{created}""#)
}

/// Appends a line with tokens.
fn delta(writer: &mut Writer, out: &mut String, tokens: u32, _: bool, _: Channel) {
    let _ = write!(out, r#"{{{},"response":""#, writer.head);
    writer.words(out, tokens);
    out.push_str("\",\"done\":false}\n");
}

/// Appends the last line, which has the counts.
fn close(writer: &mut Writer, out: &mut String) {
    let _ = write!(out, r#"{{{},"response":"","#, writer.head);
    counts(writer, out);
    out.push('\n');
}

fn document(writer: &Writer) -> String {
    let mut out = format!(r#"{{{},"response":""#, writer.head);
    for channel in [Channel::Reasoning, Channel::Content] {
        choices::block(writer, &mut out, channel);
    }
    out.push_str("\",");
    counts(writer, &mut out);
    out
}

/// Appends the end of an answer. Durations, which nobody measures here, are left out.
fn counts(writer: &Writer, out: &mut String) {
    let (input, output) = (writer.input_tokens, writer.output_tokens);
    let _ = write!(
        out,
        r#""done":true,"done_reason":"length","prompt_eval_count":{input},"eval_count":{output}}}"#
    );
}

fn error(refusal: &Refusal) -> String {
    format!(r#"{{"error":{}}}"#, json_string(&refusal.message))
}
