//! Sends one load to a null server with the client that a sweep uses, and collects the measurements of that client.

use crate::client::encoder::{Encoder, Pinning};
use crate::client::{Client, preflight};
use crate::load::finished::FinishedRequests;
use crate::load::host::{Host, Share};
use crate::load::job::{Gauge, Job};
use crate::load::source::Builder;
use anyhow::{Context, Result, bail};
use goodput_core::level::Level;
use goodput_core::record::{Finished, Phase};
use goodput_core::units::ms;
use goodput_plan::client::{ClientLimits, Retries};
use goodput_plan::server::Server;
use goodput_stats::calibration::{AtRate, EXACT_MS, Quantiles};
use goodput_stats::server::Reading;
use goodput_stats::stats::percentile::order_statistic;
use goodput_workload::config::Workload;
use goodput_workload::data::Counter;
use goodput_workload::draw::{Chains, StepKey};
use goodput_workload::prompts::Prompter;
use goodput_workload::rate::WordRate;
use goodput_workload::traffic::Traffic;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

/// Duration of the load before the measured window.
const SETTLE: Duration = Duration::from_millis(500);
/// Number of words in a prompt.
const INPUT: u32 = 32;
/// Maximum number of requests in flight of an open loop: a client that is this far behind is beyond its ceiling.
const MOST: u32 = 4096;
/// Number of connections that are opened before an open loop, so that the requests that become due while a core is busy
/// elsewhere for some ten milliseconds need not open new ones.
const WARM: usize = 512;

/// The load to send.
#[derive(Debug, Clone)]
pub(super) struct Load {
    level: Level,
    tokens: u32,
    window: Duration,
    /// Maximum number of requests.
    requests: Option<usize>,
}

impl Load {
    /// Makes an open loop with Poisson arrivals.
    pub(super) fn open(rate: f64, tokens: u32, window: Duration) -> Self {
        Self { level: Level::rate(rate), tokens, window, requests: None }
    }

    /// Makes a closed loop.
    pub(super) fn closed(slots: u32, tokens: u32, window: Duration) -> Self {
        Self { level: Level::concurrency(slots), tokens, window, requests: None }
    }

    /// Makes `requests` simultaneous requests, each of which takes about as long as the window.
    pub(super) fn once(requests: u32, tokens: u32, window: Duration) -> Self {
        Self { level: Level::concurrency(requests), tokens, window, requests: Some(requests as usize) }
    }

    fn share(&self) -> Share {
        Share::of(self.level, f64::from(self.tokens))
    }
}

/// The measurements of one load.
#[derive(Debug, Default)]
pub(super) struct Measured {
    lateness_ms: Vec<f64>,
    error_ms: Vec<f64>,
    n: u64,
    pub(super) failed: u64,
    window: Duration,
    /// CPU time of the process over the whole load.
    cpu: Duration,
    requests: u64,
    /// Maximum number of requests in the server, by its own metrics.
    pub(super) open_max: u64,
    pub(super) rss_mib: Option<f64>,
}

impl Measured {
    fn add(&mut self, finished: &Finished) {
        let r = &finished.record;
        self.requests += 1;
        if r.phase != Phase::Measure {
            return;
        }
        self.n += 1;
        if !r.ok() {
            self.failed += 1;
            return;
        }
        self.lateness_ms.extend(r.lateness().map(ms));
        let server = finished.server_ttft;
        // The server's TTFT cannot exceed the client's, which encloses it, except by the microsecond to which it is
        // rounded.
        self.error_ms.extend(r.ttft().zip(server).map(|(own, server)| ms(own) - ms(server)));
    }

