//! A running step: the runner starts its load, collects the finished requests, and decides when it ends.

use super::alternate;
use super::early_stop::{Looks, TICK, drain, failing};
use super::host::HostWatch;
use super::idle::nobody_answers;
use super::journal::Journal;
use super::next::{likely_connections, surge};
use super::progress::StepProgress;
use super::runner::{Runner, Task};
use super::scrape::{Following, MetricsRead};
use super::step_context::{EarlyEnd, StepContext};
use super::step_load::{LoadEnd, StepLoad};
use super::tally::StepTally;
use super::termination::Termination;
use anyhow::{Context, Result, bail};
use goodput_cluster::fleet::FleetLoad;
use goodput_load::load::lag::OwnDelay;
use goodput_load::load::local::Load;
use goodput_load::load::spec::{Selection, Spec, StepSpec};
use goodput_plan::Plan;
use goodput_stats::search::Ask;
use goodput_stats::server::Reading;
use goodput_stats::stats::step::{Abort, StepKind};
use goodput_workload::draw::StepKey;
use goodput_workload::part::StepPart;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Interval at which `requests.csv` is flushed to disk.
const FLUSH: Duration = Duration::from_secs(1);
/// Time before the end of a window at which it is extended, if it has too few requests.
const EXTEND_BEFORE: Duration = Duration::from_millis(200);

/// A step that is running. Times count from its start unless stated otherwise.
pub(super) struct Running {
    ask: Ask,
    /// Wall-clock time of its start (RFC 3339).
    started_at: String,
    /// Time of its start, by the clock of the sweep.
    started: Duration,
    /// Its early end, if there was one.
    pub(super) abort: Option<EarlyEnd>,
    /// Its load.
    pub(super) firing: StepLoad,
    /// Current length of the measured window.
    window: Duration,
    /// A request to find out if the server still answers, while that is in doubt.
    probe: Option<JoinHandle<bool>>,
    /// The metrics being read; taken when they are awaited.
    following: Option<Following>,
    /// The cores of this machine, if the server runs on it.
    pub(super) host_watch: HostWatch,
}

impl Running {
    fn window_end(&self) -> Duration {
        self.ask.settle + self.window
    }

    /// Informs the readers of metrics about the end of the window.
    fn announce_window_end(&self, at: Duration) {
        self.following.iter().for_each(|f| f.until(at));
    }

    /// Sets the window of a burst to its actual duration: up to and including the last answer.
    fn close_burst(&mut self, tally: &StepTally) {
        let last = tally.kept.iter().map(|r| r.end.get()).max();
        if let Some(last) = last.filter(|_| self.ask.kind == StepKind::Burst && self.abort.is_none()) {
            self.window = last + Duration::from_nanos(1);
        }
    }

    /// Stops sending, and thereby ends the step. Only the first reason counts.
    fn end(&mut self, why: Abort) {
        let end = *self.abort.get_or_insert(EarlyEnd { why, at: self.firing.began().elapsed() });
        self.announce_window_end(end.at);
        self.firing.stop();
    }

    /// Writes the metrics read since the last call.
    fn write_samples(&mut self, task: Task<'_>, journal: &mut Journal) -> Result<()> {
        let Some(following) = &mut self.following else { return Ok(()) };
        following.take().try_for_each(|sample| journal.sample(task.series, task.number, &sample))
    }

    /// Stops reading metrics and returns all readings.
    pub(super) async fn end_metrics(&mut self, task: Task<'_>, journal: &mut Journal) -> Result<MetricsRead> {
        self.write_samples(task, journal)?;
        match self.following.take() {
            Some(following) => following.ended().await,
            None => Ok(MetricsRead::default()),
        }
    }

    /// Returns the facts about the step other than its requests.
    pub(super) fn context<'a>(&self, task: Task<'a>) -> StepContext<'a> {
        StepContext {
            plan: &task.series.plan,
            ask: self.ask,
            series: &task.series.name,
            number: task.number,
            earlier: task.earlier,
            started_at: self.started_at.clone(),
            started: self.started,
            ended: task.clock.now(),
            settle: self.ask.settle,
            window: self.window,
            abort: self.abort,
            client_delay: OwnDelay::default(),
            halts: Vec::new(),
            workers: Vec::new(),
            client_limit: self.firing.status().client_limit,
        }
    }

    /// Returns the state of the step for the progress line.
    fn shown(&self, tally: &StepTally) -> StepProgress {
        StepProgress {
            level: self.ask.level,
            elapsed: self.firing.began().elapsed(),
            end: self.window_end(),
            in_flight: self.firing.status().in_flight,
            workers: self.firing.workers(),
            p99: tally.response_p99(),
        }
    }

    /// Looks at the misses of the step, if a look is due.
    fn look(&mut self, tally: &StepTally, looks: &mut Looks, elapsed: Duration) {
        let share = elapsed.saturating_sub(self.ask.settle).as_secs_f64() / self.window.as_secs_f64();
        if self.abort.is_none() && looks.take(share.min(1.0), tally) {
            self.end(Abort::Gross);
        }
    }

    /// Extends the window, if it has too few requests.
    fn extend(&mut self, plan: &Plan, tally: &StepTally, elapsed: Duration) {
        let due_so_far = tally.measured() + self.firing.status().measured_open;
        if let Some(longer) = extended(plan, &self.ask, Window { window: self.window, elapsed, due_so_far }) {
            self.window = longer;
            self.firing.extend(longer);
            self.announce_window_end(self.window_end());
        }
    }
}

