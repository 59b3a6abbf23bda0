//! The client's side of each API: how a request states its prompt and the length of the answer, how events of an
//! answer are parsed, and which of them carry tokens.
//!
//! The APIs are the variants of [`Api`]. A new one needs an arm in every `match` here, and in `sim/dialect.rs` for the
//! simulated server; the compiler lists them.

use super::answer_text::AnswerText;
use super::encoder::Pinning;
use super::event::{self, Event, Parsed};
use super::sse::Item;
use goodput_core::endpoint::Api;
use goodput_core::message::{Message, Role};
use serde_json::{Map, Value, json};

/// Returns the request fields that do not depend on the single request.
pub(super) fn fields(api: Api, model: &str, pinning: Pinning, usage: bool) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("model".into(), model.into());
    fields.insert("stream".into(), true.into());
    match api {
        Api::Chat | Api::Completions => {
            if usage {
                fields.insert("stream_options".into(), json!({ "include_usage": true }));
            }
            if pinning.ignore_eos {
                fields.insert("ignore_eos".into(), true.into());
            }
        }
    }
    fields
}

/// Returns the field that sets the length of an answer, in tokens.
pub(super) const fn length_field(api: Api) -> &'static str {
    match api {
        Api::Chat | Api::Completions => "max_tokens",
    }
}

/// Returns the fields that may set the length of an answer, the one that takes precedence first.
pub(super) const fn length_fields(api: Api) -> &'static [&'static str] {
    match api {
        Api::Chat | Api::Completions => &["max_completion_tokens", "max_tokens"],
    }
}

/// Appends the prompt up to the user's text. `system` is text that many requests share: a system message in chat, the
/// beginning of the prompt in completions.
pub(super) fn begin_prompt(api: Api, out: &mut Vec<u8>, system: Option<&str>) {
    match api {
        Api::Chat => {
            out.extend_from_slice(b"\"messages\":[");
            if let Some(system) = system {
                out.extend_from_slice(b"{\"role\":\"system\",\"content\":\"");
                escape(out, system);
                out.extend_from_slice(b"\"},");
            }
            out.extend_from_slice(b"{\"role\":\"user\",\"content\":\"");
        }
        Api::Completions => {
            out.extend_from_slice(b"\"prompt\":\"");
            escape(out, system.unwrap_or_default());
        }
    }
}

/// Appends the user's text and the end of the prompt.
pub(super) fn end_prompt(api: Api, out: &mut Vec<u8>, user: &str) {
    escape(out, user);
    out.extend_from_slice(match api {
        Api::Chat => b"\"}]",
        Api::Completions => b"\"",
    });
}

/// Appends a whole conversation as the prompt.
///
/// Chat sends the messages unchanged. Completions has no roles: the contents are joined into one prompt, each on a new
/// line, except that an assistant message continues the text before it. The server generated it that way, so the
/// history is in its prefix cache.
pub(super) fn conversation(api: Api, out: &mut Vec<u8>, messages: &[Message]) {
    match api {
        Api::Chat => {
            out.extend_from_slice(b"\"messages\":[");
            for (i, message) in messages.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"{\"role\":\"" } else { b",{\"role\":\"" });
                out.extend_from_slice(message.role.name().as_bytes());
                out.extend_from_slice(b"\",\"content\":\"");
                escape(out, &message.content);
                out.extend_from_slice(b"\"}");
            }
            out.push(b']');
        }
        Api::Completions => {
            out.extend_from_slice(b"\"prompt\":\"");
            for (i, message) in messages.iter().enumerate() {
                if i > 0 && message.role != Role::Assistant {
                    out.extend_from_slice(b"\\n");
                }
                escape(out, &message.content);
            }
            out.push(b'"');
        }
    }
}

/// Appends a list of token ids as the prompt. A plan that asks for it in an API without such prompts is refused (see
/// [`Api::takes_token_ids`]).
pub(super) fn token_ids(api: Api, out: &mut Vec<u8>, ids: &[u32]) {
    match api {
        Api::Chat | Api::Completions => out.extend_from_slice(b"\"prompt\":"),
    }
    serde_json::to_writer(out, ids).expect("writing numbers to memory cannot fail");
}

/// Appends `text` escaped as the inside of a JSON string. Escapes are per character, so pieces can be joined.
fn escape(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    serde_json::to_writer(&mut *out, text).expect("writing a string to memory cannot fail");
    out.remove(start);
    out.pop();
}

/// Parses one event of a stream.
pub(super) fn event(api: Api, item: Item<'_>) -> Parsed {
    match api {
        Api::Chat | Api::Completions => event::parse(item),
    }
}

/// Parses an answer that is one document.
pub(super) fn document(api: Api, body: &[u8]) -> Parsed {
    match api {
        Api::Chat | Api::Completions => event::parse_whole(body),
    }
}

/// Extracts the text of a complete answer: of a stream, or of one document.
pub(super) fn answer_text(api: Api, body: &[u8], stream: bool) -> AnswerText {
    match api {
        Api::Chat | Api::Completions if stream => AnswerText::of_stream(body),
        Api::Chat | Api::Completions => AnswerText::of_document(body),
    }
}

/// Returns true if an event carries tokens, judged by its contents because the server sends no running count. Chat needs
/// text on some channel. Completions counts every event with a choice that has text or has not finished: a token may
/// have empty text.
pub(super) fn carries_tokens(api: Api, event: &Event) -> bool {
    match api {
        Api::Chat => event.has_text(),
        Api::Completions => {
            let counted_none = event.usage.and_then(|u| u.completion) == Some(0);
            event.has_choice && (event.text.some() || (event.finish_reason.is_none() && !counted_none))
        }
    }
}

/// Returns true if the tokens of an event belong to the answer itself, not to its reasoning or a tool call.
pub(super) fn is_content(api: Api, event: &Event) -> bool {
    match api {
        Api::Chat => event.content.some(),
        Api::Completions => true,
    }
}

/// Returns true if an answer that is one document has tokens.
pub(super) fn document_has_tokens(api: Api, event: &Event) -> bool {
    let counted = || event.usage.and_then(|u| u.completion).is_some_and(|n| n > 0);
    match api {
        Api::Chat => event.has_text() || event.text.some(),
        Api::Completions => event.has_text() || event.text.some() || counted(),
    }
}
