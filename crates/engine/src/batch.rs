//! A continuous-batching engine that schedules as vLLM's v1 does: an event per iteration, never per token.
//!
//! An iteration takes up to `max-num-batched-tokens` tokens. First the running sequences, in the order of their admission, get the token
//! that they decode next, or the next chunk of their prompt; where a block of the KV cache is needed and none is to be had, the sequence
//! admitted last is preempted: it gives up its blocks, goes to the front of the line, and will have all its tokens computed again. Then,
//! unless one was preempted, those who wait are admitted in order, while `max-num-seqs`, the tokens and the blocks allow; where the first
//! in line does not fit, nobody behind it is taken. To fit, the new and the preempted alike must find room for all tokens that they have
//! so far, not only for the first chunk, as with vLLM's `scheduler_reserve_full_isl` (on by default since 2026): long prompts wait
//! rather than crowd each other out halfway. Only the chunk's blocks are taken, and what is generated later may still preempt. At the end of the iteration every sequence whose tokens are all computed has its next
//! token, the first one included.
//!
//! Without chunked prefill a prompt is computed in one iteration. One that is longer than what is left of the tokens waits for an
//! iteration that has nothing else in it, and then has it for itself, however long it is (vLLM does not start with limits that would
//! allow such a prompt, and neither does [`crate::config`]).
//!
//! An iteration starts where the one before ends, or where a request arrives at an idle engine. A request that arrives at the very
//! instant at which an iteration starts, or is told of so late that it counts as then, still joins it.
//!
//! A request that could never fit into the KV cache is refused: it gets an [`Emission`] without tokens at once.

pub mod cost;
mod kv;
pub mod noise;
mod sequence;

use super::{Emission, KvCache, PrefixCounts, Request};
use cost::{Cost, Load};
use kv::Kv;
use noise::{Drift, Noise};
use sequence::Sequence;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    num::NonZeroU32,
    time::Duration,
};

/// What makes one engine differ from another.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What it takes in at a time.
    pub limits: Limits,
    /// Tokens of a block of the KV cache.
    pub block_size: NonZeroU32,
    /// The time of an iteration.
    pub cost: Cost,
    /// Coefficient of variation of the lognormal noise on the times of iterations; zero for none.
    pub cv: f64,
    /// How its speed wanders over many iterations; `None` where it does not.
    pub drift: Option<Drift>,
    /// Seed of the noise. The n-th iteration has the n-th draw, whatever else happens.
    pub seed: u64,
}

/// What an engine takes in at a time, by the names of vLLM's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that run at a time.
    pub max_num_seqs: NonZeroU32,
    /// Tokens of an iteration.
    pub max_num_batched_tokens: NonZeroU32,
    /// Blocks of the KV cache, vLLM's `num_gpu_blocks`: it keeps the first as its null block, so that requests have one less.
    pub kv_blocks: NonZeroU32,
    /// Whether full blocks are found again by later requests with the same beginning.
    pub prefix_cache: bool,
    /// Whether a prompt may be computed over several iterations.
    pub chunked_prefill: bool,
}

/// The engine and all that is in it.
#[derive(Debug, Clone)]
pub struct Batch {
    settings: Settings,
    noise: Noise,
    kv: Kv,
    /// When the state last changed.
    clock: Duration,
    /// By place in line; the preempted have places before all others.
    waiting: BTreeMap<i64, Sequence>,
    /// In order of admission. Cancelled ones stay to the end of the iteration: taking them out would be quadratic in a drain.
    running: Vec<Sequence>,
    /// Those of `running` that were cancelled.
    gone: usize,
    /// Where the open requests are, by id.
    places: HashMap<u64, Place>,
    /// The number of the next admission.
    admissions: u64,
    /// The iteration under way; none only where nothing runs or waits.
    step: Option<Step>,
    out: VecDeque<Emission>,
    preemptions: u64,
    prefix: PrefixCounts,
}

/// Where a request is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Its place in line.
    Waiting(i64),
    /// The number of its admission.
    Running(u64),
}

/// An iteration.
#[derive(Debug, Clone, Copy)]
struct Step {
    start: Duration,
    end: Duration,
    noise: f64,
    load: Load,
    /// Tokens that it can still take.
    budget: u32,
    /// Whether it began by preempting: then it admits nobody.
    preempted: bool,
}

impl Batch {
    /// An idle engine with nothing in its prefix cache.
    pub fn new(settings: Settings) -> Self {
        Self {
            noise: Noise::new(settings.cv, settings.drift, settings.seed),
            kv: Kv::new(settings.limits.kv_blocks.get() - 1, settings.block_size.get()),
            settings,
            clock: Duration::ZERO,
            waiting: BTreeMap::new(),
            running: vec![],
            gone: 0,
            places: HashMap::new(),
            admissions: 0,
            step: None,
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
        if sequence.most_tokens().is_none_or(|n| self.kv.needed(n) > self.kv.blocks()) {
            let id = sequence.id();
            let refusal = Emission { id, at, tokens: 0, cached_tokens: None, begun: at, finished: true };
            self.out.push_back(refusal);
            return;
        }
        let first = self.waiting.is_empty();
        let place = self.waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        self.wait(place, sequence);
        match self.step {
            None => self.begin(at),
            Some(step) if step.start == at && first => self.admit(step),
            Some(_) => {}
        }
    }

    /// See [`super::Model::cancel`]. An iteration that the request takes part in goes on as long as it would have.
    pub fn cancel(&mut self, at: Duration, id: u64) {
        self.run(at);
        match self.places.remove(&id) {
            None => {}
            Some(Place::Waiting(place)) => drop(self.waiting.remove(&place)),
            Some(Place::Running(admission)) => {
                let i = self.running.partition_point(|s| s.admission < admission);
                self.running[i].leave(&mut self.kv);
                self.gone += 1;
            }
        }
    }

    /// See [`super::Model::next_event`].
    pub fn next_event(&self) -> Option<Duration> {
        self.out.front().map(|e| e.at).or(self.step.map(|s| s.end))
    }

    /// See [`super::Model::advance`].
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        self.run_steps(to);
        let due = self.out.partition_point(|e| e.at <= to);
        self.out.drain(..due).collect()
    }

