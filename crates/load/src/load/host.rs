//! The threads that send the load: several on the real clock, or the caller's runtime under the paused clock.

use super::job::Job;
use super::pacer::Clock;
use super::sending_loop::{ThreadLoad, fire};
use super::source::{Builder, Source};
use crate::client::Client;
use anyhow::{Context, Result};
use goodput_core::level::{Control, Level};
use goodput_plan::client::ClientLimits;
use goodput_workload::part::StepPart;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Approximate CPU time of a sending thread for each request, and for each token that arrives in a separate read, in
/// seconds (`docs/timing.md`).
const REQUEST_S: f64 = 50e-6;
const TOKEN_S: f64 = 10e-6;
/// Utilization of a thread above which requests have to wait for it.
const BUSY: f64 = 0.25;

/// Assumed number of requests per second for each slot of a closed loop: more than most servers reach.
const PER_SLOT: f64 = 64.0;

/// The load to distribute over the threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    /// Expected number of chains per second, if known.
    pub rate: Option<f64>,
    /// Mean number of output tokens per request.
    pub tokens: f64,
    /// Slots of a closed loop; `None` if chains have their own due times.
    pub slots: Option<usize>,
    /// Maximum number of chains per second of a closed loop.
    pub pace: Option<f64>,
    /// Earliest start of the first chain of a paced closed loop.
    pub first: Duration,
}

impl Share {
    /// Returns the load of a level, whose answers have `tokens` tokens on average.
    pub fn of(level: Level, tokens: f64) -> Self {
        let slots = (level.control == Control::Concurrency).then_some(level.value as usize);
        Self { rate: level.per_s(), tokens, slots, pace: None, first: Duration::ZERO }
    }

    /// Returns the share of one part of a step, or of one thread. The parts send at their share of the pace, one after the
    /// other, as if there were only one.
    pub fn part(self, part: StepPart) -> Self {
        let of = f64::from(part.of());
        let turn = |pace: f64| Duration::from_secs_f64(f64::from(part.index()) / pace);
        Self {
            rate: self.rate.map(|rate| rate / of),
            tokens: self.tokens,
            slots: self.slots.map(|slots| part.share_of(slots)),
            pace: self.pace.map(|pace| pace / of),
            first: self.first + self.pace.map_or(Duration::ZERO, turn),
        }
    }

    /// Returns the minimum time between two chains of a closed loop.
    fn gap(&self) -> Duration {
        self.pace.map_or(Duration::ZERO, |pace| Duration::from_secs_f64(1.0 / pace))
    }

    /// Returns the number of chains per second for which bodies are built ahead.
    fn chains_per_s(&self) -> f64 {
        self.rate.or(self.slots.map(|n| n as f64 * PER_SLOT)).unwrap_or(PER_SLOT)
    }

    /// Returns the number of threads needed to keep each below [`BUSY`]. A closed loop may send at any rate, but a
    /// thread without a slot has nothing to send.
    fn threads(&self) -> usize {
        match (self.slots, self.rate) {
            (Some(slots), _) => slots,
            (None, Some(rate)) => (rate * (REQUEST_S + TOKEN_S * self.tokens) / BUSY).ceil() as usize,
            (None, None) => usize::MAX,
        }
    }
}

/// Returns the requests per second that this machine can be expected to send at the most, all cores busy, whose answers have so
/// many tokens. A calibration tells how many of them are on time.
pub fn rate_of_cores(tokens: f64) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores as f64 / (REQUEST_S + TOKEN_S * tokens)
}

/// The running tasks of a load; dropping it ends the load.
pub struct Sending {
    parts: JoinSet<io::Result<()>>,
    /// Cancelled when the last request has been sent.
    pub sent_all: CancellationToken,
}

impl Sending {
    /// Waits until every request has finished.
    ///
    /// # Errors
    /// A thread had no timer, or its load panicked.
    pub async fn ended(&mut self) -> Result<()> {
        while let Some(part) = self.parts.join_next().await {
            part.context("the load has failed")?.context("the load has no timer to wake by")?;
        }
        Ok(())
    }
}

