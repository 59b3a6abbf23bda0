//! Leaders, workers and the bus together, and what must hold for them.

use super::leader::{Outcome, SimLeader};
use super::net::{Event, Net};
use super::schedule::{Chaos, Profile, Schedule};
use super::step::StepEnd;
use super::worker::{SimWorker, TICK};
use goodput_cluster::message::{Attempt, LeaderId};
use goodput_cluster::step::{POLL, UNANSWERED};
use goodput_cluster::worker::LEASE;
use goodput_core::record::Finished;
use std::time::Duration;

/// Time within which the fault of a worker that stands still is noticed.
const FROZEN: Duration = Duration::from_millis(1100);
/// Time within which the fault of a worker that is gone is noticed after the next request reached it.
const KILLED: Duration = Duration::from_millis(200);
/// No schedule takes longer.
const FOREVER: Duration = Duration::from_secs(900);

/// The whole simulation.
pub(crate) struct World<'a> {
    schedule: &'a Schedule,
    net: Net,
    workers: Vec<SimWorker>,
    leaders: Vec<SimLeader>,
}

/// What a simulation has seen.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) valid: u32,
    pub(crate) invalid: u32,
    pub(crate) records: u64,
}

impl<'a> World<'a> {
    /// Runs a schedule to its end, and checks everything.
    pub(crate) fn run(schedule: &'a Schedule) -> Seen {
        let workers = (0..schedule.workers).map(SimWorker::new).collect();
        let leaders = (0..schedule.leaders.len()).map(|i| SimLeader::new(i, schedule)).collect();
        let mut world = Self { schedule, net: Net::new(schedule), workers, leaders };
        for worker in 0..schedule.workers {
            world.net.after(TICK.mul_f64(worker as f64 / schedule.workers as f64), Event::Tick { worker });
        }
        for (leader, at) in schedule.leaders.iter().enumerate() {
            world.net.after(*at, Event::Look { leader });
            world.net.after(*at, Event::Claims { leader });
        }
        for (i, (at, _)) in schedule.chaos.iter().enumerate() {
            world.net.after(*at, Event::Chaos(i));
        }
        let (mut done, mut next) = (None, Duration::ZERO);
        while let Some(event) = world.net.next() {
            world.handle(event);
            assert!(world.net.now < FOREVER, "there is no end");
            if world.net.now < next {
                continue;
            }
            next = world.net.now + TICK;
            let is_frozen = world.workers.iter().any(|worker| worker.is_alive && worker.is_frozen);
            if is_frozen || !world.leaders.iter().all(SimLeader::is_done) {
                done = None;
            } else if world.net.now > *done.get_or_insert(world.net.now) + LEASE + 2 * UNANSWERED + TICK {
                // All that was on its way has come, and the longest lease has ended.
                break;
            }
        }
        world.check_end()
    }

    fn handle(&mut self, event: Event) {
        let (net, schedule) = (&mut self.net, self.schedule);
        match event {
            Event::Request { worker, ref request, .. } => {
                let leader = request.leader.0 as usize - 1;
                if net.is_delivered(&event, leader, self.workers[worker].is_alive) {
                    self.workers[worker].handle(net, schedule, event);
                }
            }
            Event::Tick { worker } | Event::Prepared { worker, .. } | Event::Ended { worker, .. } => {
                self.workers[worker].handle(net, schedule, event);
            }
            Event::Reply { leader, .. }
            | Event::Timeout { leader, .. }
            | Event::Wake { leader }
            | Event::Claims { leader }
            | Event::Look { leader }
            | Event::Resume { leader } => self.leaders[leader].handle(net, schedule, event),
            Event::LeaderBack { .. } | Event::WorkerBack { .. } => net.back(&event),
            Event::Thaw { worker } => self.workers[worker].thaw(net, schedule),
            Event::Restart { worker } => self.workers[worker].restart(net),
            Event::Chaos(i) => self.wreak(schedule.chaos[i].1),
            Event::Noticed { worker, since, is_killed } => self.check_noticed(worker, since, is_killed),
        }
    }

    fn wreak(&mut self, chaos: Chaos) {
        let net = &mut self.net;
        let since = net.now;
        match chaos {
            Chaos::Kill { worker, restart } => {
                self.workers[worker].kill();
                if let Some(after) = restart {
                    net.after(after, Event::Restart { worker });
                }
                let within = UNANSWERED + POLL + 2 * self.schedule.delay + KILLED;
                net.after(within, Event::Noticed { worker, since, is_killed: true });
            }
            Chaos::Freeze { worker, length } if !self.workers[worker].is_frozen => {
                self.workers[worker].is_frozen = true;
                net.after(length, Event::Thaw { worker });
                net.after(FROZEN, Event::Noticed { worker, since, is_killed: false });
            }
            Chaos::Freeze { .. } => {}
            Chaos::WorkerLink { worker, length, is_silent } => net.cut_worker(worker, length, is_silent),
            Chaos::LeaderLink { leader, length } => net.cut_leader(leader, length),
            Chaos::BusAway { length } => net.cut_all(length),
            Chaos::KillLeader { leader } => self.leaders[leader].is_alive = false,
            Chaos::Stall { leader, length, is_whole } => {
                if self.leaders[leader].stalled.is_none() {
                    self.leaders[leader].stalled = Some(is_whole);
                    net.after(length, Event::Resume { leader });
                }
            }
        }
    }

