//! The loop that fires a step's chains when they are due, for every arrival process, and sends records to the director.

use super::job::Job;
use super::pacer::{Clock, Pacer};
use super::source::{Dialogue, Ready, Source};
use crate::client::payload::Payload;
use crate::client::{Client, Shot};
use goodput_core::record::{Failure, Finished, Outcome, Phase, Record};
use goodput_workload::chain::{Chain, Start};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

/// One thread's share of a load.
pub(crate) struct ThreadLoad {
    /// Sends the requests, over this thread's connections.
    pub client: Client,
    /// The chains to send.
    pub source: Source,
    /// Slots of a closed loop; `None` if chains have their own due times.
    pub slots: Option<usize>,
    /// Minimum time between two chains of a closed loop.
    pub gap: Duration,
    /// Earliest start of the first chain of a closed loop.
    pub first: Duration,
    /// The clock of the load.
    pub clock: Clock,
    /// Dropped once the thread has sent its last request.
    pub sending: Arc<DropGuard>,
}

/// Fires a thread's chains until the window has passed and every measured request has finished, or until `stop`; then
/// waits for the requests in flight until `cut`. After the window, load continues for as long as measured requests are
/// open.
///
/// Fails if the system refuses a timer, or a request's task panics; the whole load then ends.
pub(crate) async fn fire(job: Arc<Job>, load: ThreadLoad) -> io::Result<()> {
    let (stop, cut) = (job.stop.clone(), job.cut.clone());
    let fired = match Loop::new(job, load) {
        Ok(load) => load.run().await,
        Err(e) => Err(e),
    };
    if fired.is_err() {
        // Without this, the other threads would continue for the rest of the step.
        stop.cancel();
        cut.cancel();
    }
    fired
}

/// A request to be sent: a turn of a chain.
struct Flight {
    chain: Chain,
    turn: usize,
    payload: Payload,
    /// The later turns of the conversation.
    dialogue: Option<Box<Dialogue>>,
    due: Duration,
    /// The phase in which it was due when that became known. It has been promised to the gauge.
    phase: Phase,
}

/// A later turn, ordered so that a max-heap yields the earliest `due` first.
struct Waiting(Flight);

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.due.cmp(&self.0.due)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.0.due == other.0.due
    }
}

impl Eq for Waiting {}

/// The next action of the loop.
enum Due {
    /// The first turn of the next chain.
    Chain(Duration),
    /// A later turn of a chain.
    Turn(Flight),
    /// Nothing: the step is over.
    Over,
}

struct Loop {
    job: Arc<Job>,
    client: Client,
    source: Source,
    pacer: Pacer,
    sending: Arc<DropGuard>,
    /// Requests in flight; each returns the time when it freed its slot, if it did.
    flying: JoinSet<Option<Instant>>,
    /// True while this thread is counted in the gauge as having a chain due in the window.
    to_come: bool,
    /// Times when the idle slots of a closed loop were freed; `None` for an open loop.
    idle: Option<VecDeque<Instant>>,
    gap: Duration,
    /// Earliest start of the next chain of a closed loop.
    paced: Duration,
    /// Later turns whose preceding answer has arrived: a heap, and the channel that fills it.
    waiting: BinaryHeap<Waiting>,
    landed: mpsc::UnboundedReceiver<Flight>,
    land: mpsc::UnboundedSender<Flight>,
}

impl Loop {
    fn new(job: Arc<Job>, load: ThreadLoad) -> io::Result<Self> {
        let ThreadLoad { client, source, slots, gap, first, clock, sending } = load;
        let idle = slots.map(|n| vec![job.began; n].into());
        let (pacer, to_come) = (Pacer::new(clock)?, slots.is_none());
        let (land, landed) = mpsc::unbounded_channel();
        let (flying, waiting) = (JoinSet::new(), BinaryHeap::new());
        Ok(Self {
            job,
            client,
            source,
            pacer,
            sending,
            flying,
            to_come,
            idle,
            gap,
            paced: first,
            waiting,
            landed,
            land,
        })
    }

