//! The client's side of each API: one declaration in one file each.
//!
//! A new API needs a variant of [`Api`], a file here with its [`Dialect`], and one in `sim/dialect` for the simulated
//! server; the compiler names what is missing.

mod chat;
mod classify;
mod completions;
mod embeddings;
mod messages;
mod pooling;
mod rerank;
mod responses;
mod score;
mod template;
mod transcriptions;

pub(super) use chat::tools as chat_tools;
pub use template::TemplateReader;

use super::answer_text::AnswerText;
use super::encoder::Pinning;
use super::event::{ChoiceSets, Event, Parsed};
use super::sse::Item;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use goodput_core::endpoint::Api;
use goodput_core::message::{Message, Role, Tools};
use goodput_workload::images::Image;
use goodput_workload::items::ItemTexts;
use serde_json::{Map, Value, json};

/// How an API is spoken: the body of a request, the events of an answer, and which of them carry tokens.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Content type of requests.
    pub(super) content_type: &'static str,
    /// Headers that the API requires; the plan may set them otherwise.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// Header that carries the API key in addition to `authorization`.
    pub(super) key_header: Option<&'static str>,
    /// The fields that pin the length of an answer, as far as the API has them.
    pub(super) pinning: Pinning,
    /// True if a stream has usage only if `stream_options` asks for it.
    pub(super) asks_for_usage: bool,
    /// Returns the request fields that do not depend on the single request.
    pub(super) fields: fn(model: &str, pinning: Pinning, usage: bool) -> Map<String, Value>,
    /// Fields that may set the length of an answer in tokens, the one that takes precedence first; goodput writes the last.
    /// Empty if answers are not generated.
    pub(super) length_fields: &'static [&'static str],
    /// Writes prompts.
    pub(super) prompt: PromptWriter,
    /// Parses one event of a stream.
    pub(super) event: fn(Item<'_>) -> Parsed,
    /// Parses an answer that is one document.
    pub(super) document: fn(&[u8]) -> Parsed,
    /// Extracts the text of a complete answer: of a stream, or of one document.
    pub(super) answer_text: fn(body: &[u8], stream: bool) -> AnswerText,
    /// Returns true if an event carries tokens, judged by its contents because the server sends no running count.
    pub(super) carries_tokens: fn(&Event) -> bool,
    /// Returns the choices whose tokens an event carries, as a set: see [`ChoiceSets`]. Empty in an API without choices.
    pub(super) choices_with_tokens: fn(&ChoiceSets) -> u64,
    /// Returns true if the tokens of an event belong to the answer itself, not to its reasoning or a tool call.
    pub(super) is_content: fn(&Event) -> bool,
    /// Returns true if an answer that is one document has tokens.
    pub(super) document_has_tokens: fn(&Event) -> bool,
    /// True if an answer with a finish reason is complete, whatever else its stream lacks. False for an API whose streams always end in an
    /// event that says so.
    pub(super) finish_completes: bool,
}

/// Writes the prompt fields of a request.
#[derive(Debug)]
pub(super) enum PromptWriter {
    /// A prompt that is answered with generated tokens.
    Text {
        /// Appends the prompt up to the user's text, after text that many requests share.
        begin: fn(out: &mut Vec<u8>, system: Option<&str>),
        /// Appends the user's text and the end of the prompt.
        end: fn(out: &mut Vec<u8>, user: &str),
        /// Appends a whole conversation as the prompt. `images` has the images before the text of each message, by its index, as
        /// [`PartFormat::images`] returns them; messages beyond its end have none.
        conversation: fn(out: &mut Vec<u8>, messages: &[Message], images: &[Bytes]),
        /// The parts of a user message with images; `None` if the API takes none.
        parts: Option<PartFormat>,
    },
    /// Items, each of which is answered.
    Items {
        /// Appends the items.
        write: fn(out: &mut Vec<u8>, items: &ItemTexts),
        /// True if a query is part of the request.
        needs_query: bool,
    },
    /// A form with an audio file, which is answered with its text. An encoder of forms writes it.
    Audio,
}

