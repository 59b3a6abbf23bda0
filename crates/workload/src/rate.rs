//! How the server counts: our words, what shared prefixes are off them, and texts that people wrote.

use super::data::TokenEstimate;
use serde::{Deserialize, Serialize};

/// How the server counts the words of a prompt: tokens = overhead + per_word · words.
///
/// The overhead is the chat template's; both come from the server's own `usage`, so that no tokenizer is needed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WordRate {
    /// Tokens of a prompt without words.
    pub overhead: f64,
    /// Tokens per word.
    pub per_word: f64,
    /// Tokens per character of texts that people wrote; `None` where there are none, or the server tells nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_char: Option<f64>,
}

impl WordRate {
    /// What is assumed where the server tells nothing: one token a word.
    pub const UNKNOWN: Self = Self { overhead: 0.0, per_word: 1.0, per_char: None };

    /// Tokens of so many words.
    pub fn tokens(&self, words: usize) -> f64 {
        self.overhead + self.per_word * words as f64
    }

    /// Tokens per character of a text that people wrote: as the server counts, else as English prose has it.
    pub fn of_chars(&self) -> f64 {
        self.per_char.unwrap_or(1.0 / TokenEstimate::default().chars)
    }

    /// Words for so many tokens beside the template's; at least one.
    pub fn words_of(&self, tokens: f64) -> usize {
        (tokens / self.per_word).round().max(1.0) as usize
    }

    /// Words for so many tokens; at least one.
    pub fn words(&self, tokens: f64) -> usize {
        self.words_of(tokens - self.overhead)
    }
}

/// How the server counts all that a sweep sends, whichever series and class it is of: it is learned once, before the first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WordRates {
    /// Tokens of a prompt without words.
    pub overhead: f64,
    /// Tokens per word.
    pub per_word: f64,
    /// Tokens that a system message adds beside its words: that is how a shared prefix is sent.
    #[serde(default)]
    pub system: f64,
    /// What the words of shared prefixes are off the mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<PrefixRate>,
    /// How texts that people wrote count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<TextRate>,
}

/// How the server counts the shared prefixes of a class that are so long. They are the same words in every series, so they count alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrefixRate {
    /// The class; `all` where there is one kind of request.
    pub class: String,
    /// Tokens that the plan asks for: classes of different series may have the same name.
    pub tokens: u32,
    /// What each is off the mean of so many words, in tokens: the first of its groups.
    pub off: Vec<f64>,
}

/// How the server counts the texts of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextRate {
    /// The class; `all` where there is one kind of request.
    pub class: String,
    /// Tokens per character.
    pub per_char: f64,
}

impl WordRates {
    /// That of prompts without a shared prefix or a text.
    pub const fn base(&self) -> WordRate {
        WordRate { overhead: self.overhead, per_word: self.per_word, per_char: None }
    }

    /// That of a class, whose texts have a rate of their own.
    pub fn of(&self, class: &str) -> WordRate {
        let text = self.texts.iter().find(|text| text.class == class);
        WordRate { per_char: text.map(|text| text.per_char), ..self.base() }
    }

    /// What a shared prefix is off the mean of its words, in tokens. One that was not measured is taken for the mean of those of its
    /// class that were.
    pub fn off(&self, class: &str, tokens: u32, group: usize) -> f64 {
        let known = self.shared.iter().find(|p| p.class == class && p.tokens == tokens);
        known.map_or(0.0, |p| {
            let mean = || p.off.iter().sum::<f64>() / p.off.len().max(1) as f64;
            p.off.get(group).copied().unwrap_or_else(mean)
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
        assert_eq!(RATE.words(2.0), 1, "never none");
    }

    #[test]
    fn each_class_counts_for_itself() {
        let rates = WordRates {
            system: 4.0,
            shared: vec![PrefixRate { class: "rag".into(), tokens: 400, off: vec![25.0, 5.0] }],
            texts: vec![TextRate { class: "people".into(), per_char: 0.3 }],
            ..RATE.into()
        };
        let off = |class, tokens, group| rates.off(class, tokens, group) as i32;
        assert_eq!([off("rag", 400, 0), off("rag", 400, 1), off("rag", 400, 7)], [25, 5, 15]);
        assert_eq!([off("rag", 300, 0), off("chat", 400, 0)], [0, 0], "another prefix");
        assert_eq!((rates.of("people").per_char, rates.of("rag").per_char), (Some(0.3), None));
        let again: WordRates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!(again, rates);
        let old: WordRates =
            serde_json::from_str("{\"overhead\":8.0,\"per_word\":1.25,\"prefixes\":[0.0,3.0]}").unwrap();
        assert_eq!(old, RATE.into(), "as earlier folders have it, without what their prefixes were off");
    }
}
