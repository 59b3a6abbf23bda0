//! One request: when things happened, what it asked for and got, and how it ended. A row of `requests.csv`.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Which part of a step a request was due in. Only `Measure` counts for the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Sent before the first step, to warm the server up.
    Warmup,
    /// Load runs, nothing counts yet.
    Settle,
    /// Due within the measured window.
    Measure,
    /// Sent to keep the load on until the measured requests have finished.
    Tail,
}

/// Whether a request opened a connection or found one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conn {
    /// The request opened this connection and paid for it.
    New,
    /// The connection had been used before.
    Reused,
}

/// Where the count of output tokens comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSource {
    /// The server's `usage` in every event.
    Continuous,
    /// The server's `usage` at the end.
    Usage,
    /// A local tokenizer.
    Tokenizer,
    /// One per event that carries tokens: an estimate, and flagged as one.
    Events,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A whole answer came.
    Ok,
    /// It failed; the kind stands in [`Record::failure`]. A miss of every limit, unless the plan's own timeout ended it: see
    /// [`Record::is_cut_off`].
    Failed,
    /// We cut it off: at the end of its step, or by the default timeout ([`Failure::Timeout`]). Judged both ways, and no error.
    Cut,
}

/// The kinds of failure, counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No connection: refused, unreachable, or not made within the connect timeout.
    Connect,
    /// The name does not resolve.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// The connection closed or was reset before the answer was whole.
    Reset,
    /// Not finished within our own timeout. An error ([`Outcome::Failed`]) where the plan sets the timeout; else the request was
    /// cut off ([`Outcome::Cut`]).
    Timeout,
    /// 401 or 403.
    Unauthorized,
    /// 429: the server refused the load. Never a latency.
    RateLimited,
    /// Another 4xx.
    ClientError,
    /// A 5xx.
    ServerError,
    /// A status that is no answer: 1xx, 3xx.
    UnexpectedStatus,
    /// An error object in the stream, under HTTP 200.
    StreamError,
    /// The stream ended without a finish reason and without `[DONE]`.
    Truncated,
    /// Something that is not JSON where an event should be, or an event beyond the size limit.
    Malformed,
    /// The answer ended without a single token.
    Empty,
    /// The finish reason says abort or error.
    Aborted,
    /// Not sent: the client ran out of descriptors, ports, or reached `max-in-flight`.
    ClientLimit,
    /// Not told: another tool measured it, and its message names no kind.
    Unknown,
    /// The answer went on far beyond the tokens that it was to have, and was given up.
    Overrun,
}

impl Failure {
    /// The name used in files and messages: kebab-case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
            Self::RateLimited => "rate-limited",
            Self::ClientError => "client-error",
            Self::ServerError => "server-error",
            Self::UnexpectedStatus => "unexpected-status",
            Self::StreamError => "stream-error",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::Empty => "empty",
            Self::Aborted => "aborted",
            Self::ClientLimit => "client-limit",
            Self::Unknown => "unknown",
            Self::Overrun => "overrun",
        }
    }
}

