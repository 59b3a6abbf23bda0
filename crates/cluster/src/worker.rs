//! The state machine of a worker: what it does at a request of a leader, and when it hears of none.
//!
//! It has no clock, no network and no load of its own. Whoever runs it passes it requests, the time and what becomes of
//! its load, and carries out its [`Effect`]s.

use super::chunk::Chunks;
use super::message::{
    Answer, Attempt, Command, Ended, LeaderId, Preparation, Progress, Refusal, Reply, Request, Wanted,
    WorkerDelays,
};
use goodput_core::record::Finished;
use goodput_load::load::firing::Delays;
use goodput_load::load::local::Outline;
use goodput_load::load::spec::Status;
use std::time::Duration;

/// Time after which a worker that hears nothing from its leader cancels its load and is free.
pub const LEASE: Duration = Duration::from_secs(5);

/// A load, by its number among all that the worker's process was asked for. Two leaders may number their attempts alike,
/// and what an older load still does in the background must not count for a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadId(u64);

/// An action of the worker's process.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Make a load ready, in the background.
    Prepare(LoadId, Box<Preparation>),
    /// Fire the load that is ready, at a time of the worker's clock in nanoseconds.
    Fire(LoadId, u64),
    /// Bring the load into a state.
    Control(Wanted),
    /// Cancel the load, if there is one, and drop it.
    Cancel,
}

/// The leader that has the worker.
#[derive(Debug, Clone)]
struct Lease {
    leader: LeaderId,
    holder: String,
    until: Duration,
}

/// The load that the leader asked for.
#[derive(Debug)]
struct Load {
    id: LoadId,
    attempt: Attempt,
    stage: Stage,
    /// Number of the newest request that set what is wanted.
    seq: u64,
    wanted: Option<Wanted>,
    status: Status,
    chunks: Chunks,
}

/// How far a load has come.
#[derive(Debug)]
enum Stage {
    Preparing,
    Ready(Outline),
    Firing,
    Ended { ended: Ended, delays: Delays },
    Failed(String),
}

/// The worker. Times count from the start of its process.
#[derive(Debug, Default)]
pub struct WorkerMachine {
    lease: Option<Lease>,
    load: Option<Load>,
    /// Number of loads so far.
    loads: u64,
    /// The newest attempt that was fired or released, of the leader that had the worker last. A request to make it ready
    /// that comes late must not fire it again.
    spent: Option<(LeaderId, Attempt)>,
}