/// The JSON of the parts of a user message with images.
#[derive(Debug)]
pub(super) struct PartFormat {
    /// The JSON before the media type of an image, between it and the base64, and after that.
    image: [&'static str; 3],
    /// The JSON before the text.
    text: &'static str,
}

impl PartFormat {
    /// Returns the parts of images, and the beginning of the one with the text after them; empty if there are none.
    pub(super) fn images(&self, images: &[Image]) -> Bytes {
        if images.is_empty() {
            return Bytes::new();
        }
        let [before, between, after] = self.image;
        let around = before.len() + between.len() + after.len() + 16;
        let size: usize = images.iter().map(|image| image.bytes.len().div_ceil(3) * 4 + around).sum();
        let mut out = Vec::with_capacity(size + self.text.len());
        for image in images {
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(image.media_type.as_bytes());
            out.extend_from_slice(between.as_bytes());
            base64(&mut out, &image.bytes);
            out.extend_from_slice(after.as_bytes());
            out.push(b',');
        }
        out.extend_from_slice(self.text.as_bytes());
        out.into()
    }
}

/// Appends bytes in base64.
fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).expect("the room is as long as the base64");
    out.truncate(start + written);
}

impl Dialect {
    /// Returns the dialect of an API. That of a template judges the events of generated answers; only a [`TemplateReader`] can read them.
    pub(super) const fn of(api: Api) -> &'static Self {
        match api {
            Api::Chat => &chat::DIALECT,
            Api::Completions => &completions::DIALECT,
            Api::Embeddings => &embeddings::DIALECT,
            Api::Rerank => &rerank::DIALECT,
            Api::Score => &score::DIALECT,
            Api::Pooling => &pooling::DIALECT,
            Api::Classify => &classify::DIALECT,
            Api::Responses => &responses::DIALECT,
            Api::Messages => &messages::DIALECT,
            Api::Transcriptions => &transcriptions::DIALECT,
            Api::Template => &template::TOKENS,
        }
    }
}

impl Default for &'static Dialect {
    fn default() -> Self {
        Dialect::of(Api::default())
    }
}

/// Parses one event of a stream of a built-in API.
pub fn parse_event(api: Api, item: Item<'_>) -> Parsed {
    (Dialect::of(api).event)(item)
}

/// Parses an answer of a built-in API that is one document.
pub fn parse_document(api: Api, body: &[u8]) -> Parsed {
    (Dialect::of(api).document)(body)
}

/// Returns the fields of a request that is answered with a stream.
fn stream_fields(model: &str) -> Map<String, Value> {
    Map::from_iter([("model".to_owned(), model.into()), ("stream".to_owned(), true.into())])
}

