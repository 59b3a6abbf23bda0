//! A request inside the engine, with its progress and its KV blocks.

use super::cost::Load;
use super::kv::{Allocation, Kv, PrefixHit};
use crate::{Emission, EncodedImage, Request};
use std::time::Duration;

/// A request that waits or runs, or was cancelled during the current iteration.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    request: Request,
    /// Number of answer tokens emitted.
    emitted: u32,
    /// Number of tokens, of the prompt and then of the answer, whose keys and values are in the cache.
    computed: u32,
    /// Number of tokens that the current iteration computes.
    scheduled: u32,
    allocation: Allocation,
    /// Prompt tokens found in the prefix cache at the first admission; `None` before it.
    cached: Option<u32>,
    /// Time of the first admission.
    started: Duration,
    /// Number of its last admission; later admissions have higher numbers.
    pub(super) admission: u64,
    /// True if it was cancelled during the current iteration: it has no blocks and emits nothing.
    cancelled: bool,
}

/// Leading part of a sequence found in the prefix cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedPrefix {
    hit: PrefixHit,
    pub(super) tokens: u32,
}

impl Sequence {
    pub(super) fn new(request: Request) -> Self {
        let request = Request {
            input_tokens: request.input_tokens.max(1),
            output_tokens: request.output_tokens.max(1),
            ..request
        };
        Self {
            request,
            emitted: 0,
            computed: 0,
            scheduled: 0,
            allocation: Allocation::default(),
            cached: None,
            started: Duration::ZERO,
            admission: 0,
            cancelled: false,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.request.id
    }

    /// Returns the number of tokens in the cache when the last token is emitted, which is never computed itself. `None`
    /// on overflow.
    pub(super) fn max_cached_tokens(&self) -> Option<u32> {
        self.request.input_tokens.checked_add(self.request.output_tokens - 1)
    }

    /// Returns the number of tokens of the prompt and of the answer so far.
    fn known_tokens(&self) -> u32 {
        self.request.input_tokens + self.emitted
    }

    /// Returns the number of its KV blocks, including shared ones.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> u32 {
        self.allocation.blocks
    }

    /// Returns the number of tokens in the cache.
    #[cfg(test)]
    pub(super) fn computed(&self) -> u32 {
        self.computed
    }

    /// Returns the number of tokens to compute before the next one can be emitted.
    pub(super) fn remaining(&self) -> u32 {
        self.known_tokens() - self.computed
    }

    /// Looks the sequence up in the prefix cache. Its last token is always computed, since the next one follows from
    /// it.
    pub(super) fn find_prefix(&self, kv: &Kv) -> CachedPrefix {
        let hit = kv.find(&self.request.blocks, self.known_tokens() - 1);
        CachedPrefix { hit, tokens: hit.blocks * kv.block_size() }
    }

    /// Allocates blocks for the cached prefix and `tokens` more tokens. Returns false if the cache has no room for all
    /// known tokens.
    pub(super) fn admit(&mut self, prefix: CachedPrefix, tokens: u32, kv: &mut Kv) -> bool {
        if !kv.fits(prefix.hit, self.known_tokens()) {
            return false;
        }
        let Some(allocation) = kv.admit(&self.request.blocks, prefix.hit, prefix.tokens + tokens) else {
            return false;
        };
        self.allocation = allocation;
        self.computed = prefix.tokens;
        true
    }

    /// Records an admission; returns true if it is the first.
    pub(super) fn record_admission(&mut self, at: Duration) -> bool {
        let first = self.cached.is_none();
        if first {
            self.started = at;
        }
        self.cached.get_or_insert(self.computed);
        first
    }

    /// Extends the allocation by `tokens` tokens; returns false if they do not fit.
    pub(super) fn grow(&mut self, tokens: u32, kv: &mut Kv) -> bool {
        kv.grow(&mut self.allocation, self.computed + tokens)
    }

    /// Joins an iteration. Other sequences may find its new full blocks at once, although they are not computed yet:
    /// the earliest reader reads them in this iteration.
    pub(super) fn schedule(&mut self, tokens: u32, load: &mut Load, kv: &mut Kv) {
        match (self.emitted, self.remaining()) {
            (0, _) => {
                // Once, with the first tokens: vLLM keeps what the encoder made, also for an image that the prefix cache has in part.
                let images = std::mem::take(&mut self.request.images);
                let is_new = |image: &&EncodedImage| image.start >= self.computed;
                load.encode(images.iter().filter(is_new).map(|image| image.time).sum());
                load.prefill(tokens, self.computed);
            }
            (_, 1) => load.decode(self.known_tokens()),
            _ => load.recompute(tokens, self.computed),
        }
        self.scheduled = tokens;
        kv.publish(&mut self.allocation, &self.request.blocks, self.computed + tokens);
    }

    /// Ends an iteration; returns the emitted token, if any.
    pub(super) fn complete(&mut self, at: Duration) -> Option<Emission> {
        self.computed += std::mem::take(&mut self.scheduled);
        if self.remaining() > 0 {
            return None;
        }
        self.emitted += 1;
        Some(Emission {
            id: self.id(),
            at,
            tokens: 1,
            cached_tokens: self.cached,
            started: self.started,
            finished: self.emitted == self.request.output_tokens,
        })
    }

    /// Releases all blocks; tokens already emitted are not repeated.
    pub(super) fn preempt(&mut self, kv: &mut Kv) {
        self.release(kv);
        self.allocation = Allocation::default();
        self.computed = 0;
    }

    pub(super) fn release(&self, kv: &mut Kv) {
        kv.release(self.allocation, &self.request.blocks);
    }

    /// Cancels a running sequence.
    pub(super) fn cancel(&mut self, kv: &mut Kv) {
        self.preempt(kv);
        self.cancelled = true;
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled
    }
}
