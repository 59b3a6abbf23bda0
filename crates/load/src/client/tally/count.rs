//! Counts the tokens of an answer's events, and cross-checks what the server says of them: its running count, its total, the text, the length
//! asked for and the finish reason.
//!
//! A count that is too high or an event too few makes a slow server look fast, so that nothing is believed that the rest of the answer
//! contradicts. What honest servers do is no contradiction: several tokens in one event, tokens without text, reasoning that is never sent, a
//! length that is not kept, a total that is off by a few special tokens, an event for each character.

use super::choices::ChoiceCounts;
use crate::client::dialect::Dialect;
use crate::client::event::{Event, Usage};
use crate::client::payload::AskedLength;
use goodput_core::record::{Failure, TokenSource};

/// Number of events per token that an honest server may send: some gateways send an event for each character.
const EVENTS_A_TOKEN: u64 = 4;

/// Returns by how much two counts of `n` tokens may differ: by a tenth, and by a few special tokens.
fn tolerance(n: u64) -> u64 {
    (n / 10).max(8)
}

/// The server's running count of an answer's tokens.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Running {
    /// No event before the last one had a count.
    #[default]
    Absent,
    /// An event carries the tokens by which the count has risen.
    Trusted,
    /// Text came without a rise: the counts in the events are no running count of this answer.
    Refuted,
}

/// The tokens that an event carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// None.
    Nothing,
    /// This many; `None` if they are not counted individually.
    Tokens(Option<u64>),
    /// Text whose tokens the running count lacks. It is trusted no longer, and events that only it credited with tokens had none.
    Uncounted,
}

/// The token counts of one answer.
#[derive(Debug, Default)]
pub(super) struct TokenCount {
    running: Running,
    /// The counts of the choices, if the answer has several.
    choices: Option<ChoiceCounts>,
    /// Tokens credited to events so far: by the server's count, or else one per event.
    credited: u64,
    /// Highest counts of any event. Counts only grow: a zero that a proxy sends at the end must not erase an earlier count.
    usage: Usage,
    /// Highest count of output tokens in an event without a choice: the total.
    total: Option<u64>,
    /// Tokens that the running count had at the first event with text.
    by_first_text: Option<u64>,
    /// True if the running count has risen since then.
    rose_after_text: bool,
    text_events: u64,
    text_bytes: u64,
}

/// The end of an answer, as far as its counts must agree with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending<'a> {
    /// The length asked for, if any.
    pub(super) asked: Option<AskedLength>,
    /// The finish reason, if there was one.
    pub(super) finish: Option<&'a str>,
    /// Events that carried tokens.
    pub(super) events: u32,
    /// True for an answer that is one document.
    pub(super) is_document: bool,
}

impl TokenCount {
    /// Sets if the answer has several choices.
    pub(super) fn sums_choices(&mut self, sums_choices: bool) {
        self.choices = sums_choices.then(ChoiceCounts::default);
    }

    /// Counts an event of a stream. Returns the tokens that it carries. One with tokens of several choices counts for each of them.
    pub(super) fn add(&mut self, dialect: &Dialect, event: &Event) -> Carried {
        let has_text = event.has_text() || event.text.some();
        let is_first_text = has_text && self.text_events == 0;
        let (text_events, token_events) = match self.choices.is_some() {
            true => {
                let with_tokens = (dialect.choices_with_tokens)(&event.choices);
                (event.choices.with_text.count_ones(), with_tokens.count_ones())
            }
            false => (u32::from(has_text), u32::from((dialect.carries_tokens)(event))),
        };
        self.text_events += u64::from(text_events);
        self.text_bytes += event.text_bytes;
        let is_running = event.has_choice && self.choices.is_none();
        let count = event.usage.and_then(|u| u.completion).filter(|_| is_running);
        // A count in the very last event is the total (llama.cpp); only an earlier one proves a running count.
        let proves = event.finish_reason.is_none() && count.is_some_and(|n| n > 0);
        if self.running == Running::Absent && proves {
            self.running = Running::Trusted;
        }
        let carried = match count.filter(|_| self.running == Running::Trusted) {
            Some(count) => self.risen_to(count, has_text),
            None => match token_events {
                0 => Carried::Nothing,
                _ => Carried::Tokens(None),
            },
        };
        self.credited = self.credited.saturating_add(match carried {
            Carried::Nothing => 0,
            Carried::Tokens(tokens) => tokens.unwrap_or(token_events.into()),
            Carried::Uncounted => 1,
        });
        if is_first_text && self.running == Running::Trusted {
            self.by_first_text = Some(self.credited);
        } else if matches!(carried, Carried::Tokens(Some(_))) {
            self.rose_after_text |= self.by_first_text.is_some();
        }
        self.take(event);
        carried
    }

    /// Counts an event by the running count, which is `count` at it.
    fn risen_to(&mut self, count: u64, has_text: bool) -> Carried {
        match count.saturating_sub(self.credited) {
            0 if has_text => {
                self.running = Running::Refuted;
                Carried::Uncounted
            }
            0 => Carried::Nothing,
            rise => Carried::Tokens(Some(rise)),
        }
    }

    /// Counts an answer that is one document.
    pub(super) fn document(&mut self, event: &Event) {
        self.text_events = 1;
        self.text_bytes = event.text_bytes;
        self.take(event);
        // It says all at once, and so no count is that of a single choice.
        self.total = self.usage.completion.filter(|_| self.choices.is_some());
    }

