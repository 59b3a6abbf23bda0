//! Lateness of requests for several designs of waking and sending, and the CPU time of each: `cargo bench --bench
//! pacing`.
//!
//! Poisson arrivals to the null server (32 tokens in one write) on this machine. Every design has an identical schedule
//! and HTTP client. `docs/timing.md` quotes the results. Give rates as arguments to measure others: `-- 2000 20000`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench tells its figures, and fails by panicking"
)]

use goodput::load::descriptors::Descriptors;
use goodput::load::pacer::{Clock, Pacer};
use goodput::sim::null::Settings;
use goodput::sim::serve::Embedded;
use goodput::stats::percentile::order_statistic;
use goodput::units::{Rate, ms};
use goodput::workload::arrivals::{Arrivals, Times};
use goodput::workload::seed::{Purpose, stream};
use rustix::time::{ClockId, clock_gettime};
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep_until};

const SECONDS: f64 = 4.0;
const WARM: usize = 256;
/// A little more than most idle cores take to wake.
const AHEAD: Duration = Duration::from_micros(150);
const BODY: &str = r#"{"model":"null","stream":true,"max_tokens":32,"messages":[{"role":"user","content":"able about above"}]}"#;

/// A design: the timer that wakes for a request, and the runtimes that send it.
#[derive(Debug, Clone, Copy)]
enum Design {
    /// tokio's timer, with a resolution of a millisecond.
    Timer,
    /// A thread that sleeps and wakes one runtime with two threads, one per core.
    RingShared,
    /// This number of runtimes, each with a thread that sleeps and wakes it.
    Ring(usize),
    /// This number of runtimes, each with a kernel timer in its poll: goodput's design.
    Kernel(usize),
    /// As [`Design::Kernel`], and each stays awake for [`AHEAD`] before a deadline, and looks at its sockets meanwhile.
    Awake(usize),
}

impl Design {
    const ALL: [Self; 8] = [
        Self::Timer,
        Self::RingShared,
        Self::Ring(1),
        Self::Ring(2),
        Self::Kernel(1),
        Self::Awake(1),
        Self::Kernel(2),
        Self::Awake(2),
    ];

    fn name(self) -> String {
        match self {
            Self::Timer => "tokio's timer, one runtime".into(),
            Self::RingShared => "sleeping thread, shared runtime".into(),
            Self::Ring(n) => format!("sleeping thread each, {n} × one thread"),
            Self::Kernel(n) => format!("kernel timer, {n} × one thread"),
            Self::Awake(n) => format!("kernel timer, awake before, {n} × one"),
        }
    }

    fn runtimes(self) -> Vec<Runtime> {
        let single = || Builder::new_current_thread().enable_all().build().unwrap();
        match self {
            Self::RingShared => {
                vec![Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()]
            }
            Self::Timer => vec![single()],
            Self::Ring(n) | Self::Kernel(n) | Self::Awake(n) => (0..n).map(|_| single()).collect(),
        }
    }
}

/// The timer that wakes one loop.
enum Wake {
    Timer,
    Ring(mpsc::Sender<(Instant, oneshot::Sender<()>)>),
    Kernel(Pacer),
    Awake(Pacer),
}

impl Wake {
    fn new(design: Design) -> Self {
        match design {
            Design::Timer => Self::Timer,
            Design::Kernel(_) => Self::Kernel(Pacer::new(Clock::Real).unwrap()),
            Design::Awake(_) => Self::Awake(Pacer::new(Clock::Real).unwrap()),
            Design::RingShared | Design::Ring(_) => {
                let (send, alarms) = mpsc::channel::<(Instant, oneshot::Sender<()>)>();
                std::thread::spawn(move || {
                    for (at, ring) in alarms {
                        std::thread::sleep(at.saturating_duration_since(Instant::now()));
                        let _ = ring.send(());
                    }
                });
                Self::Ring(send)
            }
        }
    }

