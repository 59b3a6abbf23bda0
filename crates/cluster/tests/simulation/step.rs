//! One step of a leader: what has come, and by when it must end.

use super::leader::SimLeader;
use super::schedule::{Profile, Schedule};
use goodput_cluster::message::{Answer, Attempt, Reply, Wanted};
use goodput_cluster::step::{Failure, Fault, StepMachine};
use goodput_cluster::worker::LEASE;
use goodput_core::record::Finished;
use std::time::Duration;

/// Longest time that a step takes after the last of its requests, if nothing goes wrong: a few round trips.
const WIND_UP: Duration = Duration::from_secs(3);
/// Looks and requests that a leader may make besides those that its load needs.
const SPARE: u64 = 100;

/// A step that is over.
#[derive(Debug)]
pub(crate) struct StepEnd {
    pub(crate) attempt: Attempt,
    pub(crate) members: Vec<usize>,
    pub(crate) fault: Option<Fault>,
    /// The records of each member, in order of coming.
    pub(crate) got: Vec<Vec<Finished>>,
}

/// What has come of a step.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Start of the load by the leader's clock.
    pub(crate) began: Duration,
    /// When all workers were known to fire.
    pub(crate) since: Duration,
    pub(crate) got: Vec<Vec<Finished>>,
    /// Number of records of each member, once its load has ended.
    records: Vec<Option<u64>>,
    /// When each member replied last.
    heard: Vec<Duration>,
    has_wished: bool,
    window: Duration,
}

impl Progress {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            got: vec![Vec::new(); members],
            records: vec![None; members],
            heard: vec![Duration::ZERO; members],
            ..Self::default()
        }
    }

    /// Notes a reply.
    pub(crate) fn note(&mut self, now: Duration, member: usize, answer: &Answer) {
        self.heard[member] = now;
        if let Reply::Progress(progress) = &answer.reply {
            self.records[member] = progress.ended.map(|ended| ended.records);
        }
    }

    /// Returns when a member replied last, and true if its records are all there.
    pub(crate) fn heard(&self, member: usize) -> (Duration, bool) {
        let is_complete = self.records[member] == Some(self.got[member].len() as u64);
        (self.heard[member], is_complete)
    }

    /// Takes the records, does what the director wishes, and stops the load once every measured request has finished.
    pub(crate) fn look(&mut self, now: Duration, schedule: &Schedule, machine: &mut StepMachine) {
        for (worker, records) in machine.take_records() {
            self.got[worker].extend(records);
        }
        if let Some((at, wish)) = schedule.wish.filter(|(at, _)| !self.has_wished && now >= self.began + *at)
        {
            let _ = at;
            self.has_wished = true;
            SimLeader::wish(wish, machine);
        }
        self.window = machine.wanted().window;
        let end = self.began + schedule.settle + self.window;
        let all = machine.status();
        if now >= end && all.measured_open == 0 && !all.to_come && machine.is_fresh(end) {
            machine.want(Wanted { stop: true, ..machine.wanted() });
        }
    }
}

/// The checks of a leader.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Number of requests.
    pub(crate) sent: u64,
    /// Number of times that it woke by itself.
    pub(crate) wakes: u64,
}

impl Gate {
    /// Checks that a worker that nobody finds is blamed at once, unless the bus has just come back.
    pub(crate) fn check_lost(
        &self,
        now: Duration,
        returned: Option<Duration>,
        failure: Failure,
        machine: &StepMachine,
    ) {
        let is_returning = returned.is_some_and(|at| now < at + LEASE);
        if failure == Failure::NobodyThere && !is_returning && !machine.is_over() {
            assert!(machine.fault().is_some(), "a worker that is gone was not noticed");
        }
    }

    /// Checks that a step does not take longer than it must.
    pub(crate) fn check_time(
        &self,
        now: Duration,
        schedule: &Schedule,
        step: &Progress,
        returned: Option<Duration>,
    ) {
        let whole = schedule.settle + step.window + schedule.latency + WIND_UP;
        let late = if schedule.is_prompt() { Duration::ZERO } else { Duration::from_secs(10) };
        // Silence is borne for the length of a lease, once more after the bus was away.
        let lease = match (schedule.profile, returned) {
            (Profile::Calm | Profile::TwoLeaders, None) => Duration::ZERO,
            (_, None) => LEASE,
            (_, Some(_)) => 2 * LEASE,
        };
        let bound = step.began + whole + late + lease + schedule.held_up();
        assert!(now <= bound, "the step that began at {:?} has not ended at {now:?}", step.began);
    }

    /// Checks that the leader did not look after its load all the time.
    pub(crate) fn check_wakes(&self, now: Duration) {
        let most = self.sent + 20 * now.as_secs() + SPARE;
        assert!(self.wakes <= most, "{} looks for {} requests in {now:?}", self.wakes, self.sent);
    }
}
