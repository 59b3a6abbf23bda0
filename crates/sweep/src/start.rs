//! The start of a sweep, new or resumed: opens its folder and prepares its first server.

use super::clock::SweepClock;
use super::director::Sweep;
use super::fleet::SweepFleet;
use super::journal::{EarlierCounts, Journal, Shown};
use super::metadata::{meta, preflight, serve};
use super::next::{in_order, is_measured};
use super::prepare::{self, PlanSeries, Prepared};
use super::progress::{Latency, Progress};
use super::resume::EarlierAttempts;
use super::retry_after::Waits;
use super::runner::Runner;
use super::servers::{EarlierServers, ServerOptions, Servers};
use super::termination::{Termination, broke_off};
use super::{Options, changes, own_budget};
use anyhow::{Context, Result};
use goodput_core::caveat::Caveat;
use goodput_load::launch::Groups;
use goodput_load::load::host::Host;
use goodput_plan::Plan;
use goodput_run::rundir::{self, Meta, Run, WorkerMachine, Writer};
use goodput_stats::stats::step::Step;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The inputs of a sweep.
pub(super) struct Setup<'a> {
    pub(super) plan: Plan,
    /// The run folder.
    pub(super) dir: PathBuf,
    pub(super) options: &'a Options,
    pub(super) virtual_time: bool,
    pub(super) groups: Groups,
    pub(super) termination: Termination,
    pub(super) origin: Origin,
}

/// The state from which a sweep starts.
pub(super) enum Origin {
    New,
    Resumed(Box<EarlierAttempts>),
}

impl Origin {
    /// Returns the servers of earlier attempts.
    fn servers(&self, force: bool) -> EarlierServers<'_> {
        match self {
            Self::New => EarlierServers::default(),
            Self::Resumed(earlier) => EarlierServers {
                runs: &earlier.meta.variants,
                resumed: earlier.meta.resumed.len() as u32 + 1,
                force,
            },
        }
    }

    /// Returns the workers of earlier attempts.
    fn workers(&self) -> Vec<WorkerMachine> {
        match self {
            Self::New => Vec::new(),
            Self::Resumed(earlier) => earlier.meta.workers.clone(),
        }
    }

    /// Returns the time that the sweep has spent so far.
    fn spent(&self) -> Duration {
        match self {
            Self::New => Duration::ZERO,
            Self::Resumed(earlier) => earlier.spent,
        }
    }
}

/// A sweep whose files are open and whose servers have not been contacted yet.
struct Opening<'a> {
    plan: &'a Plan,
    plan_toml: String,
    all: PlanSeries<'a>,
    host: Arc<Host>,
    live: Option<Shown>,
    options: &'a Options,
    virtual_time: bool,
    termination: Termination,
}

/// The run folder, opened for writing, and its previous contents.
struct OpenedFolder {
    writer: Writer,
    meta: Meta,
    steps: Vec<Step>,
    waits: Waits,
    counted: EarlierCounts,
}

/// Runs a sweep to its end and reads back its results.
///
/// # Errors
/// Nothing could be measured, or the sweep failed: the steps measured until then are on disk.
pub(super) async fn conduct(setup: Setup<'_>) -> Result<Run> {
    let Setup { mut plan, dir, options, virtual_time, groups, termination, mut origin } = setup;
    let traffic = plan.open_files()?;
    let series = plan.series();
    if let Origin::Resumed(earlier) = &mut origin {
        earlier.plan_changed = changes::check_plan(&dir, &earlier.meta, &plan, options.force)?;
    }
    preflight(&plan, &series, virtual_time)?;
    let live = options.listen.as_ref().map(|(at, page)| serve(&plan, *at, page, options)).transpose()?;
    let host = Arc::new(Host::of(&plan.client, virtual_time)?);
    let all = PlanSeries { series: &series, traffic: &traffic };
    let plan_toml = plan.to_toml()?;
    let store = options.server_store.clone();
    let server_options = ServerOptions { dir: dir.clone(), groups: groups.clone(), store };
    let servers = Servers::new(&plan, server_options, origin.servers(options.force));
    let workers = SweepFleet::of(options, &groups, origin.workers()).await?;
    let opening = Opening { plan: &plan, plan_toml, all, host, live, options, virtual_time, termination };
    let spent = origin.spent();
    let opened = Box::pin(opening.open(servers, origin)).await;
    let ran = match opened {
        Ok(Some((mut sweep, mut runner))) => {
            runner.workers = workers;
            sweep.meta.workers = SweepFleet::machines(runner.workers.as_ref());
            let ran = Box::pin(sweep.run(&mut runner, spent)).await.with_context(|| broke_off(&dir));
            SweepFleet::end(runner.workers).await.and(ran)
        }
        Ok(None) => SweepFleet::end(workers).await,
        Err(e) => SweepFleet::end(workers).await.and(Err(e)),
    };
    ran?;
    rundir::read(&dir).context("failed to read back the run folder")
}

