//! What the load fires: chains of requests. A single request is a chain of one turn.

use goodput_core::message::Message;
use std::sync::Arc;
use std::time::Duration;

/// When the first turn of a chain is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// This long after the start of the step, whatever the server does.
    At(Duration),
    /// The moment a slot is free (closed loop).
    WhenFree,
}

/// What a request asks for; its text is made later, from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Number of the request within the step.
    pub id: u64,
    /// Input tokens, everything the server counts as the prompt included. Of a later turn what is expected: its history holds the
    /// server's own answers.
    pub input_tokens: u32,
    /// Output tokens.
    pub output_tokens: u32,
    /// What its prompt is made of.
    pub text: Text,
}

/// What a prompt is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// Words, after one of the shared prefixes where the workload has any.
    Words {
        /// Which prefix.
        group: u32,
    },
    /// The whole of a shared prefix and hardly more: what brings it into a prefix cache.
    Prefix {
        /// Which prefix.
        group: u32,
    },
    /// A piece of the plain text, from about this place on.
    Piece {
        /// Any number: taken modulo the length of the text.
        at: u64,
    },
    /// Messages of a data set: those of a later turn are what it adds.
    Said(Vec<Message>),
    /// Words in the blocks of a trace: the same block is the same words.
    Blocks {
        /// The blocks, first to last; they may cover less than the prompt.
        ids: Arc<[u64]>,
        /// Tokens of a block.
        tokens: u32,
        /// How often the trace has begun anew.
        round: u32,
    },
    /// Words that a later turn of a conversation adds.
    Further {
        /// So many tokens.
        tokens: u32,
    },
}

/// One request of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Think time: how long after the end of the turn before it is due.
    pub after: Duration,
    /// Index of the class in the mix.
    pub class: u16,
    /// The request.
    pub request: Recipe,
}

/// A chain: turns that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// When its first turn is due.
    pub start: Start,
    /// Number of its conversation, where it is one.
    pub session: Option<u64>,
    /// The turns, in order.
    pub turns: Vec<Turn>,
}

impl Chain {
    /// Whether the text of a turn's answer is needed for the one after it.
    pub fn needs_text(&self, turn: usize) -> bool {
        turn + 1 < self.turns.len()
    }
}
