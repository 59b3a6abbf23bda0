//! The endpoint that the plan describes itself (`server.template`): its answers are read at the places that the plan names.

mod lookup;

use super::{Dialect, PromptWriter, items_dialect};
use crate::client::answer_text::AnswerText;
use crate::client::encoder::Pinning;
use crate::client::event::{EventReader, NotJson, Parsed, json_of};
use crate::client::splitter::Splitter;
use crate::client::sse::Item;
use goodput_core::endpoint::Answer;
use goodput_plan::server::template::{StreamFormat, Template};
use lookup::Lookup;
use serde_json::Map;
use std::ops::ControlFlow;

/// The rules for generated answers. The plan's template writes the requests, and a [`TemplateReader`] reads the answers.
pub(super) const TOKENS: Dialect = Dialect {
    content_type: "application/json",
    headers: &[],
    key_header: None,
    pinning: Pinning::NONE,
    asks_for_usage: false,
    fields: |_, _, _| Map::new(),
    length_fields: &[],
    prompt: PromptWriter::Text { begin: |_, _| {}, end: |_, _| {}, conversation: |_, _, _| {}, parts: None },
    event: |_| Parsed::Malformed,
    document: |_| Parsed::Malformed,
    answer_text: |_, _| AnswerText::default(),
    carries_tokens: |event| event.text.some(),
    choices_with_tokens: |_| 0,
    is_content: |_| true,
    document_has_tokens: |event| {
        event.text.some() || event.usage.and_then(|usage| usage.completion).is_some_and(|n| n > 0)
    },
    finish_completes: true,
};

/// The rules for answers with a result for each item.
const ITEMS: Dialect =
    items_dialect(PromptWriter::Items { write: |_, _| {}, needs_query: false }, |_| Parsed::Malformed);

/// Reader of the answers of one template.
#[derive(Debug)]
pub struct TemplateReader {
    lookup: Lookup,
    /// Payload that ends a stream.
    done: Option<Box<[u8]>>,
    format: StreamFormat,
    ends_with_body: bool,
    dialect: &'static Dialect,
}

impl TemplateReader {
    /// Makes a reader.
    pub fn new(template: &Template) -> Self {
        Self {
            lookup: Lookup::new(template),
            done: template.done.as_ref().map(|done| done.trim().as_bytes().into()),
            format: template.stream_format,
            ends_with_body: template.done.is_none() && template.finish.is_none(),
            dialect: match template.answer() {
                Answer::Tokens => &TOKENS,
                Answer::Items(_) => &ITEMS,
            },
        }
    }

    /// Returns the rules for the events.
    pub(in crate::client) fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// Returns true if a stream has no other end than that of its body.
    pub(in crate::client) fn ends_with_body(&self) -> bool {
        self.ends_with_body
    }

    /// Returns a splitter for the beginning of a stream.
    pub fn splitter(&self) -> Splitter {
        Splitter::new(self.format)
    }

    /// Returns a reader of the events of a stream.
    pub fn event_reader(&self) -> EventReader {
        // An event with text has quotation marks, so that any other end looks like none.
        let may_look_like_text = self.done.as_deref().is_some_and(|done| done.contains(&b'"'));
        if may_look_like_text { EventReader::parsing_all() } else { EventReader::default() }
    }

    /// Parses one event of a stream.
    pub fn event(&self, item: Item<'_>) -> Parsed {
        if self.is_done(item.data.trim_ascii()) {
            return Parsed::Done;
        }
        match json_of(item) {
            Ok(json) => {
                self.lookup.find(json).map_or(Parsed::Malformed, |found| Parsed::Event(found.event()))
            }
            // Not the end of an answer that the template has another end for.
            Err(NotJson::Done) => Parsed::Ignored,
            Err(other @ (NotJson::Error(_) | NotJson::Ignored)) => other.parsed(),
        }
    }

    /// Parses an answer that is one document. It is malformed if it is not JSON, or has nothing at the places of the template.
    pub fn document(&self, body: &[u8]) -> Parsed {
        let Some(found) = self.lookup.find(body) else { return Parsed::Malformed };
        if found.is_empty() { Parsed::Malformed } else { Parsed::Event(found.event()) }
    }

    /// Extracts the text of a complete answer: of a stream, or of one document.
    pub(in crate::client) fn answer_text(&self, body: &[u8], stream: bool) -> AnswerText {
        let add = |answer: &mut AnswerText, json: &[u8]| {
            if self.is_done(json) {
                return ControlFlow::Break(());
            }
            if let Some(text) = self.lookup.find(json).and_then(|found| found.text()) {
                answer.text.push_str(&text);
            }
            ControlFlow::Continue(())
        };
        if stream {
            return AnswerText::of_split(body, self.splitter(), add);
        }
        let mut answer = AnswerText::default();
        let _ = add(&mut answer, body);
        answer
    }

    fn is_done(&self, payload: &[u8]) -> bool {
        self.done.as_deref().is_some_and(|done| done == payload)
    }
}

#[cfg(test)]
mod tests;
