//! The text of prompts: from a recipe and the calibrated relation between words and tokens.

use super::chain::{Chain, Recipe, Text, Turn};
use super::config::Cache;
use super::data::TokenEstimate;
use super::data::text::Size;
use super::draw::StepKey;
use super::seed::{Purpose, fnv1a, stream};
use super::synthetic::SharedPrefix;
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

/// What a turn says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A system message and the user's, which is how most are written.
    Plain(PromptText),
    /// The messages of a data set.
    Said(Vec<Message>),
}

impl Prompt {
    /// As messages.
    pub fn messages(&self) -> Vec<Message> {
        match self {
            Self::Plain(text) => text.messages(),
            Self::Said(messages) => messages.clone(),
        }
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
    /// Tokens per character of texts that people wrote, as [`WordRate::per_char`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_char: Option<f64>,
}

impl WordRates {
    /// That of a class.
    pub fn of(&self, class: usize) -> WordRate {
        let prefix = self.prefixes.get(class).copied().unwrap_or(0.0);
        WordRate { overhead: self.overhead + prefix, ..self.base() }
    }

    /// That of a prompt without a shared prefix of a class.
    pub const fn base(&self) -> WordRate {
        WordRate { overhead: self.overhead, per_word: self.per_word, per_char: self.per_char }
    }
}

impl From<WordRate> for WordRates {
    fn from(rate: WordRate) -> Self {
        let WordRate { overhead, per_word, per_char } = rate;
        Self { overhead, per_word, prefixes: Vec::new(), per_char }
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
    fn of(user: String) -> Self {
        Self { system: None, shared: true, user }
    }

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
    /// How words count where nothing is shared.
    rate: WordRate,
    rates: WordRates,
    traffic: Traffic,
    /// By class.
    prefixes: Vec<Prefixes>,
}

/// The shared prefixes of a class.
#[derive(Debug, Clone, Default)]
struct Prefixes {
    texts: Vec<Arc<str>>,
    words: usize,
}

impl Prefixes {
    fn new(prefix: Option<SharedPrefix>, class: usize, key: &StepKey, rate: WordRate) -> Self {
        let Some(prefix) = prefix else { return Self::default() };
        let words = ((f64::from(prefix.tokens.get()) / rate.per_word).round() as usize).max(1);
        let text = |group| {
            let mut rng = stream(key.seed, &key.series, 0, Purpose::Prefix);
            rng.set_stream((class as u64) << 32 | u64::from(group));
            let mut text = String::new();
            push_words(&mut text, words, &mut rng);
            text.into()
        };
        Self { texts: (0..prefix.groups.get()).map(text).collect(), words }
    }
}

impl Prompter {
    /// Prompts for a step. The shared prefixes are the same in every step of a run.
    pub fn new(traffic: &Traffic, key: StepKey, rates: impl Into<WordRates>) -> Self {
        let rates = rates.into();
        let rate = rates.base();
        let prefixes = traffic.kinds().iter().enumerate().map(|(class, kind)| match &kind.what {
            What::Synthetic(s) => Prefixes::new(s.shared_prefix, class, &key, rate),
            _ => Prefixes::default(),
        });
        let prefixes = prefixes.collect();
        let cold = traffic.workload().cache != Cache::Warm;
        Self { key, attempt: 0, cold, rate, rates, traffic: traffic.clone(), prefixes }
    }

    /// For a sweep that was resumed so many times: cold prompts have the same lengths and other nonces, since the server may
    /// have seen those of a step that was broken off.
    pub fn resumed(self, times: u32) -> Self {
        Self { attempt: times, ..self }
    }

    /// Whether a file could not be read on.
    pub fn failed(&self) -> bool {
        self.traffic.failure().is_some()
    }

    /// Fills in how long prompts are that a data set holds, as the server counts: each with the history before it.
    pub fn measure(&self, chain: &mut Chain) {
        // What comes first in a cold prompt counts as well, and stays in front of every later turn.
        let mut before = if self.cold { NONCE_WORDS as f64 * self.rate.per_word } else { 0.0 };
        for turn in &mut chain.turns {
            let Text::Said(messages) = &turn.request.text else { continue };
            let chars: usize = messages.iter().map(|m| m.content.chars().count()).sum();
            before += chars as f64 * self.rate.of_chars();
            turn.request.input_tokens = (before + self.rate.overhead).round().max(1.0) as u32;
            before += f64::from(turn.request.output_tokens);
        }
    }

