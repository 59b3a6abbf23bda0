//! The simulated server's side of each API: where a request has its prompt, and the JSON of answers, as vLLM writes
//! it.
//!
//! The APIs are the variants of [`Api`]. A new one needs an arm in every `match` here, and in `client/dialect`; the
//! compiler lists them.

use crate::sim::request::{ApiRequest, Words};
use crate::sim::writer::{Thought, words};
use goodput_core::endpoint::Api;
use std::fmt::Write;

/// ID of every token of a chat template: none that a word or a given token id has.
pub const TEMPLATE_TOKEN: u64 = u64::MAX;

/// Returns the number of tokens that the chat template puts before the words of a prompt.
pub const fn template_tokens(api: Api) -> usize {
    match api {
        Api::Chat => 8,
        Api::Completions | Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => 0,
    }
}

/// Returns the default number of output tokens, if the context has room for them; `None` for all the room that is left.
pub(super) const fn default_output(api: Api) -> Option<u32> {
    match api {
        Api::Chat => None,
        Api::Completions => Some(16),
        Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => Some(1),
    }
}

/// Returns the field of a request that holds the prompt.
pub(super) const fn prompt_field(api: Api) -> &'static str {
    match api {
        Api::Chat => "messages",
        Api::Completions => "prompt",
        Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => "input",
    }
}

/// Returns the parts of a request's prompt in order, and the number of prompts in it; `None` if its field is missing.
pub(super) fn prompt<T>(
    api: Api,
    request: &ApiRequest<T>,
) -> Option<(impl Iterator<Item = &Words<T>> + Clone, u32)> {
    let (messages, text, texts) = match api {
        Api::Chat => (request.messages.as_deref()?, None, 1),
        Api::Completions => {
            let words = request.prompt.as_ref()?;
            (&[][..], Some(words), words.texts)
        }
        Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => return None,
    };
    Some((messages.iter().filter_map(|message| message.content.as_ref()).chain(text), texts))
}

/// Formats the beginning of an answer or of its events. `created` is a Unix time in seconds, `model` a JSON string.
pub(super) fn head(api: Api, id: u64, stream: bool, created: u64, model: &str) -> String {
    let (prefix, object) = match api {
        Api::Chat if stream => ("chatcmpl", "chat.completion.chunk"),
        Api::Chat => ("chatcmpl", "chat.completion"),
        Api::Completions => ("cmpl", "text_completion"),
        Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => ("items", "list"),
    };
    format!(r#""id":"{prefix}-{id:016x}","object":"{object}","created":{created},"model":{model}"#)
}

/// Returns the event that opens a stream, without head and usage: its choice, and the rest.
pub(super) const fn opening(api: Api) -> Option<[&'static str; 2]> {
    match api {
        Api::Chat => Some([
            r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#,
            ",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n",
        ]),
        Api::Completions | Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => None,
    }
}

/// Appends the choice of an event up to its text, which is on a channel of a chat; completions has a single one.
pub(super) fn begin_choice(api: Api, out: &mut String, channel: &str) {
    match api {
        Api::Chat => {
            let _ = write!(out, r#"{{"index":0,"delta":{{"{channel}":""#);
        }
        Api::Completions => out.push_str(r#"{"index":0,"text":""#),
        Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => {}
    }
}

/// Returns the choice of an event after its text.
pub(super) const fn end_choice(api: Api, finished: bool) -> &'static str {
    match (api, finished) {
        (Api::Chat, false) => r#""},"logprobs":null,"finish_reason":null,"token_ids":null}]"#,
        (Api::Chat, true) => {
            r#""},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]"#
        }
        (Api::Completions, false) => {
            r#"","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#
        }
        (Api::Completions, true) => {
            r#"","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#
        }
        (Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify, _) => "",
    }
}

/// Appends the text of an answer that is one document. Completions has one channel for reasoning and content.
pub(super) fn document_answer(api: Api, out: &mut String, output_tokens: u32, thought: Thought) {
    let reasoning = thought.tokens.min(output_tokens);
    let shown = if thought.hidden { 0 } else { reasoning };
    match api {
        Api::Chat => {
            out.push_str(r#""message":{"role":"assistant","content":""#);
            words(out, reasoning, output_tokens - reasoning);
            out.push_str(r#"","refusal":null,"reasoning":"#);
            if shown > 0 {
                out.push('"');
                words(out, 0, shown);
                out.push_str("\"}");
            } else {
                out.push_str("null}");
            }
        }
        Api::Completions => {
            out.push_str(r#""text":""#);
            words(out, reasoning - shown, output_tokens - (reasoning - shown));
            out.push('"');
        }
        Api::Embeddings | Api::Rerank | Api::Score | Api::Pooling | Api::Classify => {}
    }
}
