//! Going on with a sweep that was killed or interrupted. The search is a pure function of the steps, so nothing has to be
//! remembered: what counts of the folder is read, and the next step is asked for.
//!
//! What a resumed step asks of the server is what the uninterrupted one would have asked, nonces of cold prompts apart. What it
//! measures is the same, to the last request, in simulated time on an engine without randomness of its own; other engines begin
//! their random numbers anew, and a real server is never twice the same.

use super::about::{meta, serve};
use super::begin::{Folder, first_ready, look_around};
use super::bounds::{deadline, over_budget};
use super::ending::{Ending, broke_off};
use super::prepare::{self, Prepared};
use super::progress::Progress;
use super::tally::SweepTally;
use super::variant::Servers;
use super::{Options, Sweep, disk, finish, idle, own_budget, same, step};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, LengthsCaveat};
use goodput_core::redact;
use goodput_core::units::Span;
use goodput_load::launch::Groups;
use goodput_load::load::host::Host;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::variants::State;
use goodput_run::rundir::{self, Hold, Left, Meta, PLAN, Resumed, Run, Writer, json};
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Ask, Next};
use goodput_stats::stats::step::Step;
use goodput_workload::rate::WordRates;
use goodput_workload::traffic::Traffic;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The run folder of a sweep that may go on.
pub struct Resumption {
    dir: PathBuf,
    /// From before its files are read until the last one is written nobody else writes into it.
    hold: Hold,
    left: Left,
    sweep_tally: SweepTally,
    /// The step that comes next; `None` where the search is done or no further step fits into the budget.
    next: Option<Ask>,
    groups: Groups,
}

impl Resumption {
    /// Takes hold of a run folder and reads it; changes nothing. With a `budget` the search goes on under that one in place of its own.
    ///
    /// Fails where it is no run folder, a sweep is still writing into it, it cannot be read, or was written in another form; the message says what to do.
    pub fn open(dir: &Path, budget: Option<Span>) -> Result<Self> {
        let mut sweep_tally = SweepTally::default();
        let hold = Hold::of_run(dir)?;
        let mut left = rundir::left(&hold, |series, class, record| sweep_tally.add(series, class, record))?;
        match (budget, &mut left.plan.search.mode) {
            (Some(budget), Mode::Adaptive(adaptive)) if left.plan.rows.is_empty() => adaptive.budget = budget,
            (Some(budget), _) => left.meta.budget = own_budget(&left.plan, Some(budget.0)),
            (None, _) => {}
        }
        if let Some(imported) = &left.meta.imported {
            bail!(
                "{} was imported from {}, whose results cannot be gone on with: measure with `goodput sweep`, or make its reports again \
                 with `goodput report`",
                dir.display(),
                imported.title()
            );
        }
        let plan = &left.plan;
        let mut next = None;
        let died = |name: &str| left.meta.variants.iter().any(|v| v.name == name && v.state == State::Died);
        for series in plan.series() {
            // What a variant that died under a load has shown stands.
            if series.variant.as_ref().is_some_and(|v| died(&v.name)) {
                continue;
            }
            let search = series.plan.searcher().map_err(anyhow::Error::msg)?;
            if let Next::Measure(ask) = search.next(&series.name, &left.steps) {
                let late = over_budget(&series.plan, left.meta.budget, spent(&left), &ask);
                next = Some(ask).filter(|_| !late);
                break;
            }
        }
        Ok(Self { dir: dir.to_owned(), hold, left, sweep_tally, next, groups: Groups::default() })
    }

    /// Lists what is started for the variants, so that it can be ended where this process leaves at once.
    pub fn groups(&self) -> Groups {
        self.groups.clone()
    }

    /// Lists the servers that this sweep starts in `groups`, beside those of other sweeps.
    #[must_use]
    pub fn with_groups(self, groups: Groups) -> Self {
        Self { groups, ..self }
    }

    /// The plan, with the budget that counts.
    pub fn plan(&self) -> &Plan {
        &self.left.plan
    }

    /// Whether the sweep ran in simulated time, and so has to go on.
    pub fn virtual_time(&self) -> bool {
        self.left.meta.virtual_time
    }

    /// Whether the sweep goes on under the plan that it began with, as far as that is known: `false` where it is not.
    ///
    /// # Errors
    /// It does not, and is not to go on all the same (`force`): every difference on a line.
    pub fn check_plan(&self, force: bool) -> Result<bool> {
        let other = same::check_plan(&self.dir, &self.left.meta, &self.left.plan, force)?;
        Ok(other.is_none() && self.left.meta.plan.is_some())
    }

