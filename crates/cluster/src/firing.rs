//! A load that a fleet is firing, as its leader sees it: the same as one that this machine fires.

use super::clock::Offset;
use super::fleet::FleetLoad;
use super::ledger::Ledger;
use super::line::Line;
use super::message::{Attempt, Command, Reply, Wanted, WorkerDelays, WorkerInfo};
use super::step::{Fault, StepMachine};
use anyhow::{Context, Result};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use goodput_core::record::{Finished, Phase};
use goodput_load::load::firing::TraceStart;
use goodput_load::load::host::Host;
use goodput_load::load::spec::Status;
use goodput_stats::stats::workers::{WorkerFault, WorkerReport, clock_tolerance};
use std::future::Future;
use std::ops::Range;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Finished requests that may wait for the director.
const WAITING: usize = 1 << 16;
/// Longest time without a look at the workers.
const LOOK: Duration = Duration::from_millis(50);

/// A load that a fleet is firing. It ends when this is dropped.
pub struct FleetFiring {
    /// The requests that are over. Closes when all are.
    pub finished: mpsc::Receiver<Finished>,
    /// Start of the step: all times of its records count from here.
    pub began: Instant,
    /// The place in a trace at which the step begins.
    pub trace: Option<TraceStart>,
    line: Line,
    attempt: Attempt,
    members: Vec<WorkerInfo>,
    /// Their numbers among all workers of the sweep.
    numbers: Vec<u16>,
    wanted: watch::Sender<Wanted>,
    seen: watch::Receiver<FleetStatus>,
    sent_all: CancellationToken,
    driver: Option<JoinHandle<StepMachine>>,
    offsets: Vec<Offset>,
}

/// A load that has started on all workers.
pub(crate) struct RunningLoad {
    pub(crate) members: Vec<WorkerInfo>,
    /// Their numbers among all workers of the sweep.
    pub(crate) numbers: Vec<u16>,
    pub(crate) machine: StepMachine,
    pub(crate) began: Instant,
    /// The offsets of their clocks before the start.
    pub(crate) offsets: Vec<Offset>,
}

/// The state of a load.
#[derive(Debug, Clone, Default)]
pub struct FleetStatus {
    /// The counts of all workers together.
    pub all: Status,
    /// The counts of each.
    pub each: Vec<Status>,
}

/// The end of a load.
#[derive(Debug)]
pub struct FleetEnd {
    /// The workers' reports of the step.
    pub reports: Vec<WorkerReport>,
    /// The first fault of a worker; the load was then cancelled on the others.
    pub fault: Option<Fault>,
}

impl FleetFiring {
    /// Follows a load that runs on all workers.
    pub(crate) fn begin(running: RunningLoad, line: Line, host: &Host, load: &FleetLoad<'_>) -> Self {
        let RunningLoad { members, numbers, machine, began, offsets } = running;
        let (results, finished) = mpsc::channel(WAITING);
        let (wanted, wants) = watch::channel(machine.wanted());
        let (tell, seen) = watch::channel(FleetStatus::default());
        let (sent_all, attempt) = (CancellationToken::new(), machine.attempt());
        let step = &load.spec.step;
        let ledger = Ledger::new(load.schedule.clone(), members.len());
        let driver = Driver {
            line: line.clone(),
            members: members.clone(),
            numbers: numbers.clone(),
            ledger,
            machine,
            results,
            wants,
            tell,
            sent_all: sent_all.clone(),
            began: line.at(began),
            settle: step.settle,
            has_phases: step.phase.is_none(),
            is_stopped_early: false,
        };
        let driver = Some(host.spawn(driver.run()));
        let trace = load.outline.trace;
        Self {
            finished,
            began,
            trace,
            line,
            attempt,
            members,
            numbers,
            wanted,
            seen,
            sent_all,
            driver,
            offsets,
        }
    }

