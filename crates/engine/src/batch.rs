//! A continuous-batching engine that schedules like vLLM's v1. Its events are iterations, not tokens.
//!
//! An iteration computes up to `max-num-batched-tokens` tokens. Running sequences come first, in the order of their
//! admission: each gets the token that it decodes, or the next chunk of its prompt. If a block of the KV cache is
//! needed and none is free, the sequence admitted last is preempted: it loses its blocks, returns to the front of the
//! queue, and all its tokens will be computed again. Then, unless a sequence was preempted, waiting requests are
//! admitted in order as far as `max-num-seqs`, tokens and blocks allow; if the first does not fit, none behind it is
//! admitted. A request fits if there is room for all its tokens so far, not only for the first chunk, as with vLLM's
//! `scheduler_reserve_full_isl` (on by default since 2026): long prompts wait rather than preempt each other halfway.
//! Only the chunk's blocks are allocated, and later growth may still preempt. At the end of the iteration every
//! sequence whose tokens are all computed emits its next token, including the first.
//!
//! Without chunked prefill a prompt is computed in one iteration. A prompt longer than the remaining tokens waits for
//! an otherwise empty iteration and then takes all of it, whatever its length (vLLM does not start with limits that
//! allow such a prompt, and neither does [`crate::config`]).
//!
//! An iteration starts when the previous one ends, or when a request arrives at an idle engine. A request that arrives
//! exactly when an iteration starts, or whose late arrival counts as that time, still joins it.
//!
//! A request that can never fit into the KV cache is refused: it gets an [`Emission`] without tokens at once.

pub mod cost;
mod kv;
pub(crate) mod noise;
mod sequence;

use super::{Emission, IdMap, KvCache, PrefixCounts, Request};
use cost::{Cost, Load};
use kv::Kv;
pub use noise::Drift;
use noise::Noise;
use sequence::Sequence;
use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroU32,
    time::Duration,
};

/// Parameters of a batching engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Limits of the scheduler.
    pub limits: Limits,
    /// Tokens per block of the KV cache.
    pub block_size: NonZeroU32,
    /// Duration of an iteration as a function of its load.
    pub cost: Cost,
    /// Coefficient of variation of the lognormal noise on iteration times; zero for none.
    pub cv: f64,
    /// Slow variation of the speed over many iterations; `None` for none.
    pub drift: Option<Drift>,
    /// Seed of the noise. The n-th iteration uses the n-th draw, regardless of other events.
    pub seed: u64,
}

/// Limits of the scheduler, named after vLLM's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of running sequences.
    pub max_num_seqs: NonZeroU32,
    /// Largest number of tokens in an iteration.
    pub max_num_batched_tokens: NonZeroU32,
    /// Blocks of the KV cache, vLLM's `num_gpu_blocks`; one is reserved as the null block.
    pub kv_blocks: NonZeroU32,
    /// True if requests share full blocks of a common prefix.
    pub prefix_cache: bool,
    /// True if a prompt may be computed over several iterations.
    pub chunked_prefill: bool,
}

/// A batching engine with its state.
#[derive(Debug, Clone)]
pub struct Batch {
    settings: Settings,
    noise: Noise,
    kv: Kv,
    /// Time of the last state change.
    clock: Duration,
    /// Waiting sequences by queue position; preempted ones go before all others.
    waiting: BTreeMap<i64, Sequence>,
    /// Running sequences in order of admission. Cancelled ones stay until the iteration ends, since removing each at
    /// once would make cancelling all of them quadratic.
    running: Vec<Sequence>,
    /// Number of cancelled sequences in `running`.
    cancelled: usize,
    /// Location of each open request, by id.
    locations: IdMap<Location>,
    /// Number of admissions so far.
    admissions: u64,
    /// The current iteration; `None` if nothing runs or waits.
    iteration: Option<Iteration>,
    out: VecDeque<Emission>,
    preemptions: u64,
    prefix: PrefixCounts,
}

/// Location of a request in the engine.
#[derive(Debug, Clone, Copy)]
enum Location {
    /// In the queue, at this position.
    Waiting(i64),
    /// Running, with this admission number.
    Running(u64),
}