/// The measured window of a running step, and its progress.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Current length of the window.
    window: Duration,
    /// Time since the start of the step.
    elapsed: Duration,
    /// Number of requests due in the window so far.
    due_so_far: u64,
}

/// Returns the length to which a window is extended: one of the plan's own length that is about to end short of
/// `min-requests`.
fn extended(plan: &Plan, ask: &Ask, now: Window) -> Option<Duration> {
    let Window { window, elapsed, due_so_far } = now;
    let end = ask.settle + window;
    let wanted = u64::from(plan.step.min_requests);
    let longest = plan.step.max_duration.0;
    let about_to_end = elapsed + EXTEND_BEFORE >= end && elapsed < end;
    (ask.extend && about_to_end && due_so_far < wanted && window < longest).then(|| {
        let factor = 1.05 * wanted as f64 / due_so_far.max(1) as f64;
        longest.min(Duration::from_secs_f64(window.as_secs_f64() * factor))
    })
}

/// The end of a step's drain: requests still in flight are then cancelled.
struct Drain {
    /// Time of the end; known after the last request was sent.
    until: Option<Instant>,
    /// True if the sweep is termination.
    termination: bool,
    /// Longest drain of a sweep that is termination, whatever the step asked for.
    short: Duration,
}

impl Drain {
    /// Handles the end of the sweep: aborts the step, unless all of its requests were already sent.
    fn sweep_ends(&mut self, running: &mut Running, why: Abort) {
        self.termination = true;
        // After the last request there is nothing to abort, except in a burst, which sends all requests at once.
        let open = self.until.is_none() || running.ask.kind == StepKind::Burst;
        if open && running.abort.is_none() {
            running.end(why);
        }
        self.until = self.until.map(|until: Instant| until.min(Instant::now() + self.short));
    }

    /// Starts the drain after the last request was sent.
    fn begin(&mut self, running: &Running) {
        let drain = drain(&running.ask, running.abort.map(|end| end.why));
        self.until = Some(Instant::now() + if self.termination { drain.min(self.short) } else { drain });
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Returns the load of a step.
fn spec(task: Task<'_>, load: &Load) -> Spec {
    let (ask, plan) = (task.ask, task.plan());
    let prompts = StepKey { seed: plan.seed, series: task.series.name.clone(), step: task.number };
    // Alternating variants share arrivals and lengths, but each has different prompts.
    let arrivals = match task.round {
        Some(step) => StepKey { seed: plan.seed, series: alternate::TOGETHER.into(), step },
        None => prompts.clone(),
    };
    let step = StepSpec {
        prompts,
        arrivals,
        in_series: task.round.unwrap_or(task.earlier.len() as u32 + 1),
        selection: match ask.kind == StepKind::Burst {
            true => Selection::First(ask.level.value as u64),
            false => Selection::All,
        },
        hurried: ask.kind == StepKind::Baseline,
        surge: surge(plan, &ask),
        pace: plan.pace(ask.kind),
        phase: None,
        settle: ask.settle,
        measure: ask.measure,
        timeout: plan.step_timeout(task.earlier),
    };
    let (plan, terms) = (load.plan().clone(), load.terms().clone());
    Spec { plan, terms, step, level: ask.level, part: StepPart::WHOLE }
}

/// The end of a load.
pub(super) struct FollowedLoad {
    /// The early end of the step, if it had one.
    pub(super) abort: Option<EarlyEnd>,
    /// The end of the load.
    pub(super) end: LoadEnd,
}

impl Runner {
    /// Starts the load of a step, and the reading of metrics. `before` is the servers' reading just before it.
    pub(super) async fn start(
        &mut self,
        task: Task<'_>,
        before: Option<Vec<Reading>>,
        host_watch: HostWatch,
    ) -> Result<Running> {
        let ask = task.ask;
        let firing = self.fire(task).await?;
        // Workers start a moment after they were told.
        let ahead = firing.began().saturating_duration_since(Instant::now());
        let started_at = (jiff::Timestamp::now() + ahead).to_string();
        let started = task.clock.now() + ahead;
        let following =
            self.ready.scraper.follow(firing.began(), ask.settle, ask.settle + ask.measure, before);
        Ok(Running {
            ask,
            started_at,
            started,
            abort: None,
            firing,
            window: ask.measure,
            probe: None,
            following: Some(following),
            host_watch,
        })
    }

    /// Has this machine or the workers fire the load of a step.
    async fn fire(&mut self, task: Task<'_>) -> Result<StepLoad> {
        let load = &self.ready.load;
        let spec = spec(task, load);
        let Some(workers) = &mut self.workers else {
            return Ok(StepLoad::Local(Box::new(load.fire(&spec)?)));
        };
        let load = FleetLoad {
            outline: load.outline(&spec)?,
            schedule: load.schedule(&spec)?,
            spec: &spec,
            url: self.ready.embedded_url.as_ref(),
            connections: likely_connections(task.plan(), task.ask.level, task.earlier),
        };
        Ok(StepLoad::Fleet(Box::new(workers.fleet.fire(load).await?)))
    }

    /// Collects finished requests until the load has ended.
    pub(super) async fn follow(
        &mut self,
        task: Task<'_>,
        running: &mut Running,
        tally: &mut StepTally,
        journal: &mut Journal,
        termination: &Termination,
    ) -> Result<FollowedLoad> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut looks, mut flushed) = (Looks::new(&running.ask), Instant::now());
        let interrupt = termination.token();
        let mut sent_all = std::pin::pin!(running.firing.sent_all());
        let mut drain = Drain { until: None, termination: false, short: task.plan().step.drain.0 };
        loop {
            tokio::select! {
                biased;
                () = interrupt.cancelled(), if !drain.termination => drain.sweep_ends(running, termination.abort()),
                () = &mut sent_all, if drain.until.is_none() => drain.begin(running),
                _ = ticks.tick() => {
                    if flushed.elapsed() >= FLUSH {
                        journal.flush(termination)?;
                        flushed = Instant::now();
                    }
                    running.write_samples(task, journal)?;
                    self.tick(task, running, tally, &mut looks).await?;
                    if drain.is_over() {
                        running.firing.cut();
                    }
                    journal.tick(&running.shown(tally), tally);
                }
                finished = running.firing.finished() => match finished {
                    Some(mut finished) => {
                        self.ready.read(&mut finished);
                        journal.request(task.series, task.number, &finished)?;
                        tally.add(&finished);
                    }
                    None => break,
                },
            }
        }
        let end = running.firing.ended().await?;
        if end.fault.is_some() {
            running.end(Abort::WorkerLost);
        }
        running.close_burst(tally);
        let burst = running.ask.kind == StepKind::Burst;
        if running.abort.is_none() && !burst && running.firing.began().elapsed() < running.window_end() {
            match self.ready.load.traffic().failure() {
                Some(why) => bail!("the load of the step ended before its window did: {why}"),
                None => bail!("the load of the step ended before its window did"),
            }
        }
        let abort = self.last_reason(running, tally, termination).await?;
        Ok(FollowedLoad { abort, end })
    }

