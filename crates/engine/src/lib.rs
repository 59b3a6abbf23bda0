//! Discrete-event models of an inference engine: pure functions of arrival times and a seed, without clock or tasks.
//!
//! # Driving a model
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
//! Times count from an origin that the driver chooses. The driver calls [`Model::arrive`] and [`Model::cancel`] in
//! order of time, and [`Model::advance`] up to any time before the next of those calls. A real-time driver sleeps until
//! [`Model::next_event`]; one that only wants the results calls `advance` at each arrival and once with
//! [`Duration::MAX`] at the end, or only at the end if memory allows. Results depend on the arrival and cancellation
//! times and on the seed alone, not on how often `advance` is called.
//!
//! Every request that arrives and is not cancelled ends with an [`Emission`] whose `finished` is set. Its id may then
//! be reused.

pub mod audio;
pub mod batch;
pub mod blocks;
pub mod config;
pub mod fault;
mod id_map;
pub mod items;
pub mod queue;
pub mod truth;
pub mod variable_speed;

pub use id_map::IdMap;

use std::{sync::Arc, time::Duration};

/// A request as the engine receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Identifier chosen by the caller; unique among open requests.
    pub id: u64,
    /// Length of the prompt in tokens; batching engines treat zero as one.
    pub input_tokens: u32,
    /// Length of the answer in tokens; zero counts as one.
    pub output_tokens: u32,
    /// Hashes of the full blocks of the prompt, and of the answer as far as known, for the prefix cache (see
    /// [`blocks::blocks_of`]). Empty if the request shares no prefix, or without a prefix cache.
    pub blocks: Arc<[u64]>,
    /// Prompt tokens of each item, if it consists of items: see [`items`]. Engines that do not know items ignore it.
    pub items: Arc<[u32]>,
    /// Images to encode, which adds to the iteration that reads the first tokens of the prompt. Queueing models ignore them.
    pub images: Arc<[EncodedImage]>,
}

impl Request {
    /// Creates a request that shares no prefix.
    pub fn new(id: u64, input_tokens: u32, output_tokens: u32) -> Self {
        Self {
            id,
            input_tokens,
            output_tokens,
            blocks: Arc::default(),
            items: Arc::default(),
            images: Arc::default(),
        }
    }

    /// Sets the block hashes.
    #[must_use]
    pub fn with_blocks(self, blocks: Arc<[u64]>) -> Self {
        Self { blocks, ..self }
    }

    /// Sets the images to encode.
    #[must_use]
    pub fn with_images(self, images: Arc<[EncodedImage]>) -> Self {
        Self { images, ..self }
    }

    /// Returns the requests that an engine gets for `n` choices, as the front end of vLLM makes them: each is a request of its own, with
    /// an id of its own from this one's on. All have the blocks of the prompt, so that a prefix cache finds it, but only the first has
    /// those of its answer, which follow-ups quote. Images are encoded once.
    pub fn into_choices(self, n: u32, block_size: u32) -> impl Iterator<Item = Self> {
        let of_prompt = (self.input_tokens / block_size.max(1)) as usize;
        (0..n).map(move |choice| match choice {
            0 => self.clone(),
            _ => Self {
                id: self.id + u64::from(choice),
                blocks: self.blocks[..of_prompt.min(self.blocks.len())].into(),
                items: self.items.clone(),
                images: Arc::default(),
                ..self
            },
        })
    }

    /// Sets the prompt tokens of each item; for a model [`with_items`](Model::with_items).
    #[must_use]
    pub fn with_items(self, items: Arc<[u32]>) -> Self {
        Self { items, ..self }
    }
}

/// An image of a prompt, which an encoder reads before the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedImage {
    /// Position of its first token in the prompt. If the prefix cache has this token, the image is not encoded again.
    pub start: u32,
    /// Time to encode it.
    pub time: Duration,
}

/// One event of a request's output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// Identifier of the request.
    pub id: u64,
    /// Exact time at which the event leaves the engine.
    pub at: Duration,
    /// Number of tokens; at least one, except that a request which can never fit into the KV cache is refused with a
    /// single event of no tokens (see [`batch::Batch`]).
    pub tokens: u32,
    /// Prompt tokens found in the prefix cache at the first admission, repeated in each of the request's events. `None`
    /// without a prefix cache.
    pub cached_tokens: Option<u32>,
    /// When the engine first began to work on the request, repeated in each of its events.
    pub started: Duration,
    /// True for the request's last event.
    pub finished: bool,
}