/// An iteration under way.
#[derive(Debug, Clone, Copy)]
struct Iteration {
    start: Duration,
    end: Duration,
    noise: f64,
    load: Load,
    /// Tokens that it can still compute.
    budget: u32,
    /// True if it preempted a sequence; it then admits none.
    preempted: bool,
}

impl Batch {
    /// Creates an idle engine with an empty prefix cache.
    pub fn new(settings: Settings) -> Self {
        Self {
            noise: Noise::new(settings.cv, settings.drift, settings.seed),
            kv: Kv::new(settings.limits.kv_blocks.get() - 1, settings.block_size.get()),
            settings,
            clock: Duration::ZERO,
            waiting: BTreeMap::new(),
            running: vec![],
            cancelled: 0,
            locations: IdMap::default(),
            admissions: 0,
            iteration: None,
            out: VecDeque::new(),
            preemptions: 0,
            prefix: PrefixCounts::default(),
        }
    }

    /// See [`super::Model::arrive`].
    pub fn arrive(&mut self, at: Duration, mut request: Request) {
        let at = self.run(at);
        if !self.settings.limits.prefix_cache {
            request.blocks = <_>::default();
        }
        let sequence = Sequence::new(request);
        if sequence.max_cached_tokens().is_none_or(|n| self.kv.needed(n) > self.kv.blocks()) {
            let id = sequence.id();
            let refusal = Emission { id, at, tokens: 0, cached_tokens: None, started: at, finished: true };
            self.out.push_back(refusal);
            return;
        }
        let first = self.waiting.is_empty();
        let position = self.waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        self.enqueue(position, sequence);
        match self.iteration {
            None => self.begin(at),
            Some(iteration) if iteration.start == at && first => self.admit(iteration),
            Some(_) => {}
        }
    }

    /// See [`super::Model::cancel`]. The current iteration takes as long as with the request.
    pub fn cancel(&mut self, at: Duration, id: u64) {
        self.run(at);
        match self.locations.remove(&id) {
            None => {}
            Some(Location::Waiting(position)) => drop(self.waiting.remove(&position)),
            Some(Location::Running(admission)) => {
                let i = self.running.partition_point(|s| s.admission < admission);
                self.running[i].cancel(&mut self.kv);
                self.cancelled += 1;
            }
        }
    }

    /// See [`super::Model::next_event`].
    pub fn next_event(&self) -> Option<Duration> {
        self.out.front().map(|e| e.at).or(self.iteration.map(|i| i.end))
    }

