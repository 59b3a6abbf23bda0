//! What the load fires: chains of requests. A single request is a chain of one turn.

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Number of the request within the step.
    pub id: u64,
    /// Input tokens, everything the server counts as the prompt included.
    pub input_tokens: u32,
    /// Output tokens.
    pub output_tokens: u32,
    /// Which of the shared prefixes it begins with, where the workload has any.
    pub group: u32,
}

/// One request of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Think time: how long after the end of the turn before it is due.
    pub after: Duration,
    /// Index of the class in the mix.
    pub class: u16,
    /// Whether the answer's text is needed for the next turn.
    pub keep_text: bool,
    /// The request.
    pub request: Recipe,
}

/// A chain: turns that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// When its first turn is due.
    pub start: Start,
    /// The turns, in order.
    pub turns: Vec<Turn>,
}
