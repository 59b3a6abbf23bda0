//! One loop that fires a step's chains when they are due, whatever the arrival process, and sends Records home.

use super::pacer::{Clock, Pacer};
use super::source::{Ready, Source};
use crate::client::{Client, Shot};
use crate::record::{Failure, Finished, Outcome, Phase, Record};
use crate::workload::chain::Start;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What the director may look at while a step runs.
#[derive(Debug, Default)]
pub struct Gauge {
    in_flight: AtomicU64,
    measured_open: AtomicU64,
    /// Threads whose next chain is due within the measured window.
    to_come: AtomicU64,
    client_limit: AtomicBool,
    /// Rung when the last measured request has finished after the window.
    quiet: Notify,
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

    /// Whether `max-in-flight` was reached.
    pub fn client_limit(&self) -> bool {
        self.client_limit.load(Relaxed)
    }

    /// So many threads have chains that are due within the window.
    pub(super) fn begin(&self, threads: u64) {
        self.to_come.store(threads, Relaxed);
    }

    /// Counts a request in, and says how many there were before it.
    fn enter(&self, phase: Phase) -> u64 {
        self.measured_open.fetch_add(u64::from(phase == Phase::Measure), Relaxed);
        self.in_flight.fetch_add(1, Relaxed)
    }

    /// Counts a request out, and says whether it was the last measured one.
    fn leave(&self, phase: Phase) -> bool {
        self.in_flight.fetch_sub(1, Relaxed);
        phase == Phase::Measure && self.measured_open.fetch_sub(1, Relaxed) == 1
    }
}

/// What all threads that send one step's load have in common.
pub struct Job {
    /// Start of the step: all times of its records count from here.
    pub began: Instant,
    /// When the measured window begins.
    pub settle: Duration,
    /// Length of the measured window; the director may extend it.
    pub window: watch::Receiver<Duration>,
    /// Phase of every request where the step is none, as for warm-up requests.
    pub phase: Option<Phase>,
    /// Longest time from `due` to the last byte.
    pub timeout: Duration,
    /// Most requests in flight.
    pub max_in_flight: u32,
    /// The tightest ITL limit, for `itl_over`.
    pub itl_limit: Option<Duration>,
    /// Whether the text of every answer is wanted at home.
    pub keep_text: bool,
    /// Where finished requests go. Bounded: a director that falls behind holds back the requests, never the loop.
    pub home: mpsc::Sender<Finished>,
    /// What the director may look at.
    pub gauge: Arc<Gauge>,
    /// Ends the sending; requests in flight go on.
    pub stop: CancellationToken,
    /// Cuts off the requests in flight.
    pub cut: CancellationToken,
}

impl Job {
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

    /// Whether a request that is due at `due` would be sent for nobody's sake: beyond the window the load is kept on only for
    /// measured requests, those included that a late thread has not sent yet.
    fn needless(&self, due: Duration) -> bool {
        // A thread counts its last measured request in before it says that none is to come, and is seen to.
        due >= self.window_end() && self.gauge.to_come.load(Acquire) == 0 && self.gauge.measured_open() == 0
    }
}

/// One thread's part of a load.
pub struct Part {
    /// Sends the requests, over connections of its own.
    pub client: Client,
    /// Where its chains come from.
    pub source: Source,
    /// Its slots of a closed loop; `None` where chains have due times of their own.
    pub slots: Option<usize>,
    /// What it wakes by.
    pub clock: Clock,
    /// Let go when it has sent its last request.
    pub sending: Arc<DropGuard>,
}

/// Fires a part's chains until the window has passed and every measured request has finished, or until `stop`; then waits for
/// the requests in flight until `cut`. Load is kept on for as long as measured requests are open.
///
/// Fails if the system gives no timer, or a request's task panics; the whole load ends then.
pub async fn fire(job: Arc<Job>, part: Part) -> io::Result<()> {
    let (stop, cut) = (job.stop.clone(), job.cut.clone());
    let fired = match Loop::new(job, part) {
        Ok(load) => load.run().await,
        Err(e) => Err(e),
    };
    if fired.is_err() {
        // The other threads would go on without it for the rest of the step.
        stop.cancel();
        cut.cancel();
    }
    fired
}

struct Loop {
    job: Arc<Job>,
    client: Client,
    source: Source,
    pacer: Pacer,
    sending: Arc<DropGuard>,
    flying: JoinSet<Instant>,
    /// Whether its next chain is due within the measured window, as the gauge has it.
    to_come: bool,
    /// When each idle slot of a closed loop was freed.
    idle: VecDeque<Instant>,
}

impl Loop {
    fn new(job: Arc<Job>, part: Part) -> io::Result<Self> {
        let Part { client, source, slots, clock, sending } = part;
        let idle = vec![job.began; slots.unwrap_or(0)].into();
        let (pacer, to_come) = (Pacer::new(clock)?, slots.is_none());
        Ok(Self { job, client, source, pacer, sending, flying: JoinSet::new(), to_come, idle })
    }

