//! One step: the director starts the load, takes the records home, and decides when it is over.

use super::Sweep;
use super::ended::StepSoFar;
use super::host::Neighbours;
use super::idle::nobody_answers;
use super::looks::{Looks, TICK, drain};
use super::profile::Moment;
use super::scrape::Following;
use super::tally::StepTally;
use super::turns;
use anyhow::{Context, Result, bail};
use goodput_core::level::{Control, Level};
use goodput_core::record::Finished;
use goodput_core::slo::{ALL, Metric, Slo};
use goodput_core::units::Fraction;
use goodput_load::load::host::{Firing, Share};
use goodput_load::load::job::{Gauge, Job};
use goodput_load::load::lag;
use goodput_load::load::source::Builder;
use goodput_plan::Plan;
use goodput_stats::search::Ask;
use goodput_stats::server::Reading;
use goodput_stats::stats::step::{Abort, Step, StepKind, TracePart};
use goodput_workload::draw::{Chains, StepKey, Surge};
use goodput_workload::prompts::Prompter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// `requests.csv` is brought to disk this often.
const FLUSH: Duration = Duration::from_secs(1);
/// Requests of one step that may wait for the director. Beyond it they wait in their own tasks, never in the loop.
const HOME: usize = 1 << 16;
/// A window that is short of requests is extended this long before it would end.
const EXTEND_BEFORE: Duration = Duration::from_millis(200);

/// What runs while a step does.
pub(super) struct Running {
    ask: Ask,
    started_at: String,
    /// Counted from the start of the sweep.
    started: Duration,
    /// Why it ended early, if it did, and when.
    abort: Option<(Abort, Duration)>,
    home: mpsc::Receiver<Finished>,
    window: watch::Sender<Duration>,
    gauge: Arc<Gauge>,
    stop: CancellationToken,
    cut: CancellationToken,
    began: Instant,
    settle: Duration,
    /// The loops that fire; taken when they are awaited.
    load: Option<Firing>,
    /// Asks whether anybody answers, while that is in doubt.
    probe: Option<JoinHandle<bool>>,
    /// The metrics that are read meanwhile; taken when they are awaited.
    pub(super) following: Option<Following>,
    /// The request of a trace that it began with, and how many there are.
    trace: Option<(u64, u64)>,
    /// The cores of this machine, where the server runs on it; taken when the step is over.
    neighbours: Neighbours,
}

impl Running {
    fn window_end(&self) -> Duration {
        self.settle + *self.window.borrow()
    }

    /// Tells those who read metrics.
    fn window_ends(&self, at: Duration) {
        self.following.iter().for_each(|f| f.until(at));
    }

    /// The window of a burst is the time that it took: it ends with the last answer, which is within it.
    fn close_burst(&self, tally: &StepTally) {
        let last = tally.kept.iter().map(|r| r.end.get()).max();
        if let Some(last) = last.filter(|_| self.ask.kind == StepKind::Burst && self.abort.is_none()) {
            self.window.send_replace(last + Duration::from_nanos(1));
        }
    }

    /// Ends the sending, and the step with it; the first reason stands.
    fn end(&mut self, why: Abort) {
        let (_, at) = *self.abort.get_or_insert((why, self.began.elapsed()));
        self.window_ends(at);
        self.stop.cancel();
    }
}