    /// Returns the early end of a step whose requests have all finished. The first signs of a dying server look like
    /// gross misses.
    async fn last_reason(
        &self,
        running: &Running,
        tally: &StepTally,
        termination: &Termination,
    ) -> Result<Option<EarlyEnd>> {
        let abort = running.abort;
        let at = abort.map_or(running.firing.began().elapsed(), |end| end.at);
        let settled = abort.is_some_and(|end| {
            end.why.is_broken_off() || matches!(end.why, Abort::ServerGone | Abort::WorkerLost)
        });
        if !settled && tally.ended_unreachable() {
            let client = self.ready.client().clone();
            let probe = self.host.run(async move { nobody_answers(&client).await });
            if termination.within(Duration::ZERO, probe).await.transpose()? == Some(true) {
                return Ok(Some(EarlyEnd { why: Abort::ServerGone, at }));
            }
        }
        Ok(abort.or_else(|| tally.ended_without().map(|why| EarlyEnd { why, at })))
    }

    /// Ends the step early if necessary, extends its window if it has too few requests, and ends the load after its
    /// tail.
    async fn tick(
        &self,
        task: Task<'_>,
        running: &mut Running,
        tally: &StepTally,
        looks: &mut Looks,
    ) -> Result<()> {
        if let Err(refused) = self.check_consent() {
            running.firing.stop();
            running.firing.cut();
            return Err(refused);
        }
        if running.probe.is_none() && tally.seems_gone() && running.abort.is_none() {
            let client = self.ready.client().clone();
            running.probe = Some(self.host.spawn(async move { nobody_answers(&client).await }));
        }
        if let Some(probe) = running.probe.take_if(|p| p.is_finished())
            && probe.await.context("the probe of the server has failed")?
        {
            running.end(Abort::ServerGone);
        }
        if let Some(why) = failing(task.plan(), tally, running.firing.status().in_flight) {
            running.end(why);
        }
        let elapsed = running.firing.began().elapsed();
        running.host_watch.look(elapsed, running.ask.settle, running.window_end());
        running.look(tally, looks, elapsed);
        running.extend(task.plan(), tally, elapsed);
        // The load continues until the measured requests have finished, but only for the length of the tail.
        if elapsed >= running.window_end() + running.ask.tail {
            running.firing.stop();
        }
        Ok(())
    }
}
