//! The workers of a sweep, as its leader has them: found, claimed, kept, and given loads.

use super::bus::{Bus, BusAddress, Credentials};
use super::clock::Offset;
use super::firing::{FleetFiring, RunningLoad};
use super::line::{Line, drive_until};
use super::message::{Attempt, Command, PROTOCOL, Preparation, Refusal, Reply, WorkerId, WorkerInfo};
use super::step::{Fault, StepMachine};
use super::worker::LEASE;
use anyhow::{Context, Result, bail, ensure};
use futures_util::future::join_all;
use goodput_core::endpoint::BaseUrl;
use goodput_load::client::consent;
use goodput_load::load::host::Host;
use goodput_load::load::local::Outline;
use goodput_load::load::spec::Spec;
use goodput_stats::stats::workers::WorkerFault;
use goodput_workload::part::StepPart;
use goodput_workload::schedule::Schedule;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Time between two claims of a worker: a fifth of its lease.
const CLAIM_EVERY: Duration = Duration::from_secs(1);
/// Time from the go to the start of a load.
const AHEAD: Duration = Duration::from_millis(300);
/// Pause between two looks for workers that are missing.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Times that a load is dealt again because a worker was lost before it started.
const DEALS: u32 = 3;
/// Space that a request of the leader leaves free in the largest message.
const SPARE: usize = 1024;

/// The workers that a sweep has.
pub struct Fleet {
    line: Line,
    own: WorkerInfo,
    holder: String,
    expect: usize,
    /// Those that it has claimed, in order of their names.
    members: Vec<WorkerInfo>,
    /// All that it ever had, in order of coming.
    known: Vec<WorkerInfo>,
    /// Those that could not do their part, and why. They are not asked again.
    unable: Vec<(WorkerInfo, String)>,
    /// Number of workers that the sweep had before.
    before: u16,
    attempts: u64,
    claimed: watch::Sender<Vec<WorkerId>>,
    claims: JoinHandle<()>,
    /// The thread that the bus is on: what talks to workers is not held up by the director. What runs there must not own it.
    host: Host,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.claims.abort();
    }
}

/// A connection to the bus, and the thread that it is on.
pub struct ConnectedBus {
    bus: Bus,
    host: Host,
}

impl ConnectedBus {
    /// Connects on a thread of its own.
    ///
    /// # Errors
    /// As [`Bus::connect`], or the operating system refuses a thread.
    pub async fn connect(address: &BusAddress, credentials: &Credentials, name: &str) -> Result<Self> {
        let host = Host::named("bus", 1)?;
        let (address, credentials, name) = (address.clone(), credentials.clone(), name.to_owned());
        let bus = host.run(async move { Bus::connect(&address, &credentials, &name).await }).await??;
        Ok(Self { bus, host })
    }
}

/// The workers that a leader wants.
#[derive(Debug, Clone, Copy)]
pub struct WantedWorkers {
    /// Their number.
    pub n: usize,
    /// Longest time to wait for them.
    pub wait: Duration,
}

/// A load for a fleet.
pub struct FleetLoad<'a> {
    /// The whole load.
    pub spec: &'a Spec,
    /// The step in brief, as this machine would send it.
    pub outline: Outline,
    /// The numbers of its chains.
    pub schedule: Schedule,
    /// Address of the server, if the plan does not have it.
    pub url: Option<&'a BaseUrl>,
    /// Number of connections to open.
    pub connections: usize,
}

