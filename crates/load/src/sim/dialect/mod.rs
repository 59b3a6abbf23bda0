//! The simulated server's side of each API: one declaration in one file each, with the JSON of answers as vLLM writes
//! it.
//!
//! `tgi` and `ollama` have no counterpart in `client/dialect`: plans reach them by a template.
//!
//! A new API needs a variant of `TextApi`, a file here with its `Dialect`, and one in `client/dialect`; the compiler
//! names what is missing. Requests are generic over their tokens, so `prompt` and `asked_tokens` are `match`es here.

mod chat;
mod choices;
mod completions;
mod messages;
mod ollama;
mod responses;
mod tgi;

pub(super) use choices::error as openai_error;

use crate::sim::request::{ApiRequest, Words};
use crate::sim::rules::Refusal;
use crate::sim::writer::{Channel, Writer};
use goodput_core::endpoint::Api;

/// An API whose answers are generated. `sim/items.rs` and `sim/audio.rs` answer the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TextApi {
    Chat,
    Completions,
    Responses,
    Messages,
    /// TGI's `/generate`, for the client's templates.
    Tgi,
    /// TGI's `/generate_stream`.
    TgiStream,
    /// Ollama's `/api/generate`, whose streams are lines of JSON.
    Ollama,
}

impl TextApi {
    /// All of them, in the order of their declaration.
    pub(super) const ALL: [Self; 7] = [
        Self::Chat,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Tgi,
        Self::TgiStream,
        Self::Ollama,
    ];

    /// Returns the API of a path that only the client's templates can describe.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        Some(match path {
            "/generate" => Self::Tgi,
            "/generate_stream" => Self::TgiStream,
            "/api/generate" => Self::Ollama,
            _ => return None,
        })
    }

    /// Returns the API; `None` if its answers are results of items or transcripts, or it is one that a template describes.
    pub(super) const fn of(api: Api) -> Option<Self> {
        match api {
            Api::Chat => Some(Self::Chat),
            Api::Completions => Some(Self::Completions),
            Api::Responses => Some(Self::Responses),
            Api::Messages => Some(Self::Messages),
            Api::Embeddings
            | Api::Rerank
            | Api::Score
            | Api::Pooling
            | Api::Classify
            | Api::Transcriptions
            | Api::Template => None,
        }
    }
}

/// Streams if asked to.
fn if_asked(stream: Option<bool>) -> bool {
    stream.unwrap_or(false)
}

/// ID of every token of a chat template: none that a word or a given token id has.
pub const TEMPLATE_TOKEN: u64 = u64::MAX;

/// How the simulated server speaks an API.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Number of tokens that the chat template puts before the words of a prompt.
    pub(super) template_tokens: usize,
    /// Default number of output tokens, if the context has room for them; `None` for all the room that is left.
    pub(super) default_output: Option<u32>,
    /// Returns true if a request with this field `stream` is answered with a stream.
    pub(super) streams: fn(asked: Option<bool>) -> bool,
    /// Content type of streams.
    pub(super) stream_type: &'static str,
    /// Formats the fields common to all events of an answer, or those of its document, as text without braces. `created` is a Unix time in
    /// seconds, `model` a JSON string.
    pub(super) head: fn(id: u64, stream: bool, created: u64, model: &str) -> String,
    /// Appends the events that open a stream.
    pub(super) open: fn(&mut Writer, out: &mut String),
    /// Appends tokens on a channel; `finished` if they are the last.
    pub(super) delta: fn(&mut Writer, out: &mut String, tokens: u32, finished: bool, Channel),
    /// Appends the events after the last token.
    pub(super) close: fn(&mut Writer, out: &mut String),
    /// Formats an answer that is one document, whose blocks the writer has.
    pub(super) document: fn(&Writer) -> String,
    /// Formats the error of a request that was parsed and then refused.
    pub(super) error: fn(&Refusal) -> String,
}

impl Dialect {
    /// Returns the dialect of an API.
    pub(super) const fn of(api: TextApi) -> &'static Self {
        match api {
            TextApi::Chat => &chat::DIALECT,
            TextApi::Completions => &completions::DIALECT,
            TextApi::Responses => &responses::DIALECT,
            TextApi::Messages => &messages::DIALECT,
            TextApi::Tgi => &tgi::WHOLE,
            TextApi::TgiStream => &tgi::STREAM,
            TextApi::Ollama => &ollama::DIALECT,
        }
    }
}

/// Returns the number of tokens that the chat template puts before the words of a prompt.
pub fn template_tokens(api: Api) -> usize {
    TextApi::of(api).map_or(0, own_template_tokens)
}

/// As [`template_tokens`], of an API whose answers are generated.
pub(super) const fn own_template_tokens(api: TextApi) -> usize {
    Dialect::of(api).template_tokens
}

/// Returns the content type of streams.
pub(super) const fn stream_type(api: TextApi) -> &'static str {
    Dialect::of(api).stream_type
}

/// Returns the parts of a request's prompt in order, and the number of prompts in it.
///
/// # Errors
/// A field is missing; the error is its name.
pub(super) fn prompt<T>(
    api: TextApi,
    request: &ApiRequest<T>,
) -> Result<(impl Iterator<Item = &Words<T>> + Clone, u32), &'static str> {
    let messages = || request.messages.as_deref().ok_or("messages");
    let (system, messages, text, texts) = match api {
        TextApi::Chat => (None, messages()?, None, 1),
        TextApi::Completions | TextApi::Ollama => {
            let words = request.prompt.as_ref().ok_or("prompt")?;
            (None, &[][..], Some(words), words.texts)
        }
        // Each message of the input is a text, and all of them are one prompt.
        TextApi::Responses => {
            (request.instructions.as_ref(), &[][..], Some(request.input.as_ref().ok_or("input")?), 1)
        }
        TextApi::Tgi | TextApi::TgiStream => {
            (None, &[][..], Some(request.inputs.as_ref().ok_or("inputs")?), 1)
        }
        TextApi::Messages => {
            request.max_tokens.ok_or("max_tokens")?;
            (request.system.as_ref(), messages()?, None, 1)
        }
    };
    let messages = messages.iter().flat_map(|message| [&message.content, &message.tool_calls]).flatten();
    Ok((system.into_iter().chain(messages).chain(text), texts))
}

/// Returns the number of output tokens that a request asks for, and the name of the field.
pub(super) fn asked_tokens<T>(api: TextApi, request: &ApiRequest<T>) -> (Option<u32>, &'static str) {
    match api {
        TextApi::Chat | TextApi::Completions => {
            (request.max_completion_tokens.or(request.max_tokens), "max_tokens")
        }
        TextApi::Responses => (request.max_output_tokens, "max_output_tokens"),
        TextApi::Messages => (request.max_tokens, "max_tokens"),
        TextApi::Tgi | TextApi::TgiStream => {
            (request.parameters.as_ref().and_then(|p| p.max_new_tokens), "max_new_tokens")
        }
        TextApi::Ollama => (request.options.as_ref().and_then(|o| o.num_predict), "num_predict"),
    }
}

#[cfg(test)]
mod tests;
