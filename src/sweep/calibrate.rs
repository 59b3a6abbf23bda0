//! Input lengths in tokens without a tokenizer: how many words the server counts as how many tokens.

use crate::caveat::Caveat;
use crate::client::dialect::Encoder;
use crate::client::{Client, Shot};
use crate::load::host::Host;
use crate::record::{Phase, Record};
use crate::workload::chain::Recipe;
use crate::workload::config::Workload;
use crate::workload::draw::StepKey;
use crate::workload::prompts::{Prompter, WordRate};
use crate::workload::words::{CENSUS, census};
use anyhow::Result;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Numbers of requests that no step uses, so that their prompts are seen nowhere else in the run.
const FIRST_ID: u64 = 3_000_000_000;
/// Prompts of the plan's own mean length that tell what a shared prefix costs.
const PROMPTS: u64 = 4;

/// Finds the relation between words and tokens from the server's `usage`.
///
/// Prompts are words drawn from one list, all equally likely, so the mean tokens per word is that of the list itself, with
/// no sampling error: one prompt of the first half of the list costs A tokens, one of the second half B, one of the whole
/// list C. The template's overhead is then A + B − C. A shared prefix is the same few hundred words in every request, so
/// what it is off the mean is measured as well, with prompts of the plan's own. Where the server tells nothing the second
/// value says so.
pub(crate) async fn calibrate(
    host: &Host,
    client: &Client,
    encoder: &Encoder,
    workload: &Workload,
    seed: u32,
    timeout: Duration,
) -> Result<(WordRate, Option<Caveat>)> {
    let probe = Probe { host, client, encoder, timeout };
    let mut counts = [0.0; 3];
    for (count, words) in counts.iter_mut().zip([0..CENSUS / 2, CENSUS / 2..CENSUS, 0..CENSUS]) {
        match probe.tokens(None, &census(words)).await? {
            Ok(tokens) => *count = tokens,
            Err(reason) => return Ok((WordRate::UNKNOWN, Some(Caveat::InputNotCalibrated { reason }))),
        }
    }
    let overhead = counts[0] + counts[1] - counts[2];
    let mut rate = WordRate { overhead, per_word: (counts[2] - overhead) / CENSUS as f64 };
    if rate.per_word <= 0.0 {
        let reason = "the server's token counts do not grow with the prompt".into();
        return Ok((WordRate::UNKNOWN, Some(Caveat::InputNotCalibrated { reason })));
    }
    if workload.synthetic().shared_prefix.is_some() {
        let key = StepKey { seed, series: super::SERIES.into(), step: 0 };
        let prompter = Prompter::new(workload, key, rate);
        let mut off = 0.0;
        for i in 0..PROMPTS {
            let recipe = Recipe {
                id: FIRST_ID + i,
                input_tokens: workload.synthetic().input_tokens.mean().round() as u32,
                output_tokens: 1,
                group: i as u32 % workload.groups(),
            };
            let text = prompter.text(&recipe);
            match probe.tokens(text.system.as_deref(), &text.user).await? {
                Ok(tokens) => off += (tokens - rate.tokens(text.words())) / PROMPTS as f64,
                Err(reason) => return Ok((rate, Some(Caveat::InputNotCalibrated { reason }))),
            }
        }
        rate.overhead += off;
    }
    Ok((rate, None))
}

struct Probe<'a> {
    host: &'a Host,
    client: &'a Client,
    encoder: &'a Encoder,
    timeout: Duration,
}

impl Probe<'_> {
    /// Tokens of a prompt by the server's usage; the inner error says why it tells none.
    async fn tokens(&self, system: Option<&str>, user: &str) -> Result<Result<f64, String>> {
        let shot = Shot {
            record: Record::due(0, Phase::Warmup, Duration::ZERO),
            payload: self.encoder.request(&self.encoder.prefix(system), user, 1),
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
