//! Running one step: prepares the server and the connections, starts the load, and summarizes the results.

use super::cache::OtherClients;
use super::clock::SweepClock;
use super::fleet::SweepFleet;
use super::host::HostWatch;
use super::journal::Journal;
use super::next::likely_connections;
use super::prepare::{Prepared, UncountedLoad, send_uncounted};
use super::profile::{Moment, Profiled};
use super::scrape::MetricsRead;
use super::servers::Servers;
use super::step::{FollowedLoad, Running};
use super::step_load::LoadEnd;
use super::tally::StepTally;
use super::termination::Termination;
use anyhow::Result;
use goodput_core::caveat::ServerCaveat;
use goodput_core::record::Finished;
use goodput_load::load::firing::TraceStart;
use goodput_load::load::host::Host;
use goodput_plan::{Plan, Series};
use goodput_stats::search::Ask;
use goodput_stats::stats::step::{ServerSide, Step, StepKind, TracePart};
use std::num::NonZeroU8;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The means by which steps are run: the threads that send, the servers of the plan, and the one that is ready.
pub(super) struct Runner {
    pub(super) host: Arc<Host>,
    pub(super) servers: Servers,
    pub(super) ready: Prepared,
    /// The workers that send; `None` if this machine does.
    pub(super) workers: Option<SweepFleet>,
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
    /// Number of the step within its series, from 1, where variants alternate: their steps of the same number have the
    /// same arrivals and lengths.
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
pub(super) struct MeasuredStep {
    pub(super) step: Step,
    /// The requests of the step; their memory serves the next one.
    pub(super) tally: StepTally,
    /// End of the wait that the server asked for with `Retry-After`, if it did.
    pub(super) left_alone: Option<Instant>,
    pub(super) noted: Vec<ServerCaveat>,
    /// Other clients of the server that its counters showed.
    pub(super) others: Option<OtherClients>,
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
        termination: &Termination,
    ) -> Result<()> {
        let finished = self.send_uncounted(UncountedLoad::Warmup, series, termination).await?;
        journal.warmup(series, finished, termination)
    }

    /// Sends requests that are not counted.
    pub(super) async fn send_uncounted(
        &self,
        load: UncountedLoad,
        series: &Series,
        termination: &Termination,
    ) -> Result<Vec<Finished>> {
        send_uncounted(load, series, &self.ready.load, &termination.token()).await
    }

    /// Runs a step. Its requests go into the journal as they finish; its row of `steps.csv` is not yet written.
    ///
    /// # Errors
    /// The load or its traffic fails, or the run folder cannot be written.
    pub(super) async fn measure(
        &mut self,
        task: Task<'_>,
        journal: &mut Journal,
        termination: &Termination,
    ) -> Result<MeasuredStep> {
        self.check_consent()?;
        let mut noted: Vec<ServerCaveat> =
            self.wait_idle(task.number, termination).await?.into_iter().collect();
        self.set_cache(task, journal, termination).await?;
        let mut tally = journal.make_room(task.series, &task.ask);
        if self.workers.is_none() {
            self.warm_connections(task, termination).await;
        }
        let profiled = match task.ask.kind {
            StepKind::Profile => self.profiler(task, Moment::Before, journal.dir(), termination).await?,
            _ => Profiled::Not,
        };
        let before = self.ready.scraper.read().await?;
        // With workers, this machine's cores are not those that send.
        let has_no_watch = self.host.is_paused() || self.workers.is_some();
        let host_watch = HostWatch::watch(task.plan(), self.servers.group(), has_no_watch);
        let mut running = self.start(task, before, host_watch).await?;
        journal.begin_step(
            task.series,
            task.number,
            &task.ask,
            self.ready.load.share(task.ask.level).rate,
            task.clock.now(),
        );
        let followed = self.follow(task, &mut running, &mut tally, journal, termination).await;
        let after = match &profiled {
            Profiled::Done => self.profiler(task, Moment::After, journal.dir(), termination).await?,
            Profiled::Not | Profiled::Failed(_) => Profiled::Not,
        };
        noted.extend([profiled, after].into_iter().filter_map(Profiled::caveat));
        self.check_consent()?;
        let FollowedLoad { abort, end } = followed?;
        running.abort = abort;
        let measured = self.conclude(task, running, tally, end, journal).await?;
        noted.extend(measured.noted);
        Ok(MeasuredStep { noted, ..measured })
    }

    /// Fails if the load led to a public address that nobody has allowed. A step that was refused a connection says nothing about the server, so
    /// it gets no row; the steps before it are on disk.
    ///
    /// # Errors
    /// The host, its address, and how to allow it.
    pub(super) fn check_consent(&self) -> Result<()> {
        self.ready.client().refused().map_or(Ok(()), |refused| Err(refused.clone().into()))
    }

    /// Sums up a step whose requests have all finished.
    async fn conclude(
        &mut self,
        task: Task<'_>,
        mut running: Running,
        mut tally: StepTally,
        end: LoadEnd,
        journal: &mut Journal,
    ) -> Result<MeasuredStep> {
        let read = running.end_metrics(task, journal).await?;
        let checks = self.ready.reader.rows(&task.plan().workload);
        let mut context = running.context(task);
        let counted = context.counted();
        (context.client_delay, context.halts) = running.firing.delays(&end, &counted).await;
        context.workers = end.reports;
        let trace = running.firing.trace().and_then(|TraceStart { from, of }| {
            let last = tally.kept.iter().map(|r| r.id.into()).max()?;
            Some(TracePart { from, n: self.ready.load.traffic().chain(last) + 1, of })
        });
        let host = running.host_watch.end();
        let mut step = Step { checks, trace, host, ..context.conclude(&mut tally) };
        let others =
            self.add_server_side(&mut step, &read, &counted, &tally, task.plan().most_choices()).await?;
        let left_alone = tally.wait_until.map(|until| running.firing.began() + until);
        Ok(MeasuredStep { step, tally, left_alone, noted: Vec::new(), others })
    }

    /// Adds the server's metrics for the counted part of a step. A step during which the server restarted is invalid.
    /// Returns the other clients that the metrics showed.
    async fn add_server_side(
        &self,
        step: &mut Step,
        read: &MetricsRead,
        counted: &Range<Duration>,
        tally: &StepTally,
        choices: NonZeroU8,
    ) -> Result<Option<OtherClients>> {
        step.metrics = read.rows();
        if let Some(seen) = read.over(counted) {
            step.server = ServerSide::of(&seen, &tally.kept);
        }
        let cache = self.cache_use(read, tally, choices).await?;
        step.server.hit_rate = cache.hit_rate;
        if step.server.restarted {
            step.restarted();
        }
        Ok(cache.others)
    }

    /// Opens as many connections as the step is likely to need.
    async fn warm_connections(&self, task: Task<'_>, termination: &Termination) {
        let n = likely_connections(task.plan(), task.ask.level, task.earlier);
        let warmed = self.ready.load.warm(task.ask.level, n);
        termination.within(Duration::ZERO, warmed).await;
    }
}
