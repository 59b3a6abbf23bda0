//! The choices of one answer, where a request asks for several (`n`): when each began and ended, and whether all came.

use crate::client::event::{ChoiceSets, Event};
use goodput_core::record::ChoiceSpan;
use std::num::NonZeroU8;
use std::time::Duration;

/// The choices of an answer that has several.
#[derive(Debug)]
pub(super) struct ChoiceTally {
    /// Number of choices asked for.
    asked: NonZeroU8,
    /// Choices that any event was about.
    present: u64,
    /// Choices with a finish reason.
    finished: u64,
    /// The events with tokens of each choice asked for.
    spans: Vec<ChoiceSpan>,
}

impl ChoiceTally {
    pub(super) fn new(asked: NonZeroU8) -> Self {
        Self { asked, present: 0, finished: 0, spans: vec![ChoiceSpan::default(); asked.get().into()] }
    }

    /// Returns the number of choices asked for.
    pub(super) const fn asked(&self) -> NonZeroU8 {
        self.asked
    }

    /// Notes the choices that an event or a document is about.
    pub(super) const fn note(&mut self, choices: ChoiceSets) {
        self.present |= choices.present;
        self.finished |= choices.finished;
    }

    /// Adds an event with tokens of a choice. Returns the time since the one before it; `None` for the first.
    pub(super) fn add(&mut self, choice: u32, at: Duration) -> Option<Duration> {
        // One that was not asked for fails the answer in the end.
        self.spans.get_mut(choice as usize)?.add(at)
    }

    /// Returns the number of choices with tokens.
    pub(super) fn begun(&self) -> u32 {
        self.spans.iter().filter(|span| span.has_begun()).count() as u32
    }

    /// Returns true if every choice asked for has its finish reason.
    pub(super) fn are_whole(&self) -> bool {
        self.present.count_ones() == u32::from(self.asked.get()) && self.are_finished()
    }

    /// Returns true if there are choices, and each of them has its finish reason.
    pub(super) const fn are_finished(&self) -> bool {
        self.present != 0 && self.present & !self.finished == 0
    }

    /// Returns the time that the choices spent decoding. `end` is the end of an answer that was broken off: choices that had begun
    /// and not ended were decoding until then.
    pub(super) fn decoding(&self, end: Option<Duration>) -> Duration {
        let is_open = |index: u64| self.finished & ChoiceSets::of(index) == 0;
        (0..).zip(&self.spans).map(|(index, span)| span.decoding(end.filter(|_| is_open(index)))).sum()
    }

    /// Returns the evidence that the answer has other choices than were asked for.
    pub(super) fn problem(&self) -> Option<String> {
        let (asked, present) = (self.asked.get(), self.present.count_ones());
        let wanted = (1_u64 << asked) - 1;
        if self.present == wanted {
            return None;
        }
        let choices = if present == 1 { "choice" } else { "choices" };
        Some(match present == u32::from(asked) {
            true => format!("the choices of the answer are not numbered from 0 to {}", asked - 1),
            false => format!("the answer has {present} {choices} where n = {asked} asks for {asked}"),
        })
    }
}

/// The server's counts of output tokens in events with choices. Where there is a running count, nobody knows if it is of one choice (vLLM) or
/// of all, and only a total is believed. Where the event that ends a choice is the only one with a count, it is of that choice (llama.cpp).
#[derive(Debug, Default)]
pub(super) struct ChoiceCounts {
    /// Choices that any event was about.
    present: u64,
    /// Choices whose last event had a count.
    counted: u64,
    /// Sum of these counts.
    sum: u64,
    /// True if another event had a count.
    has_running: bool,
}

impl ChoiceCounts {
    /// Notes the count of an event of a stream.
    pub(super) fn take(&mut self, event: &Event) {
        let ChoiceSets { present, finished, .. } = event.choices;
        self.present |= present;
        let Some(count) = event.usage.and_then(|usage| usage.completion).filter(|_| present != 0) else {
            return;
        };
        let ends_one = present.count_ones() == 1 && finished == present && self.counted & present == 0;
        self.has_running |= !ends_one && count > 0;
        if ends_one {
            self.counted |= present;
            self.sum = self.sum.saturating_add(count);
        }
    }

    /// Returns the tokens of all choices; `None` unless the last event of each had a count, and no other one.
    pub(super) fn sum(&self) -> Option<u64> {
        (self.counted == self.present && !self.has_running).then_some(self.sum)
    }
}

#[cfg(test)]
mod tests;
