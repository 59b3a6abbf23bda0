//! The clock and the bus. Messages are delayed, lost, delivered twice, and overtake each other.

use super::schedule::Schedule;
use bytes::Bytes;
use goodput_cluster::message::{Answer, Attempt, Command, LeaderId, Request};
use goodput_cluster::step::{Failure, UNANSWERED};
use goodput_cluster::worker::LoadId;
use goodput_load::load::local::Outline;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::time::Duration;

/// Time that a request takes to fail while the leader knows that the bus is away.
const NO_BUS: Duration = Duration::from_millis(50);
/// Longest time after which a worker is back on a bus that is back.
const BACK: u64 = 500;

/// What a leader asks a request for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    /// For the state machine: the attempt, and the index of the worker among the members.
    Step(Attempt, usize),
    /// The same, for the worker's clock, with the time of asking.
    Clock(Attempt, usize, Duration),
    /// To have the worker.
    Claim(usize),
    /// To go on having it.
    Keep,
    /// To have it still, before an attempt.
    Again,
    /// To end an attempt.
    Release(Attempt),
    /// To be done with it.
    Leave,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A request reaches a worker. The reply to a second copy is dropped.
    Request {
        id: u64,
        worker: usize,
        epochs: [u32; 2],
        request: Rc<Request>,
        is_copy: bool,
    },
    /// A reply reaches a leader.
    Reply {
        id: u64,
        leader: usize,
        epoch: u32,
        reply: Result<Bytes, Failure>,
    },
    /// A request has been open for too long.
    Timeout {
        id: u64,
        leader: usize,
    },
    /// The leader looks after its load.
    Wake {
        leader: usize,
    },
    /// The leader claims its workers again.
    Claims {
        leader: usize,
    },
    /// The leader looks for workers.
    Look {
        leader: usize,
    },
    /// The leader is no longer stalled.
    Resume {
        leader: usize,
    },
    /// The link of a leader, or of a worker, may be back.
    LeaderBack {
        leader: usize,
    },
    WorkerBack {
        worker: usize,
    },
    Tick {
        worker: usize,
    },
    Thaw {
        worker: usize,
    },
    Restart {
        worker: usize,
    },
    /// A load of a worker's process is ready.
    Prepared {
        worker: usize,
        process: u32,
        load: LoadId,
        result: Result<Outline, String>,
    },
    /// A load of a worker's process has ended.
    Ended {
        worker: usize,
        process: u32,
        load: LoadId,
    },
    /// Something goes wrong, by its number.
    Chaos(usize),
    /// A fault of this worker must have been noticed.
    Noticed {
        worker: usize,
        since: Duration,
        is_killed: bool,
    },
}

#[derive(Debug)]
struct Entry {
    at: Duration,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A connection to the bus.
#[derive(Debug, Default)]
pub(crate) struct Link {
    down_until: Duration,
    pub(crate) is_down: bool,
    /// True if the bus does not know that it is down.
    is_silent: bool,
    /// Number of times that it went down: what was on its way is lost.
    epoch: u32,
    /// Number of times that it came back.
    pub(crate) returns: u32,
}

impl Link {
    fn cut(&mut self, until: Duration, is_silent: bool) {
        (self.is_down, self.is_silent) = (true, is_silent);
        self.epoch += 1;
        self.down_until = self.down_until.max(until);
    }

    fn back(&mut self, now: Duration) {
        if self.is_down && now >= self.down_until {
            self.is_down = false;
            self.returns += 1;
        }
    }
}

/// The clock, the bus, and what is on its way.
pub(crate) struct Net {
    pub(crate) now: Duration,
    pub(crate) rng: ChaCha8Rng,
    queue: BinaryHeap<Reverse<Entry>>,
    order: u64,
    delay: Duration,
    loss: f64,
    twice: f64,
    broken: f64,
    pub(crate) leaders: Vec<Link>,
    workers: Vec<Link>,
    open: HashMap<u64, Purpose>,
    requests: u64,
}

impl Net {
    pub(crate) fn new(schedule: &Schedule) -> Self {
        Self {
            now: Duration::ZERO,
            rng: ChaCha8Rng::seed_from_u64(schedule.seed ^ 0xb05),
            queue: BinaryHeap::new(),
            order: 0,
            delay: schedule.delay,
            loss: schedule.loss,
            twice: schedule.twice,
            broken: schedule.broken,
            leaders: schedule.leaders.iter().map(|_| Link::default()).collect(),
            workers: (0..schedule.workers).map(|_| Link::default()).collect(),
            open: HashMap::new(),
            requests: 0,
        }
    }