/// Returns the fields that the APIs with `choices` have in common.
fn choices_fields(model: &str, pinning: Pinning, usage: bool) -> Map<String, Value> {
    let mut fields = stream_fields(model);
    if usage {
        fields.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if pinning.ignore_eos {
        fields.insert("ignore_eos".into(), true.into());
    }
    fields
}

/// Returns the text of an answer with `choices`.
fn choices_text(body: &[u8], stream: bool) -> AnswerText {
    if stream { AnswerText::of_stream(body) } else { AnswerText::of_document(body) }
}

/// Returns the dialect of an API that answers with one document of results.
const fn items_dialect(prompt: PromptWriter, document: fn(&[u8]) -> Parsed) -> Dialect {
    Dialect {
        content_type: "application/json",
        headers: &[],
        key_header: None,
        pinning: Pinning::NONE,
        asks_for_usage: false,
        fields: |model, _, _| Map::from_iter([("model".to_owned(), model.into())]),
        length_fields: &[],
        prompt,
        // Streams do not exist: one that comes all the same has nothing to count.
        event: |_| Parsed::Malformed,
        document,
        answer_text: |_, _| AnswerText::default(),
        carries_tokens: |_| false,
        choices_with_tokens: |_| 0,
        is_content: |_| false,
        document_has_tokens: |event| event.results > 0,
        finish_completes: false,
    }
}

/// Appends a field with a list of texts.
fn text_list(out: &mut Vec<u8>, field: &str, texts: &[String]) {
    out.extend_from_slice(format!("\"{field}\":").as_bytes());
    serde_json::to_writer(out, texts).expect("writing strings to memory cannot fail");
}

/// Appends the field of the query, and the comma after it.
fn query(out: &mut Vec<u8>, field: &str, items: &ItemTexts) {
    out.extend_from_slice(format!("\"{field}\":\"").as_bytes());
    escape(out, items.query.as_deref().unwrap_or_default());
    out.extend_from_slice(b"\",");
}

/// Appends a list of token ids as a prompt. A plan that asks for it in an API without such prompts is refused (see
/// [`Api::takes_token_ids`]).
pub(super) fn token_ids(out: &mut Vec<u8>, ids: &[u32]) {
    out.extend_from_slice(b"\"prompt\":");
    serde_json::to_writer(out, ids).expect("writing numbers to memory cannot fail");
}

/// Joins the contents of a conversation into one text, which `add` appends piece by piece: each on a new line, except that an assistant
/// message continues the text before it. The server generated it that way, so the history is in its prefix cache.
pub(super) fn joined(messages: &[Message], mut add: impl FnMut(&str)) {
    for (i, message) in messages.iter().enumerate() {
        if i > 0 && message.role != Role::Assistant {
            add("\n");
        }
        message.texts().for_each(&mut add);
    }
}

/// Appends a list of messages up to the user's text, with the text that many requests share as the system message.
pub(super) fn begin_messages(out: &mut Vec<u8>, system: Option<&str>) {
    out.push(b'[');
    if let Some(system) = system {
        out.extend_from_slice(b"{\"role\":\"system\",\"content\":\"");
        escape(out, system);
        out.extend_from_slice(b"\"},");
    }
    out.extend_from_slice(b"{\"role\":\"user\",\"content\":\"");
}

/// Appends the user's text and the end of the list.
pub(super) fn end_messages(out: &mut Vec<u8>, user: &str) {
    escape(out, user);
    out.extend_from_slice(b"\"}]");
}

/// Appends a list of messages with the roles that every API knows: `role` maps that of each message. A message with images, as in
/// [`PromptWriter::Text`], has parts. `tools` returns the elements of the list for a message that calls tools, or for the output of a call.
pub(super) fn message_list(
    out: &mut Vec<u8>,
    messages: &[Message],
    images: &[Bytes],
    role: impl Fn(Role) -> Role,
    tools: impl Fn(&Message, &Tools) -> Vec<Value>,
) {
    out.push(b'[');
    for (i, message) in messages.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if let Some(part) = &message.tools {
            for (k, element) in tools(message, part).iter().enumerate() {
                if k > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, element).expect("writing to memory cannot fail");
            }
            continue;
        }
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(role(message.role).name().as_bytes());
        let images = images.get(i).filter(|images| !images.is_empty());
        out.extend_from_slice(if images.is_some() { b"\",\"content\":[" } else { b"\",\"content\":\"" });
        out.extend_from_slice(images.map_or(&[], |images| images));
        escape(out, &message.content);
        out.extend_from_slice(if images.is_some() { b"\"}]}" } else { b"\"}" });
    }
    out.push(b']');
}

/// Appends `text` escaped as the inside of a JSON string. Escapes are per character, so pieces can be joined.
pub(super) fn escape(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    serde_json::to_writer(&mut *out, text).expect("writing a string to memory cannot fail");
    out.remove(start);
    out.pop();
}

#[cfg(test)]
mod tests;
