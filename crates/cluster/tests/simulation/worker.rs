//! A worker's process, and what must hold for it at all times.

use super::load::Load;
use super::net::{Event, Net};
use super::schedule::{Preparing, Schedule};
use goodput_cluster::message::{Answer, Attempt, Command, LeaderId, Refusal, Reply, Request};
use goodput_cluster::worker::{Effect, LEASE, LoadId, WorkerMachine};
use goodput_core::record::Finished;
use goodput_load::load::local::Outline;
use rand::RngExt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Interval at which a worker looks whether its lease has ended.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Longest time from the last request of a load to its end.
const ENDS: u64 = 30;

/// A load, as its leader names it.
pub(crate) type Name = (LeaderId, Attempt);

/// The outline of every load.
pub(crate) const OUTLINE: Outline = Outline { digest: 7, trace: None };

/// A worker.
pub(crate) struct SimWorker {
    index: usize,
    machine: WorkerMachine,
    /// Number of its process.
    process: u32,
    /// When its process started: its clock counts from there.
    born: Duration,
    pub(crate) is_alive: bool,
    pub(crate) is_frozen: bool,
    /// What came while it was frozen.
    waiting: VecDeque<Event>,
    load: Option<(LoadId, Load)>,
    names: HashMap<LoadId, Name>,
    prepared: HashSet<LoadId>,
    fired: HashSet<Name>,
    /// What the loads have produced, in order.
    pub(crate) produced: HashMap<Name, Vec<Finished>>,
    /// The leader that must have it, and when that was heard of last.
    lease: Option<(LeaderId, Duration)>,
    /// Bytes of the load, and of each of its chunks.
    bytes: usize,
    chunks: Vec<usize>,
    acknowledged: usize,
    /// Number of the newest request that changed the load.
    seq: u64,
}

