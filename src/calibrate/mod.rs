//! How exact and how fast this machine's client is, measured against a server that answers at once.
//!
//! What a sweep may believe of itself: how late it sends, how far its TTFT is from the server's own, and from which rate on it
//! is the client that is the limit.

mod ceiling;
mod driver;

use crate::caveat::Caveat;
use crate::client::config::{BaseUrl, Server, Target};
use crate::load::descriptors::{Descriptors, ports};
use crate::load::host::{Share, machine};
use crate::load::own::OwnLimits;
use crate::units::Span;
use anyhow::Result;
use driver::{Driver, Load};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The rates at which lateness is measured.
const RATES: [f64; 4] = [10.0, 100.0, 1_000.0, 10_000.0];
/// The rates at which TTFT is compared with the server's.
const ERROR_RATES: [f64; 2] = [100.0, 400.0];
/// Tokens of an answer, unless it is TTFT that is compared.
pub const TOKENS: u32 = 32;
/// Tokens of an answer whose tokens come one by one.
pub const ERROR_TOKENS: u32 = 16;
/// Slots of the closed loop.
pub const SLOTS: u32 = 32;
/// p99 lateness at the highest rate.
pub const EXACT_MS: f64 = 1.0;
/// Files that a process needs beside its connections.
const SPARE: u64 = 64;
/// More streams than this are not tried: they would take gigabytes.
const STREAMS: u64 = 20_000;

/// Median and 99th percentile, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile, an order statistic.
    pub p99_ms: f64,
}

/// What was seen at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AtRate {
    /// Requests per second, Poisson arrivals.
    pub rate: f64,
    /// Requests that were measured.
    pub n: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Lateness (sent − due), or what TTFT from `due` is more than the server's own.
    #[serde(flatten)]
    pub quantiles: Quantiles,
}

/// What a closed loop reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// Slots.
    pub slots: u32,
    /// Requests per second.
    pub rate: f64,
    /// CPU time of this process for a request, in milliseconds.
    pub cpu_ms: f64,
}

/// How many streams were open at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// Streams tried.
    pub tried: u64,
    /// Most that the server had at once, by its own count.
    pub open: u64,
    /// Streams that failed.
    pub lost: u64,
    /// The process's memory at that time, in MiB, where the system tells.
    pub rss_mib: Option<f64>,
    /// Files that the process may open; `None` for any number.
    pub descriptors: Option<u64>,
    /// The same if its owner raised the soft limit to the hard one, which goodput does by itself.
    pub descriptors_hard: Option<u64>,
    /// Ports of its own for connections to one address, where the system tells.
    pub ports: Option<u64>,
}

/// What this machine's client can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Version of goodput.
    pub goodput_version: String,
    /// Operating system, architecture and cores, as in the meta of a run.
    pub host: String,
    /// When (RFC 3339).
    pub at: String,
    /// The null server's URL where it is not on this machine's own cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Threads that sent.
    pub threads: u64,
    /// Lateness by rate.
    pub lateness: Vec<AtRate>,
    /// TTFT against the server's own, by rate; empty where the server does not tell.
    pub ttft_error: Vec<AtRate>,
    /// The highest rate whose p99 lateness is below [`EXACT_MS`], in requests per second of [`TOKENS`] tokens in one write.
    pub ceiling: f64,
    /// The same where each of [`ERROR_TOKENS`] tokens comes in a write of its own.
    pub ceiling_streamed: f64,
    /// What a closed loop reaches.
    pub closed: Closed,
    /// Streams open at once; not tried against a server of others, which holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
}

/// The null servers: one that answers at once, one with delays between tokens, one that holds its streams.
#[derive(Debug, Clone)]
pub struct Servers {
    /// All tokens in one write.
    pub instant: BaseUrl,
    /// The first token later, the others one by one.
    pub paced: BaseUrl,
    /// The first token after so long; not a server of others.
    pub held: Option<(BaseUrl, Duration)>,
    /// Whether they are not on this machine.
    pub foreign: bool,
}

/// Measures all of it, in about two minutes; `say` is told what is being done.
///
/// # Errors
/// No server answers, or the system gives no threads or timers.
pub async fn calibrate(
    servers: &Servers,
    own: &OwnLimits,
    interrupt: &CancellationToken,
    say: impl Fn(&str),
) -> Result<Calibration> {
    let descriptors = Descriptors::raise();
    let driver = |url: &BaseUrl| {
        Driver::new(
            Server { connect_timeout: Span::secs(60), ..Server::new(Target::Url(url.clone())) },
            own,
            interrupt.clone(),
        )
    };
    let mut instant = driver(&servers.instant).await?;
    let mut lateness = Vec::new();
    for rate in RATES {
        say(&format!("lateness at {rate} req/s"));
        let seen = instant
            .run(&Load::open(rate, TOKENS, Duration::from_secs(if rate < 50.0 { 12 } else { 6 })))
            .await?;
        lateness.extend(seen.lateness(rate));
    }
    let mut paced = driver(&servers.paced).await?;
    let mut ttft_error = Vec::new();
    for rate in ERROR_RATES {
        say(&format!("TTFT against the server's own at {rate} req/s"));
        let seen = paced.run(&Load::open(rate, ERROR_TOKENS, Duration::from_secs(6))).await?;
        ttft_error.extend(seen.error(rate));
    }
    say("the highest rate with a p99 lateness below 1 ms");
    let ceiling = ceiling::find(async |rate| {
        let seen = instant.run(&Load::open(rate, TOKENS, Duration::from_secs(2))).await?;
        Ok(seen.exact())
    })
    .await?;
    say("the same with tokens that come one by one");
    let ceiling_streamed = ceiling::find(async |rate| {
        let seen = paced.run(&Load::open(rate, ERROR_TOKENS, Duration::from_secs(2))).await?;
        Ok(seen.exact())
    })
    .await?;
    say("a closed loop");
    let seen = instant.run(&Load::closed(SLOTS, TOKENS, Duration::from_secs(5))).await?;
    let closed = Closed { slots: SLOTS, rate: seen.rate(), cpu_ms: seen.cpu_ms() };
    let threads = instant.threads() as u64;
    // Their connections are open still, and count against the same limit.
    drop((instant, paced));
    let streams = match &servers.held {
        Some((url, held)) => {
            say("streams open at once");
            Some(streams(&mut driver(url).await?, *held, descriptors).await?)
        }
        None => None,
    };
    Ok(Calibration {
        goodput_version: env!("CARGO_PKG_VERSION").into(),
        host: machine(),
        at: jiff::Timestamp::now().to_string(),
        url: servers.foreign.then(|| servers.instant.to_string()),
        threads,
        lateness,
        ttft_error,
        ceiling,
        ceiling_streamed,
        closed,
        streams,
    })
}

