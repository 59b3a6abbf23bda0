//! The text of prompts: from a recipe and the calibrated relation between words and tokens.

use super::chain::Recipe;
use super::config::{Cache, Workload};
use super::draw::StepKey;
use super::seed::{Purpose, stream};
use super::words::{NONCE_WORDS, push_nonce, push_words};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How the server counts our words: tokens = overhead + per_word · words.
///
/// The overhead is the chat template's; both come from the server's own `usage`, so that no tokenizer is needed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WordRate {
    /// Tokens of a prompt without words.
    pub overhead: f64,
    /// Tokens per word.
    pub per_word: f64,
}

impl WordRate {
    /// What is assumed where the server tells nothing: one token a word.
    pub const UNKNOWN: Self = Self { overhead: 0.0, per_word: 1.0 };

    /// Tokens of so many words.
    pub fn tokens(&self, words: usize) -> f64 {
        self.overhead + self.per_word * words as f64
    }

    /// Words for so many tokens; at least one.
    pub fn words(&self, tokens: f64) -> usize {
        ((tokens - self.overhead) / self.per_word).round().max(1.0) as usize
    }
}

/// The text of one prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    /// System message: the shared prefix, with a nonce before it where the cache is to stay cold.
    pub system: Option<Arc<str>>,
    /// Whether other requests have the very same system message.
    pub shared: bool,
    /// User message.
    pub user: String,
}

impl PromptText {
    /// Words of both messages together.
    pub fn words(&self) -> usize {
        self.user.split(' ').count() + self.system.as_deref().map_or(0, |s| s.split(' ').count())
    }
}

/// Writes the prompts of one step.
#[derive(Debug, Clone)]
pub struct Prompter {
    key: StepKey,
    attempt: u32,
    cache: Cache,
    rate: WordRate,
    prefixes: Vec<Arc<str>>,
    prefix_words: usize,
}

impl Prompter {
    /// Prompts for a step. The shared prefixes are the same in every step of a run.
    pub fn new(workload: &Workload, key: StepKey, rate: WordRate) -> Self {
        let prefix = workload.synthetic().shared_prefix;
        let prefix_words =
            prefix.map_or(0, |p| ((f64::from(p.tokens.get()) / rate.per_word).round() as usize).max(1));
        let prefixes = (0..prefix.map_or(0, |p| p.groups.get()))
            .map(|group| {
                let mut rng = stream(key.seed, &key.series, 0, Purpose::Prefix);
                rng.set_stream(u64::from(group));
                let mut text = String::new();
                push_words(&mut text, prefix_words, &mut rng);
                text.into()
            })
            .collect();
        Self { key, attempt: 0, cache: workload.cache, rate, prefixes, prefix_words }
    }

    /// For a sweep that was resumed so many times: cold prompts have the same lengths and other nonces, since the server may
    /// have seen those of a step that was broken off.
    pub fn resumed(self, times: u32) -> Self {
        Self { attempt: times, ..self }
    }

    /// The text for a recipe: the same recipe always gets the same text.
    pub fn text(&self, recipe: &Recipe) -> PromptText {
        let mut rng = stream(self.key.seed, &self.key.series, self.key.step, Purpose::Words);
        rng.set_stream(recipe.id);
        let words = self.rate.words(f64::from(recipe.input_tokens));
        let cold = self.cache == Cache::Cold;
        let prefix = self.prefixes.get(recipe.group as usize);
        let mut nonce = String::new();
        if cold {
            push_nonce(&mut nonce, self.key.seed, self.attempt, self.key.step, recipe.id);
        }
        let nonce_words = if cold { NONCE_WORDS } else { 0 };
        let own = words.saturating_sub(self.prefix_words + nonce_words);
        match prefix {
            Some(prefix) if cold => {
                let mut user = String::new();
                push_words(&mut user, own.max(1), &mut rng);
                PromptText { system: Some(format!("{nonce} {prefix}").into()), shared: false, user }
            }
            Some(prefix) => {
                let mut user = String::new();
                push_words(&mut user, own.max(1), &mut rng);
                PromptText { system: Some(prefix.clone()), shared: true, user }
            }
            None => {
                let mut user = nonce;
                push_words(&mut user, if cold { own } else { own.max(1) }, &mut rng);
                PromptText { system: None, shared: true, user }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompter(extra: &str, step: u32) -> Prompter {
        let workload: Workload = toml::from_str(&format!(
            "{extra}\nprompts.synthetic = {{ input-tokens = {{ fixed = 200 }}, output-tokens = {{ fixed = 3 }}, \
             shared-prefix = {{ tokens = 50, groups = 2 }} }}"
        ))
        .unwrap();
        let key = StepKey { seed: 1, series: "main".into(), step };
        Prompter::new(&workload, key, WordRate { overhead: 8.0, per_word: 1.25 })
    }

    fn recipe(id: u64, group: u32) -> Recipe {
        Recipe { id, input_tokens: 200, output_tokens: 3, group }
    }

    #[test]
    fn words_and_tokens_are_inverse() {
        let rate = WordRate { overhead: 8.0, per_word: 1.25 };
        for words in [1, 10, 154, 3000] {
            assert_eq!(rate.words(rate.tokens(words)), words);
        }
        assert_eq!(rate.words(2.0), 1, "never none");
    }

    #[test]
    fn prompts_have_the_words_asked_for() {
        for extra in ["cache = \"cold\"", "cache = \"warm\""] {
            let words = prompter(extra, 1).text(&recipe(3, 0)).words();
            assert_eq!(words, 154, "{extra}: (200 − 8) / 1.25 rounded");
        }
    }

    #[test]
    fn cold_prompts_share_no_beginning() {
        let p = prompter("cache = \"cold\"", 1);
        let (a, b) = (p.text(&recipe(1, 0)), p.text(&recipe(2, 0)));
        let first =
            |t: &PromptText| t.system.as_deref().map(|s| s.split(' ').take(3).collect::<Vec<_>>().join(" "));
        assert_ne!(first(&a), first(&b));
        assert_ne!(first(&a), first(&prompter("cache = \"cold\"", 2).text(&recipe(1, 0))), "another step");
        assert_eq!(a, p.text(&recipe(1, 0)), "the same request is the same text");
        let again = p.resumed(1).text(&recipe(1, 0));
        assert_ne!(first(&a), first(&again), "measured again after a resume");
        assert_eq!((a.words(), &a.user), (again.words(), &again.user), "as long, and of the same words");
    }

    #[test]
    fn warm_prompts_share_the_prefix_of_their_group() {
        let (p, q) = (prompter("cache = \"warm\"", 1), prompter("cache = \"warm\"", 2));
        assert_eq!(p.text(&recipe(1, 0)).system, q.text(&recipe(9, 0)).system);
        assert_ne!(p.text(&recipe(1, 0)).system, p.text(&recipe(1, 1)).system);
        assert_ne!(p.text(&recipe(1, 0)).user, p.text(&recipe(2, 0)).user);
    }
}