    /// Returns the state of the load.
    pub fn status(&self) -> Status {
        self.seen.borrow().all
    }

    /// Returns the state of each worker's part, with its name.
    pub fn each_status(&self) -> Vec<(String, Status)> {
        let names = self.members.iter().map(|m| m.id.to_string());
        names.zip(self.seen.borrow().each.iter().copied()).collect()
    }

    /// Completes when the last request has been sent.
    pub fn sent_all(&self) -> impl Future<Output = ()> + Send + use<> {
        self.sent_all.clone().cancelled_owned()
    }

    /// Stops sending. Requests in flight go on.
    pub fn stop(&self) {
        self.wanted.send_modify(|wanted| wanted.stop = true);
    }

    /// Cancels the requests in flight.
    pub fn cut(&self) {
        self.wanted.send_modify(|wanted| wanted.cut = true);
    }

    /// Sets the length of the measured window.
    pub fn extend(&self, window: Duration) {
        self.wanted.send_modify(|wanted| wanted.window = window);
    }

    /// Waits until the load has ended on every worker that is not at fault, and measures their clocks again.
    ///
    /// # Errors
    /// The leader's own task panicked.
    pub async fn ended(&mut self) -> Result<FleetEnd> {
        let driver = self.driver.take().context("the end of the load was waited for twice")?;
        let machine = driver.await.context("following the workers failed")?;
        let fault = machine.fault().cloned();
        let after = self.line.offsets(&self.members).await;
        let apart = self.began.elapsed();
        let of = |(i, late): (usize, Duration)| {
            let before = self.offsets[i];
            let errors = before.error_ns + after[i].as_ref().map_or(0, |after| after.error_ns);
            let tolerance = clock_tolerance(apart, Duration::from_nanos(errors));
            let own = fault.as_ref().filter(|f| f.worker == i).map(|f| f.fault);
            WorkerReport {
                worker: self.numbers[i],
                id: self.members[i].id.to_string(),
                start_late_ms: late.as_secs_f64() * 1e3,
                clock_offset_ms: before.ns as f64 / 1e6,
                clock_drift_ms: after[i].as_ref().map_or(0.0, |after| before.drift_ms(*after)),
                clock_tolerance_ms: tolerance.as_secs_f64() * 1e3,
                fault: own.or_else(|| after[i].is_err().then_some(WorkerFault::Lost)),
            }
        };
        let reports = machine.late().enumerate().map(of).collect();
        Ok(FleetEnd { reports, fault })
    }

    /// Returns the delays that the workers themselves added in a part of the step: those of the worst one, and every
    /// stretch in which one stood still.
    pub async fn delays(&self, counted: &Range<Duration>) -> WorkerDelays {
        let command = || Command::Delays { attempt: self.attempt, counted: counted.clone() };
        let all = join_all(self.members.iter().map(|m| self.line.ask(&m.id, command()))).await;
        let each = all.into_iter().filter_map(|answer| match answer.ok()?.reply {
            Reply::Delays(delays) => Some(delays),
            _ => None,
        });
        each.fold(WorkerDelays::default(), WorkerDelays::worse)
    }
}

/// Talks to the workers while the load runs.
struct Driver {
    line: Line,
    members: Vec<WorkerInfo>,
    numbers: Vec<u16>,
    machine: StepMachine,
    /// The requests that have come, against those of the plan.
    ledger: Ledger,
    results: mpsc::Sender<Finished>,
    wants: watch::Receiver<Wanted>,
    tell: watch::Sender<FleetStatus>,
    sent_all: CancellationToken,
    /// Start of the step by the leader's clock.
    began: Duration,
    settle: Duration,
    /// True if the phase of a request follows from when it was due.
    has_phases: bool,
    /// True if the director stopped the load before the end of its window.
    is_stopped_early: bool,
}

