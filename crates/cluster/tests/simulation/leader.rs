//! A leader's process: it does with the state machine what `fleet.rs` and `firing.rs` do.

use super::net::{Event, Net, Purpose};
use super::schedule::{Schedule, Wish};
use super::step::{Gate, Progress, StepEnd};
use super::worker::OUTLINE;
use goodput_cluster::clock::{Offset, RoundTrip};
use goodput_cluster::message::{Answer, Attempt, Command, Preparation, Reply};
use goodput_cluster::step::{Failure, StepMachine};
use goodput_cluster::worker::LEASE;
use goodput_stats::stats::workers::WorkerFault;
use std::time::Duration;

const CLAIM_EVERY: Duration = Duration::from_secs(1);
const AHEAD: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
/// Shortest time between two looks at the load.
const PAUSE: Duration = Duration::from_micros(100);
const DEALS: u32 = 3;
/// Round trips of an estimate. As many as the real leader makes would take long on a slow bus.
const ROUND_TRIPS: usize = 3;
/// Time that the first leader waits for its workers. The others wait until it must have gone.
const WAIT: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(120)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Waits for the answers to so many claims.
    Gather(usize),
    /// Waits for the answers to so many claims of workers that it has.
    Again(usize),
    Prepare,
    Clocks,
    Fire,
    Run,
    /// Waits for the answers to so many releases; a worker is then dropped.
    Release(usize, usize),
    Done,
}

/// How a leader has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// All of its steps ran.
    Ran,
    /// There were fewer workers than it wants, or none.
    NoWorkers,
    /// A worker cannot make the load ready.
    Refused,
    /// Workers were lost too often before a step.
    Lost,
}

/// A leader.
pub(crate) struct SimLeader {
    pub(crate) index: usize,
    pub(crate) is_alive: bool,
    /// True while it does not look after its load, and does not even claim its workers.
    pub(crate) stalled: Option<bool>,
    waiting: Vec<Event>,
    phase: Phase,
    until: Duration,
    pub(crate) members: Vec<usize>,
    pub(crate) machine: Option<StepMachine>,
    pub(crate) step: Progress,
    trips: Vec<Vec<RoundTrip>>,
    /// The last return of the bus, and the last word of a worker, when the clocks were asked for.
    clocks_returned: Option<Duration>,
    clock_heard: Duration,
    attempt: u64,
    pub(crate) deals: u32,
    is_refill: bool,
    open_claims: usize,
    returns: u32,
    /// When the bus came back last.
    pub(crate) returned: Option<Duration>,
    wake: Option<Duration>,
    steps_left: u32,
    pub(crate) ends: Vec<StepEnd>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) gate: Gate,
}

impl SimLeader {
    pub(crate) fn new(index: usize, schedule: &Schedule) -> Self {
        Self {
            index,
            is_alive: true,
            stalled: None,
            waiting: Vec::new(),
            phase: Phase::Gather(0),
            until: schedule.leaders[index] + WAIT[index.min(1)],
            members: Vec::new(),
            machine: None,
            step: Progress::default(),
            trips: Vec::new(),
            clocks_returned: None,
            clock_heard: Duration::ZERO,
            attempt: 0,
            deals: 0,
            is_refill: false,
            open_claims: 0,
            returns: 0,
            returned: None,
            wake: None,
            steps_left: schedule.steps,
            ends: Vec::new(),
            outcome: None,
            gate: Gate::default(),
        }
    }

    /// Returns true while its load runs.
    pub(crate) fn is_running(&self) -> bool {
        self.is_alive && self.phase == Phase::Run
    }

    pub(crate) fn is_done(&self) -> bool {
        !self.is_alive || self.phase == Phase::Done
    }

