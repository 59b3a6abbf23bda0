//! Runs one step: prepares the server and the connections, has the load fired, and sums up what came back.

use super::cache::OtherClients;
use super::clock::SweepClock;
use super::ending::Ending;
use super::host::Neighbours;
use super::journal::Journal;
use super::next::{likely_connections, surge};
use super::prepare::{Before, Prepared, send_before};
use super::profile::{Moment, Profiled};
use super::scrape::Followed;
use super::step::Running;
use super::tally::StepTally;
use super::variant::Servers;
use anyhow::{Context, Result};
use goodput_core::caveat::Caveat;
use goodput_core::level::{Control, Level};
use goodput_core::record::Finished;
use goodput_load::load::host::{Host, Share};
use goodput_load::load::lag::{self, Samples};
use goodput_plan::{Plan, Series};
use goodput_stats::search::Ask;
use goodput_stats::stats::step::{ServerSide, Step, StepKind, TracePart};
use std::ops::Range;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The means by which steps are run: the threads that send, the servers of the plan, and the one that is ready.
pub(super) struct Runner {
    pub(super) host: Host,
    pub(super) servers: Servers,
    pub(super) ready: Prepared,
}

/// A step to run.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    /// The series that the step belongs to.
    pub(super) series: &'a Series,
    /// Number of the step within the sweep, from 1.
    pub(super) number: u32,
    pub(super) ask: Ask,
    /// The earlier steps of the series.
    pub(super) earlier: &'a [Step],
    /// Number of the step within its series, from 1, where variants alternate: their steps of the same number have the same arrivals and
    /// lengths.
    pub(super) round: Option<u32>,
    pub(super) clock: SweepClock,
}

impl Task<'_> {
    /// Returns the plan of the series, with its overlays applied.
    pub(super) fn plan(&self) -> &Plan {
        &self.series.plan
    }
}

/// A step that has been run.
pub(super) struct Measured {
    pub(super) step: Step,
    /// The requests of the step; their memory serves the next one.
    pub(super) tally: StepTally,
    /// End of the time for which the server asked to be left alone, if it did.
    pub(super) left_alone: Option<Instant>,
    pub(super) noted: Vec<Caveat>,
    /// Other clients of the server that its counters showed.
    pub(super) others: Option<OtherClients>,
}

/// Samples the receive lag of every thread that sends, while a step runs.
struct LagSampler {
    stop: CancellationToken,
    /// `None` in simulated time, which knows no lag.
    threads: Option<JoinSet<std::io::Result<Samples>>>,
}

impl LagSampler {
    fn start(host: &Host, share: &Share) -> Self {
        let stop = CancellationToken::new();
        let sample = || host.each(host.used(share), |_| lag::sample(stop.clone()));
        let threads = (!host.is_paused()).then(sample);
        Self { stop, threads }
    }

    async fn end(self) -> Result<Vec<Samples>> {
        self.stop.cancel();
        let Some(threads) = self.threads else { return Ok(Vec::new()) };
        let lags = threads.join_all().await.into_iter().collect::<Result<_, _>>();
        lags.context("the receive-lag sampler failed")
    }
}

impl Runner {
    /// Sends the warm-up requests of a series.
    ///
    /// # Errors
    /// The load fails, or the run folder cannot be written.
    pub(super) async fn warm_up(
        &self,
        series: &Series,
        journal: &mut Journal,
        ending: &Ending,
    ) -> Result<()> {
        let finished = self.send_before(Before::Warmup, series, ending).await?;
        journal.warmup(series, finished, ending)
    }

    /// Sends requests that are not counted.
    pub(super) async fn send_before(
        &self,
        what: Before,
        series: &Series,
        ending: &Ending,
    ) -> Result<Vec<Finished>> {
        send_before(what, series, &self.host, &self.ready, &ending.token()).await
    }

