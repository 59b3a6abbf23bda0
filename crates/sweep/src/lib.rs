//! The director: the only place that joins the parts. It asks the search for a level, has it measured, and writes what came
//! of it, until the search is done.

mod about;
mod answers;
pub mod bare;
mod begin;
mod bounds;
mod cache;
mod calibrate;
mod disk;
mod ended;
mod ending;
mod host;
mod idle;
mod keep;
mod listen;
mod live;
mod looks;
mod machine;
mod prepare;
mod profile;
mod progress;
mod resume;
mod same;
mod scrape;
mod side;
mod step;
mod tally;
mod turns;
mod variant;

pub use bounds::{Deadline, deadline, longest_step, written};
pub use keep::Keep;
pub use resume::{Resumption, resume};

use about::{highest, meta, sent_in_order, serve};
use anyhow::{Context, Result};
use begin::{Folder, first_ready, in_order, look_around};
use bounds::over_budget;
use ending::{Ending, broke_off};
use goodput_core::caveat::{Caveat, ClientCaveat, SweepCaveat};
use goodput_core::level::Level;
use goodput_core::record::Finished;
use goodput_core::units::{Span, short};
use goodput_load::calibrate::beyond;
use goodput_load::launch::Groups;
use goodput_load::load::host::Host;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::{self, Disk, Meta, Run, Writer, json};
use goodput_stats::calibration::Calibration;
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Next, Search};
use goodput_stats::stats::step::{Abort, Step};
use goodput_workload::traffic::Traffic;
use listen::Listener;
use live::Live;
use prepare::Prepared;
use progress::Progress;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tally::SweepTally;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use variant::Servers;

/// How to run a sweep, besides its plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The run folder.
    pub out: PathBuf,
    /// Replace an earlier run in that folder; of a run that is resumed, go on though plan or server are not what they were.
    pub force: bool,
    /// Simulate time; the plan's server must be simulated.
    pub virtual_time: bool,
    /// No step is begun that could end later than this after the start.
    pub budget: Option<Duration>,
    /// Show a progress bar.
    pub progress: bool,
    /// What this machine's client can do.
    pub calibration: Option<Calibration>,
    /// Where the metrics of the running sweep are served.
    pub listen: Option<SocketAddr>,
    /// Who tells how much room the run folder has.
    pub disk: Disk,
    /// Lists what is started for the variants, so that it can be ended where this process leaves at once.
    pub groups: Groups,
    /// Keeps the server that is started for the next sweep of the same plan.
    pub keep: Keep,
}

/// A sweep that is running.
struct Sweep<'a> {
    /// As the series has it that is measured.
    plan: &'a Plan,
    series: String,
    whole: &'a Plan,
    plan_toml: String,
    host: Host,
    ready: Prepared,
    /// What the plan as a whole sends.
    traffic: Traffic,
    /// Those of the variants.
    servers: Servers,
    writer: Writer,
    meta: Meta,
    steps: Vec<Step>,
    /// The steps of the series that is measured, where variants are measured in turns and they do not stand together.
    own: Vec<Step>,
    /// Start of the sweep, or when it was resumed: `started_s` of its steps counts from here.
    began: Instant,
    /// Time that was spent before, where it was resumed.
    before: Duration,
    /// Warm-up requests sent before, where it was resumed.
    warmups: u64,
    /// Whether the server may empty its prefix cache when it is asked to: not where it once said that it cannot.
    resets: bool,
    /// Until when a server that refused its last step asked to be left alone; of variants in turns by series, since each has its own.
    left_alone: BTreeMap<String, Instant>,
    /// Cancelled when the sweep is to end.
    interrupt: CancellationToken,
    /// Why it is to.
    ending: Ending,
    disk: Disk,
    sweep_tally: SweepTally,
    progress: Progress,
    /// The metrics that it shows of itself, while they are served.
    live: Option<(Live, Listener)>,
}

