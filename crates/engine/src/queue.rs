//! Queueing models: requests in order of arrival before `servers` equal servers, with closed-form solutions in
//! [`super::truth`].

use super::batch::noise::sigma;
use super::{Emission, IdMap, Request};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

/// Distribution of the time for which a request occupies its server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Dist {
    /// A constant.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Lognormal.
    Lognormal {
        /// Mean.
        mean: Duration,
        /// Coefficient of variation (of the time itself, not of its logarithm); zero for a constant.
        cv: f64,
    },
    /// Two constants, the longer one rare.
    TwoSizes {
        /// The usual time.
        short: Duration,
        /// The rare time.
        long: Duration,
        /// Share of the long times, 0 to 1.
        share: f64,
    },
}

impl Dist {
    /// Returns this distribution with its times changed by a linear function.
    #[must_use]
    pub fn map(self, change: impl Fn(Duration) -> Duration) -> Self {
        match self {
            Self::Fixed(time) => Self::Fixed(change(time)),
            Self::Exponential(mean) => Self::Exponential(change(mean)),
            Self::Lognormal { mean, cv } => Self::Lognormal { mean: change(mean), cv },
            Self::TwoSizes { short, long, share } => {
                Self::TwoSizes { short: change(short), long: change(long), share }
            }
        }
    }
}

/// Parameters of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of servers; `u32::MAX` for a pure delay without waiting.
    pub servers: u32,
    /// Time for which a request occupies its server.
    pub service: Dist,
    /// If set, the first token comes this long after the start of service, and the others are spread evenly up to the
    /// end of the holding time (all at once if that ends earlier). If not set, the first token comes at the end of the
    /// holding time.
    pub prefill: Option<Duration>,
    /// Without `prefill`: time between tokens after the first, during which the server already serves others.
    pub decode: Duration,
    /// Seed of the holding times. The n-th arrival uses the n-th draw, regardless of other events.
    pub seed: u64,
}

/// A queue with its state.
#[derive(Debug, Clone)]
pub struct Queue {
    settings: Settings,
    rng: ChaCha8Rng,
    /// Time of the last state change.
    clock: Duration,
    arrivals: u64,
    jobs: IdMap<Job>,
    /// Waiting requests in order. Cancelled ones stay until they reach the front, since removing each at once would
    /// make cancelling all of them quadratic.
    line: VecDeque<Ticket>,
    waiting: usize,
    busy: u32,
    events: BinaryHeap<Reverse<Event>>,
    out: VecDeque<Emission>,
}

/// Id and arrival number of a request: ids may be reused while tickets of a cancelled request are still queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    number: u64,
    id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Duration,
    ticket: Ticket,
    kind: EventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Token,
    Release,
}

#[derive(Debug, Clone)]
struct Job {
    number: u64,
    tokens: u32,
    hold: Duration,
    sent: u32,
    occupies_server: bool,
    /// Start of its service.
    started: Duration,
    /// Times of the first and the last token; `None` while it waits.
    stream: Option<(Duration, Duration)>,
}