impl WorkerMachine {
    /// Handles a request.
    pub fn request(&mut self, now: Duration, request: Request) -> (Answer, Vec<Effect>) {
        let effects = self.tick(now);
        let Request { leader, command } = request;
        let reply = match command {
            Command::Clock => Reply::Clock { at_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) },
            Command::Claim { holder } => self.claim(now, leader, holder),
            command => match &mut self.lease {
                Some(lease) if lease.leader == leader => {
                    lease.until = now + LEASE;
                    return self.obey(leader, command, effects);
                }
                _ => Reply::Refused(Refusal::NotClaimed),
            },
        };
        (Answer::of(reply), effects)
    }

    fn claim(&mut self, now: Duration, leader: LeaderId, holder: String) -> Reply {
        match &self.lease {
            Some(lease) if lease.leader != leader => {
                Reply::Refused(Refusal::Held { holder: lease.holder.clone() })
            }
            Some(_) | None => {
                self.lease = Some(Lease { leader, holder, until: now + LEASE });
                Reply::Claimed
            }
        }
    }

    /// Carries out a command of the leader that has the worker.
    fn obey(
        &mut self,
        leader: LeaderId,
        command: Command,
        mut effects: Vec<Effect>,
    ) -> (Answer, Vec<Effect>) {
        let reply = match command {
            Command::Prepare { attempt, preparation } => {
                self.prepare(leader, attempt, preparation, &mut effects)
            }
            Command::Fire { attempt, start_ns } => self.fire(leader, attempt, start_ns, &mut effects),
            Command::Pull { attempt, seq, wanted, from } => {
                return (self.pull(attempt, seq, wanted, from, &mut effects), effects);
            }
            Command::Delays { attempt, counted } => match self.load_of(attempt).map(|load| &load.stage) {
                Some(Stage::Ended { delays, .. }) => {
                    Reply::Delays(WorkerDelays { own: delays.within(&counted), halts: delays.halts.clone() })
                }
                _ => Reply::Refused(Refusal::OutOfOrder),
            },
            Command::Release { attempt } => {
                self.spend(leader, attempt);
                if self.load.take_if(|load| load.attempt <= attempt).is_some() {
                    effects.push(Effect::Cancel);
                }
                Reply::Released
            }
            Command::Free => {
                self.give_up(&mut effects);
                Reply::Freed
            }
            Command::Clock | Command::Claim { .. } => Reply::Refused(Refusal::OutOfOrder),
        };
        (Answer::of(reply), effects)
    }

    fn load_of(&mut self, attempt: Attempt) -> Option<&mut Load> {
        self.load.as_mut().filter(|load| load.attempt == attempt)
    }

    fn load_by_id(&mut self, id: LoadId) -> Option<&mut Load> {
        self.load.as_mut().filter(|load| load.id == id)
    }

    /// Notes that an attempt of a leader, and those before it, will not be fired from now on.
    fn spend(&mut self, leader: LeaderId, attempt: Attempt) {
        let newest = self.spent.filter(|(by, newest)| *by == leader && *newest > attempt);
        self.spent = newest.or(Some((leader, attempt)));
    }

    /// Makes a load ready, or says how far that is. An older load is dropped; a request for one that comes late is
    /// refused.
    fn prepare(
        &mut self,
        leader: LeaderId,
        attempt: Attempt,
        preparation: Box<Preparation>,
        effects: &mut Vec<Effect>,
    ) -> Reply {
        if self.load.as_ref().is_some_and(|load| load.attempt > attempt) {
            return Reply::Refused(Refusal::OutOfOrder);
        }
        if let Some(load) = self.load_of(attempt) {
            return match &load.stage {
                Stage::Preparing => Reply::Preparing,
                Stage::Ready(ready) => Reply::Ready(*ready),
                Stage::Failed(why) => Reply::Refused(Refusal::Failed { why: why.clone() }),
                Stage::Firing | Stage::Ended { .. } => Reply::Refused(Refusal::OutOfOrder),
            };
        }
        if self.spent.is_some_and(|(by, newest)| by == leader && newest >= attempt) {
            return Reply::Refused(Refusal::OutOfOrder);
        }
        if self.load.take().is_some() {
            effects.push(Effect::Cancel);
        }
        self.loads += 1;
        let id = LoadId(self.loads);
        self.load = Some(Load {
            id,
            attempt,
            stage: Stage::Preparing,
            seq: 0,
            wanted: None,
            status: Status::default(),
            chunks: Chunks::default(),
        });
        effects.push(Effect::Prepare(id, preparation));
        Reply::Preparing
    }

    fn fire(
        &mut self,
        leader: LeaderId,
        attempt: Attempt,
        start_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Reply {
        let Some(load) = self.load_of(attempt) else { return Reply::Refused(Refusal::OutOfOrder) };
        match &load.stage {
            Stage::Ready(_) => {
                load.stage = Stage::Firing;
                effects.push(Effect::Fire(load.id, start_ns));
                self.spend(leader, attempt);
                Reply::Armed
            }
            // The reply to the first request was lost.
            Stage::Firing | Stage::Ended { .. } => Reply::Armed,
            Stage::Failed(why) => Reply::Refused(Refusal::Failed { why: why.clone() }),
            Stage::Preparing => Reply::Refused(Refusal::OutOfOrder),
        }
    }

    fn pull(
        &mut self,
        attempt: Attempt,
        seq: u64,
        wanted: Wanted,
        from: u64,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        let refused = |refusal| Answer::of(Reply::Refused(refusal));
        let Some(load) = self.load_of(attempt) else { return refused(Refusal::OutOfOrder) };
        let ended = match &load.stage {
            Stage::Ended { ended, .. } => Some(*ended),
            Stage::Firing => None,
            Stage::Failed(why) => return refused(Refusal::Failed { why: why.clone() }),
            Stage::Preparing | Stage::Ready(_) => return refused(Refusal::OutOfOrder),
        };
        if seq > load.seq {
            load.seq = seq;
            if ended.is_none() && load.wanted != Some(wanted) {
                effects.push(Effect::Control(wanted));
            }
            load.wanted = Some(wanted);
        }
        let (chunk, bytes) = load.chunks.pull(from).unzip();
        let reply = Reply::Progress(Progress { status: load.status, chunk, ended });
        Answer { reply, chunk: bytes.unwrap_or_default() }
    }

    /// Notes that a load is ready, or cannot be made ready.
    pub fn prepared(&mut self, id: LoadId, result: Result<Outline, String>) {
        if let Some(load) = self.load_by_id(id) {
            load.stage = result.map_or_else(Stage::Failed, Stage::Ready);
        }
    }

    /// Adds a finished request of a load.
    pub fn finished(&mut self, id: LoadId, finished: &Finished) {
        if let Some(load) = self.load_by_id(id) {
            load.chunks.add(finished);
        }
    }

    /// Notes the counts of a load.
    pub fn status(&mut self, id: LoadId, status: Status) {
        if let Some(load) = self.load_by_id(id) {
            load.status = status;
        }
    }

    /// Notes that a load has ended, and by how much it had started late; or that it failed.
    pub fn ended(&mut self, id: LoadId, result: Result<(Duration, Delays), String>) {
        let Some(load) = self.load_by_id(id) else { return };
        load.stage = match result {
            Ok((late, delays)) => {
                let start_late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
                let (chunks, records) = (load.chunks.count(), load.chunks.records());
                Stage::Ended { ended: Ended { chunks, records, start_late_us }, delays }
            }
            Err(why) => Stage::Failed(why),
        };
    }

    /// Frees the worker if its leader has not been heard of for the length of the lease.
    pub fn tick(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.lease.as_ref().is_some_and(|lease| now >= lease.until) {
            self.give_up(&mut effects);
        }
        effects
    }

    fn give_up(&mut self, effects: &mut Vec<Effect>) {
        self.lease = None;
        if self.load.take().is_some() {
            effects.push(Effect::Cancel);
        }
    }

    /// Returns the host and process of the leader that has the worker.
    pub fn holder(&self) -> Option<&str> {
        self.lease.as_ref().map(|lease| lease.holder.as_str())
    }

    /// Returns the size of the records that the leader has not acknowledged, in bytes.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.load.as_ref().map_or(0, |load| load.chunks.bytes())
    }
}

#[cfg(test)]
mod tests;
