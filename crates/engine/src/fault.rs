//! Faults that the simulated server injects: the types, their probabilities, and the draw for each request.
//!
//! The list is closed: for a new variant, the compiler asks where it is played (`crates/load/src/sim/fault/`). `docs/faults.md`
//! describes how a client sees each fault; a test compares it with this list and with observed behaviour.

use goodput_core::named_enum;
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

named_enum! {
    /// A fault of a server, or unusual behaviour that a client must tolerate. `docs/faults.md` has its name.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Fault {
        /// The connection is accepted and reset at once; drawn per connection, not per request.
        Refused = "refused",
        /// The connection is closed cleanly before the first byte of the answer, as by a server whose keep-alive timeout
        /// just expired.
        Closed = "closed",
        /// The connection is reset before the response head.
        Reset = "reset",
        /// The connection is reset in the middle of the stream.
        ResetMidstream = "reset-midstream",
        /// The stream stalls in the middle, and the connection stays open.
        Stall = "stall",
        /// No response ever arrives.
        Silent = "silent",
        /// The response head arrives, and nothing after it.
        HeadersOnly = "headers-only",
        /// The stream arrives one byte every 50 ms.
        SlowDrip = "slow-drip",
        /// The stream ends cleanly in the middle, without `[DONE]`.
        Truncated = "truncated",
        /// The stream ends with `[DONE]`, but no event has a finish reason.
        NoFinish = "no-finish",
        /// The stream ends in the middle with `[DONE]`, without a finish reason and without usage.
        CutShort = "cut-short",
        /// Every event reports its own tokens as usage, not those of the answer so far.
        UsageOwn = "usage-own",
        /// Every event reports fewer tokens as usage than the one before it.
        UsageFalling = "usage-falling",
        /// The usage at the end reports 10^18 output tokens.
        UsageHuge = "usage-huge",
        /// An event in the middle of the stream is half a JSON object.
        BadJson = "bad-json",
        /// An error object in the middle of the stream ends it, under HTTP 200.
        ErrorEvent = "error-event",
        /// HTTP 400.
        Status400 = "status-400",
        /// HTTP 401.
        Status401 = "status-401",
        /// HTTP 404.
        Status404 = "status-404",
        /// HTTP 408.
        Status408 = "status-408",
        /// HTTP 413.
        Status413 = "status-413",
        /// HTTP 429, with `Retry-After: 1`.
        Status429 = "status-429",
        /// HTTP 500.
        Status500 = "status-500",
        /// HTTP 502 with a proxy's HTML page.
        Status502 = "status-502",
        /// HTTP 503, with `Retry-After: 1`.
        Status503 = "status-503",
        /// HTTP 504 with a proxy's HTML page.
        Status504 = "status-504",
        /// An HTML page under HTTP 200.
        Html = "html",
        /// HTTP 307 to another address.
        Redirect = "redirect",
        /// The stream continues past `max_tokens`, one token per millisecond, without end.
        Endless = "endless",
        /// One line of 64 MiB in the middle of the stream.
        LongLine = "long-line",
        /// A gigabyte of comments in the middle of the stream.
        HugeBody = "huge-body",
        /// Every byte of the stream is written separately.
        ByteByByte = "byte-by-byte",
        /// Text of multi-byte characters, with writes split within characters.
        SplitUtf8 = "split-utf8",
        /// Lines end in CR LF.
        Crlf = "crlf",
        /// Comments before, between and within events.
        Comments = "comments",
        /// Every write carries four events.
        Bundled = "bundled",
        /// The stream is declared as `text/plain`.
        WrongType = "wrong-type",
        /// The stream is gzip-compressed, although the client did not accept gzip.
        Compressed = "compressed",
        /// The server announces during the answer that it closes the connection: GOAWAY in HTTP/2, `connection: close` in
        /// HTTP/1.1.
        Goaway = "goaway",
        /// The stream is aborted in the middle: RST_STREAM in HTTP/2, a connection closed within the body in HTTP/1.1.
        StreamReset = "stream-reset",
        /// The stream has only the first of several choices, as if the server ignored `n`; a client that asked for several has
        /// failed as `miscounted`.
        OneChoice = "one-choice",
    }
}

impl Fault {
    /// Returns true for a fault of the connection, which cannot be injected in process, in virtual time.
    pub const fn needs_socket(self) -> bool {
        matches!(self, Self::Refused | Self::Closed | Self::Reset | Self::Goaway)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no fault \"{text}\"; the faults are {names}")
        })
    }
}

/// Probability of each fault per request (per connection for [`Fault::Refused`]); a request has at most one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "BTreeMap<Fault, Fraction>", into = "BTreeMap<Fault, Fraction>")]
#[schemars(with = "BTreeMap<Fault, Fraction>")]
pub struct Faults(BTreeMap<Fault, Fraction>);

impl TryFrom<BTreeMap<Fault, Fraction>> for Faults {
    type Error = String;

