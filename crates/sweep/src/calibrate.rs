//! Calibration of input lengths without a tokenizer: the number of tokens that the server counts per word.

use super::prepare::PlanSeries;
use anyhow::Result;
use goodput_core::caveat::{CalibrationFailure, Caveat, LengthsCaveat};
use goodput_core::level::Level;
use goodput_core::message::Message;
use goodput_core::record::{Failure, Finished};
use goodput_load::client::Client;
use goodput_load::client::encoder::Encoder;
use goodput_load::client::payload::Payload;
use goodput_load::load::host::Host;
use goodput_plan::{MAIN, Series};
use goodput_workload::chain::Turn;
use goodput_workload::draw::{Chains, StepKey};
use goodput_workload::items::ItemTexts;
use goodput_workload::prefix::{prefix_text, prefix_words};
use goodput_workload::prompts::Prompter;
use goodput_workload::rate::{PrefixRate, TextRate, WordRate, WordRates};
use goodput_workload::traffic::Traffic;
use goodput_workload::words::{CENSUS, census};
use std::time::Duration;

/// First of the request numbers that no step uses, so that the prompts of these requests occur nowhere else in the run.
const FIRST_ID: u64 = 3_000_000_000;
/// Maximum number of shared prefixes of a class that are counted one by one; the others are assumed to equal the mean
/// of these.
const PREFIXES: u32 = 4;
/// Number of natural texts per class for the mean number of tokens per character, which varies more than for synthetic
/// words.
const TEXTS: usize = 12;

/// Parts of the list of words for a server that takes no longer prompts: of 32 words and of 16.
const SHORT_PARTS: usize = 8;
/// Words with which the cost of a system message is measured; it does not depend on their number.
const SOME: usize = CENSUS / SHORT_PARTS;

/// The result of a query to a server; the inner error is the reason why the server gives none.
type Answer<T> = Result<Result<T, CalibrationFailure>>;

/// Finds the relation between words and tokens from the server's `usage`, once for all series of a sweep.
///
/// Prompts are words drawn from one list, all equally likely, so the mean tokens per word is that of the list itself,
/// with no sampling error: one prompt of the whole list costs C tokens, one of its first half A, one of the second half
/// B. The template's overhead is then A + B − C. A shared prefix consists of the same few hundred words
/// in every request, so its deviation from the mean is counted as well. Natural texts have a separate rate per class.
/// If the server reports no counts, the second value contains a caveat.
pub(crate) async fn calibrate(
    probe: &Probe<'_>,
    all: PlanSeries<'_>,
    seed: u32,
) -> Result<(WordRates, Vec<Caveat>)> {
    let PlanSeries { series, traffic } = all;
    let unknown = |reason| {
        (WordRate::UNKNOWN.into(), vec![Caveat::Lengths(LengthsCaveat::InputNotCalibrated { reason })])
    };
    let rate = match probe.words().await? {
        Ok(rate) => rate,
        Err(reason) => return Ok(unknown(reason)),
    };
    let mut rates = WordRates::from(rate);
    let mut noted = Vec::new();
    match probe.prefixes(&rates, series, seed).await? {
        Ok((system, shared)) => (rates.system, rates.shared) = (system, shared),
        Err(reason) => noted.push(Caveat::Lengths(LengthsCaveat::InputNotCalibrated { reason })),
    }
    rates.texts = probe.texts(traffic, seed, &rates).await?;
    for (_, class) in
        traffic.natural_text_classes().iter().filter(|(_, class)| rates.of(class).per_char.is_none())
    {
        let class = (!traffic.workload().classes().is_empty()).then(|| (*class).to_owned());
        let reason = CalibrationFailure::TextsNotCounted { class };
        noted.push(Caveat::Lengths(LengthsCaveat::InputNotCalibrated { reason }));
    }
    Ok((rates, noted))
}

/// Returns the shared prefixes of all series as class, tokens and number of groups. Prefixes with identical words are
/// listed once.
fn shared(series: &[Series]) -> Vec<(String, u32, u32)> {
    let mut all: Vec<(String, u32, u32)> = Vec::new();
    for (class, prefix) in series.iter().flat_map(|one| one.plan.workload.prefixes()) {
        let (tokens, groups) = (prefix.tokens.get(), prefix.groups.get());
        match all.iter_mut().find(|(name, n, _)| (name.as_str(), *n) == (class, tokens)) {
            Some((_, _, most)) => *most = (*most).max(groups),
            None => all.push((class.to_owned(), tokens, groups)),
        }
    }
    all
}

/// Sends single requests to a server before the load, such as those that ask for the number of tokens of a prompt.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) host: &'a Host,
    pub(crate) client: &'a Client,
    /// Encodes the requests.
    pub(crate) encoder: &'a Encoder,
    /// Timeout of an answer.
    pub(crate) timeout: Duration,
}

