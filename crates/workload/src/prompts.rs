//! The text of prompts, generated from recipes and calibrated token rates.

use super::audio::Clip;
use super::chain::{Chain, Recipe, Text, Turn};
use super::config::Cache;
use super::draw::StepKey;
use super::images::{Image, PlannedImage};
use super::items::ItemTexts;
use super::prefix::{Prefix, Prefixes};
use super::rate::{WordRate, WordRates};
use super::seed::{Purpose, stream};
use super::traffic::{Kind, OpenedSource, Traffic};
use super::words::{NONCE_WORDS, push_nonce, push_words};
use anyhow::Result;
use goodput_core::hash::fnv1a;
use goodput_core::message::{Message, Role, begins_with_calls};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::time::Duration;

/// Text of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A user message, perhaps after a system message.
    Plain(PromptText),
    /// Messages of a data set.
    Messages(Vec<Message>),
    /// Texts that are answered one by one.
    Items(ItemTexts),
    /// Audio to transcribe.
    Audio(Clip),
}

impl Prompt {
    /// Returns the images before the text of its last message.
    pub fn images(&self) -> &[Image] {
        match self {
            Self::Plain(text) => &text.images,
            Self::Messages(_) | Self::Items(_) | Self::Audio(_) => &[],
        }
    }

    /// Returns the prompt as messages; audio has none.
    pub fn messages(&self) -> Vec<Message> {
        match self {
            Self::Plain(text) => text.messages(),
            Self::Messages(messages) => messages.clone(),
            Self::Audio(_) => Vec::new(),
            Self::Items(items) => {
                items.texts.iter().map(|text| Message::new(Role::User, text.as_str())).collect()
            }
        }
    }
}

/// A generated prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    /// System message: the shared prefix, after a nonce if the cache is to stay cold.
    pub system: Option<Arc<str>>,
    /// True if other requests have the identical system message.
    pub shared: bool,
    /// User message.
    pub user: String,
    /// Images that precede the user message, without those of earlier turns.
    pub images: Vec<Image>,
}

impl PromptText {
    fn of(user: String) -> Self {
        Self { system: None, shared: true, user, images: Vec::new() }
    }

    /// Returns the prompt as messages.
    pub fn messages(&self) -> Vec<Message> {
        let system = self.system.as_deref().map(|s| Message::new(Role::System, s));
        system.into_iter().chain([Message::new(Role::User, self.user.clone())]).collect()
    }

    /// Returns the number of words of both messages.
    pub fn words(&self) -> usize {
        self.user.split(' ').count() + self.system.as_deref().map_or(0, |s| s.split(' ').count())
    }
}

/// Generator of the prompts of one step.
#[derive(Debug, Clone)]
pub struct Prompter {
    key: StepKey,
    attempt: u32,
    cold: bool,
    rates: WordRates,
    traffic: Traffic,
    classes: Vec<Class>,
}

/// Token rate and shared prefixes of a class.
#[derive(Debug, Clone)]
struct Class {
    rate: WordRate,
    prefixes: Prefixes,
}

impl Prompter {
    /// Creates a prompter for a step. Shared prefixes are the same in every step and series of a run.
    pub fn new(traffic: &Traffic, key: StepKey, rates: impl Into<WordRates>) -> Self {
        let rates = rates.into();
        let class = |kind: &Kind| {
            let shared = match &kind.source {
                OpenedSource::Synthetic(s) => s.shared_prefix,
                OpenedSource::Items(_)
                | OpenedSource::Audio(_)
                | OpenedSource::Recordings(_)
                | OpenedSource::Data(_)
                | OpenedSource::Text(..)
                | OpenedSource::Trace(_) => None,
            };
            Class {
                rate: rates.of(&kind.class_key),
                prefixes: Prefixes::new(shared, &kind.class_key, key.seed, &rates),
            }
        };
        let classes = traffic.kinds().iter().map(class).collect();
        let cold = traffic.workload().cache != Cache::Warm;
        Self { key, attempt: 0, cold, rates, traffic: traffic.clone(), classes }
    }

    /// Omits nonces even for a cold cache, for counting the tokens of the texts alone.
    pub fn without_nonces(self) -> Self {
        Self { cold: false, ..self }
    }

    /// Sets how often the sweep was resumed. Cold prompts keep their lengths and get other nonces, since the server may
    /// have seen those of an interrupted step.
    pub fn resumed(self, times: u32) -> Self {
        Self { attempt: times, ..self }
    }

    /// Returns true if a file can no longer be read.
    pub fn failed(&self) -> bool {
        self.traffic.failure().is_some()
    }

    fn class(&self, turn: &Turn) -> &Class {
        &self.classes[usize::from(turn.class)]
    }

