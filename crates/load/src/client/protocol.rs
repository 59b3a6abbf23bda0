//! The format of a server's answers: that of a built-in API, or the one that the plan's template describes.

use super::answer_text::AnswerText;
use super::dialect::{Dialect, TemplateReader};
use super::event::{EventReader, Parsed};
use super::splitter::Splitter;
use super::sse::Item;
use super::tally::Tally;
use goodput_plan::server::Server;
use goodput_plan::server::template::{Method, StreamFormat};
use std::sync::Arc;
use std::time::Duration;

/// The format of a server's answers. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum Protocol {
    /// A built-in API.
    Api(&'static Dialect),
    /// The plan's own endpoint.
    Template(Arc<TemplateReader>),
}

impl Protocol {
    /// Returns the format of a server's answers.
    pub(super) fn of(server: &Server) -> Self {
        match &server.template {
            Some(template) => Self::Template(Arc::new(TemplateReader::new(template))),
            None => Self::Api(Dialect::of(server.api)),
        }
    }

    /// Returns the rules for requests and events.
    pub(super) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Api(dialect) => dialect,
            Self::Template(reader) => reader.dialect(),
        }
    }

    /// Returns true if the plan describes the endpoint itself.
    pub(super) const fn is_template(&self) -> bool {
        matches!(self, Self::Template(_))
    }

    /// Returns the state of an answer before its first byte.
    pub(super) fn tally(&self, itl_limit: Option<Duration>) -> Tally {
        match self {
            Self::Api(dialect) => Tally::of(dialect, itl_limit),
            Self::Template(reader) => Tally::of_template(reader, itl_limit),
        }
    }

    /// Returns a splitter for the beginning of a stream.
    pub(super) fn splitter(&self) -> Splitter {
        match self {
            Self::Api(_) => Splitter::new(StreamFormat::Sse),
            Self::Template(reader) => reader.splitter(),
        }
    }

    /// Returns a reader of the events of a stream.
    pub(super) fn event_reader(&self) -> EventReader {
        match self {
            Self::Api(_) => EventReader::default(),
            Self::Template(reader) => reader.event_reader(),
        }
    }

    /// Parses one event of a stream.
    pub(super) fn event(&self, item: Item<'_>) -> Parsed {
        match self {
            Self::Api(dialect) => (dialect.event)(item),
            Self::Template(reader) => reader.event(item),
        }
    }

    /// Parses an answer that is one document.
    pub(super) fn document(&self, body: &[u8]) -> Parsed {
        match self {
            Self::Api(dialect) => (dialect.document)(body),
            Self::Template(reader) => reader.document(body),
        }
    }

    /// Extracts the text of a complete answer: of a stream, or of one document.
    pub(super) fn answer_text(&self, body: &[u8], stream: bool) -> AnswerText {
        match self {
            Self::Api(dialect) => (dialect.answer_text)(body, stream),
            Self::Template(reader) => reader.answer_text(body, stream),
        }
    }
}

/// Returns the method of requests to a server.
pub(super) fn method(server: &Server) -> http::Method {
    match server.template.as_ref().map(|template| template.method) {
        Some(Method::Put) => http::Method::PUT,
        Some(Method::Post) | None => http::Method::POST,
    }
}
