//! The choices of a request on a bare engine: each is a request of the engine, as vLLM's front end makes it.

use goodput_core::record::{ChoiceSpan, in_decoding_units};
use goodput_engine::{Model, Request};
use goodput_plan::Plan;
use std::num::NonZeroU8;
use std::time::Duration;

/// Number of bits of an engine's request id that count the choices of a request, in a plan that asks for several.
const CHOICE_BITS: u32 = 6;

/// The ids of an engine's requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineIds {
    /// Number of the lowest bits that count the choices.
    bits: u32,
}

impl EngineIds {
    /// Returns the ids in a plan: those of its requests, unless it asks for several choices.
    pub(super) fn of(plan: &Plan) -> Self {
        Self { bits: if plan.most_choices() > NonZeroU8::MIN { CHOICE_BITS } else { 0 } }
    }

    /// Sends a request with all of its choices to an engine.
    pub(super) fn arrive(self, model: &mut Model, at: Duration, request: Request, choices: u32) {
        let block_size = model.kv_cache().map_or(1, |cache| cache.block_size);
        let id = request.id << self.bits;
        Request { id, ..request }.into_choices(choices, block_size).for_each(|one| model.arrive(at, one));
    }

    /// Cancels all choices of a request.
    pub(super) fn cancel(self, model: &mut Model, at: Duration, id: u64, choices: u32) {
        (0..choices).for_each(|choice| model.cancel(at, (id << self.bits) + u64::from(choice)));
    }

    /// Returns the request of an engine's id, and the number of the choice.
    pub(super) const fn split(self, id: u64) -> (u64, usize) {
        (id >> self.bits, (id & ((1 << self.bits) - 1)) as usize)
    }
}

/// The events of one choice so far.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    span: ChoiceSpan,
    has_finished: bool,
}

/// The choices of an open request.
#[derive(Debug)]
pub(super) struct OpenChoices {
    /// The first choice, which most requests have alone.
    first: Choice,
    others: Vec<Choice>,
}

impl OpenChoices {
    pub(super) fn new(choices: u32) -> Self {
        let others = choices.saturating_sub(1) as usize;
        Self { first: Choice::default(), others: vec![Choice::default(); others] }
    }

    /// Returns the number of choices.
    pub(super) fn len(&self) -> u32 {
        1 + self.others.len() as u32
    }

    /// Adds an event of a choice, the last one if it has `finished`. Returns the time since the one before it; `None` for the first.
    pub(super) fn add(&mut self, choice: usize, at: Duration, finished: bool) -> Option<Duration> {
        let one = match choice.checked_sub(1) {
            None => &mut self.first,
            Some(other) => self.others.get_mut(other)?,
        };
        one.has_finished |= finished;
        one.span.add(at)
    }

    /// Returns true if every choice has had its last event.
    pub(super) fn have_finished(&self) -> bool {
        self.all().all(|choice| choice.has_finished)
    }

    /// Returns the time spent decoding, as [`goodput_core::record::Record::decoding`], of an answer that ended at `end`; `None` for one
    /// choice.
    pub(super) fn decoding(&self, end: Duration) -> Option<Duration> {
        let each = self.all().map(|choice| choice.span.decoding((!choice.has_finished).then_some(end)));
        (!self.others.is_empty()).then(|| in_decoding_units(each.sum()))
    }

    fn all(&self) -> impl Iterator<Item = &Choice> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