/// One request. All times count from the start of its step; `None` means that it did not happen or is not known.
///
/// Latencies are derived, never stored: see [`Record::ttft`] and its neighbours (definitions: design §1).
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Number within the step, in order of `due`.
    pub id: u64,
    /// The part of the step it was due in.
    pub phase: Phase,
    /// Index of its class in the mix; 0 where there is only one.
    pub class: u16,
    /// Number of its conversation, where it belongs to one.
    pub session: Option<u64>,
    /// Turn within the conversation, from 0.
    pub turn: u16,
    /// Index of the address in `urls`; 0 where there is only one.
    pub target: u16,
    /// Whether its connection was new.
    pub conn: Option<Conn>,
    /// How often it was sent: 2 after the one retry.
    pub attempts: u8,
    /// When the plan says it is sent. All latency counts from here.
    pub due: Duration,
    /// When it was handed to the connection.
    pub sent: Option<Duration>,
    /// When the response head arrived.
    pub headers: Option<Duration>,
    /// When the first event of any kind arrived.
    pub first_event: Option<Duration>,
    /// First event that carries a token on any channel.
    pub first_token: Option<Duration>,
    /// First event that carries a content token; of an answer that is nothing but tool calls, the first event of those.
    pub first_content: Option<Duration>,
    /// Last event that carries a token.
    pub last_token: Option<Duration>,
    /// When it was over, whatever the outcome.
    pub end: Duration,
    /// Input tokens asked for.
    pub input_asked: u32,
    /// Input tokens by the server's usage.
    pub input_tokens: Option<u32>,
    /// Input tokens the server took from its prefix cache, where it tells.
    pub cached_tokens: Option<u32>,
    /// Output tokens asked for; 0 where it is not known, as of a request that another tool sent.
    pub output_asked: u32,
    /// Output tokens, counted as `token_source` says; hidden reasoning included.
    pub output_tokens: Option<u32>,
    /// Reasoning tokens by the server's usage, where it tells.
    pub reasoning_tokens: Option<u32>,
    /// Where `output_tokens` comes from.
    pub token_source: Option<TokenSource>,
    /// Output tokens generated by the time of the first event that carried any, where known: those in it, and those before it that
    /// no event carried (hidden reasoning).
    pub first_event_tokens: Option<u32>,
    /// Events that carried tokens.
    pub events: u32,
    /// The longest gap between successive events with tokens.
    pub itl_max: Option<Duration>,
    /// Gaps above the tightest ITL limit of the SLO.
    pub itl_over: u32,
    /// Bytes of the response body.
    pub output_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Kind of failure of a request that failed; [`Failure::Timeout`] also where the default timeout cut it off.
    pub failure: Option<Failure>,
    /// HTTP status.
    pub status: Option<u16>,
    /// The server's finish reason, or `done` where only `[DONE]` came.
    pub finish: Option<Box<str>>,
    /// Result of an answer check, where the plan has one.
    pub check: Option<bool>,
}

impl Record {
    /// A record of a request that is due and has not been answered: everything unknown, cut at `due`.
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
        }
    }

    /// The client's own delay: sent − due.
    pub fn lateness(&self) -> Option<Duration> {
        self.sent.map(|t| t.saturating_sub(self.due))
    }

    /// Time to first token: due → first event that carries a token on any channel.
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token.map(|t| t.saturating_sub(self.due))
    }

    /// Time to first content token: due → first content token; of an answer that is nothing but tool calls, due → the first of those.
    pub fn ttfc(&self) -> Option<Duration> {
        self.first_content.map(|t| t.saturating_sub(self.due))
    }

    /// Time per output token after the first event: (last token − first token) / (output tokens − those generated by the first event).
    ///
    /// Tokens that no event carried were generated before the first event, or are not known of: either way they are no part of the
    /// divisor. `None` where the divisor is zero (one token, or one event): not applicable, and left out of TPOT's n.
    pub fn tpot(&self) -> Option<Duration> {
        let (first, last) = (self.first_token?, self.last_token?);
        let after = self.output_tokens?.saturating_sub(self.first_event_tokens.unwrap_or(1));
        (after > 0).then(|| last.saturating_sub(first).div_f64(f64::from(after)))
    }

    /// End to end: due → last token.
    pub fn e2e(&self) -> Option<Duration> {
        self.last_token.map(|t| t.saturating_sub(self.due))
    }

    /// Whether a whole answer came.
    pub fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Returns true if this process sent the request. Another tool's results do not tell how many tokens were asked for.
    pub fn is_own(&self) -> bool {
        self.output_asked > 0
    }

    /// Returns true if the request was cut off, by the end of its step or by our own timeout. Its metrics that were known by then
    /// count as they are (design §6, rule 8).
    pub fn is_cut_off(&self) -> bool {
        is_cut_off(self.outcome, self.failure, self.output_asked)
    }

    /// Returns true if the server, or the way to it, failed the request. Every limit counts it as a miss.
    pub fn is_broken(&self) -> bool {
        self.outcome == Outcome::Failed && !self.is_cut_off()
    }

    /// Returns true if our own timeout ended the request.
    pub fn is_timed_out(&self) -> bool {
        self.failure == Some(Failure::Timeout) && self.is_cut_off()
    }

    /// Returns true if the answer ended without content although its tokens were streamed: the model spent them all on reasoning.
    pub fn lacks_content(&self) -> bool {
        self.ok() && self.is_own() && self.first_token.is_some() && self.first_content.is_none()
    }

    /// Output tokens that the server counted before the first event that carried any, where it also says that so many were reasoning.
    pub fn hidden_tokens(&self) -> Option<u32> {
        let (by_first, reasoning) = (self.first_event_tokens?, self.reasoning_tokens?);
        (reasoning > 0 && self.events > 1 && by_first > reasoning).then_some(by_first - 1)
    }
}