    fn try_from(faults: BTreeMap<Fault, Fraction>) -> Result<Self, String> {
        let sum: f64 = faults.values().map(|p| p.get()).sum();
        // Rounding of decimals may exceed 1 slightly.
        if sum > 1.0 + 1e-9 {
            return Err(format!(
                "the probabilities of the faults add up to {sum:.3}, but a request has at most one fault: lower them to a sum of at most 1"
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
    /// Returns true if there are no faults.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of faults that need a socket.
    pub fn needing_socket(&self) -> Vec<&'static str> {
        self.0.keys().filter(|f| f.needs_socket()).map(|f| f.name()).collect()
    }

    /// Returns the fault of the `n`-th request or connection; the two use independent random numbers.
    fn draw(&self, seed: u64, n: u64, connection: bool) -> Option<Fault> {
        if self.is_empty() {
            return None;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(2 * n + u64::from(connection));
        let mut at: f64 = random.random();
        for (&fault, p) in &self.0 {
            // A request that draws a connection fault has no fault at all.
            if at < p.get() {
                return (connection == (fault == Fault::Refused)).then_some(fault);
            }
            at -= p.get();
        }
        None
    }
}

/// Draws faults for requests and connections in the order of their arrival, reproducibly by seed.
#[derive(Debug)]
pub struct FaultInjector {
    faults: Faults,
    /// Number of requests before the first fault.
    after: u64,
    seed: u64,
    requests: AtomicU64,
    connections: AtomicU64,
}

impl FaultInjector {
    /// Creates an injector of `faults` that leaves the first `after` requests alone.
    pub fn new(faults: Faults, after: u64, seed: u64) -> Self {
        Self { faults, after, seed, requests: AtomicU64::new(0), connections: AtomicU64::new(0) }
    }

    /// Returns the fault of the next request.
    pub fn fault_of_next_request(&self) -> Option<Fault> {
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        (n >= self.after).then(|| self.faults.draw(self.seed, n, false))?
    }

    /// Returns true if the next connection is refused.
    pub fn refuses_next_connection(&self) -> bool {
        let n = self.connections.fetch_add(1, Ordering::Relaxed);
        let fault_free = self.requests.load(Ordering::Relaxed) < self.after;
        !fault_free && self.faults.draw(self.seed, n, true).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(table: &str) -> Result<Faults, String> {
        toml::from_str(table).map_err(|e| e.to_string())
    }

    #[test]
    fn names_match_those_in_plans() {
        for (i, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault.name().parse(), Ok(fault));
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.name());
            assert!(Fault::ALL[..i].iter().all(|f| *f < fault), "in order, so without duplicates: {fault:?}");
        }
        let error = "teapot".parse::<Fault>().unwrap_err();
        assert!(
            error.contains("\"teapot\"")
                && error.contains("refused, closed")
                && error.contains("stream-reset")
        );
    }

    #[test]
    fn probabilities_are_checked() {
        assert!(faults("").unwrap().is_empty());
        let tenths: String = Fault::ALL[..10].iter().map(|f| format!("{} = 0.1\n", f.name())).collect();
        assert!(faults(&tenths).is_ok(), "a sum of 1 up to rounding");
        for (table, message) in [
            ("stall = 1.5", "stall"),
            ("stall = -0.1", "stall"),
            ("stall = \"often\"", "stall"),
            ("teapot = 0.1", "teapot"),
            ("stall = 0.7\nsilent = 0.4", "add up to 1.100"),
        ] {
            assert!(faults(table).unwrap_err().contains(message), "{table}");
        }
    }

    #[test]
    fn draws_follow_the_probabilities_and_the_seed() {
        let faults = faults("refused = 0.1\nstall = 0.2\nstatus-500 = 0.05").unwrap();
        let draw = |seed| {
            let injector = FaultInjector::new(faults.clone(), 100, seed);
            (0..20_100).map(|_| injector.fault_of_next_request()).collect::<Vec<_>>()
        };
        let drawn = draw(1);
        assert!(drawn == draw(1) && drawn != draw(2));
        assert!(drawn[..100].iter().all(Option::is_none), "no fault before the first 100 requests");
        for (fault, p) in [(Fault::Stall, 0.2), (Fault::Status500, 0.05), (Fault::Refused, 0.0)] {
            let share = drawn.iter().filter(|f| **f == Some(fault)).count() as f64 / 20_000.0;
            // Five standard errors.
            assert!((share - p).abs() <= 5.0 * (p * (1.0 - p) / 20_000.0).sqrt(), "{fault:?}: {share}");
        }
        let injector = FaultInjector::new(faults, 0, 1);
        let refused = (0..20_000).filter(|_| injector.refuses_next_connection()).count() as f64 / 20_000.0;
        assert!((refused - 0.1).abs() <= 5.0 * (0.1 * 0.9 / 20_000.0_f64).sqrt(), "{refused}");
        assert!((0..100).all(|_| !FaultInjector::new(Faults::default(), 0, 1).refuses_next_connection()));
    }
}