    async fn until(&self, at: Instant) {
        match self {
            Self::Timer => sleep_until(at).await,
            Self::Kernel(pacer) => pacer.until(at).await.unwrap(),
            Self::Awake(pacer) => {
                pacer.until(at - AHEAD).await.unwrap();
                while Instant::now() < at {
                    yield_now().await;
                }
            }
            Self::Ring(_) if at <= Instant::now() => {}
            Self::Ring(alarms) => {
                let (ring, rung) = oneshot::channel();
                alarms.send((at, ring)).unwrap();
                rung.await.unwrap();
            }
        }
    }
}

/// Sends one request that is due now. Returns how late it began, and how late the first bytes of the answer were.
async fn request(client: reqwest::Client, url: reqwest::Url, due: Instant) -> (Duration, Duration) {
    let late = due.elapsed();
    let sent = client.post(url).header("content-type", "application/json").body(BODY).send();
    let mut answer = sent.await.unwrap();
    let mut first = None;
    while answer.chunk().await.unwrap().is_some() {
        first.get_or_insert_with(|| due.elapsed());
    }
    (late, first.unwrap())
}

async fn fire(
    design: Design,
    url: reqwest::Url,
    dues: Vec<Duration>,
    began: Instant,
) -> Vec<(Duration, Duration)> {
    let client = reqwest::Client::builder().http1_only().no_proxy().build().unwrap();
    let mut flying = JoinSet::new();
    for _ in 0..WARM {
        flying.spawn(request(client.clone(), url.clone(), Instant::now()));
    }
    while flying.join_next().await.is_some() {}
    let (wake, mut seen) = (Wake::new(design), Vec::new());
    for due in dues {
        wake.until(began + due).await;
        flying.spawn(request(client.clone(), url.clone(), began + due));
        while let Some(done) = flying.try_join_next() {
            seen.push(done.unwrap());
        }
    }
    while let Some(done) = flying.join_next().await {
        seen.push(done.unwrap());
    }
    seen
}

fn cpu_ms() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e3 + t.tv_nsec as f64 / 1e6
}

/// Returns one line with the design's figures at a rate. CPU time is that of the whole process, including the null
/// server.
fn measure(design: Design, url: &reqwest::Url, rate: f64) -> String {
    let rng = stream(1, "pacing", 1, Purpose::Arrivals);
    let times = Times::new(Arrivals::Poisson, Rate::try_from(rate).unwrap(), rng);
    let dues: Vec<Duration> = times.take_while(|t| t.as_secs_f64() < SECONDS).collect();
    let runtimes = design.runtimes();
    let (n, began) = (runtimes.len(), Instant::now() + Duration::from_millis(600));
    let before = cpu_ms();
    let threads: Vec<_> = runtimes
        .into_iter()
        .enumerate()
        .map(|(i, runtime)| {
            let (url, dues) = (url.clone(), dues.iter().copied().skip(i).step_by(n).collect());
            std::thread::spawn(move || {
                let load = fire(design, url, dues, began);
                // On a thread of the runtime, like the load in the program.
                runtime.block_on(async { tokio::spawn(load).await.unwrap() })
            })
        })
        .collect();
    let seen: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    let cpu = (cpu_ms() - before) / seen.len() as f64;
    let of = |pick: fn(&(Duration, Duration)) -> Duration, permille| {
        let mut sorted: Vec<f64> = seen.iter().map(|s| ms(pick(s))).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        order_statistic(&sorted, permille).unwrap()
    };
    let (late, first) = (|permille| of(|s| s.0, permille), |permille| of(|s| s.1, permille));
    format!(
        "| {rate:>6} | {:<34} | {:.3} / {:.3} / {:.3} | {:.3} / {:.3} | {cpu:.4} |",
        design.name(),
        late(500),
        late(990),
        late(999),
        first(500),
        first(990)
    )
}

fn main() {
    let rates: Vec<f64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let rates = if rates.is_empty() { vec![100.0, 1_000.0, 10_000.0] } else { rates };
    Descriptors::raise();
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let server = Embedded::null(Settings::default()).unwrap();
    let url: reqwest::Url = format!("{}/v1/chat/completions", server.url).parse().unwrap();
    println!("| req/s | design | late p50 / p99 / p99.9 ms | first bytes p50 / p99 ms | CPU ms/request |");
    println!("| --- | --- | --- | --- | --- |");
    for rate in rates {
        for design in Design::ALL {
            println!("{}", measure(design, &url, rate));
        }
    }
}