/// Operating system, architecture and cores of this machine.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH)
}

/// The runtimes that send requests and receive answers; they do nothing else.
///
/// Each is a thread with a separate runtime, separate connections, and a share of a step's chains: no request is
/// handed from one thread to another, and no two threads wake for one. `docs/timing.md` has the cost of other designs.
pub struct Host {
    workers: Vec<Handle>,
    /// True if the plan sets the number of threads: every step then uses all of them.
    all: bool,
    clock: Clock,
    end: CancellationToken,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Host {
    /// Starts `threads` threads, each with its own runtime. Connections live there across steps.
    ///
    /// # Errors
    /// The operating system refuses a thread, or the runtime cannot start.
    pub fn real(threads: usize) -> Result<Self> {
        Self::named("load", threads)
    }

    /// Starts threads like [`Host::real`], but with a name: for work that must stay off the sending threads.
    ///
    /// # Errors
    /// The operating system refuses a thread, or the runtime cannot start.
    pub fn named(name: &str, threads: usize) -> Result<Self> {
        let end = CancellationToken::new();
        let mut host = Self { workers: Vec::new(), all: true, clock: Clock::Real, end, threads: Vec::new() };
        for _ in 0..threads.max(1) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("failed to start a runtime for requests")?;
            let (handle, ended) = (runtime.handle().clone(), host.end.clone());
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    runtime.block_on(ended.cancelled());
                    // A pending name lookup must not delay the exit of the program.
                    runtime.shutdown_background();
                })
                .context("failed to start a thread for requests")?;
            host.workers.push(handle);
            host.threads.push(thread);
        }
        Ok(host)
    }

    /// Starts the host that the plan asks for: the caller's runtime if time is simulated, otherwise the configured
    /// number of threads.
    ///
    /// # Errors
    /// As [`Host::real`].
    pub fn of(limits: &ClientLimits, virtual_time: bool) -> Result<Self> {
        let threads = limits.threads.map_or_else(Self::default_threads, |n| n.get() as usize);
        if virtual_time {
            return Ok(Self::paused());
        }
        let mut host = Self::real(threads)?;
        host.all = limits.threads.is_some();
        Ok(host)
    }

    /// Returns the default number of threads: one for each core, at most eight. A step uses only as many as it needs.
    fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from).clamp(1, 8)
    }

    /// Returns a host on the caller's runtime, whose clock is paused.
    pub fn paused() -> Self {
        let workers = vec![Handle::current()];
        Self { workers, all: true, clock: Clock::Paused, end: CancellationToken::new(), threads: Vec::new() }
    }

    /// Returns true if time is simulated.
    pub fn is_paused(&self) -> bool {
        self.clock == Clock::Paused
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Returns the number of threads that send such a load. Fewer threads need fewer connections and wake one another
    /// less.
    pub fn used(&self, share: &Share) -> usize {
        let wanted = if self.all { share.slots.unwrap_or(usize::MAX) } else { share.threads() };
        wanted.clamp(1, self.workers.len())
    }

    /// Starts `future` on the first thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.workers[0].spawn(future)
    }

    /// Runs `future` on the first thread and waits for it.
    ///
    /// # Errors
    /// The future panics.
    pub async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.spawn(future).await.context("the runtime that sends requests has failed")
    }

    /// Starts a future on each of the first `n` threads; `make` gets the index of the thread.
    pub fn each<F: Future<Output: Send> + Send + 'static>(
        &self,
        n: usize,
        make: impl Fn(usize) -> F,
    ) -> JoinSet<F::Output> {
        let mut set = JoinSet::new();
        for (i, worker) in self.workers.iter().take(n).enumerate() {
            set.spawn_on(make(i), worker);
        }
        set
    }

    /// Opens about `n` connections, spread over the threads that send such a load; each thread opens at least one to
    /// every URL.
    pub async fn warm(&self, clients: &[Client], share: &Share, n: usize) {
        let threads = self.used(share).min(clients.len());
        let each = n.div_ceil(threads);
        let warming = self.each(threads, |i| {
            let client = clients[i].clone();
            async move { client.warm(each.max(client.urls().len())).await }
        });
        warming.join_all().await;
    }

    /// Fires a load. Each of `n` threads sends every `n`-th chain of `builder` through its own client, and has its
    /// share of the slots.
    ///
    /// # Errors
    /// The operating system refuses a thread to build bodies on.
    pub fn fire(&self, job: Job, clients: &[Client], builder: &Builder, share: Share) -> Result<Sending> {
        let (job, sent_all) = (Arc::new(job), CancellationToken::new());
        let sending = Arc::new(sent_all.clone().drop_guard());
        let mut parts = JoinSet::new();
        let n = self.used(&share).min(clients.len());
        job.gauge.begin(if share.slots.is_none() { n as u64 } else { 0 });
        for (i, (worker, client)) in self.workers.iter().zip(clients).take(n).enumerate() {
            let builder = builder.clone().thread(i, n);
            let source = match self.clock {
                Clock::Real => Source::ahead(builder, share.chains_per_s() / n as f64, n)
                    .context("failed to start the thread that builds bodies")?,
                Clock::Paused => Source::Inline(Box::new(builder)),
            };
            let part = StepPart::new(i as u32, n as u32).map_err(anyhow::Error::msg)?;
            let share = share.part(part);
            let load = ThreadLoad {
                client: client.clone(),
                source,
                slots: share.slots,
                gap: share.gap(),
                first: share.first,
                clock: self.clock,
                sending: sending.clone(),
            };
            parts.spawn_on(fire(job.clone(), load), worker);
        }
        Ok(Sending { parts, sent_all })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end.cancel();
        for thread in self.threads.drain(..) {
            // The thread is idle by now; a panic in it has been reported by `run` already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The due times of a paced closed loop do not depend on the number of machines, nor on that of threads.
    #[test]
    fn the_parts_of_a_pace_are_the_pace() {
        let share = Share { slots: Some(10), pace: Some(4.0), rate: Some(6.0), ..Share::default() };
        for (machines, threads) in [(1, 1), (1, 2), (1, 3), (1, 8), (2, 2), (5, 2)] {
            let part = |share: Share, i, of| share.part(StepPart::new(i, of).unwrap());
            let of_machine = |i| (0..threads).map(move |j| part(part(share, i, machines), j, threads));
            let parts: Vec<Share> = (0..machines).flat_map(of_machine).collect();
            assert_eq!(parts.iter().filter_map(|p| p.slots).sum::<usize>(), 10);
            let times = |p: &Share| (0..4).map(|k| (p.first + p.gap() * k).as_secs_f64()).collect::<Vec<_>>();
            let mut due: Vec<f64> = parts.iter().flat_map(times).collect();
            due.sort_by(f64::total_cmp);
            for (k, at) in due.iter().enumerate() {
                assert!(
                    (at - 0.25 * k as f64).abs() < 1e-6,
                    "{machines} machines, {threads} threads: {due:?}"
                );
            }
        }
    }

    #[test]
    fn as_many_threads_send_as_the_load_needs() {
        let at = |rate, tokens| Share { rate: Some(rate), tokens, ..Share::default() };
        for (share, threads, why) in [
            (at(35.0, 30.0), 1, "a small server"),
            (at(0.01, 8.0), 1, "hardly anything"),
            (at(5_000.0, 1.0), 2, "many short answers"),
            (at(500.0, 200.0), 5, "many tokens"),
            (at(1e6, 30.0), 8, "no more than there are"),
            (
                Share { tokens: 30.0, slots: Some(3), ..Share::default() },
                3,
                "a closed loop: no more than slots",
            ),
            (Share { tokens: 30.0, slots: Some(100), ..Share::default() }, 8, "a closed loop"),
        ] {
            let mut host = Host::real(8).unwrap();
            host.all = false;
            assert_eq!(host.used(&share), threads, "{why}");
        }
        let all = Host::real(8).unwrap();
        assert_eq!(all.used(&at(35.0, 30.0)), 8, "as the plan has it");
        assert_eq!(all.used(&Share { slots: Some(3), ..Share::default() }), 3);
    }
}