    /// See [`super::Model::advance`].
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        self.run_iterations(to);
        let due = self.out.partition_point(|e| e.at <= to);
        self.out.drain(..due).collect()
    }

    /// See [`super::Model::running`].
    pub fn running(&self) -> usize {
        self.running.len() - self.cancelled
    }

    /// See [`super::Model::waiting`].
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// See [`super::Model::kv_cache_usage`].
    pub fn kv_cache_usage(&self) -> f64 {
        self.kv.usage()
    }

    /// See [`super::Model::preemptions`].
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// See [`super::Model::kv_cache`].
    pub fn kv_cache(&self) -> KvCache {
        let Settings { limits, block_size, .. } = &self.settings;
        KvCache {
            block_size: block_size.get(),
            blocks: limits.kv_blocks.get(),
            prefix_cache: limits.prefix_cache,
        }
    }

    /// See [`super::Model::prefix_counts`].
    pub fn prefix_counts(&self) -> PrefixCounts {
        self.prefix
    }

    /// Returns the load of the current iteration.
    #[cfg(test)]
    pub(super) fn load(&self) -> Option<Load> {
        self.iteration.map(|i| i.load)
    }

    /// Runs events due by `at` before an external event; returns the time at which the external event counts.
    fn run(&mut self, at: Duration) -> Duration {
        self.run_iterations(at);
        self.clock = self.clock.max(at);
        self.clock
    }

    fn run_iterations(&mut self, to: Duration) {
        while let Some(iteration) = self.iteration.filter(|i| i.end <= to) {
            self.clock = iteration.end;
            self.complete(iteration.end);
            self.begin(iteration.end);
        }
    }
    /// Ends an iteration: counts its tokens as computed and emits the next ones.
    fn complete(&mut self, at: Duration) {
        let Self { running, kv, out, locations, settings, .. } = self;
        let prefix_cache = settings.limits.prefix_cache;
        running.retain_mut(|sequence| {
            if sequence.is_cancelled() {
                return false;
            }
            let Some(emission) = sequence.complete(at) else { return true };
            // Without a prefix cache the field must be `None`.
            out.push_back(Emission {
                cached_tokens: emission.cached_tokens.filter(|_| prefix_cache),
                ..emission
            });
            if emission.finished {
                sequence.release(kv);
                locations.remove(&emission.id);
            }
            !emission.finished
        });
        self.cancelled = 0;
    }

    /// Inserts a sequence into the queue.
    fn enqueue(&mut self, position: i64, sequence: Sequence) {
        self.locations.insert(sequence.id(), Location::Waiting(position));
        self.waiting.insert(position, sequence);
    }

    /// Starts an iteration, if there is anything to do.
    fn begin(&mut self, at: Duration) {
        if self.running.is_empty() && self.waiting.is_empty() {
            self.iteration = None;
            return;
        }
        let mut iteration = Iteration {
            start: at,
            end: at,
            noise: self.noise.draw(at),
            load: Load::default(),
            budget: self.settings.limits.max_num_batched_tokens.get(),
            preempted: false,
        };
        let mut i = 0;
        while i < self.running.len() && iteration.budget > 0 {
            let tokens = self.running[i].remaining().min(iteration.budget);
            if self.make_room(i, tokens, &mut iteration) {
                self.running[i].schedule(tokens, &mut iteration.load, &mut self.kv);
                iteration.budget -= tokens;
                i += 1;
            }
        }
        self.admit(iteration);
        debug_assert!(self.iteration.is_some_and(|i| i.load.sequences > 0), "an empty iteration never ends");
    }

    /// Allocates blocks for `tokens` more tokens of a running sequence, preempting sequences from the end of the list.
    /// Returns false if the sequence itself was preempted.
    fn make_room(&mut self, i: usize, tokens: u32, iteration: &mut Iteration) -> bool {
        while let Some(sequence) = self.running.get_mut(i) {
            if sequence.grow(tokens, &mut self.kv) {
                return true;
            }
            let Some(mut last) = self.running.pop() else { break };
            last.preempt(&mut self.kv);
            let position = self.waiting.first_key_value().map_or(0, |(first, _)| first - 1);
            self.enqueue(position, last);
            self.preemptions += 1;
            iteration.preempted = true;
        }
        false
    }

    /// Admits waiting sequences and sets the end of the iteration.
    fn admit(&mut self, mut iteration: Iteration) {
        let limits = self.settings.limits;
        while !iteration.preempted
            && iteration.budget > 0
            && self.running() < limits.max_num_seqs.get() as usize
        {
            let Some(mut front) = self.waiting.first_entry() else { break };
            let sequence = front.get_mut();
            let prefix = sequence.find_prefix(&self.kv);
            let remaining = sequence.remaining() - prefix.tokens;
            let tokens = match limits.chunked_prefill {
                true => remaining.min(iteration.budget),
                false if remaining <= iteration.budget || iteration.load.sequences == 0 => remaining,
                false => break,
            };
            if !sequence.admit(prefix, tokens, &mut self.kv) {
                break;
            }
            if sequence.record_admission(iteration.start) && limits.prefix_cache {
                self.prefix.queries += u64::from(sequence.remaining() + prefix.tokens);
                self.prefix.hits += u64::from(prefix.tokens);
            }
            sequence.schedule(tokens, &mut iteration.load, &mut self.kv);
            iteration.budget = iteration.budget.saturating_sub(tokens);
            sequence.admission = self.admissions;
            self.admissions += 1;
            let sequence = front.remove();
            self.locations.insert(sequence.id(), Location::Running(sequence.admission));
            self.running.push(sequence);
        }
        iteration.end =
            iteration.start.saturating_add(self.settings.cost.time(&iteration.load, iteration.noise));
        self.iteration = Some(iteration);
    }
}

#[cfg(test)]
mod tests;