    /// Handles an event, or keeps it for later.
    pub(crate) fn handle(&mut self, net: &mut Net, schedule: &Schedule, event: Event) {
        if !self.is_alive {
            return;
        }
        if let Event::Resume { .. } = event {
            self.stalled = None;
            // A reply that has come counts before the end of the time for it.
            let mut waiting = std::mem::take(&mut self.waiting);
            waiting.sort_by_key(|event| matches!(event, Event::Timeout { .. }));
            waiting.into_iter().for_each(|event| self.handle(net, schedule, event));
            return self.pump(net, schedule);
        }
        match (self.stalled, &event) {
            (None, _) | (Some(false), Event::Claims { .. }) => {}
            (Some(false), event) if net.is_keep(event) => {}
            _ => return self.waiting.push(event),
        }
        // Before replies, as the real leader does.
        if self.returns != net.leaders[self.index].returns {
            self.returns = net.leaders[self.index].returns;
            self.returned = Some(net.now);
            self.machine.iter_mut().for_each(|machine| machine.reconnected(net.now));
        }
        match event {
            Event::Wake { .. } if self.wake != Some(net.now) => return,
            Event::Wake { .. } => {
                self.wake = None;
                self.gate.wakes += 1;
            }
            Event::Claims { .. } => return self.keep_claims(net),
            Event::Look { .. } => self.look_for_workers(net, schedule),
            event => {
                let Some((purpose, result)) = net.close(event) else { return };
                self.answered(net, schedule, purpose, result);
            }
        }
        self.pump(net, schedule);
    }

    fn ask(&mut self, net: &mut Net, worker: usize, purpose: Purpose, command: Command) {
        self.gate.sent += 1;
        net.send(self.index, worker, purpose, command);
    }

    fn claim(&self) -> Command {
        Command::Claim { holder: format!("leader {}", self.index + 1) }
    }

    fn keep_claims(&mut self, net: &mut Net) {
        self.open_claims = self.members.len();
        for worker in self.members.clone() {
            self.ask(net, worker, Purpose::Keep, self.claim());
        }
        if self.open_claims == 0 && self.phase != Phase::Done {
            net.after(CLAIM_EVERY, Event::Claims { leader: self.index });
        }
    }

    fn look_for_workers(&mut self, net: &mut Net, schedule: &Schedule) {
        let missing: Vec<usize> = (0..schedule.workers).filter(|w| !self.members.contains(w)).collect();
        self.phase = Phase::Gather(missing.len());
        for worker in &missing {
            self.ask(net, *worker, Purpose::Claim(*worker), self.claim());
        }
        self.end_gathering(net, schedule);
    }

    fn end_gathering(&mut self, net: &mut Net, schedule: &Schedule) {
        if self.phase != Phase::Gather(0) {
            return;
        }
        let is_whole = self.members.len() == schedule.workers;
        if is_whole || self.is_refill && !self.members.is_empty() {
            self.claim_again(net);
        } else if net.now >= self.until {
            self.end(net, Outcome::NoWorkers);
        } else {
            net.after(LOOK_AGAIN, Event::Look { leader: self.index });
        }
    }

    fn claim_again(&mut self, net: &mut Net) {
        self.is_refill = true;
        self.members.sort_unstable();
        self.phase = Phase::Again(self.members.len());
        for worker in self.members.clone() {
            self.ask(net, worker, Purpose::Again, self.claim());
        }
    }

    /// Begins an attempt at a step.
    fn begin(&mut self, net: &Net, schedule: &Schedule) {
        self.attempt += 1;
        let spec = crate::fixture::spec(schedule.window);
        let one = Preparation { spec, url: None, connections: 1, allowed: Default::default() };
        let all = vec![one; self.members.len()];
        self.machine = Some(StepMachine::new(net.now, Attempt(self.attempt), OUTLINE, all));
        self.step = Progress::new(self.members.len());
        self.phase = Phase::Prepare;
    }

