//! One loop that fires a step's chains when they are due, whatever the arrival process, and sends Records home.

use super::pacer::Pacer;
use super::source::{Ready, Source};
use crate::client::{Client, Shot};
use crate::record::{Failure, Finished, Outcome, Phase, Record};
use crate::workload::chain::Start;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What the director may look at while a step runs.
#[derive(Debug, Default)]
pub struct Gauge {
    in_flight: AtomicU64,
    measured_open: AtomicU64,
    client_limit: AtomicBool,
}

impl Gauge {
    /// Requests in flight now.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Measured requests that have not finished.
    pub fn measured_open(&self) -> u64 {
        self.measured_open.load(Relaxed)
    }

    fn enter(&self, phase: Phase) {
        self.in_flight.fetch_add(1, Relaxed);
        self.measured_open.fetch_add(u64::from(phase == Phase::Measure), Relaxed);
    }

    fn leave(&self, phase: Phase) {
        self.in_flight.fetch_sub(1, Relaxed);
        self.measured_open.fetch_sub(u64::from(phase == Phase::Measure), Relaxed);
    }

    /// Whether `max-in-flight` was reached.
    pub fn client_limit(&self) -> bool {
        self.client_limit.load(Relaxed)
    }
}

/// Everything that one step's load needs.
pub struct Job {
    /// Sends the requests.
    pub client: Client,
    /// Where the chains come from.
    pub source: Source,
    /// Wakes the loop on time.
    pub pacer: Pacer,
    /// Start of the step: all times of its records count from here.
    pub began: Instant,
    /// When the measured window begins.
    pub settle: Duration,
    /// Length of the measured window; the director may extend it.
    pub window: watch::Receiver<Duration>,
    /// Slots of a closed loop; `None` where chains have due times of their own.
    pub slots: Option<usize>,
    /// Phase of every request where the step is none, as for warm-up requests.
    pub phase: Option<Phase>,
    /// Longest time from `due` to the last byte.
    pub timeout: Duration,
    /// Most requests in flight.
    pub max_in_flight: u32,
    /// The tightest ITL limit, for `itl_over`.
    pub itl_limit: Option<Duration>,
    /// Where finished requests go. Bounded: a director that falls behind holds back the requests, never the loop.
    pub home: mpsc::Sender<Finished>,
    /// What the director may look at.
    pub gauge: Arc<Gauge>,
    /// Ends the sending; requests in flight go on.
    pub stop: CancellationToken,
    /// Cuts off the requests in flight.
    pub cut: CancellationToken,
    /// Told by the loop when it has sent its last request.
    pub sent_all: CancellationToken,
}

/// Fires chains until the window has passed and every measured request has finished, or until `stop`; then waits for the
/// requests in flight until `cut`. Load is kept on for as long as measured requests are open.
pub async fn fire(job: Job) {
    Loop::new(job).run().await;
}

struct Loop {
    job: Job,
    shared: Arc<Shared>,
    flying: JoinSet<Instant>,
    /// When each idle slot of a closed loop was freed.
    idle: VecDeque<Instant>,
}

/// What a chain needs of its step.
struct Shared {
    client: Client,
    began: Instant,
    settle: Duration,
    window: watch::Receiver<Duration>,
    phase: Option<Phase>,
    timeout: Duration,
    itl_limit: Option<Duration>,
    home: mpsc::Sender<Finished>,
    gauge: Arc<Gauge>,
    cut: CancellationToken,
}

impl Shared {
    /// When the measured window ends, as the director has it now.
    fn window_end(&self) -> Duration {
        self.settle + *self.window.borrow()
    }

    fn phase_of(&self, due: Duration) -> Phase {
        self.phase.unwrap_or_else(|| {
            if due < self.settle {
                Phase::Settle
            } else if due < self.window_end() {
                Phase::Measure
            } else {
                Phase::Tail
            }
        })
    }
}

impl Loop {
    fn new(job: Job) -> Self {
        let shared = Arc::new(Shared {
            client: job.client.clone(),
            began: job.began,
            settle: job.settle,
            window: job.window.clone(),
            phase: job.phase,
            timeout: job.timeout,
            itl_limit: job.itl_limit,
            home: job.home.clone(),
            gauge: job.gauge.clone(),
            cut: job.cut.clone(),
        });
        let idle = vec![job.began; job.slots.unwrap_or(0)].into();
        Self { job, shared, flying: JoinSet::new(), idle }
    }

