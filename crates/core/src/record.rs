//! Requests as measured: timestamps, sizes and outcome. One [`Record`] is one row of `requests.csv`.

mod choices;

pub use choices::{ChoiceSpan, DECODING_UNIT, MOST_CHOICES, decoding_units, in_decoding_units};

use crate::named_enum;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU8;
use std::time::Duration;

/// The part of a step in which a request was due. Only `Measure` counts for the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Sent before the first step, to warm the server up.
    Warmup,
    /// Load runs, but nothing counts yet.
    Settle,
    /// Due within the measured window.
    Measure,
    /// Sent after the window to keep the server loaded until the measured requests have finished.
    Tail,
}

/// State of the connection that a request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conn {
    /// Opened for this request, whose latency includes the handshake.
    New,
    /// Used before by another request.
    Reused,
}

/// Source of the count of output tokens, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSource {
    /// The server's `usage` in every event.
    Continuous,
    /// The server's `usage` at the end.
    Usage,
    /// A local tokenizer.
    Tokenizer,
    /// One per event that carries tokens: an estimate, flagged as one.
    Events,
}

named_enum! {
    /// Outcome of a request.
    #[derive(Hash)]
    pub enum Outcome {
        /// A complete answer arrived.
        Ok = "ok",
        /// The request failed, for the reason in [`Record::failure`]. Misses every limit, unless our own timeout ended it:
        /// see [`Record::is_cut_off`].
        Failed = "failed",
        /// We cancelled it, at the end of its step or by the default timeout ([`Failure::Timeout`]). Not an error; the
        /// statistics count its undecided limits as met for one bound and as missed for the other.
        Cut = "cut",
    }
}

named_enum! {
    /// Kind of failure; each kind is counted separately.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Failure {
        /// No connection: refused, unreachable, or not made within the connect timeout.
        Connect = "connect",
        /// The name does not resolve.
        Dns = "dns",
        /// The TLS handshake failed.
        Tls = "tls",
        /// The connection closed or was reset before the answer was complete.
        Reset = "reset",
        /// Our own timeout ended the request. An error ([`Outcome::Failed`]) if the plan sets the timeout; with the default
        /// timeout the request was cut off ([`Outcome::Cut`]).
        Timeout = "timeout",
        /// 401 or 403.
        Unauthorized = "unauthorized",
        /// 429: the server refused the load. Never counted as a latency.
        RateLimited = "rate-limited",
        /// Another 4xx.
        ClientError = "client-error",
        /// A 5xx.
        ServerError = "server-error",
        /// A status that carries no answer: 1xx, 3xx.
        UnexpectedStatus = "unexpected-status",
        /// An error object in the stream, under HTTP 200.
        StreamError = "stream-error",
        /// The stream ended without a finish reason and without `[DONE]`; or with `[DONE]` alone, before the pinned length.
        Truncated = "truncated",
        /// An event that is not JSON or exceeds the size limit.
        Malformed = "malformed",
        /// The answer ended without a single token.
        Empty = "empty",
        /// The finish reason is an abort or an error.
        Aborted = "aborted",
        /// Not sent: the client ran out of descriptors or ports, or reached `max-in-flight`.
        ClientLimit = "client-limit",
        /// Another tool measured the request, and its message names no kind.
        Unknown = "unknown",
        /// The answer ran far beyond the tokens asked for and was cancelled, or the server counts that many.
        Overrun = "overrun",
        /// The server's token counts contradict its answer or each other, so that no latency per token is known.
        Miscounted = "miscounted",
    }
}

