//! Turns the events of an answer and their times into a record: which events carry tokens, how many, and how the stream
//! ended.
//!
//! The rules are those of the design, §6. With continuous usage, an event carries tokens iff the count rose. Without
//! it, its contents decide (see `client/dialect.rs`). Totals come from the server's usage, or else from the events,
//! flagged as an estimate.

use super::dialect;
use super::event::{Event, Parsed, Usage};
use goodput_core::endpoint::Api;
use goodput_core::record::{Failure, Outcome, Record, TokenSource};
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

/// Number of events per token beyond which an answer without a token count overruns.
const EVENTS_A_TOKEN: u64 = 4;

/// The state of one answer.
#[derive(Debug, Default)]
pub struct Tally {
    api: Api,
    itl_limit: Option<Duration>,
    first_event: Option<Duration>,
    first_token: Option<Duration>,
    first_content: Option<Duration>,
    first_tool_call: Option<Duration>,
    last_token: Option<Duration>,
    /// Completion tokens that the server had counted at the first event that carried any, if it sends a running count.
    first_event_tokens: Option<u32>,
    /// True if any event carried reasoning.
    reasoned: bool,
    events: u32,
    gaps_us: Vec<u32>,
    itl_max: Option<Duration>,
    itl_over: u32,
    usage: Usage,
    /// True if the server sends a running token count.
    continuous: bool,
    /// Tokens credited to events so far: by the server's count, or else one per event.
    credited: u32,
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
        Self { api, itl_limit, ..Self::default() }
    }

    /// Processes one payload whose bytes arrived `at`. Ignores everything after `[DONE]` or a failure.
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

    /// Returns the limit on credited tokens if the unfinished answer exceeds it. The limit is `most` if the server
    /// counts. Otherwise events are counted, and the limit is 4 times as high, because some gateways send an event for
    /// each character.
    pub fn overrun(&self, most: u64) -> Option<u64> {
        let most = if self.continuous { most } else { most.saturating_mul(EVENTS_A_TOKEN) };
        (!self.whole() && u64::from(self.credited) > most).then_some(most)
    }

    /// Returns the time since which nothing that follows matters.
    pub(crate) fn sealed_at(&self) -> Option<Duration> {
        self.sealed_at
    }

    /// Returns true if the answer is complete, however the connection ends.
    pub fn whole(&self) -> bool {
        self.done || self.finish.is_some()
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
        if dialect::document_has_tokens(self.api, &event) {
            (self.events, self.last_token) = (1, Some(at));
        }
        self.take_usage(event.usage.unwrap_or_default());
        self.finish = event.finish_reason;
        self.done = true;
        self.sealed_at = Some(at);
    }

    fn event(&mut self, at: Duration, event: Event, payload: &[u8]) {
        if event.error.is_some() {
            self.fail(at, Failure::StreamError, payload);
            return;
        }
        let tokens = self.tokens(&event);
        self.reasoned |= event.reasoning.some();
        if let Some(usage) = event.usage {
            self.take_usage(usage);
        }
        if let Some(tokens) = tokens {
            self.token_event(at, tokens, dialect::is_content(self.api, &event));
            if event.tool_calls.some() {
                self.first_tool_call.get_or_insert(at);
            }
        }
        if let Some(reason) = event.finish_reason {
            self.finish = Some(reason);
        }
    }

    /// Returns the number of tokens that an event carries: `None` for none, `Some(None)` for some that are not counted
    /// individually.
    fn tokens(&mut self, event: &Event) -> Option<Option<u32>> {
        let count = event.usage.and_then(|u| u.completion);
        // A count in the very last event is the total (llama.cpp); only an earlier one proves a running count.
        if event.has_choice && event.finish_reason.is_none() && count.is_some_and(|n| n > 0) {
            self.continuous = true;
        }
        if self.continuous
            && event.has_choice
            && let Some(count) = count
        {
            let rise = count.saturating_sub(self.credited);
            self.credited += rise;
            return (rise > 0).then_some(Some(rise));
        }
        let carries = dialect::carries_tokens(self.api, event);
        self.credited += u32::from(carries);
        carries.then_some(None)
    }

    fn token_event(&mut self, at: Duration, tokens: Option<u32>, content: bool) {
        if let Some(last) = self.last_token {
            let gap = at.saturating_sub(last);
            if self.gaps_us.is_empty() {
                self.gaps_us.reserve(GAPS);
            }
            self.gaps_us.push(u32::try_from(gap.as_micros()).unwrap_or(u32::MAX));
            self.itl_max = self.itl_max.max(Some(gap));
            self.itl_over += u32::from(self.itl_limit.is_some_and(|limit| gap > limit));
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

    fn take_usage(&mut self, new: Usage) {
        // Counts only grow: a zero that a proxy sends at the end must not erase an earlier count.
        let usage = &mut self.usage;
        usage.prompt = usage.prompt.max(new.prompt);
        usage.completion = usage.completion.max(new.completion);
        usage.cached = usage.cached.max(new.cached);
        usage.reasoning = usage.reasoning.max(new.reasoning);
    }

    /// Returns the number of tokens generated by the first event that carried any, if known. That is the server's
    /// running count; or all tokens, if there was one event; or one plus the reasoning that the server counted but
    /// never sent.
    ///
    /// Reasoning was sent if any event is marked as such. If none is, it was hidden, except for tokens that must have
    /// been sent unmarked, such as `<think>` within the content: an event carries at least one token.
    fn tokens_by_first_event(&self, counted: Option<u32>) -> Option<u32> {
        self.first_token?;
        if self.first_event_tokens.is_some() {
            return self.first_event_tokens;
        }
        if self.events == 1 {
            return counted;
        }
        let reasoning = self.usage.reasoning.filter(|_| !self.reasoned)?;
        let hidden = reasoning.min(counted?.saturating_sub(self.events));
        (hidden > 0).then_some(hidden + 1)
    }

    /// Writes the results into the record; `at` is the time when reading ended. A timeout counts as an error.
    pub fn finish(self, end: End, at: Duration, record: &mut Record) -> Tallied {
        let whole = self.whole();
        let seen = self.failure.as_ref().map(|f| f.1.clone());
        let failure = match self.failure {
            Some((kind, _)) => Some(kind),
            None if !whole => match end {
                End::Eof => Some(Failure::Truncated),
                End::Broken => Some(Failure::Reset),
                End::Timeout => Some(Failure::Timeout),
                End::Cut => None,
            },
            None if self.finish.as_deref().is_some_and(|f| matches!(f, "abort" | "error")) => {
                Some(Failure::Aborted)
            }
            None if self.events == 0 => Some(Failure::Empty),
            None => None,
        };
        record.outcome = match failure {
            Some(_) => Outcome::Failed,
            None if whole => Outcome::Ok,
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
        record.input_tokens = self.usage.prompt;
        record.cached_tokens = self.usage.cached;
        record.reasoning_tokens = self.usage.reasoning;
        let counted = self.usage.completion.filter(|&n| n > 0);
        let (output, source) = match counted {
            Some(n) if self.continuous => (Some(n), Some(TokenSource::Continuous)),
            Some(n) => (Some(n), Some(TokenSource::Usage)),
            // A document without usage reveals nothing about its tokens.
            None if record.outcome == Outcome::Ok && self.first_token.is_some() => {
                (Some(self.events), Some(TokenSource::Events))
            }
            None => (None, None),
        };
        (record.output_tokens, record.token_source) = (output, source);
        record.first_event_tokens = self.tokens_by_first_event(counted);
        record.finish = self.finish.or_else(|| self.done.then(|| "done".into()));
        Tallied { gaps_us: self.gaps_us, seen }
    }
}

#[cfg(test)]
mod tests;