    async fn run(mut self) -> io::Result<()> {
        let mut ready = self.source.next().await;
        self.job.gauge.ready(self.job.began.elapsed());
        loop {
            match self.wait(ready.as_ref().map(|r| r.chain.start)).await? {
                Due::Chain(due) => {
                    if let Some(Ready { chain, first, dialogue }) = ready {
                        let phase = self.job.phase_of(due);
                        self.job.gauge.promise(phase);
                        self.launch(Flight { chain, turn: 0, payload: first, dialogue, due, phase });
                    }
                    // The request goes out first: taking the next chain may wake the thread that builds bodies.
                    tokio::task::yield_now().await;
                    ready = self.source.next().await;
                }
                Due::Turn(flight) => {
                    self.launch(flight);
                    tokio::task::yield_now().await;
                }
                Due::Over => break,
            }
        }
        self.set_to_come(false);
        self.collect()?;
        let unsent = Unsent {
            end: self.job.window_end().min(self.job.began.elapsed()),
            chain: ready.map(|ready| ready.chain).filter(|_| self.idle.is_none()),
            turns: std::mem::take(&mut self.waiting),
        };
        drop((self.sending, self.landed));
        unsent.report(&self.job, self.source).await;
        while let Some(done) = self.flying.join_next().await {
            done?;
        }
        Ok(())
    }

