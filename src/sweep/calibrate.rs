//! Input lengths in tokens without a tokenizer: how many words the server counts as how many tokens.

use crate::caveat::Caveat;
use crate::client::dialect::Encoder;
use crate::client::payload::Payload;
use crate::client::{Client, Shot};
use crate::level::Level;
use crate::load::host::Host;
use crate::plan::MAIN;
use crate::record::{Phase, Record};
use crate::workload::chain::{Chain, Text, Turn};
use crate::workload::draw::{Chains, StepKey};
use crate::workload::prompts::{Prompt, Prompter, WordRate, WordRates};
use crate::workload::traffic::Traffic;
use crate::workload::words::{CENSUS, census};
use anyhow::Result;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Numbers of requests that no step uses, so that their prompts are seen nowhere else in the run.
const FIRST_ID: u64 = 3_000_000_000;
/// Prompts of the plan's own mean length that tell what the shared prefix of a class costs.
const PROMPTS: usize = 4;
/// Texts of people that tell how many characters a token has: they differ more than our words do.
const TEXTS: usize = 12;

/// Finds the relation between words and tokens from the server's `usage`.
///
/// Prompts are words drawn from one list, all equally likely, so the mean tokens per word is that of the list itself, with
/// no sampling error: one prompt of the first half of the list costs A tokens, one of the second half B, one of the whole
/// list C. The template's overhead is then A + B − C. A shared prefix is the same few hundred words in every request, so
/// what it is off the mean is measured as well for each class, with prompts of the plan's own. Where the server tells nothing the second
/// value says so.
pub(crate) async fn calibrate(
    host: &Host,
    client: &Client,
    encoder: &Encoder,
    traffic: &Traffic,
    seed: u32,
    timeout: Duration,
) -> Result<(WordRates, Option<Caveat>)> {
    let probe = Probe { host, client, encoder, timeout };
    let mut counts = [0.0; 3];
    for (count, words) in counts.iter_mut().zip([0..CENSUS / 2, CENSUS / 2..CENSUS, 0..CENSUS]) {
        match probe.tokens(None, &census(words)).await? {
            Ok(tokens) => *count = tokens,
            Err(reason) => {
                return Ok((WordRate::UNKNOWN.into(), Some(Caveat::InputNotCalibrated { reason })));
            }
        }
    }
    let overhead = counts[0] + counts[1] - counts[2];
    let mut rate = WordRate { overhead, per_word: (counts[2] - overhead) / CENSUS as f64, per_char: None };
    if rate.per_word <= 0.0 {
        let reason = "the server's token counts do not grow with the prompt".into();
        return Ok((WordRate::UNKNOWN.into(), Some(Caveat::InputNotCalibrated { reason })));
    }
    let kinds = traffic.kinds_n();
    let mut off = vec![0.0; kinds];
    for (class, off) in off.iter_mut().enumerate().filter(|(class, _)| traffic.shared_of(*class) > 0) {
        match probe.prefix_off(traffic, class, seed, rate).await? {
            Ok(tokens) => *off = tokens,
            Err(reason) => return Ok((rate.into(), Some(Caveat::InputNotCalibrated { reason }))),
        }
    }
    if traffic.is_natural() {
        rate.per_char = probe.natural(traffic, seed, rate).await?;
    }
    // A class with a prefix shifts no other.
    match off.as_slice() {
        [only] => rate.overhead += only,
        _ => return Ok((WordRates { prefixes: off, ..rate.into() }, None)),
    }
    Ok((rate.into(), None))
}

/// The first turn of a chain, with a number that no step uses.
fn elsewhere(mut chain: Chain) -> Turn {
    let mut turn = chain.turns.swap_remove(0);
    turn.request.id += FIRST_ID;
    turn
}

struct Probe<'a> {
    host: &'a Host,
    client: &'a Client,
    encoder: &'a Encoder,
    timeout: Duration,
}

impl Probe<'_> {
    /// Tokens per character of the texts that people wrote, by the server's count of some of them; `None` where it counts none.
    async fn natural(&self, traffic: &Traffic, seed: u32, rate: WordRate) -> Result<Option<f64>> {
        let key = StepKey { seed, series: MAIN.into(), step: 0 };
        let chains = Chains::new(traffic, &key, Level::concurrency(1)).map_err(anyhow::Error::msg)?;
        let prompter = Prompter::new(traffic, key, rate);
        let (mut tokens, mut chars) = (0.0, 0);
        for chain in chains.take(TEXTS) {
            let turn = elsewhere(chain);
            if !matches!(turn.request.text, Text::Said(_) | Text::Piece { .. }) {
                continue;
            }
            let messages = prompter.prompt(&turn).messages();
            if let Ok(n) = self.count(self.encoder.messages(&messages, 1)).await? {
                tokens += n - rate.overhead;
                chars += messages.iter().map(|m| m.content.chars().count()).sum::<usize>();
            }
        }
        Ok((chars > 0 && tokens > 0.0).then(|| tokens / chars as f64))
    }

    /// What the shared prefixes of a class are off the mean, in tokens, with prompts of the plan's own.
    async fn prefix_off(
        &self,
        traffic: &Traffic,
        class: usize,
        seed: u32,
        rate: WordRate,
    ) -> Result<Result<f64, String>> {
        let key = StepKey { seed, series: MAIN.into(), step: 0 };
        let chains = Chains::new(traffic, &key, Level::concurrency(1)).map_err(anyhow::Error::msg)?;
        let prompter = Prompter::new(traffic, key, rate);
        let own = |chain: &Chain| chain.turns.first().is_some_and(|turn| usize::from(turn.class) == class);
        let mut off = 0.0;
        for chain in chains.filter(own).take(PROMPTS) {
            let Prompt::Plain(text) = prompter.prompt(&elsewhere(chain)) else { continue };
            match self.tokens(text.system.as_deref(), &text.user).await? {
                Ok(tokens) => off += (tokens - rate.tokens(text.words())) / PROMPTS as f64,
                Err(reason) => return Ok(Err(reason)),
            }
        }
        Ok(Ok(off))
    }

    /// Tokens of a prompt by the server's usage; the inner error says why it tells none.
    async fn tokens(&self, system: Option<&str>, user: &str) -> Result<Result<f64, String>> {
        self.count(self.encoder.request(&self.encoder.prefix(system), user, 1)).await
    }

    async fn count(&self, payload: Payload) -> Result<Result<f64, String>> {
        let shot = Shot {
            record: Record::due(0, Phase::Warmup, Duration::ZERO),
            payload,
            began: Instant::now(),
            timeout: self.timeout,
            cut: CancellationToken::new(),
            itl_limit: None,
            keep_text: false,
        };
        let client = self.client.clone();
        let finished = self.host.run(async move { client.send(shot).await }).await?;
        Ok(match (finished.record.input_tokens, finished.record.failure) {
            (Some(n), _) => Ok(f64::from(n)),
            (None, Some(kind)) => {
                let body = finished.sample.as_deref().unwrap_or("no body");
                Err(format!("a request failed ({}: {body})", kind.name()))
            }
            (None, None) => Err("the server sends no usage".into()),
        })
    }
}
