//! The means by which a leader talks to its workers.

use super::bus::Bus;
use super::clock::{Offset, ROUND_TRIPS, RoundTrip};
use super::message::{Answer, Command, LeaderId, Reply, Request, WorkerId, WorkerInfo};
use super::step::{Failure, POLL, StepMachine, UNANSWERED};
use super::worker::LEASE;
use bytes::Bytes;
use futures_util::future::join_all;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The means of talking to workers. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) bus: Bus,
    leader: LeaderId,
    origin: Instant,
}

impl Line {
    /// A new leader on a bus.
    pub(crate) fn new(bus: Bus) -> Self {
        Self { bus, leader: LeaderId(rand::random()), origin: Instant::now() }
    }

    /// Returns the leader's clock.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Returns the time of the leader's clock at an instant.
    pub(crate) fn at(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.origin)
    }

    /// Tells a machine if the bus has come back, before it hears of answers: workers that are not back yet, after the bus
    /// is, are not to blame.
    pub(crate) fn note_return(&self, machine: &mut StepMachine) {
        if let Some(returned) = self.bus.connection().returned {
            machine.reconnected(self.at(returned));
        }
    }

    /// Asks a worker for something.
    pub(crate) async fn ask(&self, worker: &WorkerId, command: Command) -> Result<Answer, Failure> {
        self.ask_within(worker, command, UNANSWERED).await
    }

    async fn ask_within(
        &self,
        worker: &WorkerId,
        command: Command,
        within: Duration,
    ) -> Result<Answer, Failure> {
        let mut reply = pin!(self.bus.request(worker, self.bytes(command)?, within));
        loop {
            tokio::select! {
                biased;
                reply = &mut reply => return Answer::from_bytes(reply?).map_err(|_| Failure::Unanswered),
                is_gone = self.is_gone(worker) => if is_gone { return Err(Failure::NobodyThere) }
            }
        }
    }

    /// Asks after a while if a worker is still on the bus. The broker says nothing about a request whose receiver died
    /// before it replied.
    async fn is_gone(&self, worker: &WorkerId) -> bool {
        sleep(POLL).await;
        match self.bytes(Command::Clock) {
            Ok(bytes) => self.bus.request(worker, bytes, POLL).await == Err(Failure::NobodyThere),
            Err(_) => false,
        }
    }

    fn bytes(&self, command: Command) -> Result<Bytes, Failure> {
        let request = Request { leader: self.leader, command };
        serde_json::to_vec(&request).map(Bytes::from).map_err(|_| Failure::Unanswered)
    }

    /// Measures the offset of a worker's clock.
    async fn offset(&self, worker: &WorkerId) -> Result<Offset, Failure> {
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        let mut heard = self.now();
        while trips.len() < ROUND_TRIPS {
            let asked_ns = nanos(self.now());
            match self.ask(worker, Command::Clock).await.map(|answer| answer.reply) {
                Ok(Reply::Clock { at_ns: worker_ns }) => {
                    heard = self.now();
                    trips.push(RoundTrip { asked_ns, answered_ns: nanos(heard), worker_ns });
                }
                Ok(_) => return Err(Failure::Unanswered),
                // The bus is away, or the worker is not yet back on it.
                Err(failure) => {
                    let returned = self.bus.connection().returned;
                    let is_excused =
                        failure == Failure::NoBus || returned.is_some_and(|at| at.elapsed() < LEASE);
                    if !is_excused || self.now() >= heard + LEASE {
                        return Err(failure);
                    }
                    sleep(POLL).await;
                }
            }
        }
        Offset::estimate(&trips).ok_or(Failure::Unanswered)
    }

    /// Measures the offsets of the clocks of several workers at once.
    pub(crate) async fn offsets(&self, workers: &[WorkerInfo]) -> Vec<Result<Offset, Failure>> {
        join_all(workers.iter().map(|w| self.offset(&w.id))).await
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs a state machine until it is as wanted.
pub(crate) async fn drive_until(
    line: &Line,
    members: &[WorkerInfo],
    machine: &mut StepMachine,
    is_done: impl Fn(&StepMachine) -> bool,
) {
    while !is_done(machine) {
        let due = machine.due(line.now());
        if due.is_empty() {
            let next =
                machine.next_due().map_or(Duration::from_millis(10), |next| next.saturating_sub(line.now()));
            sleep(next.clamp(Duration::from_millis(1), Duration::from_millis(50))).await;
            continue;
        }
        // All at once, and all answered before the next round: there is nothing to fetch yet.
        let ask =
            due.into_iter().map(|(i, command)| async move { (i, line.ask(&members[i].id, command).await) });
        let answers = join_all(ask).await;
        line.note_return(machine);
        for (i, answer) in answers {
            machine.answered(line.now(), i, answer);
        }
    }
}
