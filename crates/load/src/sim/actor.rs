//! The task that owns the engine model and drives it on tokio's clock. All other code communicates with it by messages.
//!
//! Model times are offsets from one base instant, and the task sleeps until exact instants, so a late wake-up delays
//! only what is due, and nothing after it. On the machine's clock a kernel timer wakes it. Tokio's timers fire at whole
//! milliseconds: a closed loop of one would lock to them, and show a TPOT that jumps by a third of a millisecond from one
//! step to the next. On a paused clock, a token arrives at the first whole millisecond (counted from the start of the
//! runtime) that is not before its exact time: whole-millisecond times are exact, others up to 1 ms late, never early, and
//! the delays do not add up. The models themselves, driven directly, are exact.

use crate::load::pacer::{Clock, Pacer};
use crate::sim::metrics::Counters;
use goodput_engine::{Emission, Model, Request};
use std::{
    collections::{HashMap, VecDeque},
    task::{Context, Poll},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Duration, Instant},
};

/// Maximum number of commands handled before the model is advanced.
const BATCH: usize = 256;

/// Handle to the task, which ends when the last handle and the last open [`Answer`] are dropped.
#[derive(Debug, Clone)]
pub(super) struct Handle(mpsc::UnboundedSender<Command>);

/// One event of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) tokens: u32,
    /// See [`Emission::cached_tokens`].
    pub(super) cached_tokens: Option<u32>,
    pub(super) finished: bool,
}

#[derive(Debug)]
enum Command {
    /// A request and its arrival time.
    Submit(Instant, Request, mpsc::UnboundedSender<Progress>),
    /// A cancellation: the client of this request disconnected at this time.
    Cancel(Instant, u64),
    Count(oneshot::Sender<Box<Counters>>),
}

impl Handle {
    /// Starts the task on a clock; the model's time zero is now. Each event of an answer reaches the client after `network`.
    pub(super) fn start(model: Model, network: Duration, clock: Clock) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let base = Instant::now();
        let actor = Actor::new(model, base, network, clock);
        tokio::spawn(actor.run(inbox));
        Self(commands)
    }

    /// Submits a request to the engine. Dropping the answer before its end cancels the request.
    pub(super) fn submit(&self, at: Instant, request: Request) -> Answer {
        let id = request.id;
        // Unbounded: an answer has at most as many events as its request has tokens, and the engine must never wait.
        let (events, progress) = mpsc::unbounded_channel();
        // If the task ended with its runtime, the sender is dropped here and the answer ends early.
        let _ = self.0.send(Command::Submit(at, request, events));
        Answer { id, progress, commands: self.0.clone(), over: false }
    }

    /// Returns the current counters; `None` if the task has ended.
    pub(super) async fn counters(&self) -> Option<Box<Counters>> {
        let (reply, counters) = oneshot::channel();
        self.0.send(Command::Count(reply)).ok()?;
        counters.await.ok()
    }
}

/// The events of one request, as they arrive.
#[derive(Debug)]
pub(super) struct Answer {
    id: u64,
    progress: mpsc::UnboundedReceiver<Progress>,
    commands: mpsc::UnboundedSender<Command>,
    over: bool,
}

impl Answer {
    /// Polls the next event; `None` after the last one, or if the engine has stopped (see [`Answer::over`]).
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Progress>> {
        if self.over {
            return Poll::Ready(None);
        }
        let event = std::task::ready!(self.progress.poll_recv(cx));
        self.over = event.is_some_and(|e| e.finished);
        Poll::Ready(event)
    }

    /// Returns true if the last event has been taken.
    pub(super) fn over(&self) -> bool {
        self.over
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.commands.send(Command::Cancel(Instant::now(), self.id));
        }
    }
}

struct Actor {
    model: Model,
    pacer: Pacer,
    base: Instant,
    open: HashMap<u64, Open>,
    counters: Counters,
    /// Time between an event's leaving the engine and its arrival at the client.
    network: Duration,
    /// Events under way to the client, in order of their arrival there.
    under_way: VecDeque<UnderWay>,
}

/// An event under way to the client.
struct UnderWay {
    /// Arrival at the client, in the engine's time.
    at: Duration,
    events: mpsc::UnboundedSender<Progress>,
    progress: Progress,
}

struct Open {
    events: mpsc::UnboundedSender<Progress>,
    input_tokens: u32,
    /// Arrival time, in the engine's time.
    arrived: Duration,
    /// Time at which the first token left the engine.
    first: Duration,
    /// Time at which the latest token left the engine.
    last: Option<Duration>,
    /// Number of output tokens so far.
    output_tokens: u32,
}