    /// Updates the gauge on whether the next chain is due within the window. An extension of the window may make it so
    /// again.
    fn set_to_come(&mut self, within: bool) {
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

    /// Returns when the next chain is due, if known: a closed loop needs a free slot for it.
    fn chain_due(&self, start: Start) -> Option<Duration> {
        match (start, &self.idle) {
            (Start::At(at), _) => Some(at),
            (Start::WhenFree, Some(idle)) => {
                let freed = idle.front()?.saturating_duration_since(self.job.began);
                Some(freed.max(self.paced))
            }
            (Start::WhenFree, None) => None,
        }
    }

    /// Collects the turns and finished requests that have arrived without waking the loop.
    fn collect(&mut self) -> io::Result<()> {
        while let Ok(flight) = self.landed.try_recv() {
            self.waiting.push(Waiting(flight));
        }
        while let Some(done) = self.flying.try_join_next() {
            let freed = done?;
            if let Some(idle) = &mut self.idle {
                idle.extend(freed);
            }
        }
        Ok(())
    }

    /// Waits until something is due: the next chain, which starts according to `start`, or a later turn of an earlier
    /// chain.
    async fn wait(&mut self, start: Option<Start>) -> io::Result<Due> {
        let mut window = self.job.window.clone();
        loop {
            self.collect()?;
            window.mark_unchanged();
            let end = self.job.window_end();
            let chain = start.and_then(|start| self.chain_due(start));
            let turn = self.waiting.peek().map(|w| w.0.due);
            let next = [chain, turn].into_iter().flatten().min();
            if self.idle.is_none() {
                self.set_to_come(chain.is_some_and(|at| at < end));
            }
            let job = &self.job;
            let past_end = job.began + end <= Instant::now();
            let over = |at| past_end && job.is_after_tail(at);
            if job.stop.is_cancelled() || next.is_some_and(over) || (start.is_none() && self.silent()) {
                return Ok(Due::Over);
            }
            let quiet = job.gauge.quiet.notified();
            let target = next.map(|at| if at >= end && !past_end { end } else { at });
            let at = job.began + target.unwrap_or_default();
            let frees = self.idle.is_some() || start.is_none();
            let woke = tokio::select! {
                biased;
                () = job.stop.cancelled() => return Ok(Due::Over),
                woke = self.pacer.until(at), if target.is_some() => woke.map(|()| true)?,
                Some(flight) = self.landed.recv() => {
                    self.waiting.push(Waiting(flight));
                    false
                }
                Some(done) = self.flying.join_next(), if frees => {
                    let freed = done?;
                    if let Some(idle) = &mut self.idle {
                        idle.extend(freed);
                    }
                    false
                }
                // The director shortens or extends the window.
                Ok(()) = window.changed() => false,
                () = quiet, if past_end => false,
            };
            if woke && target == next && !next.is_some_and(|at| job.is_after_tail(at)) {
                return Ok(self.take(chain, turn));
            }
        }
    }

    /// Returns true if no further turn can follow once the chains have run out.
    fn silent(&self) -> bool {
        // Each request that another turn may follow has a clone of the sender.
        self.waiting.is_empty() && self.landed.is_empty() && self.landed.sender_strong_count() == 1
    }

    /// Takes the chain or the turn that is due first.
    fn take(&mut self, chain: Option<Duration>, turn: Option<Duration>) -> Due {
        match (chain, turn) {
            (Some(chain), turn) if turn.is_none_or(|turn| chain <= turn) => {
                if let Some(idle) = &mut self.idle {
                    idle.pop_front();
                    self.paced = chain + self.gap;
                }
                Due::Chain(chain)
            }
            _ => self.waiting.pop().map_or(Due::Over, |w| Due::Turn(w.0)),
        }
    }

    fn launch(&mut self, flight: Flight) {
        let gauge = &self.job.gauge;
        let fits = gauge.enter() < u64::from(self.job.max_in_flight);
        if !fits {
            gauge.client_limit.store(true, Relaxed);
        }
        let land = flight.chain.needs_text(flight.turn).then(|| self.land.clone());
        self.flying.spawn(fly(self.job.clone(), self.client.clone(), flight, fits, land));
    }
}

/// The requests that were due before the load ended, and that the client never sent: it was stopped meanwhile, or too slow.
struct Unsent {
    /// End of the part of the step that counts: of the window, or of the load where that came first.
    end: Duration,
    /// The next chain that would have been sent; `None` in a closed loop, whose chains have no due times.
    chain: Option<Chain>,
    /// Later turns of the conversations.
    turns: BinaryHeap<Waiting>,
}

impl Unsent {
    /// Sends a record of each request to the director, so that what was due is accounted for, whatever was sent. `source` has the chains after
    /// the next one.
    async fn report(self, job: &Job, mut source: Source) {
        let Self { end, mut chain, turns } = self;
        source.stop_building();
        for Waiting(flight) in turns {
            if flight.due < end {
                report_unsent(job, record_of(job, &flight.chain, flight.turn, flight.due, flight.phase))
                    .await;
            }
        }
        while let Some(next) = chain {
            let Start::At(due) = next.start else { return };
            if due >= end {
                return;
            }
            report_unsent(job, record_of(job, &next, 0, due, job.phase_of(due))).await;
            chain = source.next().await.map(|ready| ready.chain);
        }
    }
}

async fn report_unsent(job: &Job, mut record: Record) {
    record.end = job.began.elapsed().max(record.due);
    // The receiver closes only when the whole sweep ends.
    let _ = job.results.send(Finished::new(record, Vec::new())).await;
}

/// Returns the record of a turn of a chain, before anything came of it.
fn record_of(job: &Job, chain: &Chain, at: usize, due: Duration, phase: Phase) -> Record {
    let turn = &chain.turns[at];
    let mut record = Record::due(turn.request.id, phase, due);
    (record.class, record.session) = (turn.class, chain.session);
    record.turn = chain.session.map_or(0, |_| at as u16 + 1);
    (record.input_asked, record.output_asked) = (turn.request.input_tokens, turn.request.output_tokens);
    (record.items, record.audio) = (turn.request.items(), turn.request.audio());
    record.ask_for_choices(job.choices_of(turn.class));
    record
}

/// Sends one request. Hands the next turn back to the loop, if there is one; otherwise returns when its slot was freed.
async fn fly(
    job: Arc<Job>,
    client: Client,
    mut flight: Flight,
    fits: bool,
    land: Option<mpsc::UnboundedSender<Flight>>,
) -> Option<Instant> {
    let (due, phase) = (flight.due, flight.phase);
    let mut record = record_of(&job, &flight.chain, flight.turn, due, phase);
    let mut finished = if fits {
        let shot = Shot {
            record,
            payload: std::mem::take(&mut flight.payload),
            began: job.began,
            timeout: job.timeout,
            timeout_is_error: job.timeout_is_error,
            cut: job.cut.clone(),
            itl_limit: job.itl_limit,
            keep_text: job.keep_text || land.is_some(),
        };
        client.send(shot).await
    } else {
        (record.outcome, record.failure) = (Outcome::Failed, Some(Failure::ClientLimit));
        record.end = job.began.elapsed().max(due);
        Finished::new(record, Vec::new())
    };
    let (end, ok) = (finished.record.end, finished.record.outcome == Outcome::Ok);
    let answer = if job.keep_text { finished.text.clone() } else { finished.text.take() };
    // The receiver closes only when the whole sweep ends.
    let _ = job.results.send(finished).await;
    // A turn that did not succeed is the last one of its chain.
    let next = land.filter(|_| ok).map(|land| {
        flight.follow(&job, end, answer.as_deref().unwrap_or_default());
        job.gauge.promise(flight.phase);
        (land, flight)
    });
    if job.gauge.leave(phase) && job.began.elapsed() >= job.window_end() {
        job.gauge.quiet.notify_waiters();
    }
    let freed = Some(job.began + end);
    // If the loop is over, nobody receives this turn.
    next.map_or(freed, |(land, flight)| if land.send(flight).is_ok() { None } else { freed })
}

impl Flight {
    /// Advances to the next turn, after this one was answered at `end`.
    fn follow(&mut self, job: &Job, end: Duration, answer: &str) {
        self.turn += 1;
        let turn = &self.chain.turns[self.turn];
        self.due = end + turn.after;
        self.phase = job.phase_of(self.due);
        if let Some(dialogue) = &mut self.dialogue {
            self.payload = dialogue.follow(answer, turn.request.output_tokens);
        }
    }
}