async fn streams(driver: &mut Driver, held: Duration, descriptors: Descriptors) -> Result<Streams> {
    let ports = ports();
    let files = descriptors.soft.map(|n| n.saturating_sub(SPARE));
    let most = files.into_iter().chain(ports.map(|n| n.saturating_sub(SPARE))).fold(STREAMS, u64::min).max(1);
    let seen = driver.run(&Load::once(most as u32, 1, held)).await?;
    Ok(Streams {
        tried: most,
        open: seen.open_max,
        lost: seen.failed,
        rss_mib: seen.rss_mib,
        descriptors: descriptors.soft,
        descriptors_hard: descriptors.hard,
        ports,
    })
}

impl Calibration {
    /// The highest rate that is thought to be exact for answers of so many tokens, each in a write of its own.
    ///
    /// A thread needs time for a request and for each token: 1 / rate = a + b·tokens, with a and b from the two ceilings (an answer
    /// in one write counts as a single token).
    pub fn ceiling_for(&self, tokens: f64) -> f64 {
        let (one, many) = (1.0 / self.ceiling.max(1e-9), 1.0 / self.ceiling_streamed.max(1e-9));
        let per_token = ((many - one) / f64::from(ERROR_TOKENS - 1)).max(0.0);
        1.0 / (one + per_token * (tokens - 1.0).max(0.0))
    }

    /// Why a level lies beyond what this machine's client was seen to do, if it does: more requests a second than it sends on
    /// time, or more streams than it had open.
    pub fn beyond(&self, share: &Share) -> Option<Caveat> {
        let over = |asked: f64, most: f64, unit: &str| {
            (asked > most).then(|| Caveat::BeyondCalibration { asked, most, unit: unit.into() })
        };
        let rate = share.rate.and_then(|asked| over(asked, self.ceiling_for(share.tokens), "req/s"));
        rate.or_else(|| over(share.slots? as f64, self.streams?.open as f64, "streams"))
    }
}

/// Figures as this machine might have them, for tests.
#[cfg(test)]
pub(crate) fn example() -> Calibration {
    let quantiles = Quantiles { p50_ms: 0.05, p99_ms: 0.3 };
    let at = |rate| AtRate { rate, n: 600, failed: 0, quantiles };
    Calibration {
        goodput_version: "0.1.0".into(),
        host: "linux x86_64, 2 cores".into(),
        at: "2026-11-20T10:15:00Z".into(),
        url: None,
        threads: 2,
        lateness: RATES.map(at).to_vec(),
        ttft_error: ERROR_RATES.map(at).to_vec(),
        ceiling: 12_000.0,
        ceiling_streamed: 3_000.0,
        closed: Closed { slots: SLOTS, rate: 29_000.0, cpu_ms: 0.05 },
        streams: Some(Streams {
            tried: 19_936,
            open: 19_936,
            lost: 0,
            rss_mib: Some(600.0),
            descriptors: Some(20_000),
            descriptors_hard: Some(20_000),
            ports: Some(28_232),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_held_against_what_was_seen() {
        let c = example();
        for (rate, tokens, slots, beyond, why) in [
            (Some(11_000.0), 1.0, None, false, "below the ceiling"),
            (Some(13_000.0), 1.0, None, true, "above it"),
            (Some(2_900.0), 16.0, None, false, "tokens one by one"),
            (Some(3_100.0), 16.0, None, true, "too many of them"),
            // 1/12000 + 99 · (1/3000 − 1/12000)/15 s are 1.73 ms.
            (Some(570.0), 100.0, None, false, "long answers"),
            (Some(585.0), 100.0, None, true, "too many of those"),
            (None, 400.0, Some(19_000), false, "slots"),
            (None, 8.0, Some(21_000), true, "more slots than streams"),
        ] {
            assert_eq!(c.beyond(&Share { rate, tokens, slots, pace: None }).is_some(), beyond, "{why}");
        }
    }

    #[test]
    fn figures_are_kept_as_they_are() {
        let c = example();
        let text = serde_json::to_string(&c).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), c);
    }
}