impl Actor {
    fn new(model: Model, base: Instant, network: Duration, clock: Clock) -> Self {
        let under_way = VecDeque::new();
        // Without such a timer the runtime's own serves, if less exactly.
        let pacer = Pacer::new(clock).unwrap_or_else(|_| Pacer::of_runtime());
        Self { model, pacer, base, open: HashMap::new(), counters: Counters::new(), network, under_way }
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let arrival = self.under_way.front().map(|event| event.at);
            let next = self.model.next_event().into_iter().chain(arrival).min();
            // A time beyond the range of `Instant` never comes.
            let wake = next.and_then(|t| self.base.checked_add(t));
            tokio::select! {
                biased;
                n = inbox.recv_many(&mut batch, BATCH) => if n == 0 { return },
                woke = self.pacer.until(wake.unwrap_or(self.base)), if wake.is_some() => if woke.is_err() {
                    self.pacer = Pacer::of_runtime();
                }
            }
            for command in batch.drain(..) {
                self.obey(command);
            }
            self.advance(self.offset(Instant::now()));
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(at, request, events) => {
                let (arrived, input_tokens) = (self.offset(at), request.input_tokens);
                self.open.insert(
                    request.id,
                    Open { events, input_tokens, arrived, first: arrived, last: None, output_tokens: 0 },
                );
                self.model.arrive(arrived, request);
            }
            Command::Cancel(at, id) => {
                let at = self.offset(at);
                // Tokens generated by then count; an answer that was complete by then is finished, even if its end was
                // not read.
                self.advance(at);
                self.model.cancel(at, id);
                if self.open.remove(&id).is_some() {
                    self.counters.aborted += 1;
                }
            }
            Command::Count(reply) => {
                self.advance(self.offset(Instant::now()));
                let model = &self.model;
                let counters = Counters {
                    running: model.running(),
                    waiting: model.waiting(),
                    kv_cache_usage: model.kv_cache_usage(),
                    preemptions: model.preemptions(),
                    prefix: model.prefix_counts(),
                    ..self.counters.clone()
                };
                let _ = reply.send(Box::new(counters));
            }
        }
    }

    fn advance(&mut self, to: Duration) {
        for emission in self.model.advance(to) {
            self.deliver(emission);
        }
        let arrived = self.under_way.partition_point(|event| event.at <= to);
        for event in self.under_way.drain(..arrived) {
            let _ = event.events.send(event.progress);
        }
    }

    fn deliver(&mut self, emission: Emission) {
        let Emission { id, at, tokens, cached_tokens, started, finished } = emission;
        let Some(open) = self.open.get_mut(&id) else { return };
        let latency = at.saturating_sub(open.arrived);
        match open.last.replace(at) {
            Some(last) => self.counters.itl.record(at.saturating_sub(last)),
            None => {
                open.first = at;
                self.counters.prompt_tokens += u64::from(open.input_tokens);
                self.counters.ttft.record(latency);
            }
        }
        open.output_tokens += tokens;
        let (first, further) = (open.first, open.output_tokens.saturating_sub(1));
        self.counters.generation_tokens += u64::from(tokens);
        // The receiver is gone if the client has disconnected; its cancellation will follow.
        let progress = Progress { tokens, cached_tokens, finished };
        if self.network.is_zero() {
            let _ = open.events.send(progress);
        } else {
            let event = UnderWay { at: at + self.network, events: open.events.clone(), progress };
            self.under_way.push_back(event);
        }
        if finished {
            self.counters.finished += 1;
            self.counters.e2e.record(latency);
            // vLLM also records the phases of a request when it has finished.
            self.counters.queue.record(started.saturating_sub(open.arrived));
            self.counters.prefill.record(first.saturating_sub(started));
            self.counters.decode.record(at.saturating_sub(first));
            if further > 0 {
                self.counters.tpot.record(at.saturating_sub(first) / further);
            }
            self.open.remove(&id);
        }
    }

    fn offset(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_engine::config::Simulated;

    const MS: Duration = Duration::from_millis(1);

    /// An answer dropped at the instant of its end, or later, is not an abort, even if the task has not run since. One
    /// dropped earlier counts with the tokens generated by then.
    #[tokio::test(start_paused = true)]
    async fn what_was_generated_before_a_cancellation_counts() {
        let sim: Simulated = toml::from_str("preset = \"md1\"\ndecode = \"10ms\"").unwrap();
        for (gone_after, expected) in
            [(49, (0, 0, 1)), (50, (0, 1, 1)), (69, (0, 2, 1)), (70, (1, 3, 0)), (500, (1, 3, 0))]
        {
            let (commands, inbox) = mpsc::unbounded_channel();
            let base = Instant::now();
            let actor = Actor::new(sim.build(), base, Duration::ZERO, Clock::Paused);
            let (events, _progress) = mpsc::unbounded_channel();
            let (reply, counters) = oneshot::channel();
            commands.send(Command::Submit(base, Request::new(0, 9, 3), events)).unwrap();
            commands.send(Command::Cancel(base + gone_after * MS, 0)).unwrap();
            commands.send(Command::Count(reply)).unwrap();
            // The task comes to it late.
            tokio::time::advance(1000 * MS).await;
            tokio::spawn(actor.run(inbox));
            let c = counters.await.unwrap();
            assert_eq!((c.finished, c.generation_tokens, c.aborted), expected, "{gone_after} ms");
            assert_eq!(c.prompt_tokens, if expected.1 > 0 { 9 } else { 0 });
        }
    }
}
