//! Calibrated token counts: how many tokens the server counts for generated words, shared prefixes and natural text.

use super::data::TokenEstimate;
use serde::{Deserialize, Serialize};

/// The server's token count of a prompt of generated words: tokens = overhead + per_word · words.
///
/// The overhead is the chat template's. Both numbers come from the server's `usage`, so that no tokenizer is needed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WordRate {
    /// Tokens of an empty prompt.
    pub overhead: f64,
    /// Tokens per word.
    pub per_word: f64,
    /// Tokens per character of natural text; `None` if there is none, or the server reports no usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_char: Option<f64>,
}

impl WordRate {
    /// Assumption for a server that reports no usage: one token per word.
    pub const UNKNOWN: Self = Self { overhead: 0.0, per_word: 1.0, per_char: None };

    /// Returns the tokens of a prompt of `words` words.
    pub fn tokens(&self, words: usize) -> f64 {
        self.overhead + self.per_word * words as f64
    }

    /// Returns the tokens per character of natural text; if not measured, that of English prose.
    pub(crate) fn tokens_per_char(&self) -> f64 {
        self.per_char.unwrap_or(1.0 / TokenEstimate::default().chars)
    }

    /// Returns the number of words, at least one, for `tokens` tokens without the template's.
    pub(crate) fn words_without_overhead(&self, tokens: f64) -> usize {
        (tokens / self.per_word).round().max(1.0) as usize
    }

    /// Returns the number of words, at least one, for a prompt of `tokens` tokens.
    pub fn words(&self, tokens: f64) -> usize {
        self.words_without_overhead(tokens - self.overhead)
    }
}

/// The server's token counts for everything that a sweep sends, for all series and classes. Measured once, before the
/// first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WordRates {
    /// Tokens of an empty prompt.
    pub overhead: f64,
    /// Tokens per word.
    pub per_word: f64,
    /// Tokens that a system message adds in addition to its words; shared prefixes are sent as system messages.
    #[serde(default)]
    pub system: f64,
    /// Measured deviations of shared prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<PrefixRate>,
    /// Measured rates of natural text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<TextRate>,
}

/// Token counts of the shared prefixes of a class, of one length. Their words are equal in every series, so their
/// counts are too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PrefixRate {
    /// Name of the class; `all` if there is one kind of request.
    pub class: String,
    /// Length in tokens that the plan asks for; classes of different series may share a name.
    pub tokens: u32,
    /// For each prefix of the class, in order: measured tokens minus the mean for as many words.
    #[serde(rename = "off")]
    pub offsets: Vec<f64>,
}

/// Token counts of the natural text of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TextRate {
    /// Name of the class; `all` if there is one kind of request.
    pub class: String,
    /// Tokens per character.
    pub per_char: f64,
}

impl WordRates {
    /// Returns the rate of prompts without shared prefix or natural text.
    pub const fn base(&self) -> WordRate {
        WordRate { overhead: self.overhead, per_word: self.per_word, per_char: None }
    }

    /// Returns the rate of a class, with that of its natural text if it has any.
    pub fn of(&self, class: &str) -> WordRate {
        let text = self.texts.iter().find(|text| text.class == class);
        WordRate { per_char: text.map(|text| text.per_char), ..self.base() }
    }

    /// Returns a shared prefix's deviation from the mean for as many words, in tokens. For a prefix that was not
    /// measured, returns the mean of its class.
    pub(crate) fn prefix_offset(&self, class: &str, tokens: u32, group: usize) -> f64 {
        let known = self.shared.iter().find(|p| p.class == class && p.tokens == tokens);
        known.map_or(0.0, |p| {
            let mean = || p.offsets.iter().sum::<f64>() / p.offsets.len().max(1) as f64;
            p.offsets.get(group).copied().unwrap_or_else(mean)
        })
    }
}

impl From<WordRate> for WordRates {
    fn from(rate: WordRate) -> Self {
        let WordRate { overhead, per_word, .. } = rate;
        Self { overhead, per_word, system: 0.0, shared: Vec::new(), texts: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: WordRate = WordRate { overhead: 8.0, per_word: 1.25, per_char: None };

    #[test]
    fn words_and_tokens_are_inverse() {
        for words in [1, 10, 154, 3000] {
            assert_eq!(RATE.words(RATE.tokens(words)), words);
        }
        assert_eq!(RATE.words(2.0), 1, "at least one");
    }

    #[test]
    fn classes_have_separate_rates() {
        let rates = WordRates {
            system: 4.0,
            shared: vec![PrefixRate { class: "rag".into(), tokens: 400, offsets: vec![25.0, 5.0] }],
            texts: vec![TextRate { class: "people".into(), per_char: 0.3 }],
            ..RATE.into()
        };
        let offset = |class, tokens, group| rates.prefix_offset(class, tokens, group) as i32;
        assert_eq!([offset("rag", 400, 0), offset("rag", 400, 1), offset("rag", 400, 7)], [25, 5, 15]);
        assert_eq!([offset("rag", 300, 0), offset("chat", 400, 0)], [0, 0], "another prefix");
        assert_eq!((rates.of("people").per_char, rates.of("rag").per_char), (Some(0.3), None));
        let again: WordRates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!(again, rates);
        let old: WordRates =
            serde_json::from_str("{\"overhead\":8.0,\"per_word\":1.25,\"prefixes\":[0.0,3.0]}").unwrap();
        assert_eq!(old, RATE.into(), "the format of earlier run folders, without offsets of prefixes");
    }
}
