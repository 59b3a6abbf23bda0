//! Faults that the simulated server plays on purpose: which there are, how often each comes, and whose turn it is.
//!
//! The list is closed: a fault is a variant here, and the compiler then asks for what it does (`play`, `stream`). What a client makes of
//! each stands in `docs/faults.md`, which a test holds against this list and against what it saw.

use goodput_core::units::Fraction;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

/// Something that a server does wrong, or that a client must be able to take.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The connection is taken and reset at once; drawn for each connection, not for each request.
    Refused,
    /// The connection is closed in order before a byte of the answer, as by a server that tires of an idle one just then.
    Closed,
    /// The connection is reset before the head of the answer.
    Reset,
    /// The connection is reset within the stream.
    ResetMidstream,
    /// The stream stops within, and the connection stays.
    Stall,
    /// Nothing ever comes.
    Silent,
    /// The head of the answer comes, and nothing after it.
    HeadersOnly,
    /// The stream comes a byte at a time, one each 50 ms.
    SlowDrip,
    /// The stream ends in order within, without `[DONE]`.
    Truncated,
    /// The stream ends with `[DONE]`, but no event has a finish reason.
    NoFinish,
    /// An event within the stream is half a JSON object.
    BadJson,
    /// An error object within the stream, under HTTP 200; it ends the stream.
    ErrorEvent,
    /// HTTP 400.
    #[serde(rename = "status-400")]
    Status400,
    /// HTTP 401.
    #[serde(rename = "status-401")]
    Status401,
    /// HTTP 404.
    #[serde(rename = "status-404")]
    Status404,
    /// HTTP 408.
    #[serde(rename = "status-408")]
    Status408,
    /// HTTP 413.
    #[serde(rename = "status-413")]
    Status413,
    /// HTTP 429, with `Retry-After: 1`.
    #[serde(rename = "status-429")]
    Status429,
    /// HTTP 500.
    #[serde(rename = "status-500")]
    Status500,
    /// HTTP 502 with the page of a proxy, in HTML.
    #[serde(rename = "status-502")]
    Status502,
    /// HTTP 503, with `Retry-After: 1`.
    #[serde(rename = "status-503")]
    Status503,
    /// HTTP 504 with the page of a proxy, in HTML.
    #[serde(rename = "status-504")]
    Status504,
    /// A page in HTML under HTTP 200.
    Html,
    /// HTTP 307 to another address.
    Redirect,
    /// The stream goes on past `max_tokens`, a token each millisecond, without an end.
    Endless,
    /// One line of 64 MiB within the stream.
    LongLine,
    /// A gigabyte of comments within the stream.
    HugeBody,
    /// Every byte of the stream in a write of its own.
    ByteByByte,
    /// Text of several bytes a character, cut within characters.
    SplitUtf8,
    /// Lines end in CR LF.
    Crlf,
    /// Comments before, between and within events.
    Comments,
    /// Four events in each write.
    Bundled,
    /// The stream is announced as `text/plain`.
    WrongType,
    /// The stream is compressed with gzip, though nobody asked for it.
    Compressed,
    /// The server says that it closes the connection while it answers: GOAWAY in HTTP/2, `connection: close` in HTTP/1.1.
    Goaway,
    /// The stream breaks off within: RST_STREAM in HTTP/2, a connection closed within the body in HTTP/1.1.
    StreamReset,
}

impl Fault {
    /// All of them, in the order in which they are drawn.
    pub const ALL: [Self; 36] = [
        Self::Refused,
        Self::Closed,
        Self::Reset,
        Self::ResetMidstream,
        Self::Stall,
        Self::Silent,
        Self::HeadersOnly,
        Self::SlowDrip,
        Self::Truncated,
        Self::NoFinish,
        Self::BadJson,
        Self::ErrorEvent,
        Self::Status400,
        Self::Status401,
        Self::Status404,
        Self::Status408,
        Self::Status413,
        Self::Status429,
        Self::Status500,
        Self::Status502,
        Self::Status503,
        Self::Status504,
        Self::Html,
        Self::Redirect,
        Self::Endless,
        Self::LongLine,
        Self::HugeBody,
        Self::ByteByByte,
        Self::SplitUtf8,
        Self::Crlf,
        Self::Comments,
        Self::Bundled,
        Self::WrongType,
        Self::Compressed,
        Self::Goaway,
        Self::StreamReset,
    ];

