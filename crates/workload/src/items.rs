//! Requests of several items that are answered at once: the texts to embed, or the documents to rank by a query.

use super::chain::{Recipe, Text, Turn};
use super::lengths::Lengths;
use super::rate::WordRate;
use super::words::push_words;
use goodput_core::checked;
use goodput_core::endpoint::Item;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest number of items that a request may have.
const MOST_ITEMS: u32 = 10_000;

/// The items of each request and their lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Items {
    /// Tokens of each text or document as the server counts them.
    pub input_tokens: Lengths,
    /// Number of texts or documents in a request; 1 by default.
    #[serde(default = "Lengths::one")]
    pub count: Lengths,
    /// Tokens of the query that the documents are ranked by: for `rerank` and `score`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_tokens: Option<Lengths>,
}

checked!(Items);

/// Texts of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemTexts {
    /// The query, if the documents are ranked by one.
    pub query: Option<String>,
    /// The texts or documents.
    pub texts: Vec<String>,
}

impl Items {
    fn check(&self) -> Result<(), String> {
        let longest = self.count.longest();
        if longest > MOST_ITEMS {
            return Err(format!("count may be {longest}: a request may have at most {MOST_ITEMS} items"));
        }
        Ok(())
    }

    /// Returns what the items are: documents if a query ranks them.
    pub const fn item(&self) -> Item {
        if self.query_tokens.is_some() { Item::Document } else { Item::Text }
    }

    /// Returns the mean input tokens of a request. A query counts once for each document, as a cross-encoder reads it.
    pub fn mean_input(&self) -> f64 {
        let query = self.query_tokens.map_or(0.0, |q| q.mean());
        self.count.mean() * (self.input_tokens.mean() + query)
    }

    /// Returns the input tokens of the longest item, with its query.
    pub(crate) fn longest_item(&self) -> u64 {
        u64::from(self.input_tokens.longest()) + self.query_tokens.map_or(0, |q| u64::from(q.longest()))
    }

    /// Draws a request: its number of items, their lengths and that of the query, each from a stream of its own.
    pub(crate) fn draw(&self, first: Turn, [counts, lengths, queries]: [&mut ChaCha8Rng; 3]) -> Turn {
        let count = self.count.draw(counts);
        let query = self.query_tokens.map(|q| q.draw(queries));
        let items: Vec<u32> = (0..count).map(|_| self.input_tokens.draw(lengths)).collect();
        let tokens: u64 = items.iter().map(|n| u64::from(*n) + u64::from(query.unwrap_or(0))).sum();
        let request = Recipe {
            input_tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            output_tokens: 0,
            text: Text::Items { query, lengths: items.into() },
            ..first.request
        };
        Turn { request, ..first }
    }
}

impl ItemTexts {
    /// Writes texts of random words with these lengths in tokens.
    pub(crate) fn random(query: Option<u32>, lengths: &[u32], rate: WordRate, rng: &mut ChaCha8Rng) -> Self {
        let mut text = |words: usize| {
            let mut text = String::new();
            push_words(&mut text, words, rng);
            text
        };
        let query = query.map(|tokens| text(rate.words_without_overhead(f64::from(tokens))));
        let texts = lengths.iter().map(|tokens| text(rate.words(f64::from(*tokens)))).collect();
        Self { query, texts }
    }

    /// Returns the number of words of all texts, those of the query once for each.
    pub fn words(&self) -> usize {
        let count = |text: &String| text.split(' ').count();
        self.texts.iter().map(count).sum::<usize>() + self.texts.len() * self.query.as_ref().map_or(0, count)
    }
}

impl fmt::Display for Items {
    /// Formats `16 texts of 300 tokens`, or `a query of 20 and 50 documents of 300 tokens`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(query) = self.query_tokens {
            write!(f, "a query of {query} and ")?;
        }
        let item = if self.count.longest() == 1 { self.item().name() } else { self.item().plural() };
        write!(f, "{} {item} of {} tokens", self.count, self.input_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};
    use std::time::Duration;

    fn first() -> Turn {
        let request = Recipe { id: 0, input_tokens: 0, output_tokens: 0, text: Text::Words { group: 0 } };
        Turn { after: Duration::ZERO, class: 0, request }
    }

    fn parse(text: &str) -> Items {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn requests_have_the_planned_items() {
        let all = "input-tokens = { uniform = { min = 10, max = 30 } }\ncount = { uniform = { min = 1, max = 7 } }\n\
                   query-tokens = { fixed = 5 }";
        let items = parse(all);
        let mut rngs = [Purpose::Output, Purpose::Input, Purpose::Group].map(|p| stream(1, "main", 1, p));
        let (mut tokens, mut count) = (0, 0);
        for _ in 0..10_000 {
            let turn = items.draw(first(), rngs.each_mut());
            let Text::Items { query, lengths } = &turn.request.text else { panic!("{turn:?}") };
            assert!((1..=7).contains(&lengths.len()) && lengths.iter().all(|n| (10..=30).contains(n)));
            let sum: u32 = lengths.iter().map(|n| n + 5).sum();
            assert_eq!((*query, turn.request.input_tokens, turn.request.output_tokens), (Some(5), sum, 0));
            (tokens, count) = (tokens + sum, count + lengths.len());
        }
        assert!((count as f64 / 10_000.0 - 4.0).abs() < 0.1, "{count}");
        assert!((f64::from(tokens) / 10_000.0 / items.mean_input() - 1.0).abs() < 0.02, "{tokens}");
        assert_eq!(items.longest_item(), 35);
        assert_eq!(items.to_string(), "a query of 5 and 1–7 documents of 10–30 tokens");
        assert_eq!(parse("input-tokens = { fixed = 9 }").to_string(), "1 text of 9 tokens");
    }

    #[test]
    fn texts_have_the_words_of_their_tokens() {
        // An overhead for each text, none for the query, which shares its text's.
        let rate = WordRate { overhead: 2.0, per_word: 1.25, per_char: None };
        let mut rng = stream(1, "main", 1, Purpose::Words);
        let texts = ItemTexts::random(Some(10), &[12, 52], rate, &mut rng);
        let words = |text: &String| text.split(' ').count();
        assert_eq!(texts.query.as_ref().map(words), Some(8));
        assert_eq!(texts.texts.iter().map(words).collect::<Vec<_>>(), [8, 40]);
        assert_eq!(texts.words(), 48 + 2 * 8);
        assert_eq!(ItemTexts::random(None, &[3], rate, &mut rng).query, None);
    }

    #[test]
    fn too_many_items_are_refused() {
        let text = "input-tokens = { fixed = 9 }\ncount = { fixed = 20000 }";
        let error = toml::from_str::<Items>(text).unwrap_err().to_string();
        assert!(error.contains("at most 10000 items"), "{error}");
    }
}