impl SimWorker {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            machine: WorkerMachine::default(),
            process: 0,
            born: Duration::ZERO,
            is_alive: true,
            is_frozen: false,
            waiting: VecDeque::new(),
            load: None,
            names: HashMap::new(),
            prepared: HashSet::new(),
            fired: HashSet::new(),
            produced: HashMap::new(),
            lease: None,
            bytes: 0,
            chunks: Vec::new(),
            acknowledged: 0,
            seq: 0,
        }
    }

    /// Starts another process under the same name. Everything of the old one is gone, but what it has produced.
    pub(crate) fn restart(&mut self, net: &mut Net) {
        let (produced, fired) = (std::mem::take(&mut self.produced), std::mem::take(&mut self.fired));
        *self = Self { process: self.process + 1, born: net.now, produced, fired, ..Self::new(self.index) };
        net.after(TICK, Event::Tick { worker: self.index });
    }

    pub(crate) fn kill(&mut self) {
        self.is_alive = false;
        (self.load, self.lease) = (None, None);
        self.waiting.clear();
    }

    /// Returns true if nobody has it, and it fires nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.machine.holder().is_none() && self.load.is_none()
    }

    /// Handles an event, or keeps it for later.
    pub(crate) fn handle(&mut self, net: &mut Net, schedule: &Schedule, event: Event) {
        if !self.is_alive {
            return;
        }
        if self.is_frozen {
            return self.waiting.push_back(event);
        }
        self.handle_now(net, schedule, event);
        self.check(net);
    }

    fn handle_now(&mut self, net: &mut Net, schedule: &Schedule, event: Event) {
        let now = net.now - self.born;
        self.advance(net);
        match event {
            Event::Request { id, request, is_copy, .. } => {
                let answer = self.request(net, schedule, &request);
                if !is_copy {
                    net.answer((id, request.leader.0 as usize - 1, self.index), &answer);
                }
            }
            Event::Tick { .. } => {
                let effects = self.machine.tick(now);
                self.carry_out(net, schedule, None, effects);
                net.after(TICK, Event::Tick { worker: self.index });
            }
            Event::Prepared { process, load, result, .. } if process == self.process => {
                self.prepared.insert(load);
                self.machine.prepared(load, result);
            }
            Event::Ended { process, load, .. } if process == self.process => {
                self.machine.ended(load, Ok(Default::default()));
                self.load.take_if(|(id, _)| *id == load);
            }
            _ => {}
        }
    }

    /// Goes on after it stood still.
    pub(crate) fn thaw(&mut self, net: &mut Net, schedule: &Schedule) {
        self.is_frozen = false;
        if !self.is_alive {
            return;
        }
        for event in std::mem::take(&mut self.waiting) {
            self.handle_now(net, schedule, event);
        }
        self.check(net);
    }

    /// Hands over what the load has finished.
    fn advance(&mut self, net: &mut Net) {
        let Some((id, load)) = &mut self.load else { return };
        let before = self.machine.unacknowledged_bytes();
        let produced = self.produced.entry(self.names[id]).or_default();
        for finished in load.advance(net.now - self.born) {
            self.machine.finished(*id, &finished);
            produced.push(finished);
        }
        // None of a load that the machine has dropped.
        self.bytes += self.machine.unacknowledged_bytes() - before;
        self.machine.status(*id, load.status());
        if load.ends() {
            let later = Duration::from_millis(net.rng.random_range(0..ENDS));
            let ended = Event::Ended { worker: self.index, process: self.process, load: *id };
            net.after(later, ended);
        }
    }

    fn request(&mut self, net: &mut Net, schedule: &Schedule, request: &Rc<Request>) -> Answer {
        let now = net.now - self.born;
        self.lease.take_if(|(_, heard)| net.now >= *heard + LEASE);
        let is_held = self.lease.is_some_and(|(leader, _)| leader == request.leader);
        let (answer, effects) = self.machine.request(now, (**request).clone());
        match &request.command {
            Command::Clock => assert!(matches!(answer.reply, Reply::Clock { .. })),
            Command::Claim { .. } if is_held || self.lease.is_none() => {
                assert_eq!(answer.reply, Reply::Claimed);
                self.lease = Some((request.leader, net.now));
            }
            Command::Claim { .. } => {
                let holder = format!("leader {}", self.lease.unwrap().0.0);
                assert_eq!(answer.reply, Reply::Refused(Refusal::Held { holder }));
            }
            _ if !is_held => assert_eq!(answer.reply, Reply::Refused(Refusal::NotClaimed)),
            command => {
                let is_refused =
                    matches!(answer.reply, Reply::Refused(Refusal::NotClaimed | Refusal::Held { .. }));
                assert!(!is_refused, "worker {} does not know its leader", self.index);
                self.lease = Some((request.leader, net.now)).filter(|_| *command != Command::Free);
            }
        }
        self.carry_out(net, schedule, Some(request), effects);
        self.count(&request.command, &answer);
        answer
    }

    /// Checks that exactly the chunks are kept that have not been acknowledged.
    fn count(&mut self, command: &Command, answer: &Answer) {
        let (Command::Pull { from, .. }, Reply::Progress(progress)) = (command, &answer.reply) else {
            return;
        };
        if let Some(head) = progress.chunk {
            let number = head.number as usize;
            assert_eq!(head.number, *from, "another chunk than the one that was asked for");
            if number == self.chunks.len() {
                self.chunks.push(answer.chunk.len());
            }
            assert_eq!(self.chunks[number], answer.chunk.len(), "a chunk that is repeated is another one");
        }
        self.acknowledged = self.acknowledged.max(*from as usize);
        let gone: usize = self.chunks[..self.acknowledged].iter().sum();
        assert_eq!(self.machine.unacknowledged_bytes(), self.bytes - gone, "chunks that are kept");
    }

    fn carry_out(
        &mut self,
        net: &mut Net,
        schedule: &Schedule,
        request: Option<&Rc<Request>>,
        effects: Vec<Effect>,
    ) {
        for effect in effects {
            match effect {
                Effect::Prepare(id, _) => self.prepare(net, schedule, id, request.unwrap()),
                Effect::Fire(id, start_ns) => {
                    let name = self.names[&id];
                    assert!(self.prepared.contains(&id), "a load is fired that is not ready");
                    assert!(self.fired.insert(name), "{name:?} is fired twice");
                    assert!(self.load.is_none(), "two loads are fired at once");
                    let start = Duration::from_nanos(start_ns).max(net.now - self.born);
                    let load = Load::new(schedule, self.index, start, name.0.0 << 8 | name.1.0);
                    self.load = Some((id, load));
                }
                Effect::Control(wanted) => {
                    if let Some(Command::Pull { seq, .. }) = request.map(|request| &request.command) {
                        assert!(*seq > self.seq, "an older request changes the load");
                        self.seq = *seq;
                    }
                    if let Some((_, load)) = &mut self.load {
                        load.control(wanted);
                    }
                }
                Effect::Cancel => self.load = None,
            }
        }
    }

    fn prepare(&mut self, net: &mut Net, schedule: &Schedule, id: LoadId, request: &Rc<Request>) {
        let Command::Prepare { attempt, .. } = request.command else {
            panic!("a load is made ready that nobody asked for");
        };
        self.names.insert(id, (request.leader, attempt));
        (self.bytes, self.acknowledged, self.seq) = (0, 0, 0);
        self.chunks.clear();
        let (within, result) = match schedule.preparing[self.index] {
            Preparing::Within(time) => (time, Ok(OUTLINE)),
            Preparing::Fails => (TICK, Err("no file".to_owned())),
            Preparing::OtherRequests => (TICK, Ok(Outline { digest: 8, ..OUTLINE })),
            Preparing::Never => return,
        };
        let time = within.mul_f64(net.rng.random());
        let prepared = Event::Prepared { worker: self.index, process: self.process, load: id, result };
        net.after(time, prepared);
    }

    /// Checks the lease: the worker fires nothing without one, and is free soon after the last word of its leader.
    fn check(&self, net: &Net) {
        let heard = self.lease.map(|(_, heard)| net.now - heard);
        match heard {
            Some(silence) if silence < LEASE => {
                let holder = self.lease.map(|(leader, _)| format!("leader {}", leader.0));
                assert_eq!(self.machine.holder(), holder.as_deref(), "the worker forgot its leader");
            }
            Some(silence) if silence < LEASE + TICK => {}
            Some(_) | None => {
                assert!(self.is_idle(), "worker {} fires or is held after its lease", self.index);
            }
        }
    }
}
