//! Turns the events of an answer and their times into a record: which events carry tokens, how many, and how the stream
//! ended.
//!
//! The rules are those of the design, §6. With continuous usage, an event carries tokens iff the count rose. Without
//! it, its contents decide (see `client/dialect`). Totals come from the server's usage, or else from the events,
//! flagged as an estimate. `tally/count.rs` counts, and decides what of the server's counts is believed.

mod choices;
mod count;

use super::dialect::{Dialect, PromptWriter, TemplateReader};
use super::event::{ChoiceSets, Event, Parsed, joined_reasons};
use super::payload::{AskedLength, Expected};
use choices::ChoiceTally;
use count::{Carried, Ending, TokenCount};
use goodput_core::endpoint::Api;
use goodput_core::record::{Failure, Outcome, Record, TokenSource, in_decoding_units};
use std::num::NonZeroU8;
use std::time::Duration;

/// The reason why reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The body is complete.
    Eof,
    /// The connection broke. The failure has been recorded, unless the answer was complete by then.
    Broken,
    /// The request timed out.
    Timeout,
    /// The step was over.
    Cut,
}

/// Maximum number of bytes of a failure's evidence that are retained.
pub(crate) const SEEN_MAX: usize = 16 << 10;

/// Initial capacity for gaps, reserved at the first one, so that most answers allocate once.
const GAPS: usize = 64;

/// The state of one answer.
#[derive(Debug, Default)]
pub struct Tally {
    dialect: &'static Dialect,
    /// True if a stream has no other end than that of its body.
    ends_with_body: bool,
    /// True if the stream ended within an event.
    is_torn: bool,
    itl_limit: Option<Duration>,
    first_event: Option<Duration>,
    first_token: Option<Duration>,
    first_content: Option<Duration>,
    first_tool_call: Option<Duration>,
    last_token: Option<Duration>,
    /// Completion tokens that the server had counted at the first event that carried any, if it sends a running count.
    first_event_tokens: Option<u64>,
    /// The first event with text, on any channel.
    first_text: Option<Duration>,
    /// Events before it that carried tokens without text.
    textless: u32,
    /// True if any event carried reasoning.
    reasoned: bool,
    events: u32,
    gaps_us: Vec<u32>,
    itl_max: Option<Duration>,
    itl_over: u32,
    count: TokenCount,
    /// The choices, if the request asks for several.
    choices: Option<ChoiceTally>,
    /// Facts that the answer must agree with, if it is one document.
    expected: Option<Expected>,
    /// The length asked for, if any.
    asked: Option<AskedLength>,
    is_document: bool,
    finish: Option<Box<str>>,
    done: bool,
    failure: Option<(Failure, Box<[u8]>)>,
    sealed_at: Option<Duration>,
}

/// The results of [`Tally::finish`] besides the record.
#[derive(Debug)]
pub struct Tallied {
    /// Gaps between successive events with tokens, in microseconds.
    pub gaps_us: Vec<u32>,
    /// Evidence of a failure: a payload, or the text of an error.
    pub seen: Option<Box<[u8]>>,
}

impl Tally {
    /// Makes the state before the first byte. Gaps above `itl_limit` are counted in the record.
    pub fn new(api: Api, itl_limit: Option<Duration>) -> Self {
        Self::of(Dialect::of(api), itl_limit)
    }

    /// Makes the state before the first byte of an answer in a dialect.
    pub(super) fn of(dialect: &'static Dialect, itl_limit: Option<Duration>) -> Self {
        Self { dialect, itl_limit, ..Self::default() }
    }

    /// Makes the state before the first byte of an answer in the format of a template.
    pub fn of_template(reader: &TemplateReader, itl_limit: Option<Duration>) -> Self {
        Self { ends_with_body: reader.ends_with_body(), ..Self::of(reader.dialect(), itl_limit) }
    }

    /// Sets the length that the answer was asked to have, with which its token counts must agree.
    pub fn expect(&mut self, asked: Option<AskedLength>) {
        self.asked = asked;
    }

    /// Sets what the answer must agree with if it is one document.
    pub fn expect_contents(&mut self, expected: Option<Expected>) {
        self.expected = expected;
    }

