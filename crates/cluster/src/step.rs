//! The state machine of a leader during one load: what it asks its workers, and what follows from their replies.
//!
//! It has no clock and no network of its own. Whoever runs it sends the requests of [`StepMachine::due`], passes the
//! replies and failures back, and takes the records. Each worker has at most one request open. A request that is lost is
//! sent again: all of them say what is wanted, not what is to change.

use super::chunk;
use super::message::{Answer, Attempt, Command, Preparation, Progress, Refusal, Reply, Wanted};
use super::worker::LEASE;
use goodput_core::record::Finished;
use goodput_load::load::local::Outline;
use goodput_load::load::spec::Status;
use goodput_stats::stats::workers::WorkerFault;
use side::Side;
use std::time::Duration;

mod side;

/// Time between two requests to a worker, unless there is more to fetch or something new to say.
pub const POLL: Duration = Duration::from_millis(50);
/// Time after which a request counts as unanswered.
pub const UNANSWERED: Duration = Duration::from_millis(450);
/// Requests in a row that a worker may leave unanswered while the bus is there.
const MOST_UNANSWERED: u32 = 2;
/// Times that a chunk is asked for whose checksum is wrong, or that does not come though the load has ended.
const MOST_BROKEN: u32 = 3;
/// Time without a look at the workers after which the leader itself was away: it was stopped, or waited for the director.
const AWAY: Duration = UNANSWERED;
/// Time that a worker may take to make a load ready.
const PREPARED: Duration = Duration::from_secs(60);

/// The fault of a worker that would send another step.
const OTHER_REQUESTS: &str =
    "it would send other requests: the files of the plan, or the tokenizer, differ from those of the leader";

/// A request without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The bus has nobody at the worker's subject.
    NobodyThere,
    /// No reply came in time.
    Unanswered,
    /// The bus itself is away.
    NoBus,
}

/// Why a load cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Index of the worker.
    pub worker: usize,
    /// The kind of fault.
    pub fault: WorkerFault,
    /// The worker's own words, for people.
    pub why: Option<String>,
}

/// The stage of all workers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Make the load ready.
    Prepare,
    /// Wait until the leader knows their clocks.
    Ready,
    /// Start at the times that the leader gives.
    Fire,
    /// Send, and hand over records.
    Run,
    /// Over: every record is there, or a worker is at fault and the others have ended.
    Over,
}

/// A load that several workers fire.
#[derive(Debug)]
pub struct StepMachine {
    attempt: Attempt,
    stage: Stage,
    sides: Vec<Side>,
    preparations: Vec<Preparation>,
    /// The step in brief, as the leader would send it.
    outline: Outline,
    wanted: Wanted,
    seq: u64,
    /// When the stage began.
    since: Duration,
    /// When the leader looked after its workers last.
    looked: Duration,
    /// When the bus came back last.
    reconnected: Option<Duration>,
    fault: Option<Fault>,
    records: Vec<(usize, Vec<Finished>)>,
}

impl StepMachine {
    /// Begins an attempt at a load, of which each worker has one part. `outline` is the step in brief, as the leader would
    /// send it: a worker that would send another one is refused.
    pub fn new(now: Duration, attempt: Attempt, outline: Outline, preparations: Vec<Preparation>) -> Self {
        let window = preparations.first().map_or(Duration::ZERO, |p| p.spec.step.measure);
        let side = || Side { heard: now, ..Side::default() };
        Self {
            attempt,
            stage: Stage::Prepare,
            sides: preparations.iter().map(|_| side()).collect(),
            preparations,
            outline,
            wanted: Wanted { window, stop: false, cut: false },
            seq: 1,
            since: now,
            looked: now,
            reconnected: None,
            fault: None,
            records: Vec::new(),
        }
    }

    /// Returns the requests that are due, each with the index of its worker. They count as open from now on.
    pub fn due(&mut self, now: Duration) -> Vec<(usize, Command)> {
        self.excuse(now);
        self.give_up(now);
        let is_due = |side: &Side| self.is_to_ask(side) && side.next <= now;
        let due: Vec<usize> = (0..self.sides.len()).filter(|i| is_due(&self.sides[*i])).collect();
        due.into_iter()
            .map(|i| {
                (self.sides[i].is_open, self.sides[i].asked) = (true, now);
                (i, self.command(i))
            })
            .collect()
    }

    /// Returns when the next request is due; `None` if one of a worker without an open one is due only after a reply.
    pub fn next_due(&self) -> Option<Duration> {
        self.sides.iter().filter(|side| self.is_to_ask(side)).map(|side| side.next).min()
    }

    /// Returns true if there is something to ask a worker, now or later, and it has no request open.
    fn is_to_ask(&self, side: &Side) -> bool {
        let wants = match self.stage {
            Stage::Prepare => side.ready.is_none(),
            // The lease is renewed by claims meanwhile.
            Stage::Ready | Stage::Over => false,
            Stage::Fire => !side.is_armed,
            Stage::Run => !side.is_complete(),
        };
        wants && !side.is_open && !side.is_out
    }