    fn answered(
        &mut self,
        net: &mut Net,
        schedule: &Schedule,
        purpose: Purpose,
        result: Result<Answer, Failure>,
    ) {
        let is_current = |attempt| Attempt(self.attempt) == attempt;
        match (purpose, self.phase) {
            (Purpose::Claim(worker), Phase::Gather(n)) => {
                if result.is_ok_and(|answer| answer.reply == Reply::Claimed) {
                    self.members.push(worker);
                }
                self.phase = Phase::Gather(n - 1);
                self.end_gathering(net, schedule);
            }
            (Purpose::Again, Phase::Again(1)) => self.begin(net, schedule),
            (Purpose::Again, Phase::Again(n)) => self.phase = Phase::Again(n - 1),
            (Purpose::Keep, _) => {
                self.open_claims -= 1;
                if self.open_claims == 0 && self.phase != Phase::Done {
                    net.after(CLAIM_EVERY, Event::Claims { leader: self.index });
                }
            }
            (Purpose::Clock(attempt, i, asked), Phase::Clocks) if is_current(attempt) => {
                self.clock(net, i, asked, result);
            }
            (Purpose::Release(attempt), Phase::Release(n, faulty)) if is_current(attempt) => {
                self.phase = Phase::Release(n - 1, faulty);
                self.deal_again(net, schedule);
            }
            (Purpose::Step(attempt, i), _) if is_current(attempt) => {
                let Some(machine) = &mut self.machine else { return };
                match result {
                    Ok(answer) => {
                        self.step.note(net.now, i, &answer);
                        machine.reply(net.now, i, answer);
                    }
                    Err(failure) => {
                        machine.failed(net.now, i, failure);
                        self.gate.check_lost(net.now, self.returned, failure, machine);
                    }
                }
            }
            _ => {}
        }
    }

    fn clock(&mut self, net: &mut Net, i: usize, asked: Duration, result: Result<Answer, Failure>) {
        let worker_ns = match result.map(|answer| answer.reply) {
            Ok(Reply::Clock { at_ns }) => at_ns,
            Err(failure) => {
                let is_excused = failure == Failure::NoBus || self.returned != self.clocks_returned;
                if is_excused && net.now < self.clock_heard + LEASE {
                    return self.ask_clock(net, i);
                }
                return self.fail(net, i);
            }
            Ok(_) => return self.fail(net, i),
        };
        self.clock_heard = net.now;
        let ns = |time: Duration| time.as_nanos() as u64;
        self.trips[i].push(RoundTrip { asked_ns: ns(asked), answered_ns: ns(net.now), worker_ns });
        if self.trips[i].len() < ROUND_TRIPS {
            return self.ask_clock(net, i);
        }
        if self.trips.iter().all(|trips| trips.len() == ROUND_TRIPS) {
            self.step.began = net.now + AHEAD;
            let start = |trips: &Vec<_>| Offset::estimate(trips).unwrap().to_worker(self.step.began);
            let starts: Vec<u64> = self.trips.iter().map(start).collect();
            self.machine.iter_mut().for_each(|machine| machine.fire(net.now, &starts));
            self.phase = Phase::Fire;
        }
    }

    fn ask_clock(&mut self, net: &mut Net, i: usize) {
        let purpose = Purpose::Clock(Attempt(self.attempt), i, net.now);
        self.ask(net, self.members[i], purpose, Command::Clock);
    }

    /// Ends an attempt before the load runs.
    fn fail(&mut self, net: &mut Net, faulty: usize) {
        self.phase = Phase::Release(self.members.len(), faulty);
        let attempt = Attempt(self.attempt);
        for worker in self.members.clone() {
            self.ask(net, worker, Purpose::Release(attempt), Command::Release { attempt });
        }
    }

    fn deal_again(&mut self, net: &mut Net, schedule: &Schedule) {
        let Phase::Release(0, faulty) = self.phase else { return };
        let fault = self.machine.take().and_then(|machine| machine.fault().cloned());
        self.deals += 1;
        if fault.is_some_and(|fault| fault.fault == WorkerFault::Refused && fault.why.is_some()) {
            return self.end(net, Outcome::Refused);
        }
        self.drop_member(net, faulty);
        if self.deals == DEALS {
            return self.end(net, Outcome::Lost);
        }
        self.until = net.now + LEASE;
        self.look_for_workers(net, schedule);
    }

