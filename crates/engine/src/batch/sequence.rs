//! A request inside the engine: how far it has come, and what it holds.

use super::cost::Load;
use super::kv::{Found, Holding, Kv};
use crate::{Emission, Request};
use std::time::Duration;

/// A request that waits or runs, or was cancelled while it ran.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    request: Request,
    /// Tokens of the answer that have left the engine.
    emitted: u32,
    /// Tokens, of the prompt and then of the answer, whose keys and values are in the cache.
    computed: u32,
    /// Tokens that the iteration under way computes.
    scheduled: u32,
    holding: Holding,
    /// Tokens of the prompt found in the prefix cache at the first admission; `None` before it.
    cached: Option<u32>,
    /// When it was first admitted.
    begun: Duration,
    /// The number of its last admission; they rise.
    pub(super) admission: u64,
    /// Whether it was cancelled in the iteration under way: it holds nothing and yields nothing.
    gone: bool,
}

/// What the prefix cache has of a sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    found: Found,
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
            holding: Holding::default(),
            cached: None,
            begun: Duration::ZERO,
            admission: 0,
            gone: false,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.request.id
    }

    /// Tokens in the cache when its last token leaves: that one is never computed itself. `None` where no number holds them.
    pub(super) fn most_tokens(&self) -> Option<u32> {
        self.request.input_tokens.checked_add(self.request.output_tokens - 1)
    }

    /// Tokens that are known: the prompt and what was generated.
    fn known(&self) -> u32 {
        self.request.input_tokens + self.emitted
    }

    /// Blocks of the KV cache that it holds, shared ones included.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> u32 {
        self.holding.blocks
    }

    /// Tokens in the cache.
    #[cfg(test)]
    pub(super) fn computed(&self) -> u32 {
        self.computed
    }

    /// Tokens to compute before the next one is known.
    pub(super) fn left(&self) -> u32 {
        self.known() - self.computed
    }

    /// What the prefix cache has of it. The last token is always computed: the next one comes from it.
    pub(super) fn find(&self, kv: &Kv) -> Prefix {
        let found = kv.find(&self.request.blocks, self.known() - 1);
        Prefix { found, tokens: found.blocks * kv.block_size() }
    }

    /// Takes its place in the cache, with room for `take` tokens behind what was found, where there is room for all its known tokens;
    /// whether there was.
    pub(super) fn admit(&mut self, prefix: Prefix, take: u32, kv: &mut Kv) -> bool {
        if !kv.fits(prefix.found, self.known()) {
            return false;
        }
        let Some(holding) = kv.admit(&self.request.blocks, prefix.found, prefix.tokens + take) else {
            return false;
        };
        self.holding = holding;
        self.computed = prefix.tokens;
        true
    }

    /// Whether this admission is its first; asked once for each.
    pub(super) fn first_admission(&mut self, at: Duration) -> bool {
        let first = self.cached.is_none();
        if first {
            self.begun = at;
        }
        self.cached.get_or_insert(self.computed);
        first
    }

    /// Makes room for `take` more tokens; whether there was any.
    pub(super) fn grow(&mut self, take: u32, kv: &mut Kv) -> bool {
        kv.grow(&mut self.holding, self.computed + take)
    }

    /// Takes part in an iteration. The blocks that it fills can be found from now on, though they are not computed yet: who finds them
    /// reads them in this iteration at the earliest.
    pub(super) fn schedule(&mut self, take: u32, load: &mut Load, kv: &mut Kv) {
        if self.emitted > 0 && self.left() == 1 {
            load.decode(self.known());
        } else {
            load.prefill(take, self.computed);
        }
        self.scheduled = take;
        kv.publish(&mut self.holding, &self.request.blocks, self.computed + take);
    }

    /// The end of an iteration: the token that it yields, if any.
    pub(super) fn complete(&mut self, at: Duration) -> Option<Emission> {
        self.computed += std::mem::take(&mut self.scheduled);
        if self.left() > 0 {
            return None;
        }
        self.emitted += 1;
        Some(Emission {
            id: self.id(),
            at,
            tokens: 1,
            cached_tokens: self.cached,
            begun: self.begun,
            finished: self.emitted == self.request.output_tokens,
        })
    }

    /// Gives up all that it holds; what it has emitted stays emitted.
    pub(super) fn preempt(&mut self, kv: &mut Kv) {
        self.release(kv);
        self.holding = Holding::default();
        self.computed = 0;
    }

    pub(super) fn release(&self, kv: &mut Kv) {
        kv.release(self.holding, &self.request.blocks);
    }

    /// Its client went away while it ran.
    pub(super) fn leave(&mut self, kv: &mut Kv) {
        self.preempt(kv);
        self.gone = true;
    }

    pub(super) fn gone(&self) -> bool {
        self.gone
    }
}
