//! Shared prefixes: the beginnings that requests of a class have in common.

use super::rate::WordRates;
use super::seed::{Purpose, stream};
use super::synthetic::SharedPrefix;
use super::words::push_words;
use std::sync::Arc;

/// The words of a shared prefix: the same in every series and step of a run, and of a longer prefix of the class and group the
/// beginning.
pub fn prefix_text(seed: u32, class: &str, group: u32, words: usize) -> String {
    let mut rng = stream(seed, class, 0, Purpose::Prefix);
    rng.set_stream(u64::from(group));
    let mut text = String::new();
    push_words(&mut text, words, &mut rng);
    text
}

/// The words that stand for a shared prefix of so many tokens.
pub fn prefix_words(tokens: u32, rates: &WordRates) -> usize {
    rates.base().words_of(f64::from(tokens))
}

/// The shared prefixes of a class.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefixes {
    all: Vec<Prefix>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    pub(super) text: Arc<str>,
    words: usize,
    /// What it is off the mean of so many words, in tokens.
    off: f64,
}

/// A prompt of a given length, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    /// Words of the shared prefix, from its beginning.
    pub(super) shared: usize,
    /// Words that are its own.
    pub(super) own: usize,
}

impl Prefixes {
    pub(super) fn new(prefix: Option<SharedPrefix>, class: &str, seed: u32, rates: &WordRates) -> Self {
        let Some(prefix) = prefix else { return Self::default() };
        let tokens = prefix.tokens.get();
        let words = prefix_words(tokens, rates);
        let one = |group: u32| Prefix {
            text: prefix_text(seed, class, group, words).into(),
            words,
            off: rates.off(class, tokens, group as usize),
        };
        Self { all: (0..prefix.groups.get()).map(one).collect() }
    }

    pub(super) fn of(&self, group: u32) -> Option<&Prefix> {
        self.all.get(group as usize)
    }
}

impl Prefix {
    /// How a prompt of so many tokens is made up, with as many words of a nonce in front. One too short for the whole prefix and a
    /// word of its own begins with as much of the prefix as leaves that word room; `None` where it has none at all.
    pub(super) fn split(&self, tokens: f64, nonce: usize, rates: &WordRates) -> Option<Split> {
        let word = rates.per_word;
        let room = tokens - rates.overhead - rates.system - nonce as f64 * word;
        let whole = self.words as f64 * word + self.off;
        let own = ((room - whole) / word).round();
        if own >= 1.0 {
            return Some(Split { shared: self.words, own: own as usize });
        }
        let each = (whole / self.words as f64).max(word * 0.1);
        let shared = (((room - word) / each).round().max(0.0) as usize).min(self.words);
        let own = ((room - shared as f64 * each) / word).round().max(1.0) as usize;
        (shared > 0).then_some(Split { shared, own })
    }

    /// As much of its text as a prompt has of it.
    pub(super) fn beginning(&self, split: Split) -> Arc<str> {
        if split.shared >= self.words {
            return self.text.clone();
        }
        let end = self.text.match_indices(' ').nth(split.shared.saturating_sub(1)).map(|(at, _)| at);
        self.text[..end.unwrap_or(self.text.len())].into()
    }

    /// Whether a prompt has all of it, as most others do.
    pub(super) fn is_whole(&self, split: Split) -> bool {
        split.shared >= self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{PrefixRate, WordRate};

    fn rates(off: f64) -> WordRates {
        let shared = vec![PrefixRate { class: "chat".into(), tokens: 50, off: vec![off] }];
        let rate = WordRate { overhead: 8.0, per_word: 1.25, per_char: None };
        WordRates { system: 5.0, shared, ..rate.into() }
    }

    fn prefix(rates: &WordRates) -> Prefix {
        let table = toml::from_str("tokens = 50").unwrap();
        Prefixes::new(Some(table), "chat", 1, rates).of(0).unwrap().clone()
    }

    /// Rows: tokens, words of a nonce, what the prefix is off; words shared and own.
    #[test]
    fn a_prompt_has_the_tokens_asked_for_however_short() {
        for (tokens, nonce, off, want) in [
            (200.0, 0, 0.0, Some((40, 110))), // (200 − 13 − 50) / 1.25
            (200.0, 6, 0.0, Some((40, 104))), // the nonce is part of it
            (200.0, 0, 20.0, Some((40, 94))), // a prefix of 70 tokens
            (60.0, 0, 0.0, Some((37, 1))),    // 47 of 51.25 that the prefix and a word would take
            (60.0, 6, 0.0, Some((31, 1))),
            (40.0, 0, 20.0, Some((15, 1))), // each of its words is 1.75 tokens
            (14.0, 0, 0.0, None),           // no room for a word of it
        ] {
            let rates = rates(off);
            let p = prefix(&rates);
            let got = p.split(tokens, nonce, &rates);
            assert_eq!(got.map(|s| (s.shared, s.own)), want, "{tokens} {nonce} {off}");
            let Some(split) = got else { continue };
            assert_eq!(p.beginning(split).split(' ').count(), split.shared);
            assert!(p.text.starts_with(&*p.beginning(split)));
            let words = (nonce + split.own) as f64 * 1.25 + split.shared as f64 * (1.25 + off / 40.0);
            assert!((13.0 + words - tokens).abs() <= 0.9, "{words}");
        }
    }

    #[test]
    fn a_longer_prefix_of_a_class_begins_with_the_shorter() {
        let text = |class, group, words| prefix_text(7, class, group, words);
        assert!(text("chat", 0, 30).starts_with(&text("chat", 0, 12)));
        assert_ne!(text("chat", 0, 12), text("chat", 1, 12));
        assert_ne!(text("chat", 0, 12), text("rag", 0, 12), "classes share nothing");
    }
}