impl Sweep<'_> {
    /// The number of the step that comes next.
    pub(super) fn number(&self) -> u32 {
        self.steps.len() as u32 + 1
    }

    /// The steps of the series that is being measured: one series comes after the other, unless they are measured in turns.
    pub(super) fn own_steps(&self) -> &[Step] {
        if self.whole.alternate.is_some() {
            return &self.own;
        }
        let first = self.steps.iter().rposition(|s| s.series != self.series).map_or(0, |i| i + 1);
        &self.steps[first..]
    }

    /// Measures one level and writes what came of it.
    pub(super) async fn measure(&mut self, ask: Ask) -> Result<()> {
        let number = self.number();
        if !self.leave_alone(number).await {
            return Ok(());
        }
        self.wait_idle(number).await?;
        self.set_cache().await?;
        let plan = self.plan;
        let classes = plan.workload.classes();
        let mut tally = self.sweep_tally.begin(self.plan.slo.as_slice(), classes.len(), &ask);
        self.warm_connections(ask.level).await;
        let profiled =
            ask.kind == StepKind::Profile && self.profiler(number, ask.level, Moment::Before).await?;
        let before = self.ready.scraper.read().await?;
        let started_at = jiff::Timestamp::now().to_string();
        let started = self.now();
        let (share, lag_stop) = (self.paced(&ask), CancellationToken::new());
        let lags = (!self.host.is_paused())
            .then(|| self.host.each(self.host.used(&share), |_| lag::sample(lag_stop.clone())));
        let neighbours = Neighbours::watch(self.plan, self.servers.group(), self.host.is_paused());
        let mut running = self.start(ask, number, before)?;
        running.neighbours = neighbours;
        self.show(|live, sweep| {
            live.begin(&sweep.series, number, ask.level, sweep.share(ask.level).rate);
        });
        (running.started_at, running.started) = (started_at, started);
        let followed = self.follow(&mut running, &mut tally, number).await;
        if profiled {
            self.profiler(number, ask.level, Moment::After).await?;
        }
        running.abort = followed?;
        lag_stop.cancel();
        let followed = self.end_metrics(&mut running, number).await?;
        let lags = match lags {
            Some(threads) => threads.join_all().await.into_iter().collect::<Result<_, _>>(),
            None => Ok(Vec::new()),
        };
        let lags: Vec<_> = lags.context("the receive-lag sampler failed")?;
        let checks = self.ready.reader.rows(&self.plan.workload);
        let mut so_far = self.so_far(&running);
        let counted = so_far.counted();
        so_far.own = lag::worst(&lags, counted.start, counted.end);
        let trace = running.trace.and_then(|(from, of)| {
            let last = tally.kept.iter().map(|r| r.id).max()?;
            Some(TracePart { from, n: self.ready.traffic.chain(last) + 1, of })
        });
        let host = running.neighbours.end();
        let mut step = Step { checks, trace, host, ..so_far.conclude(&mut tally) };
        self.fill_in(&mut step, &followed, &counted, &tally).await?;
        let mut gaps = vec![(ALL, "itl", tally.itl.pooled().buckets())];
        for (i, class) in classes.iter().enumerate() {
            gaps.extend(tally.itl.of_class(i).map(|own| (class.name.as_str(), "itl", own.buckets())));
        }
        self.writer.step(&step, &gaps)?;
        self.asked_to_wait(&step, tally.wait_until.map(|until| running.began + until));
        self.sweep_tally.end(tally);
        self.progress.step(&step);
        self.show(|live, _| live.end(&step));
        self.steps.push(step);
        self.write_result()
    }

    /// Opens as many connections as the step is likely to need, judging by the step before it.
    async fn warm_connections(&self, level: Level) {
        let like = self.own_steps().iter().rfind(|s| s.level.control == level.control);
        let unloaded = self.own_steps().iter().rfind(|s| s.level.control == Control::Concurrency);
        let likely = match (level.control, like, unloaded) {
            (Control::Concurrency, ..) => level.value,
            (_, Some(last), _) => last.in_flight_mean * level.value / last.level.value * 1.5,
            // One at a time made so many a second, so that is how long one takes.
            (_, None, Some(one)) => {
                level.value * self.plan.workload.per_level() / one.achieved_rate.max(1e-3) * 1.5
            }
            (_, None, None) => 4.0,
        };
        let most = f64::from(self.plan.step.max_in_flight).max(2.0);
        let n = likely.clamp(2.0, most).ceil() as usize;
        let share = self.share(level);
        self.ending.within(Duration::ZERO, self.host.warm(&self.ready.clients, &share, n)).await;
    }

    /// What a level deals over the sending threads.
    pub(super) fn share(&self, level: Level) -> Share {
        let rate = match level.control {
            Control::Concurrency => None,
            _ => Some(level.value * self.plan.workload.per_level()),
        };
        Share { rate, ..Share::of(level, self.ready.traffic.mean_output()) }
    }

    /// What a step deals, at the pace of its kind.
    fn paced(&self, ask: &Ask) -> Share {
        let share = self.share(ask.level);
        let faster = self.surge(ask).map_or(1.0, |surge| surge.factor);
        Share { pace: self.plan.pace(ask.kind), rate: share.rate.map(|rate| rate * faster), ..share }
    }

    /// The surge of a recovery step.
    fn surge(&self, ask: &Ask) -> Option<Surge> {
        let recovery = self.plan.recovery.filter(|_| ask.kind == StepKind::Recovery)?;
        let from = ask.settle + recovery.hold.0;
        Some(Surge { from, length: recovery.surge.0, factor: recovery.factor.get() })
    }

    /// The step as it stands.
    fn so_far(&self, running: &Running) -> StepSoFar<'_> {
        StepSoFar {
            plan: self.plan,
            ask: running.ask,
            series: &self.series,
            number: self.number(),
            earlier: self.own_steps(),
            started_at: running.started_at.clone(),
            started: running.started,
            ended: self.now(),
            settle: running.settle,
            window: *running.window.borrow(),
            abort: running.abort,
            own: lag::OwnDelay::default(),
            client_limit: running.gauge.client_limit(),
        }
    }

    fn start(&self, ask: Ask, number: u32, before: Option<Vec<Reading>>) -> Result<Running> {
        let (plan, level) = (self.plan, ask.level);
        let key = StepKey { seed: plan.seed, series: self.series.clone(), step: number };
        let traffic = &self.ready.traffic;
        // Variants in turns have the same arrivals and lengths, and each prompts of its own.
        let turn = turns::measured(&self.series, self.own_steps()) as u32 + 1;
        let drawn = match self.whole.alternate.is_some() {
            true => StepKey { seed: plan.seed, series: turns::TOGETHER.into(), step: turn },
            false => key.clone(),
        };
        let chains = Chains::new(traffic, &drawn, level).map_err(anyhow::Error::msg)?;
        let number = if self.whole.alternate.is_some() { turn } else { self.own_steps().len() as u32 + 1 };
        let chains = chains.in_series(&drawn, number);
        let trace = chains.trace_position();
        let chains = if ask.kind == StepKind::Baseline { chains.without_think_times() } else { chains };
        let chains = match self.surge(&ask) {
            Some(surge) => chains.with_surge(surge),
            None => chains,
        };
        let builder = Builder::new(
            chains,
            Prompter::new(traffic, key, self.ready.rate.clone()).resumed(self.ready.resumed),
            self.ready.encoders.clone(),
        )
        .as_ids(self.ready.ids.clone());
        let builder = match ask.kind {
            StepKind::Burst => builder.first(level.value as usize),
            _ => builder,
        };
        let (send_home, home) = mpsc::channel(HOME);
        let (window, window_seen) = watch::channel(ask.measure);
        let (gauge, stop, cut) =
            (Arc::<Gauge>::default(), CancellationToken::new(), CancellationToken::new());
        let began = Instant::now();
        let timeout = plan.step_timeout(self.own_steps());
        let job = Job {
            began,
            settle: ask.settle,
            window: window_seen,
            phase: None,
            timeout: timeout.after,
            timeout_is_error: timeout.is_error,
            max_in_flight: plan.step.max_in_flight,
            itl_limit: plan.slo.as_slice().iter().filter_map(Slo::tightest_itl).min(),
            keep_text: self.ready.reader.wants_text(),
            home: send_home,
            gauge: gauge.clone(),
            stop: stop.clone(),
            cut: cut.clone(),
        };
        let load = self.host.fire(job, &self.ready.clients, &builder, self.paced(&ask))?;
        Ok(Running {
            ask,
            started_at: String::new(),
            started: Duration::ZERO,
            abort: None,
            home,
            window,
            gauge,
            stop,
            cut,
            began,
            settle: ask.settle,
            load: Some(load),
            probe: None,
            following: Some(self.ready.scraper.follow(began, ask.settle, ask.settle + ask.measure, before)),
            trace,
            neighbours: Neighbours::default(),
        })
    }

    /// Takes records home until the load has ended; returns why it ended early, if it did, and when.
    async fn follow(
        &mut self,
        running: &mut Running,
        tally: &mut StepTally,
        number: u32,
    ) -> Result<Option<(Abort, Duration)>> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut looks, mut flushed) = (Looks::new(&running.ask), Instant::now());
        let interrupt = self.interrupt.clone();
        let sent_all = running.load.as_ref().context("the load is awaited once")?.sent_all.clone();
        let (mut drain_until, mut heard) = (None, false);
        // Of a sweep that is to end no step drains for longer than this, whatever it asked for.
        let short = self.plan.step.drain.0;
        loop {
            tokio::select! {
                biased;
                () = interrupt.cancelled(), if !heard => {
                    heard = true;
                    // Once the last request is sent there is nothing left to break off, but for what was sent at once.
                    let open = drain_until.is_none() || running.ask.kind == StepKind::Burst;
                    if open && running.abort.is_none() {
                        running.end(self.ending.abort());
                    }
                    drain_until = drain_until.map(|until: Instant| until.min(Instant::now() + short));
                }
                () = sent_all.cancelled(), if drain_until.is_none() => {
                    let drain = drain(&running.ask, running.abort.map(|a| a.0));
                    drain_until = Some(Instant::now() + if heard { drain.min(short) } else { drain });
                }
                _ = ticks.tick() => {
                    if flushed.elapsed() >= FLUSH {
                        self.bring_to_disk()?;
                        flushed = Instant::now();
                    }
                    self.write_samples(running, number)?;
                    self.tick(running, tally, &mut looks).await?;
                    if drain_until.is_some_and(|t| Instant::now() >= t) {
                        running.cut.cancel();
                    }
                    let elapsed = running.began.elapsed();
                    self.show(|live, _| live.in_flight(running.gauge.in_flight()));
                    self.progress.tick(running.ask.level, elapsed, running.window_end(), running.gauge.in_flight(), tally.response_p99());
                }
                finished = running.home.recv() => match finished {
                    Some(mut finished) => {
                        self.ready.read(&mut finished);
                        let class = self.plan.workload.class_name(finished.record.class);
                        self.writer.request(&self.series, number, class, &finished)?;
                        self.show(|live, sweep| live.add(&sweep.series, class, &finished.record));
                        self.sweep_tally.add(&self.series, class, &finished.record);
                        tally.add(&finished);
                    }
                    None => break,
                },
            }
        }
        running.load.take().context("the load is awaited once")?.ended().await?;
        running.close_burst(tally);
        let burst = running.ask.kind == StepKind::Burst;
        if running.abort.is_none() && !burst && running.began.elapsed() < running.window_end() {
            match self.ready.traffic.failure() {
                Some(why) => bail!("the load of the step ended before its window did: {why}"),
                None => bail!("the load of the step ended before its window did"),
            }
        }
        self.last_reason(tally, running.abort, running.began).await
    }

    /// Why a step ended, now that all of its requests are home. What a dying server does looks like gross misses first.
    async fn last_reason(
        &self,
        tally: &StepTally,
        abort: Option<(Abort, Duration)>,
        began: Instant,
    ) -> Result<Option<(Abort, Duration)>> {
        let at = abort.map_or(began.elapsed(), |(_, at)| at);
        let settled = abort.is_some_and(|(why, _)| why.is_broken_off() || why == Abort::ServerGone);
        if !settled && tally.ended_unreachable() {
            let client = self.ready.client().clone();
            let probe = self.host.run(async move { nobody_answers(&client).await });
            if self.ending.within(Duration::ZERO, probe).await.transpose()? == Some(true) {
                return Ok(Some((Abort::ServerGone, at)));
            }
        }
        Ok(abort.or_else(|| tally.ended_without().map(|why| (why, at))))
    }

    /// Ends the step early where it has to be, and extends its window where it is short of requests.
    async fn tick(&self, running: &mut Running, tally: &StepTally, looks: &mut Looks) -> Result<()> {
        if running.probe.is_none() && tally.seems_gone() && running.abort.is_none() {
            let client = self.ready.client().clone();
            running.probe = Some(self.host.spawn(async move { nobody_answers(&client).await }));
        }
        if let Some(probe) = running.probe.take_if(|p| p.is_finished())
            && probe.await.context("the probe of the server has failed")?
        {
            running.end(Abort::ServerGone);
        }
        if tally.all_failed(running.gauge.in_flight()) {
            running.end(Abort::AllFailed);
        }
        let most = self.plan.step.max_error_share.map_or(1.0, Fraction::get);
        if tally.fails_beyond(most, running.gauge.in_flight()) {
            running.end(Abort::Errors);
        }
        let elapsed = running.began.elapsed();
        let window_end = running.window_end();
        running.neighbours.look(elapsed, running.settle, window_end);
        Self::look(running, tally, looks, elapsed);
        self.extend(running, tally, elapsed);
        // The load is kept on until the measured requests have finished, but not for ever.
        if elapsed >= running.window_end() + running.ask.tail {
            running.stop.cancel();
        }
        Ok(())
    }

    /// Looks at the step where a look is due.
    fn look(running: &mut Running, tally: &StepTally, looks: &mut Looks, elapsed: Duration) {
        let window = *running.window.borrow();
        let share = elapsed.saturating_sub(running.settle).as_secs_f64() / window.as_secs_f64();
        if running.abort.is_none() && looks.take(share.min(1.0), tally) {
            running.end(Abort::Gross);
        }
    }

    /// A window of the plan's own length is extended where it is short of `min-requests`.
    fn extend(&self, running: &Running, tally: &StepTally, elapsed: Duration) {
        if !running.ask.extend {
            return;
        }
        let (window, end) = (*running.window.borrow(), running.window_end());
        let wanted = u64::from(self.plan.step.min_requests);
        let due_so_far = tally.measured() + running.gauge.measured_open();
        let longest = self.plan.step.max_duration.0;
        if elapsed + EXTEND_BEFORE >= end && elapsed < end && due_so_far < wanted && window < longest {
            let factor = 1.05 * wanted as f64 / due_so_far.max(1) as f64;
            running.window.send_replace(longest.min(Duration::from_secs_f64(window.as_secs_f64() * factor)));
            running.window_ends(running.window_end());
        }
    }
}

/// What the progress line shows, and the limit on it.
pub(super) fn shown_limit(plan: &Plan) -> (Metric, Option<Duration>) {
    let metric = if plan.server.stream { Metric::Ttft } else { Metric::E2e };
    (metric, plan.slo.as_slice().first().and_then(|slo| slo.smallest(metric)))
}
