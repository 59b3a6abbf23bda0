//! Input lengths in tokens without a tokenizer: how many words the server counts as how many tokens.

use super::host::Host;
use crate::caveat::Caveat;
use crate::client::dialect::Encoder;
use crate::client::{Client, Shot};
use crate::record::{Phase, Record};
use crate::workload::chain::Recipe;
use crate::workload::config::Workload;
use crate::workload::draw::StepKey;
use crate::workload::prompts::{Prompter, WordRate};
use anyhow::Result;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Numbers of requests that no step uses, so that their prompts are seen nowhere else in the run.
const FIRST_ID: u64 = 3_000_000_000;
/// Rounds of checking at the plan's own mean length.
const ROUNDS: usize = 3;
/// Prompts per round: words differ in their tokens, so one prompt tells less than a few.
const PROMPTS: u64 = 4;

/// Finds the relation between words and tokens from the server's `usage`, to within max(2 %, 2 tokens) of the plan's mean.
///
/// Two short lengths give a first line; then prompts of the mean length are checked, and the line refitted, up to three
/// times. Where the server tells nothing the second value says so.
pub(crate) async fn calibrate(
    host: &Host,
    client: &Client,
    encoder: &Encoder,
    workload: &Workload,
    seed: u32,
    timeout: Duration,
) -> Result<(WordRate, Option<Caveat>)> {
    let probe = Probe { host, client, encoder, workload, seed, timeout };
    let mean = workload.synthetic().input_tokens.mean();
    let mut points = Vec::new();
    let mut next = FIRST_ID;
    let refused = |reason: String| Ok((WordRate::UNKNOWN, Some(Caveat::InputNotCalibrated { reason })));
    // Short, so that they fit whatever a word turns out to cost, and far enough apart to tell a slope.
    for tokens in [(mean * 0.1).clamp(8.0, 32.0), (mean * 0.5).clamp(24.0, 128.0)] {
        match probe.ask(WordRate::UNKNOWN, tokens, next..next + 2).await? {
            Ok(found) => points.extend(found),
            Err(reason) => return refused(reason),
        }
        next += 2;
    }
    let Some(mut rate) = WordRate::fit(&points) else {
        return refused("the server's token counts do not grow with the prompt".into());
    };
    let mut got = 0.0;
    for _ in 0..ROUNDS {
        let found = match probe.ask(rate, mean, next..next + PROMPTS).await? {
            Ok(found) => found,
            Err(reason) => return refused(reason),
        };
        next += PROMPTS;
        got = found.iter().map(|p| p.1).sum::<f64>() / found.len() as f64;
        points.extend(found);
        if (got - mean).abs() <= (0.02 * mean).max(2.0) {
            return Ok((rate, None));
        }
        rate = WordRate::fit(&points).unwrap_or(rate);
    }
    Ok((rate, Some(Caveat::InputLengthOff { asked: mean, got })))
}

struct Probe<'a> {
    host: &'a Host,
    client: &'a Client,
    encoder: &'a Encoder,
    workload: &'a Workload,
    seed: u32,
    timeout: Duration,
}

impl Probe<'_> {
    /// Points of (words, tokens) for prompts of about `tokens`; the inner error says why the server tells none.
    async fn ask(
        &self,
        rate: WordRate,
        tokens: f64,
        ids: std::ops::Range<u64>,
    ) -> Result<Result<Vec<(f64, f64)>, String>> {
        let key = StepKey { seed: self.seed, series: "main".into(), step: 0 };
        let prompter = Prompter::new(self.workload, key, rate);
        let mut points = Vec::new();
        for id in ids {
            let recipe = Recipe { id, input_tokens: tokens.round() as u32, output_tokens: 1, group: 0 };
            let text = prompter.text(&recipe);
            let payload = self.encoder.request(&self.encoder.prefix(text.system.as_deref()), &text.user, 1);
            let shot = Shot {
                record: Record::due(id, Phase::Warmup, Duration::ZERO),
                payload,
                began: Instant::now(),
                timeout: self.timeout,
                cut: CancellationToken::new(),
                itl_limit: None,
            };
            let client = self.client.clone();
            let finished = self.host.run(async move { client.send(shot).await }).await?;
            match (finished.record.input_tokens, finished.record.failure) {
                (Some(n), _) => points.push((text.words() as f64, f64::from(n))),
                (None, Some(kind)) => {
                    let body = finished.sample.as_deref().unwrap_or("no body");
                    return Ok(Err(format!("a request failed ({}: {body})", kind.name())));
                }
                (None, None) => return Ok(Err("the server sends no usage".into())),
            }
        }
        Ok(Ok(points))
    }
}