    /// Whether there is nothing left to measure.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Where there is nothing left to measure: an interruption that came after the last step left nothing out. Under another plan than
    /// the run was made with, which has to be wanted (`force`), that is noted.
    pub fn close(mut self, force: bool) -> Result<()> {
        let other = same::check_plan(&self.dir, &self.left.meta, &self.left.plan, force)?;
        let run = rundir::read(&self.dir)?;
        let noted = self.left.meta.noted.len();
        self.left.meta.noted.retain(|c| !c.ends_sweep());
        if noted == self.left.meta.noted.len() && other.is_none() {
            return Ok(());
        }
        if other.is_some() {
            self.left.meta.plan = rundir::changed::kept(&self.left.plan).ok();
        }
        self.left.meta.noted.extend(other);
        let meta = self.left.meta;
        let caveats = meta.noted.clone();
        let run = Run::assemble(&self.left.plan, run.plan_toml, meta, run.steps, run.failures, caveats)?;
        rundir::write_result(&self.dir, &json::result(&run))
    }
}

/// The time that a sweep has spent: what came after its last step that counts does not count either.
fn spent(left: &Left) -> Duration {
    Duration::from_secs_f64(left.steps.last().map_or(0.0, |s| s.ended_s.max(0.0)))
}

/// Goes on with a sweep and returns what was measured in all; the caller writes the reports.
///
/// As with [`super::run`], it needs a current-thread runtime whose clock is paused where time is simulated. Nothing on disk is
/// changed before the server was found to be the one that was measured. A step that was broken off is measured again with
/// the same arrivals and lengths, but, in a cold cache, other prompts: the server may have seen the first.
///
/// Of the `options` the progress bar, the address for metrics, the disk, and `force` count: with it the sweep goes on though plan or
/// server are not what they were.
pub async fn resume(on: Resumption, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    let Resumption { dir, hold, left, sweep_tally, groups, .. } = on;
    let before = spent(&left);
    let Left { mut plan, meta: earlier, steps, warmups, found, .. } = left;
    disk::check_resumable(options.disk, &dir)?;
    if earlier.virtual_time {
        plan.check_virtual()?;
    }
    let live = options.listen.map(|address| serve(&plan, address)).transpose()?;
    let host = Host::of(&plan.client, earlier.virtual_time)?;
    let traffic = plan.open_files()?;
    let other_plan = same::check_plan(&dir, &earlier, &plan, options.force)?;
    let series = plan.series();
    let ending = Ending::begin(interrupt, deadline(&plan, earlier.budget.map(|b| b.0)));
    look_around(&plan, &series, earlier.virtual_time)?;
    let (next, kept) = (steps.len() as u32 + 1, (earlier.resumed.len() as u32 + 1, options.keep.clone()));
    let mut servers = Servers::new(&plan, &dir, groups, (&earlier.variants, options.force), kept);
    let again = Again { plan: &plan, series: &series, earlier: &earlier, force: options.force, next };
    let ready = Box::pin(again.only_server(&traffic, &host, &ending)).await?;
    let mut meta = resumed_meta(earlier.clone(), ready.as_ref(), found, next);
    meta.noted.extend(other_plan);
    if options.force {
        meta = as_now(meta, &plan, ready.as_ref());
    }
    meta.plan = rundir::changed::kept(&plan).ok();
    let plan_toml = plan.to_toml()?;
    let writer = opened(hold, (&plan, &plan_toml), &meta, &steps)
        .with_context(|| format!("failed to resume {}", dir.display()))?;
    let ready = match ready {
        Some(ready) => ready,
        None => {
            let folder =
                Folder { plan: &plan, plan_toml: &plan_toml, writer: &writer, meta: &meta, steps: &steps };
            let first =
                Box::pin(first_ready(&series, &mut servers, &folder, (&traffic, &host, &ending))).await?;
            let Some(ready) = first else { return finish(&dir) };
            ready
        }
    };
    let mut sweep = Sweep {
        plan: &series[0].plan,
        series: series[0].name.clone(),
        whole: &plan,
        plan_toml,
        host,
        ready,
        traffic,
        servers,
        writer,
        meta,
        steps,
        own: Vec::new(),
        began: Instant::now(),
        before,
        warmups,
        resets: true,
        left_alone: idle::still(&earlier.left_alone, earlier.virtual_time),
        interrupt: ending.token(),
        ending,
        disk: options.disk,
        sweep_tally,
        progress: Progress::new(options.progress, step::shown_limit(&plan)),
        live,
    };
    sweep
        .progress
        .say(&format!("resumed at step {next}, with {} of the sweep spent", Span::secs(before.as_secs())));
    Box::pin(sweep.run(&series)).await.with_context(|| broke_off(&dir))?;
    finish(&dir)
}

/// Of a sweep that goes on under another plan or on another server: what is told of both is what they are now.
fn as_now(meta: Meta, plan: &Plan, ready: Option<&Prepared>) -> Meta {
    let now = super::about::meta(plan, ready, meta.virtual_time);
    let meta = Meta { server: now.server, workload: now.workload, slo: now.slo, seed: now.seed, ..meta };
    if ready.is_some() { Meta { model: now.model, facts: now.facts, ..meta } } else { meta }
}