    /// Sets the number of choices asked for; `None` for one.
    pub fn expect_choices(&mut self, choices: Option<NonZeroU8>) {
        self.choices = choices.map(ChoiceTally::new);
        self.count.sums_choices(choices.is_some());
    }

    /// Processes one payload whose bytes arrived `at`. Ignores everything after the end of the answer or a failure.
    pub fn feed(&mut self, at: Duration, parsed: Parsed, payload: &[u8]) {
        if self.sealed() || parsed == Parsed::Ignored {
            return;
        }
        self.first_event.get_or_insert(at);
        match parsed {
            Parsed::Event(event) => self.event(at, event, payload),
            Parsed::Done => {
                self.done = true;
                self.sealed_at = Some(at);
            }
            Parsed::Malformed => self.fail(at, Failure::Malformed, payload),
            Parsed::Ignored => {}
        }
    }

    /// Records a failure with its evidence; the first failure wins.
    pub fn fail(&mut self, at: Duration, failure: Failure, seen: &[u8]) {
        if self.failure.is_none() {
            self.failure = Some((failure, seen[..seen.len().min(SEEN_MAX)].into()));
            self.sealed_at.get_or_insert(at);
        }
    }

    /// Returns true if nothing that may follow matters.
    pub fn sealed(&self) -> bool {
        self.sealed_at.is_some()
    }

    /// Returns the limit on tokens if the unfinished answer exceeds it.
    pub fn overrun(&self) -> Option<u64> {
        let most = self.asked.filter(|_| !self.whole())?.most_tokens();
        self.count.overrun(most)
    }

    /// Returns the time since which nothing that follows matters.
    pub(crate) fn sealed_at(&self) -> Option<Duration> {
        self.sealed_at
    }

    /// Returns true if the answer is complete, however the connection ends.
    pub fn whole(&self) -> bool {
        let has_finished = self.choices.as_ref().map_or(self.finish.is_some(), ChoiceTally::are_whole);
        self.done || (has_finished && self.dialect.finish_completes)
    }

    /// Returns the finish reason; of several choices those of all, and none while one lacks its own.
    fn finish_reason(&self) -> Option<&str> {
        let has_all = self.choices.as_ref().is_none_or(ChoiceTally::are_finished);
        self.finish.as_deref().filter(|_| has_all)
    }

    /// Records that the body ended within an event.
    pub(crate) fn torn(&mut self) {
        self.is_torn = true;
    }

    /// Returns true if any event has arrived.
    pub fn started(&self) -> bool {
        self.first_event.is_some()
    }

    /// Processes an answer that is one document, whose last byte arrived `at`. Its tokens have no separate times, so
    /// there is no first token.
    pub fn document(&mut self, at: Duration, parsed: Parsed, body: &[u8]) {
        if self.sealed() {
            return;
        }
        let Parsed::Event(event) = parsed else { return self.fail(at, Failure::Malformed, body) };
        if event.error.is_some() {
            return self.fail(at, Failure::StreamError, body);
        }
        if let Some(problem) = self.expected.and_then(|expected| expected.problem(&event)) {
            return self.fail(at, Failure::Miscounted, problem.as_bytes());
        }
        if (self.dialect.document_has_tokens)(&event) {
            (self.events, self.last_token) = (1, Some(at));
        }
        self.count.document(&event);
        self.note_choices(event.choices);
        self.is_document = true;
        self.finish = event.finish_reason;
        self.done = true;
        self.sealed_at = Some(at);
    }

    fn event(&mut self, at: Duration, event: Event, payload: &[u8]) {
        if event.error.is_some() {
            self.fail(at, Failure::StreamError, payload);
            return;
        }
        self.reasoned |= event.reasoning.some();
        let dialect = self.dialect;
        let content = (dialect.is_content)(&event);
        self.note_choices(event.choices);
        let carried = self.count.add(dialect, &event);
        match carried {
            Carried::Nothing => {}
            Carried::Tokens(_) if self.choices.is_some() => {
                self.choice_events(at, (dialect.choices_with_tokens)(&event.choices), content);
            }
            Carried::Tokens(tokens) => self.token_event(at, tokens, content),
            Carried::Uncounted => {
                self.forget_textless();
                self.token_event(at, None, content);
            }
        }
        if carried != Carried::Nothing && event.tool_calls.some() {
            self.first_tool_call.get_or_insert(at);
        }
        if event.has_text() || event.text.some() {
            self.first_text.get_or_insert(at);
        } else if self.first_text.is_none() {
            self.textless = self.events;
        }
        if event.finish_reason.is_some() {
            let earlier = self.finish.take().filter(|_| self.choices.is_some());
            self.finish = joined_reasons(earlier, event.finish_reason);
        }
        if event.is_last {
            self.done = true;
            self.sealed_at = Some(at);
        }
    }

