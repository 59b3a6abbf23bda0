//! The load of a worker: a model that finishes a fixed, seeded list of requests in time.

use goodput_cluster::message::Wanted;
use goodput_core::record::{Finished, Outcome, Phase, Record};
use goodput_load::load::spec::Status;
use std::time::Duration;

use super::schedule::Schedule;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A load that is being fired. All times are those of the worker's clock.
pub(crate) struct Load {
    start: Duration,
    gap: Duration,
    latency: Duration,
    long_texts: f64,
    settle: Duration,
    /// Requests are due before this time of the step.
    length: Duration,
    wanted: Wanted,
    /// Draws what requests look like.
    rng: ChaCha8Rng,
    id: u64,
    /// When the next request is due.
    next: Duration,
    /// Those in flight: when each ends, when it was due, and its number.
    flight: Vec<(Duration, Duration, u64)>,
    is_told: bool,
}

impl Load {
    /// Fires the load of a worker.
    pub(crate) fn new(schedule: &Schedule, worker: usize, start: Duration, key: u64) -> Self {
        let seed = schedule.seed ^ (worker as u64) << 32 ^ key << 48;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Self {
            start,
            gap: schedule.gap,
            latency: schedule.latency,
            long_texts: schedule.long_texts,
            settle: schedule.settle,
            length: schedule.lengths[worker],
            wanted: Wanted { window: schedule.window, stop: false, cut: false },
            id: rng.random(),
            rng,
            next: Duration::ZERO,
            flight: Vec::new(),
            is_told: false,
        }
    }

    /// Sends what is due, and returns what has finished, in order.
    pub(crate) fn advance(&mut self, now: Duration) -> Vec<Finished> {
        let Some(now) = now.checked_sub(self.start) else { return Vec::new() };
        while !self.is_sent() && self.next <= now {
            let ends = self.next + self.latency.mul_f64(self.rng.random());
            self.id += 1;
            self.flight.push((ends, self.next, self.id));
            self.next += self.gap.mul_f64(2.0 * self.rng.random::<f64>()) + Duration::from_millis(1);
        }
        self.flight.sort();
        let over = if self.wanted.cut {
            self.flight.len()
        } else {
            self.flight.partition_point(|(end, ..)| *end <= now)
        };
        let over: Vec<_> = self.flight.drain(..over).collect();
        over.into_iter().map(|(end, due, id)| self.finished(due, end.min(now), id)).collect()
    }

    fn finished(&mut self, due: Duration, end: Duration, id: u64) -> Finished {
        let record = Record { end, outcome: Outcome::Ok, ..Record::due(id, Phase::Measure, due) };
        let gaps = (0..self.rng.random_range(0..4)).map(|_| self.rng.random()).collect();
        let length =
            if self.rng.random_bool(self.long_texts) { 119_000 } else { self.rng.random_range(0..60) };
        let text = (length % 3 != 0).then(|| "é".repeat(length / 2).into());
        Finished { text, ..Finished::new(record, gaps) }
    }

    fn is_sent(&self) -> bool {
        self.wanted.stop || self.next >= self.length
    }

    /// Brings the load into a state. What was stopped stays so.
    pub(crate) fn control(&mut self, wanted: Wanted) {
        let Wanted { stop, cut, .. } = self.wanted;
        self.wanted = Wanted { stop: stop || wanted.stop, cut: cut || wanted.cut, ..wanted };
    }

    /// Returns true once, when the load is over.
    pub(crate) fn ends(&mut self) -> bool {
        let ends = self.is_sent() && self.flight.is_empty() && !self.is_told;
        self.is_told |= ends;
        ends
    }

    pub(crate) fn status(&self) -> Status {
        let end = self.settle + self.wanted.window;
        let is_measured = |due: Duration| due >= self.settle && due < end;
        let measured = self.flight.iter().filter(|(_, due, _)| is_measured(*due));
        Status {
            in_flight: self.flight.len() as u64,
            measured_open: measured.count() as u64,
            to_come: !self.is_sent() && self.next < end,
            client_limit: false,
            sent_all: self.is_sent(),
        }
    }
}