    /// Fills in the prompt lengths of a chain from a data set as the server counts them, each with the history before
    /// it.
    pub fn measure(&self, chain: &mut Chain) {
        // The nonce of a cold prompt counts, and stays at the start of every later turn.
        let (mut before, mut answer) = (self.nonce_words() as f64 * self.rates.per_word, 0.0);
        for turn in &mut chain.turns {
            let rate = self.class(turn).rate;
            let Text::Messages(messages) = &turn.request.text else { continue };
            if !begins_with_calls(messages) {
                before += answer;
            }
            let chars: usize = messages.iter().flat_map(Message::texts).map(|t| t.chars().count()).sum();
            before += chars as f64 * rate.tokens_per_char();
            turn.request.input_tokens = (before + rate.overhead).round().max(1.0) as u32;
            answer = f64::from(turn.request.output_tokens);
        }
    }

    /// Returns the text of a turn; deterministic.
    pub fn prompt(&self, turn: &Turn) -> Prompt {
        let recipe = &turn.request;
        let mut rng = stream(self.key.seed, &self.key.series, self.key.step, Purpose::Words);
        rng.set_stream(recipe.id);
        let class = self.class(turn);
        Prompt::Plain(match &recipe.text {
            Text::Words { group } => self.words(recipe, class.prefixes.get(*group), &mut rng),
            Text::Illustrated { group, images } => {
                let text = self.words(recipe, class.prefixes.get(*group), &mut rng);
                PromptText { images: self.images(turn, images.added()), ..text }
            }
            Text::Prefix { group } => self.prefix(recipe, class.prefixes.get(*group), &mut rng),
            Text::FollowUp { tokens, images } => {
                let mut user = String::new();
                push_words(&mut user, class.rate.words_without_overhead(f64::from(*tokens)), &mut rng);
                let images = images.as_ref().map_or_else(Vec::new, |i| self.images(turn, i.added()));
                PromptText { images, ..PromptText::of(user) }
            }
            Text::Excerpt { at } => self.excerpt(turn, class.rate, *at),
            Text::Blocks { ids, tokens, round } => self.blocks(recipe, ids, *tokens, *round, &mut rng),
            Text::Messages(messages) => return Prompt::Messages(self.messages(recipe, messages)),
            Text::Items { query, lengths } => return Prompt::Items(self.items(recipe.id, *query, lengths)),
            Text::Audio { length, recording } => return Prompt::Audio(self.audio(turn, *length, *recording)),
        })
    }

    const fn nonce_words(&self) -> usize {
        if self.cold { NONCE_WORDS } else { 0 }
    }

    /// Returns the start of a cold prompt; empty for a warm one.
    fn nonce(&self, id: u64) -> String {
        let mut nonce = String::new();
        if self.cold {
            push_nonce(&mut nonce, self.key.seed, self.attempt, self.key.step, id);
        }
        nonce
    }

    /// Returns a prompt of random words, after as much of the group's prefix as fits.
    fn words(&self, recipe: &Recipe, prefix: Option<&Prefix>, rng: &mut ChaCha8Rng) -> PromptText {
        let (tokens, nonce) = (f64::from(recipe.input_tokens), self.nonce_words());
        let split = prefix.and_then(|p| Some((p, p.split(tokens, nonce, &self.rates)?)));
        match split {
            Some((prefix, split)) => {
                let mut user = String::new();
                push_words(&mut user, split.unique, rng);
                let shared = prefix.is_whole(split) && !self.cold;
                PromptText {
                    system: Some(self.system(recipe, prefix.truncated(split))),
                    shared,
                    user,
                    images: Vec::new(),
                }
            }
            None => {
                let mut user = self.nonce(recipe.id);
                let unique = self.rates.base().words(tokens).saturating_sub(nonce);
                push_words(&mut user, if self.cold { unique } else { unique.max(1) }, rng);
                PromptText::of(user)
            }
        }
    }

    /// Returns the whole prefix of a group, followed by one word.
    fn prefix(&self, recipe: &Recipe, prefix: Option<&Prefix>, rng: &mut ChaCha8Rng) -> PromptText {
        let mut user = String::new();
        push_words(&mut user, 1, rng);
        let system = prefix.map(|p| self.system(recipe, p.text.clone()));
        PromptText { system, shared: !self.cold, user, images: Vec::new() }
    }

    /// Returns a system message, after a nonce if the cache is to stay cold.
    fn system(&self, recipe: &Recipe, prefix: Arc<str>) -> Arc<str> {
        if self.cold { format!("{} {prefix}", self.nonce(recipe.id)).into() } else { prefix }
    }

