//! The text of prompts: from a recipe and the calibrated relation between words and tokens.

use super::chain::{Recipe, Text, Turn};
use super::config::Cache;
use super::draw::StepKey;
use super::seed::{Purpose, stream};
use super::traffic::{Traffic, What};
use super::words::{NONCE_WORDS, push_nonce, push_words};
use crate::message::{Message, Role};
use rand_chacha::ChaCha8Rng;
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

/// How the server counts the words of each class: as [`WordRate`], with what the shared prefix of a class is off that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WordRates {
    /// Tokens of a prompt without words; where there is one kind of request, with what its prefix is off.
    pub overhead: f64,
    /// Tokens per word.
    pub per_word: f64,
    /// What the prefix of each class of a mix adds, in tokens; empty where there is one kind of request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<f64>,
}

impl WordRates {
    /// That of a class.
    pub fn of(&self, class: usize) -> WordRate {
        let prefix = self.prefixes.get(class).copied().unwrap_or(0.0);
        WordRate { overhead: self.overhead + prefix, per_word: self.per_word }
    }

    /// That of a prompt without a shared prefix of a class.
    pub const fn base(&self) -> WordRate {
        WordRate { overhead: self.overhead, per_word: self.per_word }
    }
}

impl From<WordRate> for WordRates {
    fn from(rate: WordRate) -> Self {
        Self { overhead: rate.overhead, per_word: rate.per_word, prefixes: Vec::new() }
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
    /// As messages.
    pub fn messages(&self) -> Vec<Message> {
        let system = self.system.as_deref().map(|s| Message::new(Role::System, s));
        system.into_iter().chain([Message::new(Role::User, self.user.clone())]).collect()
    }

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
    cold: bool,
    rates: WordRates,
    /// By class.
    prefixes: Vec<Prefixes>,
}

/// The shared prefixes of a class.
#[derive(Debug, Clone)]
struct Prefixes {
    texts: Vec<Arc<str>>,
    words: usize,
}

impl Prompter {
    /// Prompts for a step. The shared prefixes are the same in every step of a run.
    pub fn new(traffic: &Traffic, key: StepKey, rates: impl Into<WordRates>) -> Self {
        let rates = rates.into();
        let prefixes = traffic.kinds().iter().enumerate().map(|(class, kind)| {
            let What::Synthetic(s) = &kind.what;
            let words = s
                .shared_prefix
                .map_or(0, |p| ((f64::from(p.tokens.get()) / rates.per_word).round() as usize).max(1));
            let text = |group| {
                let mut rng = stream(key.seed, &key.series, 0, Purpose::Prefix);
                rng.set_stream((class as u64) << 32 | u64::from(group));
                let mut text = String::new();
                push_words(&mut text, words, &mut rng);
                text.into()
            };
            Prefixes { texts: (0..s.shared_prefix.map_or(0, |p| p.groups.get())).map(text).collect(), words }
        });
        let prefixes = prefixes.collect();
        Self { key, attempt: 0, cold: traffic.workload().cache != Cache::Warm, rates, prefixes }
    }

    /// For a sweep that was resumed so many times: cold prompts have the same lengths and other nonces, since the server may
    /// have seen those of a step that was broken off.
    pub fn resumed(self, times: u32) -> Self {
        Self { attempt: times, ..self }
    }

    /// The text of a turn: the same turn always gets the same text.
    pub fn text(&self, turn: &Turn) -> PromptText {
        let recipe = &turn.request;
        let mut rng = stream(self.key.seed, &self.key.series, self.key.step, Purpose::Words);
        rng.set_stream(recipe.id);
        match recipe.text {
            Text::Words { group } => self.words(recipe, usize::from(turn.class), group, &mut rng),
            Text::Further { tokens } => {
                let mut user = String::new();
                let words = (f64::from(tokens) / self.rates.per_word).round().max(1.0) as usize;
                push_words(&mut user, words, &mut rng);
                PromptText { system: None, shared: false, user }
            }
        }
    }

    /// A prompt of words, after the prefix of its group.
    fn words(&self, recipe: &Recipe, class: usize, group: u32, rng: &mut ChaCha8Rng) -> PromptText {
        let words = self.rates.of(class).words(f64::from(recipe.input_tokens));
        let prefixes = &self.prefixes[class];
        let mut nonce = String::new();
        if self.cold {
            push_nonce(&mut nonce, self.key.seed, self.attempt, self.key.step, recipe.id);
        }
        let nonce_words = if self.cold { NONCE_WORDS } else { 0 };
        let own = words.saturating_sub(prefixes.words + nonce_words);
        match prefixes.texts.get(group as usize) {
            Some(prefix) => {
                let mut user = String::new();
                push_words(&mut user, own.max(1), rng);
                let system = if self.cold { format!("{nonce} {prefix}").into() } else { prefix.clone() };
                PromptText { system: Some(system), shared: !self.cold, user }
            }
            None => {
                let mut user = nonce;
                push_words(&mut user, if self.cold { own } else { own.max(1) }, rng);
                PromptText { system: None, shared: true, user }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn prompter(extra: &str, step: u32) -> Prompter {
        let workload = toml::from_str(&format!(
            "{extra}\nprompts.synthetic = {{ input-tokens = {{ fixed = 200 }}, output-tokens = {{ fixed = 3 }}, \
             shared-prefix = {{ tokens = 50, groups = 2 }} }}"
        ))
        .unwrap();
        let key = StepKey { seed: 1, series: "main".into(), step };
        Prompter::new(&Traffic::open(&workload).unwrap(), key, WordRate { overhead: 8.0, per_word: 1.25 })
    }

    fn recipe(id: u64, group: u32) -> Turn {
        turn(id, Text::Words { group })
    }

    fn turn(id: u64, text: Text) -> Turn {
        let request = Recipe { id, input_tokens: 200, output_tokens: 3, text };
        Turn { after: Duration::ZERO, class: 0, request }
    }

    #[test]
    fn a_later_turn_has_the_words_that_it_adds() {
        let text = prompter("cache = \"cold\"", 1).text(&turn(7, Text::Further { tokens: 50 }));
        assert_eq!((text.words(), text.system), (40, None), "and no nonce: its history is its own");
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
    fn what_a_prefix_is_off_is_its_own_class_alone() {
        let rates =
            WordRates { prefixes: vec![0.0, 25.0], ..WordRate { overhead: 8.0, per_word: 1.25 }.into() };
        assert_eq!([0, 1, 2].map(|class| rates.of(class).words(200.0)), [154, 134, 154]);
        let old: WordRates = serde_json::from_str("{\"overhead\":8.0,\"per_word\":1.25}").unwrap();
        assert_eq!(old, WordRate { overhead: 8.0, per_word: 1.25 }.into(), "as folders of one kind have it");
        let again: WordRates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!(again, rates);
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