    async fn run(mut self) -> io::Result<()> {
        while let Some(ready) = self.source.next().await {
            let due = match ready.chain.start {
                Start::At(at) => self.wait_due(at).await?,
                Start::WhenFree => self.wait_free().await?,
            };
            match due {
                Some(due) => self.launch(ready, due),
                None => break,
            }
            // The request goes out before anything else is done: taking the next chain wakes the thread that builds bodies.
            tokio::task::yield_now().await;
        }
        self.comes(false);
        drop(self.sending);
        while let Some(done) = self.flying.join_next().await {
            done?;
        }
        Ok(())
    }

    /// Tells the gauge whether the next chain is due within the window. The window may grow, and bring it back.
    fn comes(&mut self, within: bool) {
        if self.to_come == within {
            return;
        }
        self.to_come = within;
        let gauge = &self.job.gauge;
        if within {
            gauge.to_come.fetch_add(1, AcqRel);
        } else if gauge.to_come.fetch_sub(1, AcqRel) == 1 {
            gauge.quiet.notify_waiters();
        }
    }

    /// Waits until `at`; `None` when the step is over before that.
    async fn wait_due(&mut self, at: Duration) -> io::Result<Option<Duration>> {
        let mut window = self.job.window.clone();
        loop {
            window.mark_unchanged();
            let end = self.job.window_end();
            self.comes(at < end);
            let job = &self.job;
            let quiet = job.gauge.quiet.notified();
            let past_end = job.began + end <= Instant::now();
            if past_end && job.needless(at) {
                return Ok(None);
            }
            let target = if at >= end && !past_end { end } else { at };
            let woke = tokio::select! {
                biased;
                () = job.stop.cancelled() => return Ok(None),
                woke = self.pacer.until(job.began + target) => woke.map(|()| true)?,
                // The director ends the window early, or extends it.
                Ok(()) = window.changed() => false,
                () = quiet, if past_end => false,
            };
            if woke && target == at && !job.needless(at) {
                // What has finished since is let go; nobody was woken for it.
                while let Some(done) = self.flying.try_join_next() {
                    done?;
                }
                return Ok(Some(at));
            }
        }
    }

    /// Waits for a free slot and returns when it was freed; `None` when the step is over.
    async fn wait_free(&mut self) -> io::Result<Option<Duration>> {
        loop {
            if let Some(freed) = self.idle.pop_front() {
                let due = freed.saturating_duration_since(self.job.began);
                return Ok((!self.job.needless(due) && !self.job.stop.is_cancelled()).then_some(due));
            }
            tokio::select! {
                biased;
                () = self.job.stop.cancelled() => return Ok(None),
                Some(done) = self.flying.join_next(), if !self.flying.is_empty() => self.idle.push_back(done?),
                else => return Ok(None),
            }
        }
    }

    fn launch(&mut self, ready: Ready, due: Duration) {
        let gauge = &self.job.gauge;
        let phase = self.job.phase_of(due);
        let fits = gauge.enter(phase) < u64::from(self.job.max_in_flight);
        if !fits {
            gauge.client_limit.store(true, Relaxed);
        }
        self.flying.spawn(chain(self.job.clone(), self.client.clone(), ready, due, phase, fits));
    }
}

/// Sends the turns of one chain, one after the other; returns when its slot is free again.
async fn chain(
    job: Arc<Job>,
    client: Client,
    ready: Ready,
    first_due: Duration,
    first_phase: Phase,
    fits: bool,
) -> Instant {
    let (mut due, mut phase) = (first_due, first_phase);
    for (i, (turn, payload)) in ready.chain.turns.iter().zip(ready.payloads).enumerate() {
        if i > 0 {
            due += turn.after;
            tokio::time::sleep_until(job.began + due).await;
            phase = job.phase_of(due);
            job.gauge.enter(phase);
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
                began: job.began,
                timeout: job.timeout,
                cut: job.cut.clone(),
                itl_limit: job.itl_limit,
                keep_text: job.keep_text || turn.keep_text,
            };
            client.send(shot).await
        } else {
            (record.outcome, record.failure) = (Outcome::Failed, Some(Failure::ClientLimit));
            record.end = job.began.elapsed().max(due);
            Finished::new(record, Vec::new())
        };
        due = finished.record.end;
        let ended = finished.record.outcome != Outcome::Ok;
        // The director only goes away when the whole sweep does.
        let _ = job.home.send(finished).await;
        if job.gauge.leave(phase) && job.began.elapsed() >= job.window_end() {
            job.gauge.quiet.notify_waiters();
        }
        if ended {
            break;
        }
    }
    job.began + due
}