/// One measured request. Times count from the start of its step; `None` means that the event did not happen or is not
/// known.
///
/// Latencies are derived, not stored: see [`Record::ttft`] and its neighbours (definitions: design §1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number within the step, in order of `due`.
    pub id: u64,
    /// The part of the step in which it was due.
    pub phase: Phase,
    /// Index of its class in the mix; 0 where there is only one.
    pub class: u16,
    /// Number of its conversation, if it belongs to one.
    pub session: Option<u64>,
    /// Turn within the conversation, from 0.
    pub turn: u16,
    /// Index of the address in `urls`; 0 where there is only one.
    pub target: u16,
    /// State of its connection.
    pub conn: Option<Conn>,
    /// Number of times it was sent: 2 after the one retry.
    pub attempts: u8,
    /// Scheduled send time. All latency counts from here.
    pub due: Duration,
    /// When it was handed to the connection; in HTTP/2, when its stream was opened.
    pub sent: Option<Duration>,
    /// When the connection took the last piece of a request of at least 256 KiB; `None` for a smaller one.
    pub uploaded: Option<Duration>,
    /// When the response head arrived.
    pub headers: Option<Duration>,
    /// When the first event of any kind arrived.
    pub first_event: Option<Duration>,
    /// First event that carries a token on any channel.
    pub first_token: Option<Duration>,
    /// First event that carries a content token; for an answer of tool calls only, the first event of those.
    pub first_content: Option<Duration>,
    /// Last event that carries a token.
    pub last_token: Option<Duration>,
    /// When it ended, whatever the outcome.
    pub end: Duration,
    /// Input tokens asked for.
    pub input_asked: u32,
    /// Input tokens by the server's usage.
    pub input_tokens: Option<u32>,
    /// Input tokens that the server took from its prefix cache, if reported.
    pub cached_tokens: Option<u32>,
    /// Output tokens asked for, of all choices together; 0 if unknown, as in another tool's results.
    pub output_asked: u32,
    /// Output tokens of all choices together, counted by `token_source`; includes hidden reasoning.
    pub output_tokens: Option<u32>,
    /// Reasoning tokens by the server's usage, if reported.
    pub reasoning_tokens: Option<u32>,
    /// Source of `output_tokens`.
    pub token_source: Option<TokenSource>,
    /// Output tokens generated up to and including the first event that carried any, if known: those in it, and those
    /// before it that no event carried (hidden reasoning). With several choices, the sum over the first events of all that have
    /// any.
    pub first_event_tokens: Option<u32>,
    /// Events that carried tokens. An event with tokens of several choices counts for each of them.
    pub events: u32,
    /// Longest gap between successive events with tokens, of one choice where there are several.
    pub itl_max: Option<Duration>,
    /// Number of gaps above the tightest ITL limit of the SLO.
    pub itl_over: u32,
    /// Size of the response body, in bytes.
    pub output_bytes: u64,
    /// Outcome of the request.
    pub outcome: Outcome,
    /// Kind of failure; [`Failure::Timeout`] also if the default timeout cut the request off.
    pub failure: Option<Failure>,
    /// HTTP status.
    pub status: Option<u16>,
    /// The server's finish reason, or `done` if only `[DONE]` came.
    pub finish: Option<Box<str>>,
    /// True if every answer check passed; `None` if the plan has none.
    pub check: Option<bool>,
    /// Number of items in it: texts or documents that each have a result, or images in a prompt. 0 if it is plain text.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items: u16,
    /// Length of the audio in it, in whole milliseconds; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<Duration>,
    /// Number of the worker (load machine) that sent it, from 1, as listed in `meta.workers`; `None` with a single
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// Number of choices asked for (`n` in the request body); `None` for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<NonZeroU8>,
    /// Time spent decoding, summed over the choices, if several were asked for: from the first token of each to its last one, or
    /// to the end of a request that was ended before that choice. A multiple of [`DECODING_UNIT`]. `None` for a single choice,
    /// without any token, or if the answer came in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoding: Option<Duration>,
}

impl Record {
    /// Creates the record of a request that has not been answered: everything unknown, cut off at `due`.
    pub fn due(id: u64, phase: Phase, due: Duration) -> Self {
        Self {
            id,
            phase,
            class: 0,
            session: None,
            turn: 0,
            target: 0,
            conn: None,
            attempts: 0,
            due,
            sent: None,
            uploaded: None,
            headers: None,
            first_event: None,
            first_token: None,
            first_content: None,
            last_token: None,
            end: due,
            input_asked: 0,
            input_tokens: None,
            cached_tokens: None,
            output_asked: 0,
            output_tokens: None,
            reasoning_tokens: None,
            token_source: None,
            first_event_tokens: None,
            events: 0,
            itl_max: None,
            itl_over: 0,
            output_bytes: 0,
            outcome: Outcome::Cut,
            failure: None,
            status: None,
            finish: None,
            check: None,
            items: 0,
            audio: None,
            worker: None,
            choices: None,
            decoding: None,
        }
    }

    /// Returns the client's scheduling delay: sent − due.
    pub fn lateness(&self) -> Option<Duration> {
        self.sent.map(|t| t.saturating_sub(self.due))
    }