    fn drop_member(&mut self, net: &mut Net, i: usize) {
        let worker = self.members.remove(i);
        self.ask(net, worker, Purpose::Leave, Command::Free);
    }

    fn end(&mut self, net: &mut Net, outcome: Outcome) {
        while !self.members.is_empty() {
            self.drop_member(net, 0);
        }
        (self.phase, self.outcome, self.machine) = (Phase::Done, Some(outcome), None);
    }

    /// Looks after the load: sends what is due, and follows the machine through its stages.
    fn pump(&mut self, net: &mut Net, schedule: &Schedule) {
        loop {
            let Some(machine) = self.machine.as_mut() else { return };
            if !matches!(self.phase, Phase::Prepare | Phase::Fire | Phase::Run) {
                return;
            }
            for (i, command) in machine.due(net.now) {
                let purpose = Purpose::Step(Attempt(self.attempt), i);
                self.gate.sent += 1;
                net.send(self.index, self.members[i], purpose, command);
            }
            match self.phase {
                Phase::Prepare | Phase::Fire if machine.is_over() => {
                    let faulty = machine.fault().unwrap().worker;
                    return self.fail(net, faulty);
                }
                Phase::Prepare if machine.is_ready() => {
                    self.phase = Phase::Clocks;
                    (self.clocks_returned, self.clock_heard) = (self.returned, net.now);
                    self.trips = vec![Vec::new(); self.members.len()];
                    return (0..self.members.len()).for_each(|i| self.ask_clock(net, i));
                }
                Phase::Fire if machine.is_running() => {
                    (self.phase, self.step.since) = (Phase::Run, net.now);
                    continue;
                }
                Phase::Run => {
                    self.step.look(net.now, schedule, machine);
                    self.gate.check_time(net.now, schedule, &self.step, self.returned);
                    if machine.is_over() {
                        return self.end_step(net, schedule);
                    }
                }
                _ => {}
            }
            break;
        }
        let next = self.machine.as_ref().and_then(StepMachine::next_due);
        let next = next.map_or(LOOK, |next| next.saturating_sub(net.now)).clamp(PAUSE, LOOK);
        if self.wake.is_none_or(|wake| wake < net.now || wake > net.now + next) {
            self.wake = Some(net.now + next);
            net.after(next, Event::Wake { leader: self.index });
        }
    }

    fn end_step(&mut self, net: &mut Net, schedule: &Schedule) {
        let Some(machine) = self.machine.take() else { return };
        let fault = machine.fault().cloned();
        let got = std::mem::take(&mut self.step.got);
        let attempt = Attempt(self.attempt);
        self.ends.push(StepEnd { attempt, members: self.members.clone(), fault: fault.clone(), got });
        (self.deals, self.steps_left) = (0, self.steps_left - 1);
        if let Some(fault) = fault {
            self.drop_member(net, fault.worker);
        }
        match self.steps_left {
            0 => self.end(net, Outcome::Ran),
            _ if self.members.len() < schedule.workers => {
                self.until = net.now + LEASE;
                self.look_for_workers(net, schedule);
            }
            _ => self.claim_again(net),
        }
    }

    /// Does what the director wishes.
    pub(crate) fn wish(wish: Wish, machine: &mut StepMachine) {
        let wanted = machine.wanted();
        match wish {
            Wish::Extend(window) => machine.want(goodput_cluster::message::Wanted { window, ..wanted }),
            Wish::Stop => machine.want(goodput_cluster::message::Wanted { stop: true, ..wanted }),
            Wish::Cut => machine.want(goodput_cluster::message::Wanted { stop: true, cut: true, ..wanted }),
        }
    }
}