    /// The name in plans, on the command line and in `docs/faults.md`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::ResetMidstream => "reset-midstream",
            Self::Stall => "stall",
            Self::Silent => "silent",
            Self::HeadersOnly => "headers-only",
            Self::SlowDrip => "slow-drip",
            Self::Truncated => "truncated",
            Self::NoFinish => "no-finish",
            Self::BadJson => "bad-json",
            Self::ErrorEvent => "error-event",
            Self::Status400 => "status-400",
            Self::Status401 => "status-401",
            Self::Status404 => "status-404",
            Self::Status408 => "status-408",
            Self::Status413 => "status-413",
            Self::Status429 => "status-429",
            Self::Status500 => "status-500",
            Self::Status502 => "status-502",
            Self::Status503 => "status-503",
            Self::Status504 => "status-504",
            Self::Html => "html",
            Self::Redirect => "redirect",
            Self::Endless => "endless",
            Self::LongLine => "long-line",
            Self::HugeBody => "huge-body",
            Self::ByteByByte => "byte-by-byte",
            Self::SplitUtf8 => "split-utf8",
            Self::Crlf => "crlf",
            Self::Comments => "comments",
            Self::Bundled => "bundled",
            Self::WrongType => "wrong-type",
            Self::Compressed => "compressed",
            Self::Goaway => "goaway",
            Self::StreamReset => "stream-reset",
        }
    }

    /// Whether it is done to a connection, so that it cannot be played in process, in virtual time.
    pub const fn needs_socket(self) -> bool {
        matches!(self, Self::Refused | Self::Closed | Self::Reset | Self::Goaway)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|f| f.name()).collect();
            format!("there is no fault \"{text}\"; there are {}", names.join(", "))
        })
    }
}

/// The probability of each fault of a request (of a connection, for [`Fault::Refused`]); a request has one at the most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "BTreeMap<Fault, Fraction>", into = "BTreeMap<Fault, Fraction>")]
#[schemars(with = "BTreeMap<Fault, Fraction>")]
pub struct Faults(BTreeMap<Fault, Fraction>);

impl TryFrom<BTreeMap<Fault, Fraction>> for Faults {
    type Error = String;

    fn try_from(faults: BTreeMap<Fault, Fraction>) -> Result<Self, String> {
        let sum: f64 = faults.values().map(|p| p.get()).sum();
        // Written in decimals, they may pass it by a rounding.
        if sum > 1.0 + 1e-9 {
            return Err(format!(
                "the probabilities of the faults add up to {sum:.3}: a request has one at the most, so that they may add up to 1"
            ));
        }
        Ok(Self(faults))
    }
}

impl From<Faults> for BTreeMap<Fault, Fraction> {
    fn from(faults: Faults) -> Self {
        faults.0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.iter().map(|(fault, p)| format!("{} {}", fault.name(), p.get()));
        f.write_str(&each.collect::<Vec<_>>().join(", "))
    }
}

impl Faults {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that cannot be played without a socket.
    pub fn needing_socket(&self) -> Vec<&'static str> {
        self.0.keys().filter(|f| f.needs_socket()).map(|f| f.name()).collect()
    }

    /// Which one the `n`-th draw gives; that of connections is another than that of requests.
    fn draw(&self, seed: u64, n: u64, connection: bool) -> Option<Fault> {
        if self.is_empty() {
            return None;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(2 * n + u64::from(connection));
        let mut at: f64 = random.random();
        for (&fault, p) in &self.0 {
            // A request is no connection, but has no other fault in its place.
            if at < p.get() {
                return (connection == (fault == Fault::Refused)).then_some(fault);
            }
            at -= p.get();
        }
        None
    }
}