    fn take(&mut self, event: &Event) {
        if let Some(choices) = &mut self.choices {
            choices.take(event);
        }
        let Some(new) = event.usage else { return };
        let usage = &mut self.usage;
        usage.prompt = usage.prompt.max(new.prompt);
        usage.completion = usage.completion.max(new.completion);
        usage.cached = usage.cached.max(new.cached);
        usage.reasoning = usage.reasoning.max(new.reasoning);
        if !event.has_choice {
            self.total = self.total.max(new.completion);
        }
    }

    /// Returns the highest counts of the server.
    pub(super) const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the tokens of the first event with text and of all before it, if the running count of a server that was refuted later is
    /// known to have counted them: it went on to rise.
    pub(super) fn by_first_text(&self) -> Option<u64> {
        self.by_first_text.filter(|_| self.rose_after_text)
    }

    /// Returns the server's count of the whole answer, and its source. After a running count that was refuted, only a total of its own counts.
    pub(super) fn counted(&self) -> Option<(u64, TokenSource)> {
        let (count, source) = match self.running {
            Running::Absent if let Some(choices) = &self.choices => {
                (self.total.or_else(|| choices.sum()), TokenSource::Usage)
            }
            Running::Absent => (self.usage.completion, TokenSource::Usage),
            Running::Trusted => (self.usage.completion, TokenSource::Continuous),
            Running::Refuted => (self.total, TokenSource::Usage),
        };
        count.filter(|&n| n > 0).map(|n| (n, source))
    }

    /// Returns the limit on credited tokens of an unfinished answer, if it is exceeded. The limit is `most` if the server counts. Otherwise
    /// events are counted, and the limit is higher by [`EVENTS_A_TOKEN`].
    pub(super) fn overrun(&self, most: u64) -> Option<u64> {
        let most = match self.running {
            Running::Trusted => most,
            Running::Absent | Running::Refuted => most.saturating_mul(EVENTS_A_TOKEN),
        };
        (self.credited > most).then_some(most)
    }

    /// Returns why the counts of a complete answer cannot be true, as the kind of failure and its evidence; `None` if nothing contradicts them.
    pub(super) fn contradiction(&self, end: &Ending<'_>) -> Option<(Failure, String)> {
        let counted = self.counted().map(|(n, _)| n);
        let most = end.asked.map_or(u64::MAX, AskedLength::most_tokens).min(u32::MAX.into());
        if let Some(n) = self.usage.completion.filter(|&n| n > most) {
            let asked = end.asked.map(|asked| format!(", where {} were asked for", asked.tokens));
            let problem = format!("the server counts {n} output tokens{}", asked.unwrap_or_default());
            return Some((Failure::Overrun, problem));
        }
        if let Some(problem) = self.truncated(end, counted) {
            return Some((Failure::Truncated, problem));
        }
        let problem = self.implausible().or_else(|| self.miscounted(end, counted?))?;
        Some((Failure::Miscounted, problem))
    }

    /// Returns the evidence of an answer that ended before its pinned length, with nothing but `[DONE]` to say that it is complete.
    fn truncated(&self, end: &Ending<'_>, counted: Option<u64>) -> Option<String> {
        let asked = end.asked.filter(|asked| asked.is_pinned && u64::from(end.events) < asked.tokens)?;
        (!end.is_document && end.finish.is_none() && counted.is_none()).then(|| {
            format!(
                "the stream ended with [DONE] after {} of {} tokens, without a finish reason and without usage",
                end.events, asked.tokens
            )
        })
    }

    /// Returns the evidence of a count other than the output that no answer can have.
    fn implausible(&self) -> Option<String> {
        let counts = [
            ("input", self.usage.prompt),
            ("cached", self.usage.cached),
            ("reasoning", self.usage.reasoning),
        ];
        let (what, n) = counts.into_iter().find(|(_, n)| n.is_some_and(|n| n > u32::MAX.into()))?;
        Some(format!("the server counts {} {what} tokens", n?))
    }

    /// Returns the evidence that the answer does not have the `counted` tokens.
    fn miscounted(&self, end: &Ending<'_>, counted: u64) -> Option<String> {
        let Self { text_events, text_bytes, .. } = *self;
        if text_events > counted.saturating_mul(EVENTS_A_TOKEN) {
            return Some(format!(
                "the server counts {counted} output tokens, but {text_events} events had text"
            ));
        }
        if let Some(total) = self.total.filter(|&n| n > 0 && self.running == Running::Trusted)
            && total + tolerance(total) < counted
        {
            return Some(format!(
                "the server counted up to {counted} output tokens, and at the end only {total}"
            ));
        }
        let asked = end.asked?.tokens;
        let visible = counted.saturating_sub(self.usage.reasoning.unwrap_or(0));
        if visible <= asked.saturating_add(tolerance(asked)) {
            return None;
        }
        // At least a byte a token, beside events whose token has no text.
        if visible > text_bytes.saturating_add(end.events.into()) {
            return Some(format!(
                "the server counts {counted} output tokens where {asked} were asked for, but the text has {text_bytes} bytes in {} events",
                end.events
            ));
        }
        // `max_tokens` is the word of the messages API.
        matches!(end.finish, Some("length" | "max_tokens")).then(|| {
            format!("the server ended the answer at its length of {asked} tokens, but counts {counted}")
        })
    }
}

#[cfg(test)]
mod tests;