    /// Has something happen after a time.
    pub(crate) fn after(&mut self, time: Duration, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Entry { at: self.now + time, order: self.order, event }));
    }

    /// Turns the clock to the next event.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let Reverse(Entry { at, event, .. }) = self.queue.pop()?;
        self.now = at;
        Some(event)
    }

    fn way(&mut self) -> Duration {
        self.delay.mul_f64(self.rng.random())
    }

    /// Sends a request of a leader.
    pub(crate) fn send(&mut self, leader: usize, worker: usize, purpose: Purpose, command: Command) {
        self.requests += 1;
        let id = self.requests;
        self.open.insert(id, purpose);
        let epoch = self.leaders[leader].epoch;
        if self.leaders[leader].is_down {
            // Known at once: no epoch can lose it.
            let reply = Err(Failure::NoBus);
            return self.after(NO_BUS, Event::Reply { id, leader, epoch: u32::MAX, reply });
        }
        self.after(UNANSWERED, Event::Timeout { id, leader });
        let request = Rc::new(Request { leader: LeaderId(leader as u64 + 1), command });
        let epochs = [epoch, self.workers[worker].epoch];
        for is_copy in [false, true] {
            if is_copy && !self.rng.random_bool(self.twice) || self.rng.random_bool(self.loss) {
                continue;
            }
            let way = self.way();
            self.after(way, Event::Request { id, worker, epochs, request: request.clone(), is_copy });
        }
    }

    /// Returns true if a request reaches its worker; tells the leader if nobody is there.
    pub(crate) fn is_delivered(&mut self, request: &Event, leader: usize, is_alive: bool) -> bool {
        let Event::Request { id, worker, epochs, is_copy, .. } = *request else { return false };
        let link = &self.workers[worker];
        let is_current = link.epoch == epochs[1];
        if self.leaders[leader].epoch != epochs[0] || link.is_down && link.is_silent {
            return false;
        }
        let is_there = is_alive && !link.is_down;
        if !is_there && !is_copy {
            let way = self.way();
            let reply = Err(Failure::NobodyThere);
            self.after(way, Event::Reply { id, leader, epoch: epochs[0], reply });
        }
        is_there && is_current
    }

    /// Sends the answer of a worker.
    pub(crate) fn answer(&mut self, (id, leader, worker): (u64, usize, usize), answer: &Answer) {
        if self.workers[worker].is_down || self.rng.random_bool(self.loss) {
            return;
        }
        let mut bytes = answer.to_bytes().unwrap();
        if !answer.chunk.is_empty() && self.rng.random_bool(self.broken) {
            let at = bytes.len() - self.rng.random_range(1..=answer.chunk.len());
            let mut all = bytes.to_vec();
            all[at] ^= 1;
            bytes = all.into();
        }
        let (way, epoch) = (self.way(), self.leaders[leader].epoch);
        self.after(way, Event::Reply { id, leader, epoch, reply: Ok(bytes) });
    }

    /// Returns true for the end of a request that keeps a worker.
    pub(crate) fn is_keep(&self, event: &Event) -> bool {
        let (Event::Reply { id, .. } | Event::Timeout { id, .. }) = event else { return false };
        self.open.get(id) == Some(&Purpose::Keep)
    }

    /// Returns the purpose of a request that was open and is not any more, and its result.
    pub(crate) fn close(&mut self, event: Event) -> Option<(Purpose, Result<Answer, Failure>)> {
        match event {
            Event::Reply { id, leader, epoch, reply } => {
                let is_lost = epoch != u32::MAX && epoch != self.leaders[leader].epoch;
                let purpose = if is_lost { None } else { self.open.remove(&id) }?;
                Some((purpose, reply.map(|bytes| Answer::from_bytes(bytes).unwrap())))
            }
            Event::Timeout { id, leader } => {
                let is_down = self.leaders[leader].is_down;
                let failure = if is_down { Failure::NoBus } else { Failure::Unanswered };
                Some((self.open.remove(&id)?, Err(failure)))
            }
            _ => None,
        }
    }

    /// Cuts a leader off.
    pub(crate) fn cut_leader(&mut self, leader: usize, length: Duration) {
        self.leaders[leader].cut(self.now + length, false);
        self.after(length, Event::LeaderBack { leader });
    }

    /// Cuts a worker off.
    pub(crate) fn cut_worker(&mut self, worker: usize, length: Duration, is_silent: bool) {
        self.workers[worker].cut(self.now + length, is_silent);
        self.after(length, Event::WorkerBack { worker });
    }

    /// Takes the bus away. Workers come back to it one by one.
    pub(crate) fn cut_all(&mut self, length: Duration) {
        for leader in 0..self.leaders.len() {
            self.cut_leader(leader, length);
        }
        for worker in 0..self.workers.len() {
            let later = Duration::from_millis(self.rng.random_range(0..BACK));
            self.cut_worker(worker, length + later, false);
        }
    }

    /// Brings links back.
    pub(crate) fn back(&mut self, event: &Event) {
        match event {
            Event::LeaderBack { leader } => self.leaders[*leader].back(self.now),
            Event::WorkerBack { worker } => self.workers[*worker].back(self.now),
            _ => {}
        }
    }
}
