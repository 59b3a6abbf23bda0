//! Encodes requests to the plan's own endpoint by filling in the body of its template.

use super::plain_items;
use crate::client::dialect::{begin_messages, chat_tools, end_messages, escape, joined, message_list};
use crate::client::payload::{AskedLength, Expected, Payload};
use bytes::Bytes;
use goodput_core::message::Message;
use goodput_plan::server::template::{Piece, Placeholder, Template};
use goodput_workload::items::ItemTexts;
use std::sync::Arc;

/// Encoder of requests from a template.
#[derive(Debug, Clone)]
pub(super) struct TemplateEncoder {
    template: Arc<Template>,
    model: String,
    /// The body up to the prompt or the texts, without the model's name.
    before: Vec<Piece>,
    /// The prompt or the texts.
    prompt: Placeholder,
    /// The rest of the body.
    after: Vec<Piece>,
    has_query: bool,
}

/// The values that differ between requests.
#[derive(Clone, Copy)]
struct Values<'a> {
    output_tokens: u32,
    query: &'a str,
}

impl TemplateEncoder {
    pub(super) fn new(template: &Template, model: &str) -> Self {
        Self::of(Arc::new(template.clone()), model)
    }

    fn of(template: Arc<Template>, model: &str) -> Self {
        let is_prompt = |piece: &Piece| {
            matches!(piece, Piece::Slot(Placeholder::Prompt | Placeholder::Messages | Placeholder::Texts))
        };
        let pieces = template.body.pieces();
        // Parsing the plan has checked that there is exactly one.
        let at = pieces.iter().position(is_prompt).unwrap_or(pieces.len());
        let prompt = match pieces.get(at) {
            Some(Piece::Slot(slot)) => *slot,
            _ => Placeholder::Prompt,
        };
        let named = |piece: &Piece| match piece {
            Piece::Slot(Placeholder::Model) => {
                let mut name = Vec::new();
                text(&template, &mut name, model);
                Piece::Text(String::from_utf8(name).unwrap_or_default())
            }
            other => other.clone(),
        };
        let before = pieces[..at].iter().map(named).collect();
        let after = pieces.iter().skip(at + 1).map(named).collect();
        let has_query = template.body.count(Placeholder::Query) > 0;
        Self { model: model.to_owned(), before, prompt, after, has_query, template }
    }

    /// Returns an encoder for another model.
    pub(super) fn varied(&self, model: Option<&str>) -> Self {
        Self::of(self.template.clone(), model.unwrap_or(&self.model))
    }

    /// Returns true if the body up to the prompt is the same in every request, so that requests can share it.
    fn shares_beginning(&self) -> bool {
        self.before.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Writes the beginning of a request up to the user's text, or only that of its prompt if something before the prompt differs between
    /// requests.
    pub(super) fn prefix(&self, system: Option<&str>) -> Bytes {
        let mut out = Vec::new();
        if self.prompt == Placeholder::Texts {
            return Bytes::new();
        }
        if self.shares_beginning() {
            self.write(&mut out, &self.before, Values { output_tokens: 0, query: "" });
        }
        match (self.prompt, system) {
            (Placeholder::Messages, system) => begin_messages(&mut out, system),
            (_, system) => text(&self.template, &mut out, system.unwrap_or_default()),
        }
        out.into()
    }

    /// Writes a request from a prefix, the user's text, and the number of tokens to answer with.
    pub(super) fn request(&self, prefix: &Bytes, user: &str, output_tokens: u32) -> Payload {
        if self.prompt == Placeholder::Texts {
            return self.items(&plain_items(self.has_query, [user]));
        }
        let values = Values { output_tokens, query: "" };
        let mut out = Vec::with_capacity(user.len() + user.len() / 16 + 64);
        let head = if self.shares_beginning() {
            prefix.clone()
        } else {
            self.write(&mut out, &self.before, values);
            out.extend_from_slice(prefix);
            Bytes::new()
        };
        if self.prompt == Placeholder::Messages {
            end_messages(&mut out, user);
        } else {
            text(&self.template, &mut out, user);
        }
        self.write(&mut out, &self.after, values);
        Payload::new(head, out.into(), self.asked(output_tokens), None)
    }

    /// Writes a request with a whole conversation and the number of tokens to answer with.
    pub(super) fn messages(&self, messages: &[Message], output_tokens: u32) -> Payload {
        if self.prompt == Placeholder::Texts {
            return self.items(&plain_items(self.has_query, messages.iter().map(|m| m.content.as_str())));
        }
        let values = Values { output_tokens, query: "" };
        let mut out = Vec::new();
        self.write(&mut out, &self.before, values);
        if self.prompt == Placeholder::Messages {
            message_list(&mut out, messages, &[], |role| role, chat_tools);
        } else {
            joined(messages, |piece| text(&self.template, &mut out, piece));
        }
        self.write(&mut out, &self.after, values);
        Payload::new(Bytes::new(), out.into(), self.asked(output_tokens), None)
    }

    /// Writes a request of items. Where answers are generated, it has the first text as its prompt.
    pub(super) fn items(&self, items: &ItemTexts) -> Payload {
        if self.prompt != Placeholder::Texts {
            return self.request(&self.prefix(None), items.texts.first().map_or("", String::as_str), 1);
        }
        let values = Values { output_tokens: 0, query: items.query.as_deref().unwrap_or_default() };
        let mut out = Vec::new();
        self.write(&mut out, &self.before, values);
        serde_json::to_writer(&mut out, &items.texts).expect("writing strings to memory cannot fail");
        self.write(&mut out, &self.after, values);
        // As in the built-in APIs, the server may return only the best.
        let all = !self.template.body.as_str().contains("\"top_n\"");
        let expected = all.then_some(Expected::Results(items.texts.len() as u32));
        Payload::new(Bytes::new(), out.into(), None, expected)
    }

    /// Returns true if a request has a query.
    pub(super) const fn needs_query(&self) -> bool {
        self.has_query
    }

    /// Returns the length that a request asks for; `None` if the template does not say it.
    fn asked(&self, output_tokens: u32) -> Option<AskedLength> {
        let says = self.template.body.count(Placeholder::MaxTokens) > 0;
        says.then_some(AskedLength { tokens: output_tokens.into(), is_pinned: false })
    }

    fn write(&self, out: &mut Vec<u8>, pieces: &[Piece], values: Values<'_>) {
        for piece in pieces {
            match piece {
                Piece::Text(piece) => out.extend_from_slice(piece.as_bytes()),
                Piece::Slot(Placeholder::MaxTokens) => {
                    out.extend_from_slice(values.output_tokens.to_string().as_bytes());
                }
                Piece::Slot(Placeholder::Query) => text(&self.template, out, values.query),
                // The model's name is text by now, and the others occur once, where the caller writes them.
                Piece::Slot(
                    Placeholder::Model | Placeholder::Prompt | Placeholder::Messages | Placeholder::Texts,
                ) => {}
            }
        }
    }
}

/// Appends a text, escaped if the body is JSON. Escapes are per character, so pieces can be joined.
fn text(template: &Template, out: &mut Vec<u8>, text: &str) {
    if template.is_json() { escape(out, text) } else { out.extend_from_slice(text.as_bytes()) }
}

#[cfg(test)]
mod tests;