    /// Forgets the events before the first text, which only a running count that has been refuted had credited with tokens.
    fn forget_textless(&mut self) {
        self.first_event_tokens = self.count.by_first_text();
        if self.textless == 0 {
            return;
        }
        let n = (self.textless as usize).min(self.gaps_us.len());
        self.gaps_us.drain(..n);
        self.events -= self.textless;
        self.first_token = self.first_text;
        self.last_token = self.last_token.filter(|_| self.first_text.is_some());
        self.first_content = self.first_content.and_then(|at| self.first_text.map(|text| text.max(at)));
        let gaps = self.gaps_us.iter().map(|us| Duration::from_micros((*us).into()));
        self.itl_max = gaps.clone().max();
        self.itl_over = gaps.filter(|gap| self.itl_limit.is_some_and(|limit| *gap > limit)).count() as u32;
        self.textless = 0;
    }

    fn token_event(&mut self, at: Duration, tokens: Option<u64>, content: bool) {
        if let Some(last) = self.last_token {
            self.gap(at.saturating_sub(last));
        } else {
            self.first_token = Some(at);
            self.first_event_tokens = tokens;
        }
        self.events += 1;
        self.last_token = Some(at);
        if content {
            self.first_content.get_or_insert(at);
        }
    }

    fn gap(&mut self, gap: Duration) {
        if self.gaps_us.is_empty() {
            self.gaps_us.reserve(GAPS);
        }
        self.gaps_us.push(u32::try_from(gap.as_micros()).unwrap_or(u32::MAX));
        self.itl_max = self.itl_max.max(Some(gap));
        self.itl_over += u32::from(self.itl_limit.is_some_and(|limit| gap > limit));
    }

    fn note_choices(&mut self, choices: ChoiceSets) {
        if let Some(all) = &mut self.choices {
            all.note(choices);
        }
    }

    /// Processes an event with tokens of a set of choices. Gaps are those between events of the same choice.
    fn choice_events(&mut self, at: Duration, set: u64, content: bool) {
        for choice in (0..u64::BITS).filter(|choice| set >> choice & 1 == 1) {
            let gap = self.choices.as_mut().and_then(|choices| choices.add(choice, at));
            gap.into_iter().for_each(|gap| self.gap(gap));
            self.events += 1;
        }
        self.first_token.get_or_insert(at);
        self.last_token = Some(at);
        if content {
            self.first_content.get_or_insert(at);
        }
    }

    /// Returns the number of tokens generated by the first event that carried any, if known. That is the server's
    /// running count; or all tokens, if there was one event; or one plus the reasoning that the server counted but
    /// never sent.
    ///
    /// With several choices, it is the sum over their first events, which carry one token each.
    ///
    /// Reasoning was sent if any event is marked as such. If none is, it was hidden, except for tokens that must have
    /// been sent unmarked, such as `<think>` within the content: an event carries at least one token.
    fn tokens_by_first_event(&self, counted: Option<u64>) -> Option<u64> {
        self.first_token?;
        if self.first_event_tokens.is_some() {
            return self.first_event_tokens;
        }
        let begun = self.choices.as_ref().map(|choices| u64::from(choices.begun()));
        let first_events = begun.unwrap_or(1);
        if u64::from(self.events) == first_events {
            return counted.or(begun);
        }
        let hidden = || {
            let reasoning = self.count.usage().reasoning.filter(|_| !self.reasoned)?;
            let hidden = reasoning.min(counted?.saturating_sub(self.events.into()));
            (hidden > 0).then_some(hidden + first_events)
        };
        hidden().or(begun)
    }