/// Deals faults out, to requests and connections in the order in which they come: the same seed deals the same.
#[derive(Debug)]
pub struct Deck {
    faults: Faults,
    /// Requests that are answered as they should be before the first fault.
    after: u64,
    seed: u64,
    requests: AtomicU64,
    connections: AtomicU64,
}

impl Deck {
    /// Deals `faults` by `seed`, none to the first `after` requests.
    pub fn new(faults: Faults, after: u64, seed: u64) -> Self {
        Self { faults, after, seed, requests: AtomicU64::new(0), connections: AtomicU64::new(0) }
    }

    /// The fault of the next request.
    pub fn request(&self) -> Option<Fault> {
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        (n >= self.after).then(|| self.faults.draw(self.seed, n, false))?
    }

    /// Whether the next connection is refused.
    pub fn refuses(&self) -> bool {
        let n = self.connections.fetch_add(1, Ordering::Relaxed);
        let sound = self.requests.load(Ordering::Relaxed) < self.after;
        !sound && self.faults.draw(self.seed, n, true).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(table: &str) -> Result<Faults, String> {
        toml::from_str(table).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_those_of_plans() {
        for (i, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault.name().parse(), Ok(fault));
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.name());
            assert!(Fault::ALL[..i].iter().all(|f| *f < fault), "in order, so none twice: {fault:?}");
        }
        let said = "teapot".parse::<Fault>().unwrap_err();
        assert!(
            said.contains("\"teapot\"") && said.contains("refused, closed") && said.contains("stream-reset")
        );
    }

    #[test]
    fn probabilities_are_checked() {
        assert!(faults("").unwrap().is_empty());
        let tenths: String = Fault::ALL[..10].iter().map(|f| format!("{} = 0.1\n", f.name())).collect();
        assert!(faults(&tenths).is_ok(), "one, but for the rounding");
        for (table, said) in [
            ("stall = 1.5", "stall"),
            ("stall = -0.1", "stall"),
            ("stall = \"often\"", "stall"),
            ("teapot = 0.1", "teapot"),
            ("stall = 0.7\nsilent = 0.4", "add up to 1.100"),
        ] {
            assert!(faults(table).unwrap_err().contains(said), "{table}");
        }
    }

    #[test]
    fn dealt_as_often_as_asked_and_the_same_again() {
        let faults = faults("refused = 0.1\nstall = 0.2\nstatus-500 = 0.05").unwrap();
        let deal = |seed| {
            let deck = Deck::new(faults.clone(), 100, seed);
            (0..20_100).map(|_| deck.request()).collect::<Vec<_>>()
        };
        let dealt = deal(1);
        assert!(dealt == deal(1) && dealt != deal(2));
        assert!(dealt[..100].iter().all(Option::is_none), "sound at first");
        for (fault, p) in [(Fault::Stall, 0.2), (Fault::Status500, 0.05), (Fault::Refused, 0.0)] {
            let share = dealt.iter().filter(|f| **f == Some(fault)).count() as f64 / 20_000.0;
            // Five standard errors.
            assert!((share - p).abs() <= 5.0 * (p * (1.0 - p) / 20_000.0).sqrt(), "{fault:?}: {share}");
        }
        let deck = Deck::new(faults, 0, 1);
        let refused = (0..20_000).filter(|_| deck.refuses()).count() as f64 / 20_000.0;
        assert!((refused - 0.1).abs() <= 5.0 * (0.1 * 0.9 / 20_000.0_f64).sqrt(), "{refused}");
        assert!((0..100).all(|_| !Deck::new(Faults::default(), 0, 1).refuses()));
    }
}