    fn command(&self, i: usize) -> Command {
        let (attempt, side) = (self.attempt, &self.sides[i]);
        match self.stage {
            Stage::Prepare => {
                Command::Prepare { attempt, preparation: Box::new(self.preparations[i].clone()) }
            }
            Stage::Fire => Command::Fire { attempt, start_ns: side.start_ns },
            Stage::Ready | Stage::Run | Stage::Over => {
                Command::Pull { attempt, seq: self.seq, wanted: self.wanted, from: side.from }
            }
        }
    }

    /// Handles the answer to a request, or that none came.
    pub fn answered(&mut self, now: Duration, worker: usize, answer: Result<Answer, Failure>) {
        match answer {
            Ok(answer) => self.reply(now, worker, answer),
            Err(failure) => self.failed(now, worker, failure),
        }
    }

    /// Handles the reply of a worker.
    pub fn reply(&mut self, now: Duration, worker: usize, answer: Answer) {
        let side = &mut self.sides[worker];
        (side.is_open, side.heard, side.unanswered, side.next) = (false, now, 0, now + POLL);
        match (answer.reply, self.stage) {
            (Reply::Preparing, _) => {}
            (Reply::Ready(ready), Stage::Prepare) => {
                side.ready = Some(ready);
                if ready != self.outline {
                    return self.blame(worker, WorkerFault::Refused, Some(OTHER_REQUESTS.into()));
                }
                if self.sides.iter().all(|side| side.ready.is_some()) {
                    self.turn_to(Stage::Ready, now);
                }
            }
            (Reply::Armed, Stage::Fire) => {
                side.is_armed = true;
                if self.sides.iter().all(|side| side.is_armed) {
                    self.turn_to(Stage::Run, now);
                }
            }
            (Reply::Progress(progress), Stage::Run) => self.progress(now, worker, &progress, &answer.chunk),
            (Reply::Refused(refusal), stage) if stage != Stage::Over => self.refused(worker, refusal),
            // The reply to a request of an earlier stage.
            _ => {}
        }
        self.end_if_complete();
    }

    fn progress(&mut self, now: Duration, worker: usize, progress: &Progress, bytes: &[u8]) {
        let side = &mut self.sides[worker];
        (side.status, side.fresh) = (progress.status, side.asked);
        side.ended = progress.ended;
        let is_owed = side.ended.is_some_and(|ended| side.from < ended.chunks);
        match progress.chunk.filter(|head| head.number == side.from) {
            Some(head) => {
                let is_sound = chunk::checksum(bytes) == head.checksum;
                match is_sound.then(|| chunk::read(bytes).ok()).flatten() {
                    Some(rows) => {
                        (side.from, side.broken) = (side.from + 1, 0);
                        side.records += rows.len() as u64;
                        self.records.push((worker, rows));
                    }
                    None => side.broken += 1,
                }
                // There may be more.
                side.next = now;
            }
            None if is_owed => (side.broken, side.next) = (side.broken + 1, now),
            None => {}
        }
        let side = &self.sides[worker];
        let is_short = side.is_complete() && side.ended.is_some_and(|ended| side.records != ended.records);
        if side.broken >= MOST_BROKEN || is_short {
            self.blame(worker, WorkerFault::RecordsMissing, None);
        }
    }

    fn refused(&mut self, worker: usize, refusal: Refusal) {
        match refusal {
            Refusal::Held { holder } => self.blame(worker, WorkerFault::Replaced, Some(holder)),
            Refusal::NotClaimed | Refusal::OutOfOrder => self.blame(worker, WorkerFault::Replaced, None),
            Refusal::Failed { why } => self.blame(worker, WorkerFault::Refused, Some(why)),
        }
    }

    /// Handles a request without a reply. While the bus is away nobody is to blame, and for a while after it: workers come
    /// back one by one.
    pub fn failed(&mut self, now: Duration, worker: usize, failure: Failure) {
        let returning = self.reconnected.is_some_and(|at| now < at + LEASE);
        let side = &mut self.sides[worker];
        (side.is_open, side.next) = (false, now + POLL);
        match failure {
            Failure::NoBus => {}
            Failure::NobodyThere | Failure::Unanswered if returning => {}
            Failure::NobodyThere => self.blame(worker, WorkerFault::Lost, None),
            Failure::Unanswered => {
                // It has had time enough.
                side.next = now;
                side.unanswered += 1;
                if side.unanswered >= MOST_UNANSWERED {
                    self.blame(worker, WorkerFault::Frozen, None);
                }
            }
        }
        self.end_if_complete();
    }