/// Runs a sweep into its folder and returns what was measured; the caller writes the reports.
///
/// On the real clock call it on any runtime; with `virtual_time` on a current-thread runtime whose clock is paused.
/// `interrupt` ends it early, with everything measured until then kept, and so do its deadline ([`deadline`]) and a disk that is nearly
/// full. Errors before the first request leave no folder
/// behind; later ones leave what was measured on disk.
pub async fn run(plan: &Plan, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    if options.virtual_time {
        plan.check_virtual()?;
    }
    rundir::check_free(&options.out, options.force)?;
    disk::check_left(&options.out)?;
    options.disk.check(&options.out, written(plan).unwrap_or(0), "the requests of this sweep")?;
    let ending = Ending::begin(interrupt, deadline(plan, options.budget));
    let interrupt = ending.token();
    let mut plan = plan.clone();
    let traffic = plan.open_files()?;
    let (plan, series) = (&plan, plan.series());
    let first = series.first().context("a plan has at least one series")?;
    look_around(plan, &series, options.virtual_time)?;
    let live = options.listen.map(|address| serve(plan, address)).transpose()?;
    let host = Host::of(&plan.client, options.virtual_time)?;
    let plan_toml = plan.to_toml()?;
    let create = || Writer::create(&options.out, &plan_toml, options.force);
    let budget = own_budget(plan, options.budget);
    let noted = |meta: Meta| Meta { budget, calibration: options.calibration.clone(), ..meta };
    let mut servers =
        Servers::new(plan, &options.out, options.groups.clone(), (&[], false), (0, options.keep.clone()));
    let (ready, writer, meta) = if first.variant.is_none() {
        let ready = tokio::select! {
            ready = prepare::prepare(&first.plan, (&traffic, &series), &host) => ready?,
            () = interrupt.cancelled() => return Err(ending.too_early()),
        };
        ready.check_series(&series, &traffic)?;
        let meta = noted(meta(plan, Some(&ready), options.virtual_time));
        (ready, create()?, meta)
    } else {
        // Servers write into the folder from their start on.
        let (writer, meta) = (create()?, noted(meta(plan, None, options.virtual_time)));
        let folder = Folder { plan, plan_toml: &plan_toml, writer: &writer, meta: &meta, steps: &[] };
        let first = Box::pin(first_ready(&series, &mut servers, &folder, (&traffic, &host, &ending))).await?;
        let Some(ready) = first else { return finish(&options.out) };
        (ready, writer, meta)
    };
    let mut sweep = Sweep {
        plan: &first.plan,
        series: first.name.clone(),
        whole: plan,
        plan_toml,
        host,
        ready,
        traffic,
        servers,
        writer,
        meta,
        steps: Vec::new(),
        own: Vec::new(),
        began: Instant::now(),
        before: Duration::ZERO,
        warmups: 0,
        resets: true,
        left_alone: BTreeMap::new(),
        interrupt,
        ending,
        disk: options.disk,
        sweep_tally: SweepTally::default(),
        progress: Progress::new(options.progress, step::shown_limit(plan)),
        live,
    };
    if let Some(level) = highest(plan) {
        sweep.note_beyond(level);
    }
    sweep.say_what_is_read();
    Box::pin(sweep.run(&series)).await.with_context(|| broke_off(&options.out))?;
    finish(&options.out)
}

/// Reads back what was measured.
fn finish(dir: &Path) -> Result<Run> {
    rundir::read(dir).context("failed to read back the run folder")
}

/// What comes after the steps of a series.
enum After {
    /// The next series.
    Next,
    /// The next server: this one is gone.
    Gone,
    /// Nothing: the sweep is over.
    Nothing,
}

/// The adaptive search reckons with its budget itself; other modes only end by one.
fn own_budget(plan: &Plan, budget: Option<Duration>) -> Option<Span> {
    budget.filter(|_| !plan.rows.is_empty() || !matches!(plan.search.mode, Mode::Adaptive(_))).map(Span)
}

impl<'a> Sweep<'a> {
    /// Everything from the first request that is written down to the last step of the last series.
    async fn run(&mut self, series: &'a [Series]) -> Result<()> {
        self.write_result()?;
        let measured = match self.whole.alternate {
            Some(_) => self.in_turns(series).await.map(drop),
            None => self.all(series).await,
        };
        let done = measured.is_ok() && self.is_done(series);
        let stopped = self.servers.end(done).await;
        if self.whole.alternate.is_some() {
            self.servers.all_done(|name| {
                let own = series.iter().find(|one| one.name == name);
                let next = own.and_then(|one| Some(one.plan.searcher().ok()?.next(&one.name, &self.steps)));
                next == Some(Next::Done)
            });
        }
        measured.and(stopped)?;
        self.note_ending(series);
        self.write_result()?;
        self.progress.done();
        Ok(())
    }

    /// Every series that has something left to measure.
    async fn all(&mut self, series: &'a [Series]) -> Result<()> {
        let resumed = !self.steps.is_empty();
        let order = in_order(series, &self.steps);
        for (i, one) in order.iter().enumerate() {
            let search = one.plan.searcher().map_err(anyhow::Error::msg)?;
            if self.servers.is_over(one) || search.next(&one.name, &self.steps) == Next::Done {
                continue;
            }
            if self.interrupt.is_cancelled() || !self.turn_to(one, i, series).await? {
                continue;
            }
            if series.len() > 1 {
                let name = one.name.split_whitespace().collect::<Vec<_>>().join(" ");
                self.progress.say(&format!("series {} of {}: {name}", i + 1, series.len()));
            }
            if !self.leave_alone(self.number()).await {
                break;
            }
            self.warm_up().await?;
            if resumed && !self.own_steps().is_empty() {
                // In the middle of a series: what it took to get ready again is not the sweep's.
                self.began = Instant::now();
            }
            match self.steps(&search).await? {
                After::Next => {}
                After::Gone if one.variant.is_some() => {
                    let step = self.steps.last().map_or(0, |s| s.step);
                    self.servers.died(step).await?;
                    self.write_result()?;
                }
                After::Gone | After::Nothing => break,
            }
        }
        Ok(())
    }

