//! `/v1/completions`.

use super::{Dialect, PromptWriter, choices_fields, choices_text, escape, joined};
use crate::client::encoder::Pinning;
use crate::client::event::{self, Event};
use bytes::Bytes;
use goodput_core::message::Message;

pub(super) const DIALECT: Dialect = Dialect {
    content_type: "application/json",
    headers: &[],
    key_header: None,
    pinning: Pinning::FULL,
    asks_for_usage: true,
    fields: choices_fields,
    length_fields: &["max_completion_tokens", "max_tokens"],
    prompt: PromptWriter::Text { begin, end, conversation, parts: None },
    event: event::parse,
    document: event::parse_whole,
    answer_text: choices_text,
    carries_tokens,
    // As `carries_tokens`: a token may have empty text.
    choices_with_tokens: |choices| choices.with_text | (choices.present & !choices.finished),
    is_content: |_| true,
    document_has_tokens,
    finish_completes: true,
};

/// Begins the prompt, with the shared text as its beginning.
fn begin(out: &mut Vec<u8>, system: Option<&str>) {
    out.extend_from_slice(b"\"prompt\":\"");
    escape(out, system.unwrap_or_default());
}

fn end(out: &mut Vec<u8>, user: &str) {
    escape(out, user);
    out.push(b'"');
}

/// Joins the contents into one prompt, since there are no roles. There is no place for images.
fn conversation(out: &mut Vec<u8>, messages: &[Message], _images: &[Bytes]) {
    out.extend_from_slice(b"\"prompt\":\"");
    joined(messages, |text| escape(out, text));
    out.push(b'"');
}

/// Counts every event with a choice that has text or has not finished: a token may have empty text.
fn carries_tokens(event: &Event) -> bool {
    let counted_none = event.usage.and_then(|u| u.completion) == Some(0);
    event.has_choice && (event.text.some() || (event.finish_reason.is_none() && !counted_none))
}

fn document_has_tokens(event: &Event) -> bool {
    let counted = || event.usage.and_then(|u| u.completion).is_some_and(|n| n > 0);
    event.has_text() || event.text.some() || counted()
}