    /// Notes when the bus came back last. Telling it again changes nothing.
    pub fn reconnected(&mut self, at: Duration) {
        if self.reconnected == Some(at) {
            return;
        }
        self.reconnected = Some(at);
        // Requests sent before are not answered.
        self.sides.iter_mut().for_each(|side| side.unanswered = 0);
    }

    /// Does not count the time in which the leader itself was away as a silence of its workers.
    fn excuse(&mut self, now: Duration) {
        let away = now.saturating_sub(self.looked);
        self.looked = now;
        if away >= AWAY {
            self.sides.iter_mut().for_each(|side| side.heard = (side.heard + away).min(now));
        }
    }

    /// Blames workers that have been silent for longer than their lease, or that do not get ready.
    fn give_up(&mut self, now: Duration) {
        for i in 0..self.sides.len() {
            let side = &self.sides[i];
            let waits = matches!(self.stage, Stage::Fire | Stage::Run) && !side.is_complete() && !side.is_out;
            let slow = self.stage == Stage::Prepare && side.ready.is_none() && now >= self.since + PREPARED;
            if waits && now >= side.heard.max(self.since) + LEASE {
                self.blame(i, WorkerFault::Lost, None);
            } else if slow {
                self.blame(i, WorkerFault::Refused, Some("it did not get ready in time".into()));
            }
        }
        self.end_if_complete();
    }

    /// Blames a worker for its records: they are not those of the plan.
    pub fn accuse(&mut self, worker: usize, fault: WorkerFault) {
        if !self.sides[worker].is_out {
            self.blame(worker, fault, None);
            self.end_if_complete();
        }
    }

    /// Takes a worker out. The first fault counts: the load is cancelled, and the others are heard until they have ended.
    fn blame(&mut self, worker: usize, fault: WorkerFault, why: Option<String>) {
        self.sides[worker].is_out = true;
        if self.fault.is_none() {
            self.fault = Some(Fault { worker, fault, why });
        }
        if self.stage == Stage::Run {
            self.want(Wanted { stop: true, cut: true, ..self.wanted });
        } else {
            // Nothing was fired, or what was will be cancelled by its release.
            self.stage = Stage::Over;
        }
    }

    fn end_if_complete(&mut self) {
        if self.stage == Stage::Run && self.sides.iter().all(|side| side.is_out || side.is_complete()) {
            self.stage = Stage::Over;
        }
    }

    fn turn_to(&mut self, stage: Stage, now: Duration) {
        (self.stage, self.since, self.looked) = (stage, now, now);
        for side in &mut self.sides {
            (side.next, side.unanswered, side.heard) = (now, 0, now);
        }
    }

    /// Returns true if every worker has made the load ready.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Has the workers start at these times of their clocks, in nanoseconds.
    pub fn fire(&mut self, now: Duration, starts_ns: &[u64]) {
        for (side, start_ns) in self.sides.iter_mut().zip(starts_ns) {
            side.start_ns = *start_ns;
        }
        self.turn_to(Stage::Fire, now);
    }

    /// Returns true once the load runs.
    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Run)
    }

    /// Sets what is wanted of the load. Workers are told at once.
    pub fn want(&mut self, wanted: Wanted) {
        if wanted != self.wanted {
            self.wanted = wanted;
            self.seq += 1;
            self.sides.iter_mut().for_each(|side| side.next = Duration::ZERO);
        }
    }

    /// Returns what is wanted of the load.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Returns true if there is nothing more to ask.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Returns the first fault of a worker.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Takes the records that have come, each with the index of its worker.
    pub fn take_records(&mut self) -> Vec<(usize, Vec<Finished>)> {
        std::mem::take(&mut self.records)
    }

    /// Returns the counts of all workers together.
    pub fn status(&self) -> Status {
        let all = self.sides.iter().map(|side| side.status);
        let none = Status { sent_all: true, ..Status::default() };
        all.fold(none, |a, b| Status {
            in_flight: a.in_flight + b.in_flight,
            measured_open: a.measured_open + b.measured_open,
            to_come: a.to_come || b.to_come,
            client_limit: a.client_limit || b.client_limit,
            sent_all: a.sent_all && b.sent_all,
        })
    }

    /// Returns true if the counts of all workers are no older than a time, or final.
    pub fn is_fresh(&self, since: Duration) -> bool {
        self.sides.iter().all(|side| side.is_out || side.is_complete() || side.fresh >= since)
    }

    /// Returns the counts of each worker.
    pub fn each_status(&self) -> impl Iterator<Item = Status> {
        self.sides.iter().map(|side| side.status)
    }

    /// Returns how late each worker started its load.
    pub fn late(&self) -> impl Iterator<Item = Duration> {
        self.sides.iter().map(|side| Duration::from_micros(side.ended.map_or(0, |ended| ended.start_late_us)))
    }

    /// Returns the number of the attempt.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }
}

#[cfg(test)]
mod tests;