    /// Whether nothing is left to measure on the server that is ready.
    fn is_done(&self, series: &[Series]) -> bool {
        let done = |one: &Series| {
            let search = one.plan.searcher();
            search.is_ok_and(|search| search.next(&one.name, &self.steps) == Next::Done)
        };
        series.iter().filter(|one| self.servers.serves(one)).all(done)
    }

    /// Makes everything ready for a series, its server first; whether it can be measured. The time that servers take to start and to
    /// stop is not the sweep's.
    async fn turn_to(&mut self, one: &'a Series, number: usize, series: &[Series]) -> Result<bool> {
        (self.plan, self.series) = (&one.plan, one.name.clone());
        if one.variant.is_some() && !self.servers.serves(one) {
            let (spent, done) = (self.now(), self.is_done(series));
            if self.servers.any() {
                self.servers.end(done).await?;
                self.write_result()?;
            }
            let begun = self.servers.begin(one, (&self.traffic, series), &self.host, &self.interrupt).await;
            (self.before, self.began) = (spent, Instant::now());
            let Some(ready) = begun? else {
                return self.write_result().map(|()| false);
            };
            (self.ready, self.resets) = (ready, true);
            // What the server before it asked for.
            self.left_alone.clear();
        } else if number > 0 || one.variant.is_some() {
            self.ready.turn_to(&one.plan).with_context(|| format!("in the series {}", one.name))?;
        }
        Ok(true)
    }

    /// Time of the sweep, without that between two tries.
    fn now(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    async fn warm_up(&mut self) -> Result<()> {
        let finished =
            prepare::warm_up(self.plan, &self.host, &self.series, &self.ready, &self.interrupt).await?;
        self.sent_before(finished)
    }

    /// Writes requests that were sent before a step and count for nothing.
    fn sent_before(&mut self, mut finished: Vec<Finished>) -> Result<()> {
        for f in &mut finished {
            f.record.id += self.warmups;
            let class = self.plan.workload.class_name(f.record.class);
            self.writer.request(&self.series, 0, class, f)?;
        }
        self.warmups += finished.len() as u64;
        self.bring_to_disk()?;
        self.writer.end_failures(&self.series, 0)
    }

    /// The steps of one series.
    async fn steps(&mut self, search: &Search) -> Result<After> {
        while let Next::Measure(ask) = search.next(&self.series, &self.steps) {
            if self.interrupt.is_cancelled() {
                return Ok(After::Nothing);
            }
            let begins = self.now() + self.still_alone(&self.series);
            if over_budget(self.plan, self.meta.budget, begins, &ask) {
                self.note(SweepCaveat::BudgetSpent { next: ask.level.value });
                return self.write_result().map(|()| After::Nothing);
            }
            self.note_beyond(ask.level);
            self.measure(ask).await?;
            match self.steps.last().and_then(|s| s.abort) {
                Some(why) if why.is_broken_off() => return Ok(After::Nothing),
                Some(Abort::ServerGone) => return Ok(After::Gone),
                _ if self.servers.exited() => return Ok(After::Gone),
                _ => {}
            }
        }
        Ok(After::Next)
    }

    /// Says once, before it is tried, that the plan asks for more than this machine's client was calibrated for.
    fn note_beyond(&mut self, level: Level) {
        let share = self.share(level);
        let calibration = self.meta.calibration.as_ref();
        let calibration = calibration.filter(|_| !self.host.is_paused());
        let beyond = calibration.and_then(|c| beyond(c, &share));
        let told = self
            .meta
            .noted
            .iter()
            .any(|c| matches!(c, Caveat::Client(ClientCaveat::BeyondCalibration { .. })));
        if let Some(caveat) = beyond.filter(|_| !told) {
            if let ClientCaveat::BeyondCalibration { asked, most, unit } = &caveat {
                tracing::warn!(
                    "warning: the plan asks for up to {} {unit}, and this machine's client was calibrated for {}: beyond that it is the \
                     client that is measured",
                    short(*asked),
                    short(*most)
                );
            }
            self.note(caveat);
        }
    }

    /// Brings the metrics up to date, where they are served.
    fn show(&self, tell: impl FnOnce(&Live, &Self)) {
        if let Some((live, _)) = &self.live {
            tell(live, self);
        }
    }

    fn note(&mut self, caveat: impl Into<Caveat>) {
        self.meta.noted.push(caveat.into());
    }

    /// Replaces `result.json` by what is known now.
    fn write_result(&mut self) -> Result<()> {
        let mut meta = Meta {
            sent: sent_in_order(self.sweep_tally.sent(), self.whole),
            variants: self.servers.runs.clone(),
            model: self.servers.models().unwrap_or_else(|| self.meta.model.clone()),
            left_alone: self.until(),
            ..self.meta.clone()
        };
        meta.noted.extend(self.sweep_tally.caveats());
        let caveats = meta.noted.clone();
        let run =
            Run::assemble(self.whole, self.plan_toml.clone(), meta, self.steps.clone(), Vec::new(), caveats)?;
        self.show(|live, _| live.answers(&run));
        self.writer.result(&json::result(&run))
    }
}
