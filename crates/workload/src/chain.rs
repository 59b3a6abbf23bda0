//! Chains of requests, the unit of load. A single request is a chain of one turn.

use super::images::TurnImages;
use goodput_core::message::Message;
use std::sync::Arc;
use std::time::Duration;

/// When the first turn of a chain is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this time after the start of the step, however slowly the server answers.
    At(Duration),
    /// As soon as a slot is free (closed loop).
    WhenFree,
}

/// Specification of a request; its text is generated later, from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Number of the request within the step.
    pub id: u64,
    /// Length of the prompt as the server counts it. For a later turn an expected value, since the history contains the
    /// server's own answers.
    pub input_tokens: u32,
    /// Tokens to generate.
    pub output_tokens: u32,
    /// Contents of the prompt.
    pub text: Text,
}

impl Recipe {
    /// Returns the tokens of each item, with those of the query that is read with it; empty if the request has a prompt.
    pub fn item_tokens(&self) -> Arc<[u32]> {
        match &self.text {
            Text::Items { query, lengths } => {
                lengths.iter().map(|tokens| tokens + query.unwrap_or(0)).collect()
            }
            _ => Arc::default(),
        }
    }

    /// Returns the images that it sends, with those of earlier turns; `None` if it has none.
    pub const fn images(&self) -> Option<&TurnImages> {
        match &self.text {
            Text::Illustrated { images, .. } => Some(images),
            Text::FollowUp { images, .. } => images.as_ref(),
            _ => None,
        }
    }

    /// Returns the number of items, or of images that it sends; 0 if the request is plain text.
    pub fn items(&self) -> u16 {
        let n = match &self.text {
            Text::Items { lengths, .. } => lengths.len(),
            _ => self.images().map_or(0, |images| images.sent().len()),
        };
        u16::try_from(n).unwrap_or(u16::MAX)
    }

    /// Returns the length of its audio; `None` if it has none.
    pub const fn audio(&self) -> Option<Duration> {
        match &self.text {
            Text::Audio { length, .. } => Some(*length),
            _ => None,
        }
    }
}

/// Contents of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// Random words, after one of the shared prefixes if the workload has any.
    Words {
        /// Index of the prefix.
        group: u32,
    },
    /// Images, then random words as in [`Text::Words`].
    Illustrated {
        /// Index of the prefix.
        group: u32,
        /// The images.
        images: TurnImages,
    },
    /// A complete shared prefix and hardly more, to bring it into a prefix cache.
    Prefix {
        /// Index of the prefix.
        group: u32,
    },
    /// An excerpt of the plain text.
    Excerpt {
        /// Position of the excerpt: any number, taken modulo the length of the text.
        at: u64,
    },
    /// Messages of a data set; for a later turn those that it adds.
    Messages(Vec<Message>),
    /// Random words for the blocks of a trace; equal blocks get equal words.
    Blocks {
        /// Block ids, first to last; they may cover less than the prompt.
        ids: Arc<[u64]>,
        /// Tokens per block.
        tokens: u32,
        /// Number of times the trace has started over.
        round: u32,
    },
    /// Random words for each of several texts.
    Items {
        /// Tokens of the query, if the texts are documents to rank.
        query: Option<u32>,
        /// Tokens of each text.
        lengths: Arc<[u32]>,
    },
    /// An audio file in place of a text.
    Audio {
        /// Length of the audio in whole milliseconds.
        length: Duration,
        /// Index of the recording; `None` if the audio is generated.
        recording: Option<u32>,
    },
    /// Random words that a later turn of a conversation adds.
    FollowUp {
        /// Number of tokens.
        tokens: u32,
        /// Images before the words, and those of earlier turns; `None` in a conversation without any.
        images: Option<TurnImages>,
    },
}

/// One request of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Think time: from the end of the previous turn until this one is due.
    pub after: Duration,
    /// Index of the class in the mix.
    pub class: u16,
    /// The request.
    pub request: Recipe,
}

impl Turn {
    /// Returns the turn with audio in place of a text.
    pub(crate) fn with_audio(self, length: Duration, recording: Option<u32>) -> Self {
        Self { request: Recipe { text: Text::Audio { length, recording }, ..self.request }, ..self }
    }
}

/// A sequence of turns, each sent after the previous one has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// When the first turn is due.
    pub start: Start,
    /// Number of the conversation, if it is one.
    pub session: Option<u64>,
    /// The turns, in order.
    pub turns: Vec<Turn>,
}

impl Chain {
    /// Returns true if the next turn needs the text of this turn's answer.
    pub fn needs_text(&self, turn: usize) -> bool {
        turn + 1 < self.turns.len()
    }
}