/// Puts the files of a run in order and opens them.
fn opened(hold: Hold, (plan, plan_toml): (&Plan, &str), meta: &Meta, steps: &[Step]) -> Result<Writer> {
    // Notes first: killed between the two, they are at worst made twice.
    let (own, noted) = (meta.clone(), meta.noted.clone());
    let run = Run::assemble(plan, plan_toml.to_owned(), own, steps.to_vec(), Vec::new(), noted)?;
    rundir::write_result(hold.dir(), &json::result(&run))?;
    rundir::replace(&hold.dir().join(PLAN), plan_toml.as_bytes())?;
    rundir::tidy(&hold, steps.len())?;
    Writer::open(hold)
}

/// The notes of a sweep that goes on: what was true of its end is not any more, and what is counted again is counted anew.
fn resumed_meta(mut meta: Meta, ready: Option<&Prepared>, found: Vec<Caveat>, next: u32) -> Meta {
    meta.noted.retain(|c| c.scope().on_resume.keeps(next));
    for caveat in ready.iter().flat_map(|r| &r.noted) {
        if !meta.noted.contains(caveat) {
            meta.noted.push(caveat.clone());
        }
    }
    meta.noted.extend(found);
    meta.words = ready.map(|r| r.rate.clone()).or(meta.words);
    meta.resumed.push(Resumed {
        at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        step: next,
        goodput_version: env!("CARGO_PKG_VERSION").into(),
    });
    meta
}

/// What is gone on with, and how.
struct Again<'a> {
    plan: &'a Plan,
    series: &'a [Series],
    earlier: &'a Meta,
    force: bool,
    /// The number of the step that comes next.
    next: u32,
}

impl Again<'_> {
    /// The server of a sweep that has one for all of its series, made ready again; `None` where each variant has its own.
    async fn only_server(&self, traffic: &Traffic, host: &Host, ending: &Ending) -> Result<Option<Prepared>> {
        if self.series.iter().any(|one| one.variant.is_some()) {
            return Ok(None);
        }
        let waited = idle::leave_alone_still(self.earlier, self.next, ending).await?;
        let interrupt = ending.token();
        let mut ready = tokio::select! {
            ready = self.ready(traffic, host) => ready?,
            () = interrupt.cancelled() => return Err(ending.too_early()),
        };
        ready.check_series(self.series, traffic)?;
        ready.noted.extend(waited);
        Ok(Some(ready))
    }

    /// Makes everything ready as at the start of the sweep, and refuses another server than the one that was measured.
    async fn ready(&self, traffic: &Traffic, host: &Host) -> Result<Prepared> {
        let earlier = self.earlier;
        let first = self.series.first().context("a plan has at least one series")?;
        let mut asked = first.plan.clone();
        // A name without what it held of a secret is nobody's.
        if !self.force && !redact::contains_mask(&earlier.model) {
            asked.server.model.get_or_insert_with(|| earlier.model.clone());
        }
        let mut ready = prepare::prepare(&asked, (traffic, self.series), host).await.with_context(|| {
            format!(
                "cannot go on with the run, which was made against the model {:?} (--force goes on with another)",
                earlier.model
            )
        })?;
        let now = meta(self.plan, Some(&ready), earlier.virtual_time);
        let mut noted = Vec::new();
        same::check(same::of_server(earlier, &now), self.force, &mut noted)?;
        ready.noted.extend(noted);
        ready.resumed = earlier.resumed.len() as u32 + 1;
        match earlier.words.as_ref().filter(|_| !self.force) {
            Some(words) => keep_lengths(words, &earlier.noted, &mut ready)?,
            None => tracing::info!("the lengths of prompts were measured anew"),
        }
        Ok(ready)
    }
}

/// Prompts keep the lengths that they had, unless the server has begun to count otherwise. `kept` is how it counted words, `noted` what
/// was noted of it.
pub(super) fn keep_lengths(kept: &WordRates, noted: &[Caveat], ready: &mut Prepared) -> Result<()> {
    let uncalibrated = |noted: &[Caveat]| {
        noted.iter().any(|c| matches!(c, Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })))
    };
    if !uncalibrated(noted) && !uncalibrated(&ready.noted) {
        let (was, is) = (kept.base(), ready.rate.base());
        let words = was.words(ready.traffic.mean_input());
        let (was, is) = (was.tokens(words), is.tokens(words));
        if (is - was).abs() > (0.02 * was).max(2.0) {
            bail!(
                "the server counts prompts otherwise than in the run: {words} words were {was:.0} tokens and are now {is:.0}; \
                 serve the same model with the same chat template, or start a new sweep"
            );
        }
    }
    ready.rate = kept.clone();
    ready.count();
    ready.noted.retain(|c| !matches!(c, Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })));
    Ok(())
}
