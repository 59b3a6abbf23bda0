//! Events and their times become a record: which events carry tokens, how many there are, and how the stream ended.
//!
//! The rules are those of the design, §6: with continuous usage an event carries tokens iff the count rose; without, chat
//! needs text on some channel, and completions counts every event with a choice that has text or has not finished (a token
//! may have empty text). Totals come from the server's usage, else from the events, flagged as an estimate.

use super::event::{Event, Parsed, Usage};
use goodput_core::endpoint::Api;
use goodput_core::record::{Failure, Outcome, Record, TokenSource};
use std::time::Duration;

/// Why no more bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The body is complete.
    Eof,
    /// The connection broke; the failure has been noted, unless the answer was whole by then.
    Broken,
    /// The request's time was up.
    Timeout,
    /// The step was over.
    Cut,
}

/// How much of what a failure was seen in is kept, in bytes.
pub(crate) const SEEN_MAX: usize = 16 << 10;

/// Room for gaps that is made at the first one, so that most answers make none again.
const GAPS: usize = 64;

/// Where nobody counts, so many events may come for each token.
const EVENTS_A_TOKEN: u64 = 4;

/// The state of one answer.
#[derive(Debug)]
pub struct Tally {
    api: Api,
    itl_limit: Option<Duration>,
    first_event: Option<Duration>,
    first_token: Option<Duration>,
    first_content: Option<Duration>,
    first_tool_call: Option<Duration>,
    last_token: Option<Duration>,
    /// Tokens that the server had counted at the first event that carried any, where it keeps a running count.
    first_event_tokens: Option<u32>,
    /// Whether any event carried reasoning.
    reasoned: bool,
    events: u32,
    gaps_us: Vec<u32>,
    itl_max: Option<Duration>,
    itl_over: u32,
    usage: Usage,
    /// Whether the server counts in every event.
    continuous: bool,
    /// Tokens credited to events so far: by the server's count, else one for each event.
    credited: u32,
    finish: Option<Box<str>>,
    done: bool,
    failure: Option<(Failure, Box<[u8]>)>,
    sealed_at: Option<Duration>,
}

/// What [`Tally::finish`] yields beside the record.
#[derive(Debug)]
pub struct Tallied {
    /// Gaps between successive events with tokens, in microseconds.
    pub gaps_us: Vec<u32>,
    /// What a failure was seen in: a payload, or the text of an error.
    pub seen: Option<Box<[u8]>>,
}

impl Tally {
    /// The state before the first byte. Gaps above `itl_limit` are counted in the record.
    pub fn new(api: Api, itl_limit: Option<Duration>) -> Self {
        Self {
            api,
            itl_limit,
            first_event: None,
            first_token: None,
            first_content: None,
            first_tool_call: None,
            last_token: None,
            first_event_tokens: None,
            reasoned: false,
            events: 0,
            gaps_us: Vec::new(),
            itl_max: None,
            itl_over: 0,
            usage: Usage::default(),
            continuous: false,
            credited: 0,
            finish: None,
            done: false,
            failure: None,
            sealed_at: None,
        }
    }

    /// Takes one payload whose bytes arrived `at`. After `[DONE]` or a failure nothing counts any more.
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

    /// Notes a failure and what it was seen in; the first one stands.
    pub fn fail(&mut self, at: Duration, failure: Failure, seen: &[u8]) {
        if self.failure.is_none() {
            self.failure = Some((failure, seen[..seen.len().min(SEEN_MAX)].into()));
            self.sealed_at.get_or_insert(at);
        }
    }

    /// Whether nothing that may follow matters.
    pub fn sealed(&self) -> bool {
        self.sealed_at.is_some()
    }

    /// The bound that it has gone beyond without an end, where so many tokens are too many: by the server's count, else by events, of which
    /// more are, since some gateways send a character each.
    pub fn overrun(&self, most: u64) -> Option<u64> {
        let most = if self.continuous { most } else { most.saturating_mul(EVENTS_A_TOKEN) };
        (!self.whole() && u64::from(self.credited) > most).then_some(most)
    }

    /// Since when it is sealed.
    pub fn sealed_at(&self) -> Option<Duration> {
        self.sealed_at
    }

    /// Whether the answer is complete, whatever becomes of the connection.
    pub fn whole(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// Whether any event came.
    pub fn started(&self) -> bool {
        self.first_event.is_some()
    }

    /// Takes the answer as one document, the last byte of which arrived `at`: its tokens came together, none of them first.
    pub fn document(&mut self, at: Duration, parsed: Parsed, body: &[u8]) {
        if self.sealed() {
            return;
        }
        let Parsed::Event(event) = parsed else { return self.fail(at, Failure::Malformed, body) };
        if event.error.is_some() {
            return self.fail(at, Failure::StreamError, body);
        }
        let counted = event.usage.and_then(|u| u.completion).is_some_and(|n| n > 0);
        let text = [event.content, event.reasoning, event.tool_calls, event.text].iter().any(|t| t.some());
        if text || (counted && self.api == Api::Completions) {
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
            let content = match self.api {
                Api::Chat => event.content.some(),
                Api::Completions => true,
            };
            self.token_event(at, tokens, content);
            if event.tool_calls.some() {
                self.first_tool_call.get_or_insert(at);
            }
        }
        if let Some(reason) = event.finish_reason {
            self.finish = Some(reason);
        }
    }

    /// How many tokens an event carries: `None` for none, `Some(None)` for some that are not counted one by one.
    fn tokens(&mut self, event: &Event) -> Option<Option<u32>> {
        let count = event.usage.and_then(|u| u.completion);
        // A count in the very last event is the total (llama.cpp); only one before the end shows a running count.
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
        let text = [event.content, event.reasoning, event.tool_calls].iter().any(|t| t.some());
        let carries = match self.api {
            Api::Chat => text,
            Api::Completions => {
                event.has_choice && (event.text.some() || (event.finish_reason.is_none() && count != Some(0)))
            }
        };
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
        // Counts only grow; a proxy's zero at the end does not undo what was said before.
        let usage = &mut self.usage;
        usage.prompt = usage.prompt.max(new.prompt);
        usage.completion = usage.completion.max(new.completion);
        usage.cached = usage.cached.max(new.cached);
        usage.reasoning = usage.reasoning.max(new.reasoning);
    }

    /// Tokens generated by the first event that carried any, as far as is known: the server's running count; all of them, where there was one
    /// event; else one, and before it the reasoning that the server counted and never sent.
    ///
    /// Reasoning was sent if any event says so. Where none does it was hidden, save for what must have been sent unmarked, such as `<think>`
    /// within the content: an event carries one token at least.
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

    /// Writes what is known into the record, at the time when reading ended. A timeout is taken for an error.
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
            // A document without usage says nothing of its tokens.
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
#[path = "tally_tests.rs"]
mod tests;
