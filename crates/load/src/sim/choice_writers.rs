//! Streams of several choices: their events in turn, and one end.

use super::writer::{Thought, Writer};

/// The writers of the choices of one stream, which have a usage and an end in common.
#[derive(Debug)]
pub(super) struct ChoiceWriters {
    /// One for each choice, in order.
    writers: Vec<Writer>,
    /// Number of choices that have not ended.
    left: usize,
}

impl ChoiceWriters {
    /// Makes the writers of `n` choices; `new` makes that of one.
    pub(super) fn new(n: u32, new: impl Fn() -> Writer) -> Self {
        let writers: Vec<Writer> = (0..n).map(|index| new().numbered(index)).collect();
        Self { left: writers.len(), writers }
    }

    /// Sets the number of prompt tokens found in the prefix cache; `None` without such a cache.
    pub(super) fn cached(&mut self, tokens: Option<u32>) {
        self.writers.iter_mut().take(1).for_each(|writer| writer.cached(tokens));
    }

    /// Appends an event of `tokens` tokens of a choice. The openings of all choices precede the first event, as in vLLM, and the end of
    /// the stream follows the last event of the last choice.
    pub(super) fn event(&mut self, out: &mut String, choice: usize, tokens: u32, finished: bool) {
        self.tokens(out, choice, tokens, finished);
        self.left -= usize::from(finished);
        if self.left == 0 {
            self.close(out);
        }
    }

    /// Appends tokens like [`ChoiceWriters::event`], but without the end of the stream.
    pub(super) fn tokens(&mut self, out: &mut String, choice: usize, tokens: u32, finished: bool) {
        self.writers.iter_mut().for_each(|writer| writer.open(out));
        self.writers[choice].tokens(out, tokens, finished);
    }

    /// Appends the end of the stream, whose usage is the sum over the choices.
    fn close(&mut self, out: &mut String) {
        let (tokens, reported) = self.writers.iter().fold((0, None), |(tokens, reported), writer| {
            let more = writer.thought.reported.map(|n| n + reported.unwrap_or(0));
            (tokens + writer.output_tokens, more)
        });
        if let Some(first) = self.writers.first_mut() {
            first.output_tokens = tokens;
            first.thought = Thought { reported, ..first.thought };
            first.close(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::dialect::TextApi;
    use crate::sim::request::StreamOptions;

    /// Two choices, of which the second ends first.
    #[test]
    fn choices_have_events_of_their_own_and_one_end() {
        let options = StreamOptions { include_usage: true, continuous_usage_stats: false };
        let mut writers = ChoiceWriters::new(2, || Writer::new(TextApi::Chat, "\"id\":\"x\"", 7, options));
        let mut out = String::new();
        for (choice, finished) in [(0, false), (1, true), (0, false), (0, true)] {
            writers.event(&mut out, choice, 1, finished);
        }
        let events = out.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        let said: Vec<String> = events
            .map(|event| {
                let Ok(json) = serde_json::from_str::<serde_json::Value>(event) else {
                    return event.to_owned();
                };
                let choice = &json["choices"][0];
                let (finish, total) = (&choice["finish_reason"], &json["usage"]["completion_tokens"]);
                format!("{} {} {finish} {total}", choice["index"], choice["delta"]["content"])
            })
            .collect();
        assert_eq!(
            said,
            [
                "0 \"\" null null",
                "1 \"\" null null",
                "0 \" the\" null null",
                "1 \" the\" \"length\" null",
                "0 \" rate\" null null",
                "0 \" of\" \"length\" null",
                "null null null 4",
                "[DONE]"
            ]
        );
    }
}