/// Returns true for a request that was cut off: see [`Record::is_cut_off`]. A timeout in another tool's results (`output_asked` is 0)
/// stays a plain failure, since the tool keeps nothing of what came before it.
pub fn is_cut_off(outcome: Outcome, failure: Option<Failure>, output_asked: u32) -> bool {
    outcome == Outcome::Cut
        || (outcome == Outcome::Failed && failure == Some(Failure::Timeout) && output_asked > 0)
}

/// What a worker sends home for each request.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The request itself.
    pub record: Record,
    /// Gaps between successive events with tokens, in order, in microseconds (saturating at about 71 minutes).
    pub gaps_us: Vec<u32>,
    /// The beginning of the body of a failed request: the key redacted, control characters escaped.
    pub sample: Option<Box<str>>,
    /// Time to first token by the server's own clock, where it tells in the header `Server-Timing: ttft;dur=…`.
    pub server_ttft: Option<Duration>,
    /// How long the server asked to be left alone, with a 429 or a 503 (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The text of a whole answer, where it was asked for: the content of a chat (or the refusal in its place), the text of a
    /// completion.
    pub text: Option<Box<str>>,
    /// What the model wrote besides, where the text was asked for: its reasoning, and names and arguments of tools.
    pub aside: Option<Box<str>>,
}

impl Finished {
    /// A request of which nothing is known but its record and gaps.
    pub fn new(record: Record, gaps_us: Vec<u32>) -> Self {
        Self { record, gaps_us, sample: None, server_ttft: None, retry_after: None, text: None, aside: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn latencies_count_from_due() {
        let mut r = Record::due(0, Phase::Measure, Duration::from_millis(100));
        (r.sent, r.first_token, r.first_content, r.last_token) = (at(103), at(150), at(170), at(350));
        r.output_tokens = Some(11);
        assert_eq!(r.lateness(), at(3));
        assert_eq!((r.ttft(), r.ttfc(), r.e2e()), (at(50), at(70), at(250)));
        assert_eq!(r.tpot(), at(20), "200 ms over the ten tokens after the first");
        r.first_event_tokens = Some(3);
        assert_eq!(r.tpot(), at(25), "200 ms over the eight tokens after the first event");
    }

    #[test]
    fn our_own_timeout_cuts_off_and_everything_else_breaks() {
        for (outcome, failure, asked, cut, broken) in [
            (Outcome::Ok, None, 9, false, false),
            (Outcome::Cut, None, 9, true, false),
            (Outcome::Cut, Some(Failure::Timeout), 9, true, false), // the default timeout
            (Outcome::Failed, Some(Failure::Timeout), 9, true, false), // that of the plan
            (Outcome::Failed, Some(Failure::Timeout), 0, false, true), // that of another tool
            (Outcome::Failed, Some(Failure::Reset), 9, false, true),
        ] {
            let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
            (r.outcome, r.failure, r.output_asked) = (outcome, failure, asked);
            assert_eq!((r.is_cut_off(), r.is_broken()), (cut, broken), "{outcome:?} {failure:?} {asked}");
            assert_eq!(r.is_timed_out(), cut && failure.is_some());
        }
    }

    #[test]
    fn hidden_reasoning_is_no_part_of_tpot() {
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        (r.first_token, r.last_token, r.output_tokens, r.events) = (at(9_000), at(10_980), Some(1000), 100);
        r.reasoning_tokens = Some(900);
        r.first_event_tokens = Some(901);
        assert_eq!(
            (r.tpot(), r.hidden_tokens()),
            (at(20), Some(900)),
            "1.98 s over the 99 tokens after the first event"
        );
        r.first_event_tokens = Some(1000);
        assert_eq!(r.tpot(), None, "not one visible token after the first event");
    }

    #[test]
    fn one_token_has_no_tpot() {
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        (r.first_token, r.last_token, r.output_tokens) = (at(5), at(5), Some(1));
        assert_eq!(r.tpot(), None);
        r.output_tokens = Some(4);
        r.first_event_tokens = Some(4);
        assert_eq!(r.tpot(), None, "all tokens in one event");
    }
}