    /// What a turn says: the same turn always says the same.
    pub fn prompt(&self, turn: &Turn) -> Prompt {
        let recipe = &turn.request;
        let mut rng = stream(self.key.seed, &self.key.series, self.key.step, Purpose::Words);
        rng.set_stream(recipe.id);
        let class = usize::from(turn.class);
        Prompt::Plain(match &recipe.text {
            Text::Words { group } => self.words(recipe, class, *group, &mut rng),
            Text::Further { tokens } => {
                let mut user = String::new();
                push_words(&mut user, self.rate.words_of(f64::from(*tokens)), &mut rng);
                PromptText::of(user)
            }
            Text::Piece { at } => self.piece(recipe, class, *at),
            Text::Blocks { ids, tokens, round } => self.blocks(recipe, ids, *tokens, *round, &mut rng),
            Text::Said(messages) => return Prompt::Said(self.said(recipe, messages)),
        })
    }

    /// What comes first in a cold prompt; empty in a warm one.
    fn nonce(&self, id: u64) -> String {
        let mut nonce = String::new();
        if self.cold {
            push_nonce(&mut nonce, self.key.seed, self.attempt, self.key.step, id);
        }
        nonce
    }

    /// A prompt of words, after the prefix of its group.
    fn words(&self, recipe: &Recipe, class: usize, group: u32, rng: &mut ChaCha8Rng) -> PromptText {
        let words = self.rates.of(class).words(f64::from(recipe.input_tokens));
        let prefixes = &self.prefixes[class];
        let nonce = self.nonce(recipe.id);
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
                PromptText::of(user)
            }
        }
    }

    /// A piece of the plain text, as long as asked for by the characters that a token has.
    fn piece(&self, recipe: &Recipe, class: usize, at: u64) -> PromptText {
        let What::Text(corpus, ..) = &self.traffic.kinds()[class].what else {
            return PromptText::of(String::new());
        };
        let tokens = f64::from(recipe.input_tokens) - self.rate.overhead;
        let nonce = self.nonce(recipe.id);
        let chars = (tokens / self.rate.of_chars()).round() as usize;
        match corpus.cut(at, Size::Chars(chars.saturating_sub(nonce.len()).max(1))) {
            Ok(text) if nonce.is_empty() => PromptText::of(text),
            Ok(text) => PromptText::of(format!("{nonce}\n{text}")),
            Err(e) => {
                self.traffic.fail(format!("{e:#}"));
                PromptText::of(nonce)
            }
        }
    }

    /// The words of a trace's blocks, then words of its own. In a cold cache blocks recur within a step and a round, as recorded,
    /// and never from one to the next.
    fn blocks(
        &self,
        recipe: &Recipe,
        ids: &[u64],
        tokens: u32,
        round: u32,
        rng: &mut ChaCha8Rng,
    ) -> PromptText {
        let words = self.rate.words(f64::from(recipe.input_tokens));
        let (step, round) = if self.cold { (self.key.step, round) } else { (0, 0) };
        let mut text = String::new();
        let mut have = 0;
        for (i, id) in ids.iter().enumerate() {
            // Up to where this block ends, so that roundings do not add up; it stands at the same place wherever it recurs.
            let end = self.rate.words_of(f64::from(tokens) * (i as f64 + 1.0)).min(words);
            let mut of_block = stream(self.key.seed, &self.key.series, step, Purpose::Prefix);
            of_block.set_stream(fnv1a(&[id.to_le_bytes(), u64::from(round).to_le_bytes()].concat()));
            push_words(&mut text, end.saturating_sub(have), &mut of_block);
            have = have.max(end);
        }
        push_words(&mut text, words.saturating_sub(have), rng);
        PromptText::of(text)
    }