    fn at(&self, rate: f64, values: &[f64]) -> Option<AtRate> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let of = |permille| order_statistic(&sorted, permille);
        let quantiles = Quantiles { p50_ms: of(500)?, p99_ms: of(990)? };
        Some(AtRate { rate, n: self.n, failed: self.failed, quantiles })
    }

    /// Returns how late requests were sent; `None` if none was.
    pub(super) fn lateness(&self, rate: f64) -> Option<AtRate> {
        self.at(rate, &self.lateness_ms)
    }

    /// Returns by how much the TTFT from `due` exceeded the server's own TTFT; `None` if the server does not report it.
    pub(super) fn error(&self, rate: f64) -> Option<AtRate> {
        self.at(rate, &self.error_ms)
    }

    /// Returns true if every request was answered, and the p99 of the lateness is below [`EXACT_MS`].
    pub(super) fn exact(&self) -> bool {
        self.failed == 0 && self.lateness(0.0).is_some_and(|at| at.quantiles.p99_ms < EXACT_MS)
    }

    /// Returns the requests per second of the window.
    pub(super) fn rate(&self) -> f64 {
        self.n as f64 / self.window.as_secs_f64()
    }

    /// Returns the CPU time of this process per request, in milliseconds.
    pub(super) fn cpu_ms(&self) -> f64 {
        ms(self.cpu) / self.requests.max(1) as f64
    }
}

/// A client of one server that sends loads.
pub(super) struct Driver {
    host: Host,
    clients: Vec<Client>,
    encoder: Encoder,
    loads: u32,
    interrupt: CancellationToken,
}

impl Driver {
    /// Connects to the server and checks its model.
    pub(super) async fn new(
        server: Server,
        limits: &ClientLimits,
        interrupt: CancellationToken,
    ) -> Result<Self> {
        let host = Host::of(limits, false)?;
        let clients = Client::for_load(&server, None, host.threads(), Retries::None)?;
        let asked = clients[0].clone();
        let model = host.run(async move { preflight::check_models(&asked, None).await }).await??;
        let encoder = Encoder::new(server.api, &model.id, &serde_json::Map::new(), Pinning::NONE, true);
        Ok(Self { host, clients, encoder, loads: 0, interrupt })
    }

    /// Returns the number of threads that send.
    pub(super) fn threads(&self) -> usize {
        self.host.threads()
    }

    /// Sends a load and waits for all of its requests.
    pub(super) async fn run(&mut self, load: &Load) -> Result<Measured> {
        self.loads += 1;
        let share = load.share();
        if load.requests.is_none() {
            self.host.warm(&self.clients, &share, WARM).await;
        }
        let (results, mut finished) = FinishedRequests::channel(false);
        let (_window, window) = watch::channel(load.window);
        let settle = if load.requests.is_some() { Duration::ZERO } else { SETTLE };
        let (began, cpu) = (Instant::now(), cpu_time());
        let job = Job {
            began,
            settle,
            window,
            phase: None,
            timeout: Duration::from_secs(60),
            timeout_is_error: true,
            is_partial: false,
            max_in_flight: load.requests.map_or(MOST, |n| n as u32),
            itl_limit: None,
            choices: Arc::default(),
            keep_text: false,
            results,
            gauge: Arc::<Gauge>::default(),
            stop: self.interrupt.child_token(),
            cut: self.interrupt.child_token(),
        };
        let mut sending = self.host.fire(job, &self.clients, &self.builder(load)?, share)?;
        let mut measured = Measured { window: load.window, ..Measured::default() };
        let mut ticks = interval(Duration::from_millis(250));
        loop {
            tokio::select! {
                request = finished.recv() => match request {
                    Some(request) => measured.add(&request),
                    None => break,
                },
                // Only for the load that counts open streams: each query costs the server some of its time.
                _ = ticks.tick(), if load.requests.is_some() => {
                    let open = self.at_server().await.unwrap_or(0);
                    if open > measured.open_max {
                        (measured.open_max, measured.rss_mib) = (open, rss_mib());
                    }
                }
            }
        }
        sending.ended().await?;
        measured.cpu = cpu_time().saturating_sub(cpu);
        if self.interrupt.is_cancelled() {
            bail!("interrupted");
        }
        Ok(measured)
    }