    async fn run(mut self) {
        while let Some(ready) = self.job.source.next().await {
            let due = match ready.chain.start {
                Start::At(at) => self.wait_due(at).await,
                Start::WhenFree => self.wait_free().await,
            };
            match due {
                Some(due) => self.launch(ready, due),
                None => break,
            }
        }
        self.job.sent_all.cancel();
        while self.flying.join_next().await.is_some() {}
    }

    /// Waits until `at`; `None` when the step is over before that.
    async fn wait_due(&mut self, at: Duration) -> Option<Duration> {
        let mut window = self.shared.window.clone();
        loop {
            window.mark_unchanged();
            let end = self.shared.window_end();
            let past_end = self.job.began + end <= Instant::now();
            // Beyond the window the load is kept on only for the sake of the measured requests.
            if at >= end && past_end && self.shared.gauge.measured_open() == 0 {
                return None;
            }
            let target = if at >= end && !past_end { end } else { at };
            let wake = self.job.pacer.until(self.job.began + target);
            tokio::pin!(wake);
            let woke = loop {
                tokio::select! {
                    biased;
                    () = self.job.stop.cancelled() => return None,
                    () = &mut wake => break true,
                    // The director ends the window early, or extends it.
                    Ok(()) = window.changed() => break false,
                    Some(_) = self.flying.join_next(), if !self.flying.is_empty() => {
                        if past_end && self.shared.gauge.measured_open() == 0 {
                            break false;
                        }
                    }
                }
            };
            if woke && target == at {
                return Some(at);
            }
        }
    }

    /// Waits for a free slot and returns when it was freed; `None` when the step is over.
    async fn wait_free(&mut self) -> Option<Duration> {
        loop {
            let end = self.shared.window_end();
            if let Some(freed) = self.idle.pop_front() {
                let due = freed.saturating_duration_since(self.job.began);
                let over = due >= end && self.shared.gauge.measured_open() == 0;
                return (!over && !self.job.stop.is_cancelled()).then_some(due);
            }
            tokio::select! {
                biased;
                () = self.job.stop.cancelled() => return None,
                Some(done) = self.flying.join_next(), if !self.flying.is_empty() => self.idle.extend(done.ok()),
                else => return None,
            }
        }
    }

    fn launch(&mut self, ready: Ready, due: Duration) {
        let gauge = &self.shared.gauge;
        let fits = gauge.in_flight() < u64::from(self.job.max_in_flight);
        if !fits {
            gauge.client_limit.store(true, Relaxed);
        }
        let phase = self.shared.phase_of(due);
        gauge.enter(phase);
        self.flying.spawn(chain(self.shared.clone(), ready, due, phase, fits));
    }
}

/// Sends the turns of one chain, one after the other; returns when its slot is free again.
async fn chain(
    shared: Arc<Shared>,
    ready: Ready,
    first_due: Duration,
    first_phase: Phase,
    fits: bool,
) -> Instant {
    let (mut due, mut phase) = (first_due, first_phase);
    for (i, (turn, payload)) in ready.chain.turns.iter().zip(ready.payloads).enumerate() {
        if i > 0 {
            due += turn.after;
            tokio::time::sleep_until(shared.began + due).await;
            phase = shared.phase_of(due);
            shared.gauge.enter(phase);
        }
        let mut record = Record::due(turn.request.id, phase, due);
        record.class = turn.class;
        record.turn = i as u16;
        record.input_asked = turn.request.input_tokens;
        record.output_asked = turn.request.output_tokens;
        let finished = if fits {
            let shot = Shot {
                record,
                payload,
                began: shared.began,
                timeout: shared.timeout,
                cut: shared.cut.clone(),
                itl_limit: shared.itl_limit,
            };
            shared.client.send(shot).await
        } else {
            (record.outcome, record.failure) = (Outcome::Failed, Some(Failure::ClientLimit));
            record.end = shared.began.elapsed().max(due);
            Finished { record, gaps_us: Vec::new(), sample: None }
        };
        due = finished.record.end;
        let ended = finished.record.outcome != Outcome::Ok;
        // The director only goes away when the whole sweep does.
        let _ = shared.home.send(finished).await;
        shared.gauge.leave(phase);
        if ended {
            break;
        }
    }
    shared.began + due
}
