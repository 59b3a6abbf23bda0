//! Calibration: the precision and speed of this machine's client, measured against a server that answers at once.
//!
//! The results limit what a sweep can claim: how late it sends, how far its TTFT is from the server's own, and the rate
//! above which the client is the bottleneck.

mod ceiling;
mod driver;

use crate::load::descriptors::{Descriptors, ports};
use crate::load::host::{Share, machine};
use anyhow::Result;
use driver::{Driver, Load};
use goodput_core::caveat::{CalibratedUnit, ClientCaveat};
use goodput_core::endpoint::BaseUrl;
use goodput_core::units::Span;
use goodput_plan::client::ClientLimits;
use goodput_plan::server::{Server, Target};
use goodput_stats::calibration::{Calibration, Closed, ERROR_TOKENS, SLOTS, Streams, TOKENS};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The rates at which lateness is measured, in requests per second.
const RATES: [f64; 4] = [10.0, 100.0, 1_000.0, 10_000.0];
/// The rates at which TTFT is compared with the server's, in requests per second.
const ERROR_RATES: [f64; 2] = [100.0, 400.0];
/// Number of file descriptors that a process needs besides its connections.
const SPARE: u64 = 64;
/// Maximum number of streams to try: more would take gigabytes.
const STREAMS: u64 = 20_000;

/// The null servers: one that answers at once, one with delays between tokens, and one that delays the first token of
/// its streams.
#[derive(Debug, Clone)]
pub struct Servers {
    /// A server that sends all tokens in one write.
    pub instant: BaseUrl,
    /// A server that sends the first token after a delay, and the others one by one.
    pub paced: BaseUrl,
    /// A server that sends the first token after this delay; `None` for servers that someone else runs.
    pub held: Option<(BaseUrl, Duration)>,
    /// True if they are not on this machine.
    pub foreign: bool,
}

/// Runs all measurements, which takes about two minutes. `say` is called with a description of each.
///
/// # Errors
/// A server does not answer, or the operating system refuses a thread or a timer.
pub async fn calibrate(
    servers: &Servers,
    limits: &ClientLimits,
    interrupt: &CancellationToken,
    say: impl Fn(&str),
) -> Result<Calibration> {
    let descriptors = Descriptors::raise();
    let driver = |url: &BaseUrl| {
        Driver::new(
            Server { connect_timeout: Span::secs(60), ..Server::new(Target::Url(url.clone())) },
            limits,
            interrupt.clone(),
        )
    };
    let mut instant = driver(&servers.instant).await?;
    let mut lateness = Vec::new();
    for rate in RATES {
        say(&format!("lateness at {rate} req/s"));
        let measured = instant
            .run(&Load::open(rate, TOKENS, Duration::from_secs(if rate < 50.0 { 12 } else { 6 })))
            .await?;
        lateness.extend(measured.lateness(rate));
    }
    let mut paced = driver(&servers.paced).await?;
    let mut ttft_error = Vec::new();
    for rate in ERROR_RATES {
        say(&format!("TTFT against the server's own at {rate} req/s"));
        let measured = paced.run(&Load::open(rate, ERROR_TOKENS, Duration::from_secs(6))).await?;
        ttft_error.extend(measured.error(rate));
    }
    say("the highest rate with a p99 lateness below 1 ms");
    let ceiling = ceiling::find(async |rate| {
        let measured = instant.run(&Load::open(rate, TOKENS, Duration::from_secs(2))).await?;
        Ok(measured.exact())
    })
    .await?;
    say("the same with tokens that come one by one");
    let ceiling_streamed = ceiling::find(async |rate| {
        let measured = paced.run(&Load::open(rate, ERROR_TOKENS, Duration::from_secs(2))).await?;
        Ok(measured.exact())
    })
    .await?;
    say("a closed loop");
    let measured = instant.run(&Load::closed(SLOTS, TOKENS, Duration::from_secs(5))).await?;
    let closed = Closed { slots: SLOTS, rate: measured.rate(), cpu_ms: measured.cpu_ms() };
    let threads = instant.threads() as u64;
    // Their connections are still open and count against the file limit.
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
    let measured = driver.run(&Load::once(most as u32, 1, held)).await?;
    Ok(Streams {
        tried: most,
        open: measured.open_max,
        lost: measured.failed,
        rss_mib: measured.rss_mib,
        descriptors: descriptors.soft,
        descriptors_hard: descriptors.hard,
        ports,
    })
}

/// Returns a caveat if a level exceeds what this machine's client achieved in its calibration: more requests per second
/// than it sends on time, or more streams than it had open.
pub fn beyond(measured: &Calibration, share: &Share) -> Option<ClientCaveat> {
    let over = |asked: f64, most: f64, unit: CalibratedUnit| {
        (asked > most).then_some(ClientCaveat::BeyondCalibration { asked, most, unit })
    };
    let ceiling = measured.ceiling_for(share.tokens);
    let rate = share.rate.and_then(|asked| over(asked, ceiling, CalibratedUnit::RequestsPerSecond));
    rate.or_else(|| over(share.slots? as f64, measured.streams?.open as f64, CalibratedUnit::Streams))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::calibration::example;

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
            assert_eq!(
                super::beyond(&c, &Share { rate, tokens, slots, ..Share::default() }).is_some(),
                beyond,
                "{why}"
            );
        }
    }
}