    /// Checks that the fault of a worker has been noticed by the leader whose load it fires.
    fn check_noticed(&mut self, worker: usize, since: Duration, is_killed: bool) {
        // Elsewhere, other faults may hide this one for a while.
        if !self.schedule.is_prompt() || !is_killed && !self.workers[worker].is_frozen {
            return;
        }
        for leader in self.leaders.iter().filter(|leader| leader.is_running()) {
            let Some(member) = leader.members.iter().position(|one| *one == worker) else { continue };
            let (heard, is_complete) = leader.step.heard(member);
            if is_complete || leader.step.since > heard.max(since) {
                continue;
            }
            if !is_killed && heard > since {
                // A reply was on its way.
                let left = (heard + FROZEN).saturating_sub(self.net.now);
                if !left.is_zero() {
                    self.net.after(left, Event::Noticed { worker, since: heard, is_killed });
                    continue;
                }
            }
            let is_noticed = leader.machine.as_ref().is_none_or(|machine| machine.fault().is_some());
            assert!(is_noticed, "the fault of worker {worker} at {since:?} was not noticed");
        }
    }

    fn check_end(&self) -> Seen {
        let mut seen = Seen::default();
        for worker in self.workers.iter().filter(|worker| worker.is_alive) {
            assert!(worker.is_idle(), "a worker is not free after its leaders are gone");
        }
        for leader in &self.leaders {
            for end in &leader.ends {
                self.check_records(leader.index, end);
                let is_valid = end.fault.is_none();
                (seen.valid, seen.invalid) =
                    (seen.valid + u32::from(is_valid), seen.invalid + u32::from(!is_valid));
                seen.records += end.got.iter().map(|got| got.len() as u64).sum::<u64>();
            }
            leader.gate.check_wakes(self.net.now);
        }
        self.check_outcome();
        seen
    }

    /// Checks that the records of a step came once, in order, and as they were produced; all of them, if it is valid.
    fn check_records(&self, leader: usize, end: &StepEnd) {
        for (worker, got) in end.members.iter().zip(&end.got) {
            let produced = self.produced(*worker, leader, end.attempt);
            let is_valid = end.fault.is_none();
            let n = if is_valid { produced.len() } else { got.len().min(produced.len()) };
            assert!(
                *got == produced[..n],
                "of worker {worker}, {} records came of {}, {} in a row as they were",
                got.len(),
                produced.len(),
                got.iter().zip(produced).take_while(|(a, b)| a == b).count()
            );
        }
    }

    fn produced(&self, worker: usize, leader: usize, attempt: Attempt) -> &[Finished] {
        let name = (LeaderId(leader as u64 + 1), attempt);
        self.workers[worker].produced.get(&name).map_or(&[], Vec::as_slice)
    }

    /// Checks what the profile promises.
    fn check_outcome(&self) {
        let schedule = self.schedule;
        // The leader that must have run all of its steps.
        let last = match schedule.profile {
            Profile::Calm | Profile::Outage => 0,
            Profile::LeaderLost | Profile::TwoLeaders => 1,
            Profile::Killed | Profile::Frozen => return self.check_blamed(),
            Profile::Wild => return,
        };
        for leader in &self.leaders[last..] {
            assert_eq!(leader.outcome, Some(Outcome::Ran), "leader {}", leader.index + 1);
            assert_eq!(leader.ends.len(), schedule.steps as usize);
        }
        let may_fault = schedule.profile == Profile::LeaderLost;
        for leader in self.leaders.iter().skip(usize::from(may_fault)) {
            let faults: Vec<_> = leader.ends.iter().filter_map(|end| end.fault.as_ref()).collect();
            assert!(faults.is_empty(), "leader {} found {faults:?}", leader.index + 1);
            assert!(schedule.profile == Profile::Outage || leader.deals == 0, "a load was dealt again");
        }
    }

    /// Checks that nobody is blamed but the worker that was hurt.
    fn check_blamed(&self) {
        for end in self.leaders.iter().flat_map(|leader| &leader.ends) {
            if let Some(fault) = &end.fault {
                assert!(self.schedule.is_victim(end.members[fault.worker]), "{fault:?} is wrong");
            }
        }
    }
}
