//! Which of our extra fields the server takes, found by one short request and as few repetitions as it needs.

use super::dialect::Pinning;
use super::event::error_message;
use super::payload::Payload;
use super::preflight::unauthorized;
use super::send::{Client, Shot};
use anyhow::bail;
use goodput_core::caveat::{Caveat, LengthsCaveat};
use goodput_core::record::{Failure, Finished, Phase, Record};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What the server takes.
#[derive(Debug, Clone)]
pub struct Negotiated {
    /// The fields that hold the output's length.
    pub pinning: Pinning,
    /// Whether it takes `stream_options`.
    pub usage: bool,
    /// What the reader must know about it.
    pub caveats: Vec<Caveat>,
    /// The request that went through.
    pub probe: Finished,
}

/// Sends one short request, written by `build`; where it is refused (400, 422, or an error in the stream), asks again
/// without `ignore_eos` or `min_tokens`, or without `stream_options`: first without what the message names, else
/// without what holds lengths. Nothing is asked twice.
///
/// # Errors
/// The server refuses the plainest request too, or fails in another way; with its status and the beginning of its
/// answer.
pub async fn negotiate(
    client: &Client,
    timeout: Duration,
    build: impl Fn(Pinning, bool) -> Payload,
) -> anyhow::Result<Negotiated> {
    // One document has its usage unasked.
    let (mut pinning, mut usage) = (Pinning::FULL, client.streams());
    let mut caveats = Vec::new();
    loop {
        let probe = probe(client, timeout, build(pinning, usage)).await;
        // A model that thinks first may spend these few tokens on that, and send none that its server counts: the
        // fields were taken all the same.
        let counted = probe.record.output_tokens.is_some_and(|n| n > 0);
        let hidden = |failure: &Failure| *failure == Failure::Empty && counted;
        let Some(failure) = probe.record.failure.filter(|failure| !hidden(failure)) else {
            return Ok(Negotiated { pinning, usage, caveats, probe });
        };
        let body = probe.sample.as_deref().unwrap_or_default();
        let refused = matches!(probe.record.status, Some(400 | 422)) || failure == Failure::StreamError;
        let field = match if refused { refused_field(body, pinning, usage) } else { None } {
            Some(Field::IgnoreEos) => {
                pinning.ignore_eos = false;
                "ignore_eos"
            }
            Some(Field::MinTokens) => {
                pinning.min_tokens = false;
                "min_tokens"
            }
            Some(Field::Pinning) => {
                pinning = Pinning::NONE;
                "ignore_eos and min_tokens"
            }
            Some(Field::Usage) => {
                usage = false;
                caveats.push(Caveat::Lengths(LengthsCaveat::UsageRefused { message: words(body) }));
                continue;
            }
            None => bail!(failed(client, &probe, failure)),
        };
        let refusal = Caveat::Lengths(LengthsCaveat::PinningRefused {
            field: field.into(),
            message: words(body),
            held: pinning.holds(),
        });
        caveats.push(refusal);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    IgnoreEos,
    MinTokens,
    /// Both of them.
    Pinning,
    Usage,
}

/// What to leave out next: the fields that the message names, else those that hold lengths, else the usage.
fn refused_field(body: &str, pinning: Pinning, usage: bool) -> Option<Field> {
    let eos = pinning.ignore_eos && body.contains("ignore_eos");
    let min = pinning.min_tokens && body.contains("min_tokens");
    let options = usage && (body.contains("stream_options") || body.contains("include_usage"));
    match (eos, min) {
        (true, true) => Some(Field::Pinning),
        (true, false) => Some(Field::IgnoreEos),
        (false, true) => Some(Field::MinTokens),
        (false, false) if options => Some(Field::Usage),
        (false, false) if pinning.holds() => Some(Field::Pinning),
        (false, false) => usage.then_some(Field::Usage),
    }
}

async fn probe(client: &Client, timeout: Duration, payload: Payload) -> Finished {
    let record = Record::due(0, Phase::Warmup, Duration::ZERO);
    let cut = CancellationToken::new();
    client
        .send(Shot {
            record,
            payload,
            began: Instant::now(),
            timeout,
            timeout_is_error: true,
            cut,
            itl_limit: None,
            keep_text: false,
        })
        .await
}

/// The message within an error body, else the body.
fn words(body: &str) -> String {
    error_message(body.as_bytes()).map_or_else(|| body.to_owned(), String::from)
}

fn failed(client: &Client, probe: &Finished, failure: Failure) -> String {
    let body = probe.sample.as_deref().unwrap_or_default();
    let base = client.urls().next().map(ToString::to_string).unwrap_or_default();
    match probe.record.status {
        Some(status @ (401 | 403)) => client
            .urls()
            .next()
            .map_or_else(String::new, |base| unauthorized(client, base, status, body.as_bytes())),
        Some(status) => {
            format!("the first request to {base} failed ({}, HTTP {status}): {body}", failure.name())
        }
        None => format!("the first request to {base} failed ({}): {body}", failure.name()),
    }
}

#[cfg(test)]
#[path = "negotiate_tests.rs"]
mod tests;