impl<'a> Opening<'a> {
    /// Prepares the first server and opens the folder. Returns `None` if none of several servers could be prepared; the
    /// folder has the reasons.
    ///
    /// # Errors
    /// The only server cannot be measured, or is not the one that was measured before; the folder is then unchanged. Or
    /// the folder cannot be written.
    async fn open(self, mut servers: Servers, origin: Origin) -> Result<Option<(Sweep<'a>, Runner)>> {
        let only = self.only_server(&origin).await?;
        let resumed_at = match &origin {
            Origin::New => None,
            Origin::Resumed(earlier) => Some(earlier.next_step()),
        };
        let spent = origin.spent();
        // The logs of started servers are in the folder, so create it first.
        let folder = self.folder(origin, only.as_ref())?;
        let Self { plan, plan_toml, all, host, live, options, termination, .. } = self;
        let OpenedFolder { writer, meta, steps, waits, counted } = folder;
        let progress = Progress::new(options.progress, Latency::of(plan), own_budget(plan, options.budget));
        let journal = Journal::new(writer, progress, live, options.disk, counted);
        let clock = SweepClock::at(spent);
        let mut sweep = Sweep { plan, plan_toml, all, meta, steps, clock, waits, termination, journal };
        let ready = match only {
            Some(ready) => ready,
            None => match sweep.first_ready(&mut servers, &host).await? {
                Some(ready) => ready,
                None => return Ok(None),
            },
        };
        let runner = Runner { host, servers, ready, workers: None };
        sweep.introduce(&runner, resumed_at, spent);
        Ok(Some((sweep, runner)))
    }

    /// Prepares the server, if the plan has one server for all of its series.
    async fn only_server(&self, origin: &Origin) -> Result<Option<Prepared>> {
        let series = self.all.series;
        let first = series.first().context("a plan has at least one series")?;
        if series.iter().any(|one| one.variant.is_some()) {
            return Ok(None);
        }
        let waited = match origin {
            Origin::New => None,
            Origin::Resumed(earlier) => earlier.wait_for_server(&self.termination).await?,
        };
        let prepare = async {
            match origin {
                Origin::New => prepare::prepare(&first.plan, self.all, &self.host).await,
                Origin::Resumed(earlier) => {
                    earlier.same_server(self.plan, self.all, &self.host, self.options.force).await
                }
            }
        };
        let interrupt = self.termination.token();
        let mut ready = tokio::select! {
            ready = prepare => ready?,
            () = interrupt.cancelled() => return Err(self.termination.too_early()),
        };
        ready.check_series(self.all)?;
        ready.noted.extend(waited);
        Ok(Some(ready))
    }

    /// Creates the folder of a new sweep, or cleans up that of an earlier one.
    fn folder(&self, origin: Origin, ready: Option<&Prepared>) -> Result<OpenedFolder> {
        match origin {
            Origin::New => {
                let meta = Meta {
                    budget: own_budget(self.plan, self.options.budget),
                    calibration: self.options.calibration.clone(),
                    ..meta(self.plan, ready, self.virtual_time)
                };
                let writer = Writer::create(&self.options.out, &self.plan_toml, self.options.force)?;
                let (steps, waits, counted) = (Vec::new(), Waits::default(), EarlierCounts::default());
                Ok(OpenedFolder { writer, meta, steps, waits, counted })
            }
            Origin::Resumed(earlier) => {
                let meta = earlier.resumed_meta(self.plan, ready, self.options.force);
                let waits = Waits::restored(&earlier.meta);
                let EarlierAttempts { run_lock, steps, counted, .. } = *earlier;
                let dir = run_lock.dir().to_owned();
                let writer = super::resume::reopen(run_lock, self.plan, &self.plan_toml, &meta, &steps)
                    .with_context(|| format!("failed to resume {}", dir.display()))?;
                Ok(OpenedFolder { writer, meta, steps, waits, counted })
            }
        }
    }
}

impl Sweep<'_> {
    /// Prepares the first server that can be, among those of series with something left to measure. Returns `None` if
    /// there is none.
    async fn first_ready(&mut self, servers: &mut Servers, host: &Arc<Host>) -> Result<Option<Prepared>> {
        self.write_result(servers)?;
        for one in in_order(self.all.series, &self.steps) {
            if self.termination.is_requested() {
                break;
            }
            one.plan.searcher().map_err(anyhow::Error::msg)?;
            if servers.is_over(one) || is_measured(one, &self.steps) {
                continue;
            }
            let ready = servers.begin(one, self.all, host, &self.termination.token()).await?;
            self.write_result(servers)?;
            if ready.is_some() {
                return Ok(ready);
            }
        }
        self.meta.noted.extend(self.termination.caveat().map(Caveat::from));
        self.write_result(servers)?;
        Ok(None)
    }
}