    /// See [`super::Model::running`].
    pub fn running(&self) -> usize {
        self.running.len() - self.gone
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

    /// What the iteration under way has to do.
    #[cfg(test)]
    pub(super) fn load(&self) -> Option<Load> {
        self.step.map(|s| s.load)
    }

    /// Lets everything happen that is due before something from outside does; the time at which that counts.
    fn run(&mut self, at: Duration) -> Duration {
        self.run_steps(at);
        self.clock = self.clock.max(at);
        self.clock
    }

    fn run_steps(&mut self, to: Duration) {
        while let Some(step) = self.step.filter(|s| s.end <= to) {
            self.clock = step.end;
            self.complete(step.end);
            self.begin(step.end);
        }
    }

    /// The end of an iteration: what was computed counts, and tokens leave.
    fn complete(&mut self, at: Duration) {
        let Self { running, kv, out, places, settings, .. } = self;
        let prefix_cache = settings.limits.prefix_cache;
        running.retain_mut(|sequence| {
            if sequence.gone() {
                return false;
            }
            let Some(emission) = sequence.complete(at) else { return true };
            // Who has no prefix cache has nothing to tell of it.
            out.push_back(Emission {
                cached_tokens: emission.cached_tokens.filter(|_| prefix_cache),
                ..emission
            });
            if emission.finished {
                sequence.release(kv);
                places.remove(&emission.id);
            }
            !emission.finished
        });
        self.gone = 0;
    }

    /// Puts a sequence into the line.
    fn wait(&mut self, place: i64, sequence: Sequence) {
        self.places.insert(sequence.id(), Place::Waiting(place));
        self.waiting.insert(place, sequence);
    }

    /// Starts an iteration, if there is anything to do.
    fn begin(&mut self, at: Duration) {
        if self.running.is_empty() && self.waiting.is_empty() {
            self.step = None;
            return;
        }
        let mut step = Step {
            start: at,
            end: at,
            noise: self.noise.draw(at),
            load: Load::default(),
            budget: self.settings.limits.max_num_batched_tokens.get(),
            preempted: false,
        };
        let mut i = 0;
        while i < self.running.len() && step.budget > 0 {
            let take = self.running[i].left().min(step.budget);
            if self.make_room(i, take, &mut step) {
                self.running[i].schedule(take, &mut step.load, &mut self.kv);
                step.budget -= take;
                i += 1;
            }
        }
        self.admit(step);
        debug_assert!(self.step.is_some_and(|s| s.load.sequences > 0), "an iteration of nothing never ends");
    }

    /// Finds blocks for `take` more tokens of a running sequence, preempting from the end; whether the sequence itself was spared.
    fn make_room(&mut self, i: usize, take: u32, step: &mut Step) -> bool {
        while let Some(sequence) = self.running.get_mut(i) {
            if sequence.grow(take, &mut self.kv) {
                return true;
            }
            let Some(mut last) = self.running.pop() else { break };
            last.preempt(&mut self.kv);
            let place = self.waiting.first_key_value().map_or(0, |(first, _)| first - 1);
            self.wait(place, last);
            self.preemptions += 1;
            step.preempted = true;
        }
        false
    }

    /// Admits who waits, and sets the end of the iteration.
    fn admit(&mut self, mut step: Step) {
        let limits = self.settings.limits;
        while !step.preempted && step.budget > 0 && self.running() < limits.max_num_seqs.get() as usize {
            let Some(mut front) = self.waiting.first_entry() else { break };
            let sequence = front.get_mut();
            let found = sequence.find(&self.kv);
            let left = sequence.left() - found.tokens;
            let take = match limits.chunked_prefill {
                true => left.min(step.budget),
                false if left <= step.budget || step.load.sequences == 0 => left,
                false => break,
            };
            if !sequence.admit(found, take, &mut self.kv) {
                break;
            }
            if sequence.first_admission(step.start) && limits.prefix_cache {
                self.prefix.queries += u64::from(sequence.left() + found.tokens);
                self.prefix.hits += u64::from(found.tokens);
            }
            sequence.schedule(take, &mut step.load, &mut self.kv);
            step.budget = step.budget.saturating_sub(take);
            sequence.admission = self.admissions;
            self.admissions += 1;
            let sequence = front.remove();
            self.places.insert(sequence.id(), Place::Running(sequence.admission));
            self.running.push(sequence);
        }
        step.end = step.start.saturating_add(self.settings.cost.time(&step.load, step.noise));
        self.step = Some(step);
    }
}

#[cfg(test)]
mod admission;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