    /// Returns the number of requests in the server, by its own metrics.
    async fn at_server(&self) -> Option<u64> {
        let client = self.clients[0].clone();
        let (_, text) = self.host.run(async move { client.get("/metrics").await }).await.ok()?.ok()?;
        Reading::read(&String::from_utf8_lossy(&text))?.in_server().map(|n| n as u64)
    }

    /// Returns the builder of a load's requests, which are such as a sweep would send.
    fn builder(&self, load: &Load) -> Result<Builder> {
        let workload: Workload = toml::from_str(&format!(
            "prompts.synthetic = {{ input-tokens = {{ fixed = {INPUT} }}, output-tokens = {{ fixed = {} }} }}",
            load.tokens
        ))
        .context("the calibration has no workload")?;
        let key = StepKey { seed: 1, series: "calibrate".into(), step: self.loads };
        let traffic = Traffic::open(&workload, &Counter::default())?;
        let chains = Chains::new(&traffic, &key, load.level).map_err(anyhow::Error::msg)?;
        let chains = match load.requests {
            Some(n) => chains.first(n as u64),
            None => chains,
        };
        let prompter = Prompter::new(&traffic, key, WordRate::UNKNOWN);
        Ok(Builder::new(chains, prompter, vec![self.encoder.clone()]))
    }
}

/// Returns the CPU time of this process so far, over all threads.
fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// Returns the resident memory of this process in MiB, if the system reports it.
fn rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::null::Settings;
    use crate::sim::serve::Embedded;
    use goodput_core::units::Span;
    use goodput_plan::server::Target;

    async fn driver(first: &str) -> (Embedded, Driver) {
        let settings: Settings = toml::from_str(&format!("first = \"{first}\"")).unwrap();
        let server = Embedded::null(settings).unwrap();
        let at = Server::new(Target::Url(server.url.parse().unwrap()));
        let own = ClientLimits { threads: std::num::NonZeroU32::new(2), ..ClientLimits::default() };
        (server, Driver::new(at, &own, CancellationToken::new()).await.unwrap())
    }

    #[tokio::test]
    async fn an_open_loop_tells_of_both_clocks() {
        let (_server, mut driver) = driver("5ms").await;
        let window = Duration::from_millis(500);
        let seen = driver.run(&Load::open(200.0, 4, window)).await.unwrap();
        let late = seen.lateness(200.0).unwrap();
        assert!((60..=140).contains(&late.n) && late.failed == 0, "about a hundred: {}", late.n);
        assert_eq!((seen.lateness_ms.len(), seen.error_ms.len()), (late.n as usize, late.n as usize));
        assert!(late.quantiles.p50_ms > 0.0 && late.quantiles.p50_ms <= late.quantiles.p99_ms);
        // The client's TTFT encloses the server's, which is rounded to the microsecond.
        assert!(seen.error_ms.iter().all(|e| *e > -0.001), "{:?}", seen.error_ms);
        assert!(seen.cpu_ms() > 0.0);
    }

    #[tokio::test]
    async fn loops_are_dealt_over_the_threads() {
        // Long enough to query the server while it has all requests, even if the machine stalls for a second.
        let (_slow, mut at_once) = driver("4s").await;
        let seen = at_once.run(&Load::once(51, 1, Span::secs(4).0)).await.unwrap();
        assert_eq!(
            (seen.n, seen.failed, seen.open_max),
            (51, 0, 51),
            "the server had all at once, and no more"
        );
        let (_server, mut in_turn) = driver("100ms").await;
        let closed = in_turn.run(&Load::closed(3, 1, Duration::from_secs(2))).await.unwrap();
        assert!(
            (3..=63).contains(&closed.n) && closed.failed == 0,
            "three slots, a tenth of a second each at least: {}",
            closed.n
        );
    }
}