impl Job {
    /// Returns the time of the next token. Interpolated between both ends, so that rounding errors do not add up.
    fn next_token(&self) -> Option<Duration> {
        let (first, last) = self.stream?;
        let gaps = u128::from(self.tokens.max(2) - 1);
        let offset = (last - first).as_nanos() * u128::from(self.sent) / gaps;
        Some(first.saturating_add(Duration::from_nanos(u64::try_from(offset).unwrap_or(u64::MAX))))
    }
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            rng: ChaCha8Rng::seed_from_u64(settings.seed),
            clock: Duration::ZERO,
            arrivals: 0,
            jobs: IdMap::default(),
            line: VecDeque::new(),
            waiting: 0,
            busy: 0,
            events: BinaryHeap::new(),
            out: VecDeque::new(),
        }
    }

    /// See [`super::Model::arrive`].
    pub fn arrive(&mut self, at: Duration, request: &Request) {
        let at = self.run(at);
        let ticket = Ticket { number: self.arrivals, id: request.id };
        self.arrivals += 1;
        let hold = self.draw();
        let tokens = request.output_tokens.max(1);
        let job = Job {
            number: ticket.number,
            tokens,
            hold,
            sent: 0,
            occupies_server: false,
            started: at,
            stream: None,
        };
        let previous = self.jobs.insert(request.id, job);
        debug_assert!(previous.is_none(), "request {} is open already", request.id);
        self.line.push_back(ticket);
        self.waiting += 1;
        self.fill(at);
    }

    /// See [`super::Model::cancel`].
    pub fn cancel(&mut self, at: Duration, id: u64) {
        let at = self.run(at);
        // After its last token a request cannot be cancelled, though it may still occupy its server.
        if self.jobs.get(&id).is_none_or(|job| job.sent == job.tokens) {
            return;
        }
        let Some(job) = self.jobs.remove(&id) else { return };
        if job.stream.is_none() {
            self.waiting -= 1;
        }
        if job.occupies_server {
            self.busy -= 1;
            self.fill(at);
        }
        self.drop_stale();
    }

    /// See [`super::Model::next_event`].
    pub fn next_event(&self) -> Option<Duration> {
        // Emissions not yet fetched precede all pending events.
        self.out.front().map(|e| e.at).or_else(|| self.events.peek().map(|Reverse(e)| e.at))
    }

    /// See [`super::Model::advance`].
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        while self.events.peek().is_some_and(|Reverse(e)| e.at <= to) {
            self.step();
        }
        let due = self.out.partition_point(|e| e.at <= to);
        self.out.drain(..due).collect()
    }

    /// See [`super::Model::running`].
    pub fn running(&self) -> usize {
        self.jobs.len() - self.waiting
    }

    /// See [`super::Model::waiting`].
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Runs events due by `at` before an external event; returns the time at which the external event counts.
    fn run(&mut self, at: Duration) -> Duration {
        while self.events.peek().is_some_and(|Reverse(e)| e.at <= at) {
            self.step();
        }
        self.clock = self.clock.max(at);
        self.clock
    }

    fn step(&mut self) {
        let Some(Reverse(event)) = self.events.pop() else { return };
        if let Some(job) = self.jobs.get_mut(&event.ticket.id).filter(|j| j.number == event.ticket.number) {
            self.clock = self.clock.max(event.at);
            match event.kind {
                EventKind::Token => {
                    job.sent += 1;
                    let finished = job.sent == job.tokens;
                    let emission = Emission {
                        id: event.ticket.id,
                        at: event.at,
                        tokens: 1,
                        cached_tokens: None,
                        started: job.started,
                        finished,
                    };
                    self.out.push_back(emission);
                    match job.next_token().filter(|_| !finished) {
                        Some(at) => self.events.push(Reverse(Event { at, ..event })),
                        None if !job.occupies_server => drop(self.jobs.remove(&event.ticket.id)),
                        None => {}
                    }
                }
                EventKind::Release => {
                    job.occupies_server = false;
                    if job.sent == job.tokens {
                        self.jobs.remove(&event.ticket.id);
                    }
                    self.busy -= 1;
                    self.fill(event.at);
                }
            }
        }
        self.drop_stale();
    }

    /// Assigns free servers to waiting requests.
    fn fill(&mut self, at: Duration) {
        while self.busy < self.settings.servers {
            let Some(ticket) = self.line.pop_front() else { return };
            let Some(job) = self.jobs.get_mut(&ticket.id).filter(|j| j.number == ticket.number) else {
                continue;
            };
            let released = at.saturating_add(job.hold);
            let (first, last) = match self.settings.prefill {
                Some(prefill) => (at.saturating_add(prefill), at.saturating_add(prefill.max(job.hold))),
                None => {
                    let rest = self.settings.decode.saturating_mul(job.tokens - 1);
                    (released, released.saturating_add(rest))
                }
            };
            job.occupies_server = true;
            job.started = at;
            job.stream = Some((first, last));
            self.busy += 1;
            self.waiting -= 1;
            self.events.push(Reverse(Event { at: first, ticket, kind: EventKind::Token }));
            self.events.push(Reverse(Event { at: released, ticket, kind: EventKind::Release }));
        }
    }

    /// Removes events of cancelled requests from the front, where [`Queue::next_event`] looks.
    fn drop_stale(&mut self) {
        while let Some(Reverse(event)) = self.events.peek() {
            if self.jobs.get(&event.ticket.id).is_some_and(|j| j.number == event.ticket.number) {
                return;
            }
            self.events.pop();
        }
    }

    /// Draws a holding time. Called at the arrival, so that the n-th arrival uses the n-th draw.
    fn draw(&mut self) -> Duration {
        match self.settings.service {
            Dist::Fixed(hold) => hold,
            Dist::Exponential(mean) => {
                let u: f64 = self.rng.random();
                let seconds = -mean.as_secs_f64() * (-u).ln_1p();
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
            Dist::TwoSizes { short, long, share } => {
                if self.rng.random::<f64>() < share {
                    long
                } else {
                    short
                }
            }
            // μ = ln(mean) − σ²/2.
            Dist::Lognormal { mean, cv } => {
                let sigma = sigma(cv);
                let z: f64 = StandardNormal.sample(&mut self.rng);
                let seconds = mean.as_secs_f64() * (sigma * z - sigma * sigma / 2.0).exp();
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests;