impl Driver {
    async fn run(mut self) -> StepMachine {
        let mut open = FuturesUnordered::new();
        let mut is_left = false;
        loop {
            for (i, command) in self.machine.due(self.line.now()) {
                let (line, id) = (self.line.clone(), self.members[i].id.clone());
                open.push(async move { (i, line.ask(&id, command).await) });
            }
            if self.machine.is_over() {
                break;
            }
            let next =
                self.machine.next_due().map_or(LOOK, |next| next.saturating_sub(self.line.now())).min(LOOK);
            let mut answered = None;
            tokio::select! {
                one = open.next(), if !open.is_empty() => answered = one,
                changed = self.wants.changed(), if !is_left => {
                    // Nobody waits for the load any more: it ends.
                    is_left = changed.is_err();
                    let wanted = *self.wants.borrow_and_update();
                    self.want(Wanted { stop: wanted.stop || is_left, cut: wanted.cut || is_left, ..wanted });
                }
                () = sleep_until(Instant::now() + next.max(Duration::from_micros(100))) => {}
            }
            self.line.note_return(&mut self.machine);
            if let Some((i, answer)) = answered {
                self.machine.answered(self.line.now(), i, answer);
            }
            self.hand_over(is_left).await;
            self.look();
        }
        self.hand_over(is_left).await;
        self.look();
        self.sent_all.cancel();
        if is_left {
            let attempt = self.machine.attempt();
            join_all(self.members.iter().map(|m| self.line.ask(&m.id, Command::Release { attempt }))).await;
            return self.machine;
        }
        self.find_missing().await
    }

    /// Blames a worker if a request is missing that was due before the end of the window.
    async fn find_missing(self) -> StepMachine {
        let end = self.settle + self.machine.wanted().window;
        let is_whole = self.has_phases && !self.is_stopped_early;
        let Self { mut machine, ledger, .. } = self;
        if is_whole && machine.fault().is_none() {
            // All chains are drawn for it: at high rates that takes a while.
            let missing = tokio::task::spawn_blocking(move || ledger.missing(end)).await;
            if let Ok(Some(worker)) = missing {
                machine.accuse(worker, WorkerFault::RecordsMissing);
            }
        }
        machine
    }

    /// Returns the end of the measured window by the leader's clock.
    fn window_end(&self) -> Duration {
        self.began + self.settle + self.machine.wanted().window
    }

    /// Adds what the director wants to what follows from the load itself: once stopped, it stays so.
    fn want(&mut self, wanted: Wanted) {
        let now = self.machine.wanted();
        self.is_stopped_early |= wanted.stop && self.line.now() < self.window_end();
        self.machine.want(Wanted { stop: wanted.stop || now.stop, cut: wanted.cut || now.cut, ..wanted });
    }

    /// Hands the records that have come to the director.
    async fn hand_over(&mut self, is_left: bool) {
        let window_end = self.settle + self.machine.wanted().window;
        for (worker, records) in self.machine.take_records() {
            for mut finished in records {
                let record = &mut finished.record;
                if !self.ledger.enter(worker, record.id) {
                    self.machine.accuse(worker, WorkerFault::OtherRequests);
                    continue;
                }
                record.worker = Some(self.numbers[worker]);
                // The worker heard of a longer window only after this one was due.
                if self.has_phases && record.phase == Phase::Tail && record.due < window_end {
                    record.phase = Phase::Measure;
                }
                if is_left || self.results.send(finished).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Tells the state of the load, and stops it once every measured request has finished: no worker alone sees that.
    fn look(&mut self) {
        let all = self.machine.status();
        if all.sent_all {
            self.sent_all.cancel();
        }
        self.tell.send_replace(FleetStatus { all, each: self.machine.each_status().collect() });
        let end = self.window_end();
        let is_quiet = all.measured_open == 0 && !all.to_come;
        if self.line.now() >= end && is_quiet && self.machine.is_fresh(end) {
            self.want(Wanted { stop: true, ..self.machine.wanted() });
        }
    }
}
