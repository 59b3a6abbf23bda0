//! Pure discrete-event models of an engine: times go in, times come out; no clock, no tasks.
//!
//! # How to drive one
//!
//! ```
//! use goodput_engine::{Request, config::Simulated};
//! use std::time::Duration;
//!
//! let mut model = Simulated::named("a40-qwen3-0.6b")?.build();
//! model.arrive(Duration::from_millis(5), Request::new(0, 600, 30));
//! while let Some(at) = model.next_event() {
//!     for emission in model.advance(at) {
//!         println!("{:?}: request {} got {} token(s)", emission.at, emission.id, emission.tokens);
//!     }
//! }
//! # Ok::<(), String>(())
//! ```
//!
//! Times count from a start that the driver chooses, and the driver tells them in order: [`Model::arrive`] and [`Model::cancel`] as
//! they happen, [`Model::advance`] up to any time that is not after the next of those. One that sleeps does so until
//! [`Model::next_event`]; one that only wants the answers calls `advance` at each arrival and once with [`Duration::MAX`] at the end,
//! and may leave out the former at the price of memory. What a model answers depends on the times it was told and on its seed, never
//! on how often or in what portions it was asked.
//!
//! Every request that arrives and is not cancelled ends with an [`Emission`] that says `finished`. An id may come again once its
//! request is over.

pub mod batch;
pub mod blocks;
pub mod changing;
pub mod config;
pub mod fault;
pub mod queue;
pub mod truth;

use std::{sync::Arc, time::Duration};

/// A request as the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it; unique among the requests that are open.
    pub id: u64,
    /// Tokens of the prompt; zero is taken as one where there is something to compute.
    pub input_tokens: u32,
    /// Tokens to generate; zero is taken as one.
    pub output_tokens: u32,
    /// What the prefix cache knows it by: the hashes of the full blocks of the prompt, and of the answer behind it as far as known (see
    /// [`blocks::blocks_of`]). Empty where it shares nothing with any other, or where there is no prefix cache.
    pub blocks: Arc<[u64]>,
}

impl Request {
    /// A request that shares nothing with any other.
    pub fn new(id: u64, input_tokens: u32, output_tokens: u32) -> Self {
        Self { id, input_tokens, output_tokens, blocks: Arc::default() }
    }

    /// The same with these blocks.
    #[must_use]
    pub fn with_blocks(self, blocks: Arc<[u64]>) -> Self {
        Self { blocks, ..self }
    }
}

/// One event of a request's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// The request.
    pub id: u64,
    /// When it leaves the engine, exactly.
    pub at: Duration,
    /// Tokens it carries; at least one, unless the engine refuses the request because it could never hold it (see
    /// [`batch::Batch`]): then none, and it is the only event.
    pub tokens: u32,
    /// Tokens of the prompt that the prefix cache had when the request was first admitted; the same in all its events. `None` where
    /// the engine has no prefix cache.
    pub cached_tokens: Option<u32>,
    /// When the engine first began to work on the request; the same in all its events.
    pub begun: Duration,
    /// Whether it is the request's last.
    pub finished: bool,
}

/// The KV cache of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvCache {
    /// Tokens of a block.
    pub block_size: u32,
    /// Blocks in all, the null block included, which requests never have.
    pub blocks: u32,
    /// Whether blocks are shared between requests with the same beginning.
    pub prefix_cache: bool,
}

/// What a prefix cache was asked for and what it had, in tokens, since the start. Each request counts once, when it is first admitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// Prompt tokens looked up.
    pub queries: u64,
    /// Prompt tokens found.
    pub hits: u64,
}

/// An engine model.
#[derive(Debug, Clone)]
pub enum Model {
    /// A queue in front of servers.
    Queue(Box<queue::Queue>),
    /// A continuous-batching engine.
    Batch(Box<batch::Batch>),
    /// An engine of either kind whose speed changes.
    Changing(Box<changing::Changing>),
}

impl Model {
    /// A request arrives. Times must not go back: one before the last thing that happened in the engine counts as then.
    pub fn arrive(&mut self, at: Duration, request: Request) {
        match self {
            Self::Queue(queue) => queue.arrive(at, &request),
            Self::Batch(batch) => batch.arrive(at, request),
            Self::Changing(changing) => changing.arrive(at, request),
        }
    }

    /// The client of a request went away at `at`: what the request holds is free from then on, and nothing more comes of it.
    /// A request that is not open is ignored.
    pub fn cancel(&mut self, at: Duration, id: u64) {
        match self {
            Self::Queue(queue) => queue.cancel(at, id),
            Self::Batch(batch) => batch.cancel(at, id),
            Self::Changing(changing) => changing.cancel(at, id),
        }
    }

    /// The exact time of the next event inside the engine, or of an emission that waits to be fetched.
    pub fn next_event(&self) -> Option<Duration> {
        match self {
            Self::Queue(queue) => queue.next_event(),
            Self::Batch(batch) => batch.next_event(),
            Self::Changing(changing) => changing.next_event(),
        }
    }

    /// Lets time run up to and including `to`; the emissions until then, in order of time, each returned once.
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        match self {
            Self::Queue(queue) => queue.advance(to),
            Self::Batch(batch) => batch.advance(to),
            Self::Changing(changing) => changing.advance(to),
        }
    }

    /// Requests that have started and are not over.
    pub fn running(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.running(),
            Self::Batch(batch) => batch.running(),
            Self::Changing(changing) => changing.model().running(),
        }
    }

    /// Requests that have not started, or were preempted.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.waiting(),
            Self::Batch(batch) => batch.waiting(),
            Self::Changing(changing) => changing.model().waiting(),
        }
    }

    /// Share of the blocks that requests can have that is in use; zero for a model that has none.
    pub fn kv_cache_usage(&self) -> f64 {
        match self {
            Self::Queue(_) => 0.0,
            Self::Batch(batch) => batch.kv_cache_usage(),
            Self::Changing(changing) => changing.model().kv_cache_usage(),
        }
    }

    /// Preemptions since the start; zero for a model that never preempts.
    pub fn preemptions(&self) -> u64 {
        match self {
            Self::Queue(_) => 0,
            Self::Batch(batch) => batch.preemptions(),
            Self::Changing(changing) => changing.model().preemptions(),
        }
    }

    /// The KV cache; `None` for a model that has none.
    pub fn kv_cache(&self) -> Option<KvCache> {
        match self {
            Self::Queue(_) => None,
            Self::Batch(batch) => Some(batch.kv_cache()),
            Self::Changing(changing) => changing.model().kv_cache(),
        }
    }

    /// What the prefix cache did; zero for a model that has none.
    pub fn prefix_counts(&self) -> PrefixCounts {
        match self {
            Self::Queue(_) => PrefixCounts::default(),
            Self::Batch(batch) => batch.prefix_counts(),
            Self::Changing(changing) => changing.model().prefix_counts(),
        }
    }
}