    /// Returns the failure of the answer, with its evidence. Reading ended with `end`.
    fn failed(&mut self, end: End) -> Option<(Failure, Box<[u8]>)> {
        if let Some(failure) = self.failure.take() {
            return Some(failure);
        }
        let plain = match end {
            _ if self.whole() => {
                let is_aborted = self.finish.as_deref().is_some_and(is_abort);
                if is_aborted { Some(Failure::Aborted) } else { (self.events == 0).then_some(Failure::Empty) }
            }
            // Complete, as far as the server knows: it has answered with fewer choices.
            End::Eof if self.choices.as_ref().is_some_and(ChoiceTally::are_finished) => {
                self.done = self.dialect.finish_completes;
                None
            }
            End::Eof => Some(Failure::Truncated),
            End::Broken => Some(Failure::Reset),
            End::Timeout => Some(Failure::Timeout),
            End::Cut => None,
        };
        if let Some(failure) = plain {
            return Some((failure, Box::default()));
        }
        if let Some(problem) = self.choices.as_ref().filter(|_| self.whole()).and_then(ChoiceTally::problem) {
            return Some((Failure::Miscounted, problem.into_bytes().into()));
        }
        let Self { asked, events, is_document, .. } = *self;
        let ending = Ending { asked, finish: self.finish_reason(), events, is_document };
        let (failure, evidence) = self.count.contradiction(&ending).filter(|_| self.whole())?;
        Some((failure, evidence.into_bytes().into()))
    }

    /// Writes the results into the record; `at` is the time when reading ended. A timeout counts as an error.
    pub fn finish(mut self, end: End, at: Duration, record: &mut Record) -> Tallied {
        let is_end = self.ends_with_body && end == End::Eof && !self.is_torn;
        self.done |= is_end && self.failure.is_none();
        let (failure, seen) = self.failed(end).unzip();
        record.outcome = match failure {
            Some(_) => Outcome::Failed,
            None if self.whole() => Outcome::Ok,
            None => Outcome::Cut,
        };
        record.failure = failure;
        record.end = self.sealed_at.unwrap_or(at);
        record.first_event = self.first_event;
        record.first_token = self.first_token;
        record.first_content = self.first_content.or(self.first_tool_call);
        record.last_token = self.last_token;
        record.events = self.events;
        record.itl_max = self.itl_max;
        record.itl_over = self.itl_over;
        // A count beyond the range has failed the answer.
        let in_range = |n: u64| u32::try_from(n).ok();
        let usage = self.count.usage();
        record.input_tokens = usage.prompt.and_then(in_range);
        record.cached_tokens = usage.cached.and_then(in_range);
        record.reasoning_tokens = usage.reasoning.and_then(in_range);
        let counted = self.count.counted();
        // A document without usage reveals nothing about its tokens.
        let estimated = || {
            let is_estimate = record.outcome == Outcome::Ok && self.first_token.is_some();
            is_estimate.then_some((self.events, TokenSource::Events))
        };
        let output = match counted {
            Some((n, source)) => in_range(n).map(|n| (n, source)),
            None => estimated(),
        };
        (record.output_tokens, record.token_source) = output.unzip();
        record.first_event_tokens = self.tokens_by_first_event(counted.map(|(n, _)| n)).and_then(in_range);
        if let Some(choices) = &self.choices {
            record.choices = Some(choices.asked());
            let end = (record.outcome != Outcome::Ok).then_some(record.end);
            record.decoding = self.first_token.map(|_| in_decoding_units(choices.decoding(end)));
            self.finish = self.finish_reason().map(Into::into);
        }
        // A document with results ends with its last byte and states no reason.
        let generates = matches!(self.dialect.prompt, PromptWriter::Text { .. });
        record.finish = self.finish.or_else(|| (self.done && generates).then(|| "done".into()));
        Tallied { gaps_us: self.gaps_us, seen: seen.filter(|seen| !seen.is_empty()) }
    }
}

/// Returns true if a finish reason, or one of several choices, says that the server gave up.
fn is_abort(reason: &str) -> bool {
    reason.split('+').any(|reason| matches!(reason, "abort" | "error" | "cancelled"))
}

#[cfg(test)]
mod tests;