    /// The messages of a row. The first turn of a cold one begins with a nonce, wherever its text begins.
    fn said(&self, recipe: &Recipe, messages: &[Message]) -> Vec<Message> {
        let mut messages = messages.to_vec();
        let first = self.traffic.is_first(recipe.id);
        if self.cold
            && first
            && let Some(message) = messages.first_mut()
        {
            message.content = format!("{}\n{}", self.nonce(recipe.id), message.content);
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::data::Counter;
    use std::time::Duration;

    fn plain(p: &Prompter, turn: &Turn) -> PromptText {
        match p.prompt(turn) {
            Prompt::Plain(text) => text,
            Prompt::Said(messages) => panic!("{messages:?}"),
        }
    }

    fn prompter(extra: &str, step: u32) -> Prompter {
        let workload = toml::from_str(&format!(
            "{extra}\nprompts.synthetic = {{ input-tokens = {{ fixed = 200 }}, output-tokens = {{ fixed = 3 }}, \
             shared-prefix = {{ tokens = 50, groups = 2 }} }}"
        ))
        .unwrap();
        let key = StepKey { seed: 1, series: "main".into(), step };
        let traffic = Traffic::open(&workload, &Counter::default()).unwrap();
        Prompter::new(&traffic, key, WordRate { overhead: 8.0, per_word: 1.25, per_char: None })
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
        let text = plain(&prompter("cache = \"cold\"", 1), &turn(7, Text::Further { tokens: 50 }));
        assert_eq!((text.words(), text.system), (40, None), "and no nonce: its history is its own");
    }

    #[test]
    fn words_and_tokens_are_inverse() {
        let rate = WordRate { overhead: 8.0, per_word: 1.25, per_char: None };
        for words in [1, 10, 154, 3000] {
            assert_eq!(rate.words(rate.tokens(words)), words);
        }
        assert_eq!(rate.words(2.0), 1, "never none");
    }

    #[test]
    fn what_a_prefix_is_off_is_its_own_class_alone() {
        let rates = WordRates {
            prefixes: vec![0.0, 25.0],
            ..WordRate { overhead: 8.0, per_word: 1.25, per_char: None }.into()
        };
        assert_eq!([0, 1, 2].map(|class| rates.of(class).words(200.0)), [154, 134, 154]);
        let old: WordRates = serde_json::from_str("{\"overhead\":8.0,\"per_word\":1.25}").unwrap();
        assert_eq!(
            old,
            WordRate { overhead: 8.0, per_word: 1.25, per_char: None }.into(),
            "as folders of one kind have it"
        );
        let again: WordRates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!(again, rates);
    }

    #[test]
    fn prompts_have_the_words_asked_for() {
        for extra in ["cache = \"cold\"", "cache = \"warm\""] {
            let words = plain(&prompter(extra, 1), &recipe(3, 0)).words();
            assert_eq!(words, 154, "{extra}: (200 − 8) / 1.25 rounded");
        }
    }

    #[test]
    fn cold_prompts_share_no_beginning() {
        let p = prompter("cache = \"cold\"", 1);
        let (a, b) = (plain(&p, &recipe(1, 0)), plain(&p, &recipe(2, 0)));
        let first =
            |t: &PromptText| t.system.as_deref().map(|s| s.split(' ').take(3).collect::<Vec<_>>().join(" "));
        assert_ne!(first(&a), first(&b));
        assert_ne!(first(&a), first(&plain(&prompter("cache = \"cold\"", 2), &recipe(1, 0))), "another step");
        assert_eq!(a, plain(&p, &recipe(1, 0)), "the same request is the same text");
        let again = plain(&p.resumed(1), &recipe(1, 0));
        assert_ne!(first(&a), first(&again), "measured again after a resume");
        assert_eq!((a.words(), &a.user), (again.words(), &again.user), "as long, and of the same words");
    }

    #[test]
    fn warm_prompts_share_the_prefix_of_their_group() {
        let (p, q) = (prompter("cache = \"warm\"", 1), prompter("cache = \"warm\"", 2));
        assert_eq!(plain(&p, &recipe(1, 0)).system, plain(&q, &recipe(9, 0)).system);
        assert_ne!(plain(&p, &recipe(1, 0)).system, plain(&p, &recipe(1, 1)).system);
        assert_ne!(plain(&p, &recipe(1, 0)).user, plain(&p, &recipe(2, 0)).user);
    }
}
