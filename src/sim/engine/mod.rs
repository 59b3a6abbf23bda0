//! Pure discrete-event models of an engine: times go in, times come out; no clock, no tasks.
//!
//! A driver tells the model what happens (`arrive`, `cancel`) and how far time has come (`advance`), and sleeps until
//! `next_event`. Times count from a start that the driver chooses. What a model answers depends on the times it was told and on
//! its seed, never on how often or in what portions it was asked.

pub mod queue;
pub mod truth;

use std::time::Duration;

/// A request as the engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it; unique among the requests that are open.
    pub id: u64,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Tokens to generate; zero is taken as one.
    pub output_tokens: u32,
}

/// One event of a request's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// The request.
    pub id: u64,
    /// When it leaves the engine, exactly.
    pub at: Duration,
    /// Tokens it carries, at least one.
    pub tokens: u32,
    /// Whether it is the request's last.
    pub finished: bool,
}

/// An engine model.
#[derive(Debug, Clone)]
pub enum Model {
    /// A queue in front of servers.
    Queue(queue::Queue),
}

impl Model {
    /// A request arrives. Times must not go back: one before the last thing that happened in the engine counts as then.
    pub fn arrive(&mut self, at: Duration, request: Request) {
        match self {
            Self::Queue(queue) => queue.arrive(at, request),
        }
    }

    /// The client of a request went away at `at`: what the request holds is free from then on, and nothing more comes of it.
    /// A request that is not open is ignored.
    pub fn cancel(&mut self, at: Duration, id: u64) {
        match self {
            Self::Queue(queue) => queue.cancel(at, id),
        }
    }

    /// The exact time of the next event inside the engine, or of an emission that waits to be fetched.
    pub fn next_event(&self) -> Option<Duration> {
        match self {
            Self::Queue(queue) => queue.next_event(),
        }
    }

    /// Lets time run up to and including `to`; the emissions until then, in order of time, each returned once.
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        match self {
            Self::Queue(queue) => queue.advance(to),
        }
    }

    /// Requests that have started and are not over.
    pub fn running(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.running(),
        }
    }

    /// Requests that have not started.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.waiting(),
        }
    }

    /// Share of the KV cache in use; zero for a model that has none.
    pub fn kv_cache_usage(&self) -> f64 {
        match self {
            Self::Queue(_) => 0.0,
        }
    }

    /// Preemptions since the start; zero for a model that never preempts.
    pub fn preemptions(&self) -> u64 {
        match self {
            Self::Queue(_) => 0,
        }
    }
}
