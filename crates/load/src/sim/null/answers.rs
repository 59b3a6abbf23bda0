//! Cache of the events of answers, which are written once for each number of tokens.

use crate::sim::choice_writers::ChoiceWriters;
use crate::sim::dialect::TextApi;
use crate::sim::request::StreamOptions;
use crate::sim::writer::Writer;
use std::{collections::HashMap, sync::Arc};

/// Approximate size limit of the cached events, in bytes. The cache is cleared if a workload needs more kinds of
/// answers.
const CACHE_BYTES: usize = 64 << 20;

/// The cache key of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) api: TextApi,
    /// Number of output tokens of each choice, at least one.
    pub(super) output_tokens: u32,
    /// Number of choices.
    pub(super) choices: u32,
    /// Number of input tokens, if every event reports usage.
    pub(super) continuous: Option<u32>,
}

/// The events of an answer from the first token to the last, one token each. With several choices, a token of each follows those
/// before it.
#[derive(Debug)]
pub(super) struct Events {
    text: String,
    /// End of each token's event in the text, in bytes.
    ends: Vec<usize>,
}

impl Events {
    /// Writes the events; `head` is that of [`Writer::new`].
    fn new(kind: Kind, head: &str) -> Self {
        let continuous = kind.continuous.is_some();
        let options = StreamOptions { include_usage: continuous, continuous_usage_stats: continuous };
        let writer = || Writer::new(kind.api, head, kind.continuous.unwrap_or(0), options);
        let mut writers = ChoiceWriters::new(kind.choices, writer);
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(kind.output_tokens as usize));
        for token in 1..=kind.output_tokens {
            for choice in 0..kind.choices as usize {
                writers.tokens(&mut text, choice, 1, token == kind.output_tokens);
            }
            ends.push(text.len());
        }
        text.shrink_to_fit();
        Self { text, ends }
    }

    /// Returns the bytes of the events of tokens `from..to`, counted from zero. The opening of a chat precedes the
    /// first.
    pub(super) fn tokens(&self, from: usize, to: usize) -> &[u8] {
        let end = |tokens: usize| tokens.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.text.as_bytes()[end(from)..end(to)]
    }

    fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }
}

/// The cache of answers.
#[derive(Debug, Default)]
pub(super) struct Answers {
    cached: HashMap<Kind, Arc<Events>>,
    bytes: usize,
}

impl Answers {
    /// Returns the events of a kind of answer; `head` is as for [`Writer::new`].
    pub(super) fn events(&mut self, kind: Kind, head: &str) -> Arc<Events> {
        if let Some(events) = self.cached.get(&kind) {
            return events.clone();
        }
        let events = Arc::new(Events::new(kind, head));
        if self.bytes + events.size() > CACHE_BYTES {
            self.cached.clear();
            self.bytes = 0;
        }
        self.bytes += events.size();
        self.cached.insert(kind, events.clone());
        events
    }
}

/// Formats the end of a stream after the last of all `output` tokens: usage, if requested, and `[DONE]`.
pub(super) fn closing(api: TextApi, head: &str, input: u32, output: u32, options: StreamOptions) -> String {
    // Without usage, the head does not appear.
    let mut writer = Writer::new(api, if options.include_usage { head } else { "" }, input, options);
    writer.skip(output);
    let mut out = String::with_capacity(if options.include_usage { 512 } else { 32 });
    writer.close(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_those_of_the_writer() {
        for api in [TextApi::Chat, TextApi::Completions] {
            for (include_usage, continuous_usage_stats) in
                [(false, false), (true, false), (true, true), (false, true)]
            {
                let options = StreamOptions { include_usage, continuous_usage_stats };
                let mut writer = ChoiceWriters::new(1, || Writer::new(api, "\"id\":\"x\"", 7, options));
                let mut expected = String::new();
                for token in 1..=5 {
                    writer.event(&mut expected, 0, 1, token == 5);
                }
                let continuous = (include_usage && continuous_usage_stats).then_some(7);
                let kind = Kind { api, output_tokens: 5, choices: 1, continuous };
                let events = Answers::default().events(kind, "\"id\":\"x\"");
                let mut got = (0..5).flat_map(|i| events.tokens(i, i + 1).to_vec()).collect::<Vec<u8>>();
                assert_eq!(got, events.tokens(0, 5));
                got.extend(closing(api, "\"id\":\"x\"", 7, 5, options).bytes());
                assert_eq!(String::from_utf8(got).unwrap(), expected, "{api:?} {options:?}");
            }
        }
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut answers = Answers::default();
        for input in 0..40 {
            let kind =
                Kind { api: TextApi::Chat, output_tokens: 10_000, choices: 1, continuous: Some(input) };
            answers.events(kind, "\"id\":\"x\"");
            assert_eq!(answers.bytes, answers.cached.values().map(|e| e.size()).sum::<usize>());
            assert!(answers.bytes <= CACHE_BYTES && !answers.cached.is_empty());
        }
        assert!(answers.cached.len() < 40, "40 answers of some 3 MiB are more than the limit");
    }
}