    /// Returns an excerpt of the plain text, its length chosen by the tokens per character.
    fn excerpt(&self, turn: &Turn, rate: WordRate, at: u64) -> PromptText {
        let OpenedSource::Text(corpus, ..) = &self.traffic.kinds()[usize::from(turn.class)].source else {
            return PromptText::of(String::new());
        };
        let nonce = self.nonce(turn.request.id);
        let words = self.nonce_words() as f64 * rate.per_word;
        let tokens = f64::from(turn.request.input_tokens) - rate.overhead - words;
        let chars = (tokens / rate.tokens_per_char()).round().max(1.0) as usize;
        match corpus.excerpt(at, chars) {
            Ok(text) if nonce.is_empty() => PromptText::of(text),
            Ok(text) => PromptText::of(format!("{nonce}\n{text}")),
            Err(e) => {
                self.traffic.fail(format!("{e:#}"));
                PromptText::of(nonce)
            }
        }
    }

    /// Returns images of a turn. With a cold cache no two have the same pixels. With a warm one files are sent as they are, and all
    /// generated images of a size are the same.
    fn images(&self, turn: &Turn, planned: &[PlannedImage]) -> Vec<Image> {
        let kind = &self.traffic.kinds()[usize::from(turn.class)];
        let Some(images) = &kind.images else { return Vec::new() };
        let made: Result<_> = if self.cold {
            let mut rng = self.unique(turn.request.id, Purpose::Pixels);
            planned.iter().map(|image| images.unique(*image, &mut rng)).collect()
        } else {
            let rng = stream(self.key.seed, &self.key.series, 0, Purpose::Pixels);
            planned.iter().map(|image| images.repeated(*image, rng.clone())).collect()
        };
        made.unwrap_or_else(|e| {
            self.traffic.fail(format!("{e:#}"));
            Vec::new()
        })
    }

    /// Returns the audio of a turn: generated, and unlike that of any other request, or a recording.
    fn audio(&self, turn: &Turn, length: Duration, recording: Option<u32>) -> Clip {
        let source = &self.traffic.kinds()[usize::from(turn.class)].source;
        let read = match (source, recording) {
            (OpenedSource::Audio(audio), _) => {
                Ok(audio.generate(length, &mut self.unique(turn.request.id, Purpose::Samples)))
            }
            (OpenedSource::Recordings(all), Some(index)) => all.read(index),
            _ => Ok(Clip { wav: Vec::new(), length }),
        };
        read.unwrap_or_else(|e| {
            self.traffic.fail(format!("{e:#}"));
            Clip { wav: Vec::new(), length }
        })
    }

    /// Returns random numbers that no other request has, and that the same one does not have again after a resume.
    fn unique(&self, id: u64, purpose: Purpose) -> ChaCha8Rng {
        let mut rng = stream(self.key.seed, &self.key.series, self.key.step, purpose);
        rng.set_stream(id | u64::from(self.attempt) << 48);
        rng
    }

    /// Returns texts of random words. Those of a step measured again after a resume differ from the first word on, so
    /// that no nonce is needed to keep a cache cold.
    fn items(&self, id: u64, query: Option<u32>, lengths: &[u32]) -> ItemTexts {
        ItemTexts::random(query, lengths, self.rates.base(), &mut self.unique(id, Purpose::Words))
    }

    /// Returns the words of a trace's blocks, then unique words. With a cold cache, blocks recur within a step and a
    /// round, as recorded, but not across them, nor in the same step after a resume.
    fn blocks(
        &self,
        recipe: &Recipe,
        ids: &[u64],
        tokens: u32,
        round: u32,
        rng: &mut ChaCha8Rng,
    ) -> PromptText {
        let rate = self.rates.base();
        let words = rate.words(f64::from(recipe.input_tokens));
        // The server may have seen the blocks of an interrupted step.
        let (step, round, attempt) = if self.cold { (self.key.step, round, self.attempt) } else { (0, 0, 0) };
        let mut text = String::new();
        let mut have = 0;
        for (i, id) in ids.iter().enumerate() {
            // Up to the end of this block, so that rounding errors do not add up and it has the same length wherever it
            // recurs.
            let end = rate.words_without_overhead(f64::from(tokens) * (i as f64 + 1.0)).min(words);
            let mut block_rng = stream(self.key.seed, &self.key.series, step, Purpose::Prefix);
            let place = [*id, u64::from(round), u64::from(attempt)].map(u64::to_le_bytes);
            block_rng.set_stream(fnv1a(&place.concat()));
            push_words(&mut text, end.saturating_sub(have), &mut block_rng);
            have = have.max(end);
        }
        push_words(&mut text, words.saturating_sub(have), rng);
        PromptText::of(text)
    }

    /// Returns the messages of a turn; the first turn of a cold conversation begins with a nonce.
    fn messages(&self, recipe: &Recipe, messages: &[Message]) -> Vec<Message> {
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
mod tests;