    /// Runs a step. Its requests go into the journal as they finish; its row of `steps.csv` is not yet written.
    ///
    /// # Errors
    /// The load or its traffic fails, or the run folder cannot be written.
    pub(super) async fn measure(
        &mut self,
        task: Task<'_>,
        journal: &mut Journal,
        ending: &Ending,
    ) -> Result<Measured> {
        let mut noted: Vec<Caveat> = self.wait_idle(task.number, ending).await?.into_iter().collect();
        self.set_cache(task, journal, ending).await?;
        let mut tally = journal.make_room(task.series, &task.ask);
        self.warm_connections(task, ending).await;
        let profiled = match task.ask.kind {
            StepKind::Profile => self.profiler(task, Moment::Before, journal.dir(), ending).await?,
            _ => Profiled::Not,
        };
        let before = self.ready.scraper.read().await?;
        let lags = LagSampler::start(&self.host, &self.paced(task));
        let neighbours = Neighbours::watch(task.plan(), self.servers.group(), self.host.is_paused());
        let mut running = self.start(task, before, neighbours)?;
        journal.begin_step(task.series, task.number, task.ask.level, self.share(task).rate);
        let followed = self.follow(task, &mut running, &mut tally, journal, ending).await;
        let after = match &profiled {
            Profiled::Done => self.profiler(task, Moment::After, journal.dir(), ending).await?,
            Profiled::Not | Profiled::Failed(_) => Profiled::Not,
        };
        noted.extend([profiled, after].into_iter().filter_map(Profiled::caveat));
        running.abort = followed?;
        let lags = lags.end().await?;
        let measured = self.conclude(task, running, tally, &lags, journal).await?;
        noted.extend(measured.noted);
        Ok(Measured { noted, ..measured })
    }

    /// Sums up a step whose requests have all finished.
    async fn conclude(
        &mut self,
        task: Task<'_>,
        mut running: Running,
        mut tally: StepTally,
        lags: &[Samples],
        journal: &mut Journal,
    ) -> Result<Measured> {
        let read = running.end_metrics(task, journal).await?;
        let checks = self.ready.reader.rows(&task.plan().workload);
        let mut so_far = running.so_far(task);
        let counted = so_far.counted();
        so_far.own = lag::worst(lags, counted.start, counted.end);
        let trace = running.trace.and_then(|(from, of)| {
            let last = tally.kept.iter().map(|r| r.id).max()?;
            Some(TracePart { from, n: self.ready.traffic.chain(last) + 1, of })
        });
        let host = running.neighbours.end();
        let mut step = Step { checks, trace, host, ..so_far.conclude(&mut tally) };
        let others = self.add_server_side(&mut step, &read, &counted, &tally).await?;
        let left_alone = tally.wait_until.map(|until| running.began + until);
        Ok(Measured { step, tally, left_alone, noted: Vec::new(), others })
    }

    /// Fills in what the server's metrics say of the part of a step that is counted. A step during which the server restarted is invalid.
    /// Returns the other clients that the metrics showed.
    async fn add_server_side(
        &self,
        step: &mut Step,
        read: &Followed,
        counted: &Range<Duration>,
        tally: &StepTally,
    ) -> Result<Option<OtherClients>> {
        step.metrics = read.rows();
        if let Some(seen) = read.over(counted) {
            step.server = ServerSide::of(&seen, &tally.kept);
        }
        let cache = self.cache_use(read, tally).await?;
        step.server.hit_rate = cache.hit_rate;
        if step.server.restarted {
            step.restarted();
        }
        Ok(cache.others)
    }

    /// Opens as many connections as the step is likely to need.
    async fn warm_connections(&self, task: Task<'_>, ending: &Ending) {
        let n = likely_connections(task.plan(), task.ask.level, task.earlier);
        let share = self.share(task);
        let warmed = self.host.warm(&self.ready.clients, &share, n);
        ending.within(Duration::ZERO, warmed).await;
    }

    /// Returns how the load at the level of a step is spread over the threads that send.
    fn share(&self, task: Task<'_>) -> Share {
        share(task.plan(), &self.ready, task.ask.level)
    }

    /// Returns how the load of a step is spread over the threads that send, at the pace of its kind.
    pub(super) fn paced(&self, task: Task<'_>) -> Share {
        let share = self.share(task);
        let faster = surge(task.plan(), &task.ask).map_or(1.0, |surge| surge.factor);
        let pace = task.plan().pace(task.ask.kind);
        Share { pace, rate: share.rate.map(|rate| rate * faster), ..share }
    }
}

/// Returns how the load at a level is spread over the threads that send.
pub(super) fn share(plan: &Plan, ready: &Prepared, level: Level) -> Share {
    let rate = match level.control {
        Control::Concurrency => None,
        Control::Rate | Control::Sessions | Control::TraceScale => {
            Some(level.value * plan.workload.per_level())
        }
    };
    Share { rate, ..Share::of(level, ready.traffic.mean_output()) }
}