impl Fleet {
    /// Finds workers and claims them. `own` is what this program is: workers of another version or with another binary
    /// are refused. `before` is the number of workers that the sweep has had: numbers go on from there.
    ///
    /// # Errors
    /// Fewer workers than expected were found until `wait` was over; the message names those that were refused.
    pub async fn gather(
        connected: ConnectedBus,
        own: WorkerInfo,
        before: u16,
        wanted: WantedWorkers,
    ) -> Result<Self> {
        let WantedWorkers { n: expect, wait } = wanted;
        let ConnectedBus { bus, host } = connected;
        let line = Line::new(bus);
        let holder = format!("{} on {}", own.id, own.host);
        let (claimed, seen) = watch::channel(Vec::new());
        let claims = host.spawn(keep_claims(line.clone(), holder.clone(), seen));
        let mut fleet = Self {
            line,
            own,
            holder,
            expect,
            members: Vec::new(),
            known: Vec::new(),
            unable: Vec::new(),
            before,
            attempts: 0,
            claimed,
            claims,
            host,
        };
        let until = Instant::now() + wait;
        let mut told = 0;
        loop {
            let refused = fleet.refill().await?;
            let have = fleet.members.len();
            if have >= expect {
                return Ok(fleet);
            }
            if Instant::now() >= until {
                fleet.free().await;
                bail!(missing(have, expect, wait, &refused));
            }
            if have > told {
                tracing::info!("{have} of {expect} workers are there");
                told = have;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns the workers.
    pub fn members(&self) -> &[WorkerInfo] {
        &self.members
    }

    /// Returns all workers that the fleet ever had, in the order of their numbers.
    pub fn known(&self) -> &[WorkerInfo] {
        &self.known
    }

    fn number(&self, member: &WorkerInfo) -> u16 {
        self.known.iter().position(|known| known == member).map_or(0, |at| self.before + at as u16 + 1)
    }

    /// Looks for workers until there are as many as expected, or no more are on the bus. Returns why others were refused.
    async fn refill(&mut self) -> Result<BTreeMap<WorkerId, String>> {
        let mut refused = BTreeMap::new();
        let found = self.line.bus.discover().await?;
        for info in &found {
            let is_known = self.members.iter().any(|m| m.id == info.id);
            if is_known || self.members.len() >= self.expect {
                continue;
            }
            match self.usable(info, &found) {
                Some(why) => _ = refused.insert(info.id.clone(), why),
                None => match self.claim(&info.id).await {
                    Ok(()) => self.members.push(info.clone()),
                    Err(why) => _ = refused.insert(info.id.clone(), why),
                },
            }
        }
        self.members.sort_by(|a, b| a.id.cmp(&b.id));
        for member in &self.members {
            if !self.known.contains(member) {
                self.known.push(member.clone());
            }
        }
        self.tell_claims();
        Ok(refused)
    }

    /// Looks for workers until there is one. If the bus was away, they come back to it one by one.
    async fn refill_in_time(&mut self) -> Result<()> {
        let until = Instant::now() + LEASE;
        loop {
            let found = self.refill().await;
            if found.is_ok() && !self.members.is_empty() || Instant::now() >= until {
                return found.map(drop);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns why a worker cannot be used; `None` if it can.
    fn usable(&self, info: &WorkerInfo, found: &[WorkerInfo]) -> Option<String> {
        if info.protocol != PROTOCOL || info.version != self.own.version {
            return Some(format!("it is goodput {}, and this is {}", info.version, self.own.version));
        }
        if info.binary != self.own.binary {
            return Some(
                "its program is another build of the same version: start all from one binary".into(),
            );
        }
        if let Some((_, why)) = self.unable.iter().find(|(unable, _)| unable == info) {
            return Some(why.clone());
        }
        let namesakes = found.iter().filter(|other| other.id == info.id).count();
        (namesakes > 1).then(|| format!("{namesakes} workers have this name: give them others by --name"))
    }

    async fn claim(&self, worker: &WorkerId) -> Result<(), String> {
        match self.line.ask(worker, Command::Claim { holder: self.holder.clone() }).await.map(|a| a.reply) {
            Ok(Reply::Claimed) => Ok(()),
            Ok(Reply::Refused(Refusal::Held { holder })) => Err(format!("{holder} uses it")),
            Ok(_) | Err(_) => Err("it does not answer".into()),
        }
    }

    fn tell_claims(&self) {
        self.claimed.send_replace(self.members.iter().map(|m| m.id.clone()).collect());
    }

    /// Drops a worker that is at fault; another one, or its next process, may take its place.
    pub async fn drop_member(&mut self, id: &WorkerId) {
        self.members.retain(|member| member.id != *id);
        self.tell_claims();
        // It may only have been slow: then it is free for others.
        let _ = self.line.ask(id, Command::Free).await;
    }

    /// Drops a worker that cannot do its part. Only its next process may take its place.
    pub async fn distrust(&mut self, id: &WorkerId, why: String) {
        let own = self.members.iter().find(|member| member.id == *id).cloned();
        self.unable.extend(own.map(|info| (info, why)));
        self.drop_member(id).await;
    }

    /// Fires a load, of which each worker sends its part. A worker that is lost before the start, or cannot make the load
    /// ready, has its share dealt to the others; another worker takes its place at the next load.
    ///
    /// # Errors
    /// No worker is left, or three failed one after the other; the load is too large for a message.
    pub async fn fire(&mut self, load: FleetLoad<'_>) -> Result<FleetFiring> {
        for deal in 0..DEALS {
            // Others take the place of lost workers at the next load: one that fails and stays on the bus would be found again.
            if self.members.is_empty() || deal == 0 && self.members.len() < self.expect {
                self.refill_in_time().await?;
            }
            ensure!(!self.members.is_empty(), "no worker is left on the bus{}", self.inabilities());
            // After a long outage of the bus, all of them may be free.
            join_all(self.members.iter().map(|m| self.claim(&m.id))).await;
            match self.start(&load).await? {
                Ok(firing) => return Ok(firing),
                Err(fault) => self.leave_out(fault).await,
            }
        }
        bail!("workers failed {DEALS} times before the step started{}", self.inabilities())
    }

    /// Drops a worker that is at fault before the start of a load.
    async fn leave_out(&mut self, fault: Fault) {
        let id = self.members[fault.worker].id.clone();
        match (fault.fault, fault.why) {
            (WorkerFault::Refused, Some(why)) => {
                tracing::warn!("the worker {id} cannot send its share, which is dealt to the others: {why}");
                self.distrust(&id, why).await;
            }
            _ => {
                tracing::warn!("the worker {id} was lost before the step: its share is dealt to the others");
                self.drop_member(&id).await;
            }
        }
    }

    /// Returns a line for each worker that could not do its part.
    fn inabilities(&self) -> String {
        self.unable.iter().map(|(info, why)| format!("\n  {}: {why}", info.id)).collect()
    }

    /// Makes a load ready on all workers and starts it. Returns the fault of a worker if there is one before the start.
    async fn start(&mut self, load: &FleetLoad<'_>) -> Result<Result<FleetFiring, Fault>> {
        self.attempts += 1;
        let (attempt, preparations) = (Attempt(self.attempts), self.preparations(load)?);
        let line = self.line.clone();
        let machine = StepMachine::new(line.now(), attempt, load.outline, preparations);
        let started = self.start_at_once(machine).await;
        if started.is_err() {
            join_all(self.members.iter().map(|m| line.ask(&m.id, Command::Release { attempt }))).await;
        }
        Ok(started.map(|running| FleetFiring::begin(running, line, &self.host, load)))
    }

    /// Has all workers make a load ready, and then start at one time.
    async fn start_at_once(&self, mut machine: StepMachine) -> Result<RunningLoad, Fault> {
        let (line, members) = (&self.line, &self.members);
        drive_until(line, members, &mut machine, |m| m.is_ready() || m.is_over()).await;
        machine.fault().map_or(Ok(()), |fault| Err(fault.clone()))?;
        let offsets = line.offsets(members).await;
        let lost = |worker| Fault { worker, fault: WorkerFault::Lost, why: None };
        let offsets = offsets.into_iter().enumerate().map(|(i, offset)| offset.map_err(|_| lost(i)));
        let offsets: Vec<Offset> = offsets.collect::<Result<_, _>>()?;
        let began = Instant::now() + AHEAD;
        let starts: Vec<u64> = offsets.iter().map(|o| o.to_worker(line.at(began))).collect();
        machine.fire(line.now(), &starts);
        drive_until(line, members, &mut machine, |m| m.is_running() || m.is_over()).await;
        machine.fault().map_or(Ok(()), |fault| Err(fault.clone()))?;
        let numbers = members.iter().map(|m| self.number(m)).collect();
        Ok(RunningLoad { members: members.clone(), numbers, machine, began, offsets })
    }

    /// Returns what each worker is to make ready.
    fn preparations(&self, load: &FleetLoad<'_>) -> Result<Vec<Preparation>> {
        let of = self.members.len() as u32;
        let allowed = consent::allowed();
        let connections = load.connections.div_ceil(self.members.len()) as u32;
        let part = |i| {
            let part = StepPart::new(i, of).map_err(anyhow::Error::msg)?;
            let spec = Spec { part, ..load.spec.clone() };
            let (url, allowed) = (load.url.cloned(), allowed.clone());
            Ok(Preparation { spec, url, connections, allowed })
        };
        let all: Vec<Preparation> = (0..of).map(part).collect::<Result<_>>()?;
        let size = serde_json::to_vec(&all[0]).context("failed to write the load")?.len();
        let most = self.line.bus.largest_message().saturating_sub(SPARE);
        ensure!(
            size <= most,
            "the plan takes {size} bytes, and the bus passes on {most}: put long texts into files, or raise max_payload of nats-server"
        );
        Ok(all)
    }

    /// Gives all workers back.
    pub async fn free(&mut self) {
        self.claimed.send_replace(Vec::new());
        let all = std::mem::take(&mut self.members);
        join_all(all.iter().map(|m| self.line.ask(&m.id, Command::Free))).await;
    }
}

/// Claims the workers again and again, so that they know that their leader is there.
async fn keep_claims(line: Line, holder: String, mut members: watch::Receiver<Vec<WorkerId>>) {
    loop {
        let ids = members.borrow_and_update().clone();
        let claim = |id| {
            let (line, command) = (&line, Command::Claim { holder: holder.clone() });
            async move { line.ask(id, command).await }
        };
        join_all(ids.iter().map(claim)).await;
        tokio::select! {
            () = sleep(CLAIM_EVERY) => {}
            changed = members.changed() => if changed.is_err() { return },
        }
    }
}

fn missing(have: usize, expect: usize, wait: Duration, refused: &BTreeMap<WorkerId, String>) -> String {
    let wait = wait.as_secs();
    let mut text = format!(
        "{have} of {expect} workers were on the bus after {wait} s: start more (goodput worker --bus …), wait longer (--wait), or expect fewer"
    );
    for (id, why) in refused {
        text.push_str(&format!("\n  {id}: {why}"));
    }
    text
}