impl Probe<'_> {
    /// Measures the relation for words without a prefix: with the whole list at once, or in parts where the context of the
    /// server is too short for it.
    async fn words(&self) -> Answer<WordRate> {
        match self.words_in(1).await? {
            Err(CalibrationFailure::RequestFailed { kind: Failure::ClientError, .. }) => {
                self.words_in(SHORT_PARTS).await
            }
            whole => Ok(whole),
        }
    }

    /// Measures the relation by counting the list of words in this many parts, and in twice as many: the latter cost as much
    /// and the overhead of each part more.
    async fn words_in(&self, parts: usize) -> Answer<WordRate> {
        let mut counts = [0.0; 2];
        for (count, parts) in counts.iter_mut().zip([parts, 2 * parts]) {
            let size = CENSUS / parts;
            for first in (0..CENSUS).step_by(size) {
                match self.tokens(None, &census(first..first + size)).await? {
                    Ok(tokens) => *count += tokens,
                    Err(reason) => return Ok(Err(reason)),
                }
            }
        }
        let in_part = (counts[1] - counts[0]) / parts as f64;
        let per_word = (counts[0] - in_part * parts as f64) / CENSUS as f64;
        if per_word <= 0.0 {
            return Ok(Err(CalibrationFailure::ConstantCounts));
        }
        let query = self.added_query(CENSUS / parts).await?;
        Ok(query.map(|query| WordRate { overhead: in_part - query, per_word, per_char: None }))
    }

    /// Returns the tokens of the query that [`Encoder::request`] adds; 0 if the API has none. They are no part of the overhead. The query is
    /// one word, which may have more or fewer tokens than a mean word, so it is counted: against a request of the same `size` words, of which
    /// the first half is the query.
    async fn added_query(&self, size: usize) -> Answer<f64> {
        if !self.encoder.needs_query() {
            return Ok(Ok(0.0));
        }
        let with = self.tokens(None, &census(0..size)).await?;
        let items = ItemTexts { query: Some(census(0..size / 2)), texts: vec![census(size / 2..size)] };
        let without = self.count(self.encoder.items(&items)).await?;
        Ok(with.and_then(|with| without.map(|without| with - without)))
    }

    /// Measures the tokens that a system message adds to its words, and the deviation of each shared prefix from the
    /// mean of its words.
    async fn prefixes(
        &self,
        rates: &WordRates,
        series: &[Series],
        seed: u32,
    ) -> Answer<(f64, Vec<PrefixRate>)> {
        let (all, word) = (shared(series), census(0..1));
        if all.is_empty() {
            return Ok(Ok((0.0, Vec::new())));
        }
        // The same words in one message and in two; then one word, first alone and later after each prefix.
        let halves = [0..SOME / 2, SOME / 2..SOME].map(census);
        let mut base = [0.0; 3];
        for (count, (system, user)) in base.iter_mut().zip([
            (None, &census(0..SOME)),
            (Some(halves[0].as_str()), &halves[1]),
            (None, &word),
        ]) {
            match self.tokens(system, user).await? {
                Ok(tokens) => *count = tokens,
                Err(reason) => return Ok(Err(reason)),
            }
        }
        let system = base[1] - base[0];
        let mut found = Vec::with_capacity(all.len());
        for (class, tokens, groups) in all {
            let words = prefix_words(tokens, rates);
            let mean = words as f64 * rates.per_word;
            let mut off = Vec::new();
            for group in 0..groups.min(PREFIXES) {
                let text = prefix_text(seed, &class, group, words);
                match self.tokens(Some(&text), &word).await? {
                    Ok(counted) => off.push(counted - base[2] - system - mean),
                    Err(reason) => return Ok(Err(reason)),
                }
            }
            found.push(PrefixRate { class, tokens, offsets: off });
        }
        Ok(Ok((system, found)))
    }

    /// Measures the tokens per character of each class of natural texts, from the server's counts for some of them.
    /// Omits a class without counts.
    async fn texts(&self, traffic: &Traffic, seed: u32, rates: &WordRates) -> Result<Vec<TextRate>> {
        let mut found = Vec::new();
        let key = || StepKey { seed, series: MAIN.into(), step: 0 };
        let prompter = Prompter::new(traffic, key(), rates.clone()).without_nonces();
        for (class, name) in traffic.natural_text_classes() {
            let chains = Chains::new(traffic, &key(), Level::concurrency(1)).map_err(anyhow::Error::msg)?;
            // Every class occurs once in each round of all prefixes.
            let within = TEXTS * traffic.groups() as usize;
            let turns = chains.take(within).filter_map(|chain| chain.turns.into_iter().next());
            let (mut tokens, mut chars) = (0.0, 0);
            for turn in turns.filter(|turn| usize::from(turn.class) == class).take(TEXTS) {
                let messages = prompter.prompt(&elsewhere(turn)).messages();
                if let Ok(n) = self.count(self.encoder.messages(&messages, 1)).await? {
                    tokens += n - rates.overhead;
                    chars += messages
                        .iter()
                        .flat_map(Message::texts)
                        .map(|text| text.chars().count())
                        .sum::<usize>();
                }
            }
            if chars > 0 && tokens > 0.0 {
                found.push(TextRate { class: name.to_owned(), per_char: tokens / chars as f64 });
            }
        }
        Ok(found)
    }

    /// Returns the tokens of a prompt by the server's usage. The inner error is the reason why the server reports none.
    async fn tokens(&self, system: Option<&str>, user: &str) -> Answer<f64> {
        self.count(self.encoder.request(&self.encoder.prefix(system), user, 1)).await
    }

    /// Sends a request, and returns it once it has finished.
    pub(crate) async fn send(&self, payload: Payload) -> Result<Finished> {
        let (client, timeout) = (self.client.clone(), self.timeout);
        self.host.run(async move { client.probe(payload, timeout).await }).await
    }

    async fn count(&self, payload: Payload) -> Answer<f64> {
        let finished = self.send(payload).await?;
        Ok(match (finished.record.input_tokens, finished.record.failure) {
            (Some(n), _) => Ok(f64::from(n)),
            (None, Some(kind)) => {
                Err(CalibrationFailure::RequestFailed { kind, body: finished.sample.map(Into::into) })
            }
            (None, None) => Err(CalibrationFailure::NoUsage),
        })
    }
}

/// Returns the turn with a request number that no step uses.
fn elsewhere(mut turn: Turn) -> Turn {
    turn.request.id += FIRST_ID;
    turn
}

#[cfg(test)]
mod tests;