    /// Returns the time to first token: due → first event that carries a token on any channel.
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token.map(|t| t.saturating_sub(self.due))
    }

    /// Returns the time to first content token: due → first content token, or the first tool call of an answer without
    /// content.
    pub fn ttfc(&self) -> Option<Duration> {
        self.first_content.map(|t| t.saturating_sub(self.due))
    }

    /// Returns the time per output token after the first event: (last token − first token) / (output tokens − those
    /// generated by the first event). With several choices, both are summed over the choices.
    ///
    /// Tokens that no event carried were generated before the first event or are unknown; either way the divisor
    /// excludes them. `None` if the divisor is zero (one token, or one event): such a request is not counted in TPOT's
    /// n.
    pub fn tpot(&self) -> Option<Duration> {
        let decoding = self.decoding_time()?;
        let after = self.output_tokens?.saturating_sub(self.first_event_tokens.unwrap_or(1));
        (after > 0).then(|| decoding.div_f64(f64::from(after)))
    }

    /// Returns the end-to-end latency: due → last token.
    pub fn e2e(&self) -> Option<Duration> {
        self.last_token.map(|t| t.saturating_sub(self.due))
    }

    /// Returns true if a complete answer arrived.
    pub fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Returns true if this process sent the request. Another tool's results do not say how many tokens were asked for.
    fn is_sent_by_us(&self) -> bool {
        is_sent_by_us(self.output_asked, self.items, self.audio.is_some())
    }

    /// Returns true if the request was cut off, by the end of its step or by our own timeout. Metrics known by then
    /// count normally (design §6, rule 8).
    pub fn is_cut_off(&self) -> bool {
        is_cut_off(self.outcome, self.failure, self.is_sent_by_us())
    }

    /// Returns true if the server or the network failed the request. Every limit counts it as a miss.
    pub fn is_broken(&self) -> bool {
        self.outcome == Outcome::Failed && !self.is_cut_off()
    }

    /// Returns true if our own timeout ended the request.
    pub fn is_timed_out(&self) -> bool {
        self.failure == Some(Failure::Timeout) && self.is_cut_off()
    }

    /// Returns true if the answer ended without content although its tokens were streamed: the model spent them all on reasoning.
    pub fn lacks_content(&self) -> bool {
        self.ok() && self.is_sent_by_us() && self.first_token.is_some() && self.first_content.is_none()
    }

    /// Returns the tokens generated before the first event that carried any, if the server also reports as many
    /// reasoning tokens.
    pub fn hidden_tokens(&self) -> Option<u32> {
        let (by_first, reasoning) = (self.first_event_tokens?, self.reasoning_tokens?);
        let hidden = by_first.saturating_sub(self.choice_count());
        (reasoning > 0 && self.events > 1 && by_first > reasoning && hidden > 0).then_some(hidden)
    }
}

/// Returns true if this program sent a request. Another tool's results do not say what was asked for: neither a number of
/// tokens, nor of items, nor audio.
pub const fn is_sent_by_us(output_asked: u32, items: u16, has_audio: bool) -> bool {
    output_asked > 0 || items > 0 || has_audio
}

/// Returns true for a request that was cut off: see [`Record::is_cut_off`]. A timeout in another tool's results remains a
/// failure, since the tool stores no timestamps of what arrived before it.
pub fn is_cut_off(outcome: Outcome, failure: Option<Failure>, sent_by_us: bool) -> bool {
    outcome == Outcome::Cut || (outcome == Outcome::Failed && failure == Some(Failure::Timeout) && sent_by_us)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(n: &u16) -> bool {
    *n == 0
}

/// A finished request as the sending thread reports it: the record and data that `requests.csv` does not store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Timestamps, sizes and outcome.
    pub record: Record,
    /// Gaps between successive events with tokens, in order, in microseconds (saturating at about 71 minutes). With several
    /// choices, those between events of the same choice.
    pub gaps_us: Vec<u32>,
    /// The beginning of the body of a failed request: the key redacted, control characters escaped.
    pub sample: Option<Box<str>>,
    /// Time to first token by the server's clock, from the header `Server-Timing: ttft;dur=…`.
    pub server_ttft: Option<Duration>,
    /// Delay that the server asked for with a 429 or 503 (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// Text of a complete answer, if requested: the content of a chat (or its refusal), or the text of a
    /// completion. Of several choices, that of the first.
    pub text: Option<Box<str>>,
    /// Generated text outside of it, if requested: reasoning with names and arguments of tool calls, and the same two of each
    /// choice after the first. No token spans two texts.
    pub other_texts: Vec<Box<str>>,
}

impl Finished {
    /// Creates one with only a record and gaps.
    pub fn new(record: Record, gaps_us: Vec<u32>) -> Self {
        Self {
            record,
            gaps_us,
            sample: None,
            server_ttft: None,
            retry_after: None,
            text: None,
            other_texts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
