//! Finds the optional request fields that the server accepts, with one short request and as few retries as possible.

use super::encoder::Pinning;
use super::event::error_message;
use super::payload::Payload;
use super::preflight::unauthorized;
use super::send::Client;
use anyhow::bail;
use goodput_core::caveat::{Caveat, LengthsCaveat};
use goodput_core::record::{Failure, Finished};
use std::time::Duration;

/// The result of the negotiation.
#[derive(Debug, Clone)]
pub struct Negotiated {
    /// The fields that fix the output length.
    pub pinning: Pinning,
    /// True if the server accepts `stream_options`.
    pub usage: bool,
    /// Caveats for the report.
    pub caveats: Vec<Caveat>,
    /// The request that succeeded.
    pub probe: Finished,
}

/// Sends one short request, written by `build`. If it is refused (400, 422, or an error in the stream), retries without
/// `ignore_eos` or `min_tokens`, or without `stream_options`: first without the field that the message names, otherwise
/// without those that fix the length. No combination is tried twice.
///
/// # Errors
/// The server refuses even the plainest request, or fails in another way; with its status and the beginning of its
/// answer.
pub async fn negotiate(
    client: &Client,
    timeout: Duration,
    build: impl Fn(Pinning, bool) -> Payload,
) -> anyhow::Result<Negotiated> {
    let dialect = client.protocol().dialect();
    // A document contains its usage without being asked.
    let (mut pinning, mut usage) = (dialect.pinning, dialect.asks_for_usage && client.streams());
    let mut caveats = Vec::new();
    loop {
        let probe = client.probe(build(pinning, usage), timeout).await;
        // A reasoning model may spend these few tokens on hidden reasoning, and send none. The fields were accepted all
        // the same.
        let counted = probe.record.output_tokens.is_some_and(|n| n > 0);
        // With a template, it is likelier that the template looks for the text in the wrong place.
        let may_hide = !client.protocol().is_template();
        let hidden = |failure: &Failure| *failure == Failure::Empty && counted && may_hide;
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
    /// Both `ignore_eos` and `min_tokens`.
    Pinning,
    Usage,
}

/// Returns the field to omit next: the one that the message names, otherwise those that fix the length, otherwise the
/// usage.
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

/// Returns the message of an error body, or the body if it has none.
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
            let hint = match status {
                200..=299 if client.protocol().is_template() => {
                    ". Compare this answer with the paths of [server.template], and with its stream-format and done"
                }
                _ => "",
            };
            format!("the first request to {base} failed ({}, HTTP {status}): {body}{hint}", failure.name())
        }
        None => format!("the first request to {base} failed ({}): {body}", failure.name()),
    }
}

#[cfg(test)]
mod tests;
