//! Splits a stream into its payloads, in either format.

use super::lines::LineParser;
use super::sse::{Item, Parser, TooLarge};
use goodput_plan::server::template::StreamFormat;

/// A parser of one of the formats of streams.
#[derive(Debug)]
pub enum Splitter {
    /// Server-sent events.
    Events(Parser),
    /// Lines of JSON.
    Lines(LineParser),
}

impl Splitter {
    /// Makes a splitter for the beginning of a stream.
    pub fn new(format: StreamFormat) -> Self {
        match format {
            StreamFormat::Sse => Self::Events(Parser::new()),
            StreamFormat::Lines => Self::Lines(LineParser::default()),
        }
    }

    /// Parses one read and passes the payloads that it completes to `each`.
    ///
    /// # Errors
    /// [`TooLarge`], after which the splitter must not be used any more.
    pub fn feed(&mut self, bytes: &[u8], each: impl FnMut(Item<'_>)) -> Result<(), TooLarge> {
        match self {
            Self::Events(parser) => parser.feed(bytes, each),
            Self::Lines(parser) => parser.feed(bytes, each),
        }
    }

    /// Ends the stream: passes the payload that it left open to `each`.
    pub fn finish(self, each: impl FnMut(Item<'_>)) {
        match self {
            Self::Events(parser) => parser.finish(each),
            Self::Lines(parser) => parser.finish(each),
        }
    }
}