/// Configuration of an engine's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvCache {
    /// Block size in tokens.
    pub block_size: u32,
    /// Number of blocks, including the null block, which vLLM reserves and requests never get.
    pub blocks: u32,
    /// True if requests with a common prefix share blocks.
    pub prefix_cache: bool,
}

/// Lookups and hits of a prefix cache since the start, in tokens. Each request counts once, at its first admission.
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
    /// A queueing model (M/D/1, M/M/c, …).
    Queue(Box<queue::Queue>),
    /// A continuous-batching engine.
    Batch(Box<batch::Batch>),
    /// An engine of either kind whose speed varies over time.
    VariableSpeed(Box<variable_speed::VariableSpeed>),
    /// Any engine, with requests of items.
    Items(Box<items::ItemModel>),
}

impl Model {
    /// Returns a model that also takes requests of items.
    #[must_use]
    pub fn with_items(self) -> Self {
        Self::Items(Box::new(items::ItemModel::new(self)))
    }

    /// Adds a request. A time before the engine's last event counts as the time of that event.
    pub fn arrive(&mut self, at: Duration, request: Request) {
        match self {
            Self::Queue(queue) => queue.arrive(at, &request),
            Self::Batch(batch) => batch.arrive(at, request),
            Self::VariableSpeed(variable) => variable.arrive(at, request),
            Self::Items(items) => items.arrive(at, request),
        }
    }

    /// Cancels a request: frees what it occupies at `at`, and emits nothing more for it. Ignores requests that are not
    /// open.
    pub fn cancel(&mut self, at: Duration, id: u64) {
        match self {
            Self::Queue(queue) => queue.cancel(at, id),
            Self::Batch(batch) => batch.cancel(at, id),
            Self::VariableSpeed(variable) => variable.cancel(at, id),
            Self::Items(items) => items.cancel(at, id),
        }
    }

    /// Returns the exact time of the next internal event, or of an emission not yet returned by `advance`.
    pub fn next_event(&self) -> Option<Duration> {
        match self {
            Self::Queue(queue) => queue.next_event(),
            Self::Batch(batch) => batch.next_event(),
            Self::VariableSpeed(variable) => variable.next_event(),
            Self::Items(items) => items.model().next_event(),
        }
    }

    /// Runs the model up to and including `to`. Returns new emissions in order of time, each once.
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        match self {
            Self::Queue(queue) => queue.advance(to),
            Self::Batch(batch) => batch.advance(to),
            Self::VariableSpeed(variable) => variable.advance(to),
            Self::Items(items) => items.advance(to),
        }
    }

    /// Returns the number of requests in service.
    pub fn running(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.running(),
            Self::Batch(batch) => batch.running(),
            Self::VariableSpeed(variable) => variable.model().running(),
            Self::Items(items) => items.model().running(),
        }
    }

    /// Returns the number of queued requests, including preempted ones.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.waiting(),
            Self::Batch(batch) => batch.waiting(),
            Self::VariableSpeed(variable) => variable.model().waiting(),
            Self::Items(items) => items.model().waiting(),
        }
    }

    /// Returns the share of usable KV blocks in use; zero for a queueing model.
    pub fn kv_cache_usage(&self) -> f64 {
        match self {
            Self::Queue(_) => 0.0,
            Self::Batch(batch) => batch.kv_cache_usage(),
            Self::VariableSpeed(variable) => variable.model().kv_cache_usage(),
            Self::Items(items) => items.model().kv_cache_usage(),
        }
    }

    /// Returns the number of preemptions since the start; zero for a queueing model.
    pub fn preemptions(&self) -> u64 {
        match self {
            Self::Queue(_) => 0,
            Self::Batch(batch) => batch.preemptions(),
            Self::VariableSpeed(variable) => variable.model().preemptions(),
            Self::Items(items) => items.model().preemptions(),
        }
    }

    /// Returns the configuration of the KV cache; `None` for a queueing model.
    pub fn kv_cache(&self) -> Option<KvCache> {
        match self {
            Self::Queue(_) => None,
            Self::Batch(batch) => Some(batch.kv_cache()),
            Self::VariableSpeed(variable) => variable.model().kv_cache(),
            Self::Items(items) => items.model().kv_cache(),
        }
    }

    /// Returns lookups and hits of the prefix cache; zero for a queueing model.
    pub fn prefix_counts(&self) -> PrefixCounts {
        match self {
            Self::Queue(_) => PrefixCounts::default(),
            Self::Batch(batch) => batch.prefix_counts(),
            Self::VariableSpeed(variable) => variable.model().prefix_counts(),
            Self::Items(items) => items.model().prefix_counts(),
        }
    }
}
