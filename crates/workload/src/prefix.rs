//! Shared prefixes of the prompts of a class.

use super::rate::WordRates;
use super::seed::{Purpose, stream};
use super::synthetic::SharedPrefix;
use super::words::push_words;
use std::sync::Arc;

/// Returns the text of a shared prefix. It is equal in every series and step of a run, and a prefix of any longer one
/// of the same class and group.
pub fn prefix_text(seed: u32, class: &str, group: u32, words: usize) -> String {
    let mut rng = stream(seed, class, 0, Purpose::Prefix);
    rng.set_stream(u64::from(group));
    let mut text = String::new();
    push_words(&mut text, words, &mut rng);
    text
}

/// Returns the number of words for a shared prefix of `tokens` tokens.
pub fn prefix_words(tokens: u32, rates: &WordRates) -> usize {
    rates.base().words_without_overhead(f64::from(tokens))
}

/// The shared prefixes of a class.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefixes {
    all: Vec<Prefix>,
}

/// A shared prefix.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    pub(super) text: Arc<str>,
    words: usize,
    /// Measured tokens minus the mean for as many words.
    offset: f64,
}

/// Division of a prompt into shared and unique words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PromptSplit {
    /// Words from the start of the shared prefix.
    pub(super) shared: usize,
    /// Words after it.
    pub(super) unique: usize,
}

impl Prefixes {
    pub(super) fn new(prefix: Option<SharedPrefix>, class: &str, seed: u32, rates: &WordRates) -> Self {
        let Some(prefix) = prefix else { return Self::default() };
        let tokens = prefix.tokens.get();
        let words = prefix_words(tokens, rates);
        let one = |group: u32| Prefix {
            text: prefix_text(seed, class, group, words).into(),
            words,
            offset: rates.prefix_offset(class, tokens, group as usize),
        };
        Self { all: (0..prefix.groups.get()).map(one).collect() }
    }

    pub(super) fn get(&self, group: u32) -> Option<&Prefix> {
        self.all.get(group as usize)
    }
}

impl Prefix {
    /// Divides a prompt of `tokens` tokens that begins with `nonce` words of a nonce. A prompt too short for the whole
    /// prefix and a unique word gets as much of the prefix as leaves room for that word; `None` if that is nothing.
    pub(super) fn split(&self, tokens: f64, nonce: usize, rates: &WordRates) -> Option<PromptSplit> {
        let word = rates.per_word;
        let room = tokens - rates.overhead - rates.system - nonce as f64 * word;
        let whole = self.words as f64 * word + self.offset;
        let unique = ((room - whole) / word).round();
        if unique >= 1.0 {
            return Some(PromptSplit { shared: self.words, unique: unique as usize });
        }
        let each = (whole / self.words as f64).max(word * 0.1);
        let shared = (((room - word) / each).round().max(0.0) as usize).min(self.words);
        let unique = ((room - shared as f64 * each) / word).round().max(1.0) as usize;
        (shared > 0).then_some(PromptSplit { shared, unique })
    }

    /// Returns the prefix, truncated to the shared words of a prompt.
    pub(super) fn truncated(&self, split: PromptSplit) -> Arc<str> {
        if split.shared >= self.words {
            return self.text.clone();
        }
        let end = self.text.match_indices(' ').nth(split.shared.saturating_sub(1)).map(|(at, _)| at);
        self.text[..end.unwrap_or(self.text.len())].into()
    }

    /// Returns true if a prompt contains the whole prefix.
    pub(super) fn is_whole(&self, split: PromptSplit) -> bool {
        split.shared >= self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{PrefixRate, WordRate};

    fn rates(offset: f64) -> WordRates {
        let shared = vec![PrefixRate { class: "chat".into(), tokens: 50, offsets: vec![offset] }];
        let rate = WordRate { overhead: 8.0, per_word: 1.25, per_char: None };
        WordRates { system: 5.0, shared, ..rate.into() }
    }

    fn prefix(rates: &WordRates) -> Prefix {
        let table = toml::from_str("tokens = 50").unwrap();
        Prefixes::new(Some(table), "chat", 1, rates).get(0).unwrap().clone()
    }

    /// Cases: tokens, words of the nonce, offset of the prefix; shared and unique words.
    #[test]
    fn prompts_have_the_requested_tokens_however_short() {
        for (tokens, nonce, offset, want) in [
            (200.0, 0, 0.0, Some((40, 110))), // (200 − 13 − 50) / 1.25
            (200.0, 6, 0.0, Some((40, 104))), // the nonce counts
            (200.0, 0, 20.0, Some((40, 94))), // a prefix of 70 tokens
            (60.0, 0, 0.0, Some((37, 1))),    // 47 of the 51.25 that the prefix and a word would take
            (60.0, 6, 0.0, Some((31, 1))),
            (40.0, 0, 20.0, Some((15, 1))), // each of its words is 1.75 tokens
            (14.0, 0, 0.0, None),           // no room for a word of the prefix
        ] {
            let rates = rates(offset);
            let p = prefix(&rates);
            let got = p.split(tokens, nonce, &rates);
            assert_eq!(got.map(|s| (s.shared, s.unique)), want, "{tokens} {nonce} {offset}");
            let Some(split) = got else { continue };
            assert_eq!(p.truncated(split).split(' ').count(), split.shared);
            assert!(p.text.starts_with(&*p.truncated(split)));
            let words = (nonce + split.unique) as f64 * 1.25 + split.shared as f64 * (1.25 + offset / 40.0);
            assert!((13.0 + words - tokens).abs() <= 0.9, "{words}");
        }
    }

    #[test]
    fn longer_prefixes_of_a_class_begin_with_shorter_ones() {
        let text = |class, group, words| prefix_text(7, class, group, words);
        assert!(text("chat", 0, 30).starts_with(&text("chat", 0, 12)));
        assert_ne!(text("chat", 0, 12), text("chat", 1, 12));
        assert_ne!(text("chat", 0, 12), text("rag", 0, 12), "classes share nothing");
    }
}
