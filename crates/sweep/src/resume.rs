//! Resuming a sweep that was killed or interrupted. The search is a pure function of the steps, so it has no other
//! state to save: the valid steps are read from the folder, and the search returns the next one.
//!
//! A resumed step sends the requests that the uninterrupted one would have sent, except for the nonces of cold prompts.
//! In simulated time on a deterministic engine, its results are identical to the last request. Other engines restart
//! their random numbers, and a real server never repeats itself exactly.

use super::bounds::{deadline, over_budget};
use super::journal::EarlierCounts;
use super::metadata::meta;
use super::prepare::{self, PlanSeries, Prepared};
use super::retry_after::wait_on_resume;
use super::start::{Origin, Setup, conduct};
use super::tally::SweepTally;
use super::termination::Termination;
use super::{Options, changes, disk, own_budget};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, LengthsCaveat};
use goodput_core::redact;
use goodput_core::units::Span;
use goodput_load::launch::Groups;
use goodput_load::load::host::Host;
use goodput_plan::Plan;
use goodput_run::rundir::variants::State;
use goodput_run::rundir::{self, InterruptedSweep, Meta, PLAN, Resumed, Run, RunLock, Writer, json};
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Ask, Next};
use goodput_stats::stats::step::Step;
use goodput_workload::rate::WordRates;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The run folder of a sweep that can be resumed.
pub struct Resumption {
    dir: PathBuf,
    /// Lock on the folder, from before its files are read until the last one is written.
    run_lock: RunLock,
    left: InterruptedSweep,
    sweep_tally: SweepTally,
    /// The next step; `None` if the search is done or no further step fits into the budget.
    next: Option<Ask>,
    groups: Groups,
}

impl Resumption {
    /// Locks a run folder and reads it, without changing anything. With a `budget`, the search continues under that
    /// budget.
    ///
    /// # Errors
    /// The path is not a run folder, another sweep is writing into it, it cannot be read, or it has another format
    /// version. The message names a remedy.
    pub fn open(dir: &Path, budget: Option<Span>) -> Result<Self> {
        let mut sweep_tally = SweepTally::default();
        let run_lock = RunLock::of_run(dir)?;
        let mut left = rundir::read_interrupted(&run_lock, |series, class, record| {
            sweep_tally.add(series, class, record)
        })?;
        match (budget, &mut left.plan.search.mode) {
            (Some(budget), Mode::Adaptive(adaptive)) if left.plan.rows.is_empty() => adaptive.budget = budget,
            (Some(budget), _) => left.meta.budget = own_budget(&left.plan, Some(budget.0)),
            (None, _) => {}
        }
        if let Some(imported) = &left.meta.imported {
            bail!(
                "{} was imported from {} and cannot be resumed: measure with `goodput sweep`, or rebuild its reports with `goodput report`",
                dir.display(),
                imported.title()
            );
        }
        let next = next(&left)?;
        Ok(Self { dir: dir.to_owned(), run_lock, left, sweep_tally, next, groups: Groups::default() })
    }

    /// Returns the list of process groups started for variants, so that they can be killed if this process exits
    /// abruptly.
    pub fn groups(&self) -> Groups {
        self.groups.clone()
    }

    /// Records the servers that this sweep starts in `groups`, together with those of other sweeps.
    #[must_use]
    pub fn with_groups(self, groups: Groups) -> Self {
        Self { groups, ..self }
    }

    /// Continues the sweep under `plan`, which has all variants of the folder's plan and may have more; those are measured
    /// too.
    ///
    /// # Errors
    /// The plans differ in anything else. The message has one line per difference.
    pub fn with_variants(mut self, plan: Plan) -> Result<Self> {
        let mut alike = plan.clone();
        alike.variants.retain(|v| self.left.plan.variants.iter().any(|known| known.name == v.name));
        changes::check_plan(&self.dir, &self.left.meta, &alike, false)?;
        self.left.meta.plan = Some(rundir::changed::stored(&plan)?);
        self.left.plan = plan;
        self.next = next(&self.left)?;
        Ok(self)
    }

    /// Returns the plan, with the budget in force.
    pub fn plan(&self) -> &Plan {
        &self.left.plan
    }

    /// Returns true if the sweep ran in simulated time, and must be resumed in it.
    pub fn virtual_time(&self) -> bool {
        self.left.meta.virtual_time
    }

    /// Returns true if the plan is known to be unchanged since the sweep began.
    ///
    /// # Errors
    /// The plan has changed and `force` is not set. The message has one line per difference.
    pub fn check_plan(&self, force: bool) -> Result<bool> {
        let other = changes::check_plan(&self.dir, &self.left.meta, &self.left.plan, force)?;
        Ok(other.is_none() && self.left.meta.plan.is_some())
    }

    /// Returns true if there is nothing left to measure.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Closes a sweep with nothing left to measure: removes the caveat of an interruption after the last step, which
    /// left nothing out. A plan that differs from the original one is an error without `force`, and is recorded as a
    /// caveat with it.
    pub fn close(mut self, force: bool) -> Result<()> {
        let other = changes::check_plan(&self.dir, &self.left.meta, &self.left.plan, force)?;
        let run = rundir::read(&self.dir)?;
        let noted = self.left.meta.noted.len();
        self.left.meta.noted.retain(|c| !c.ends_sweep());
        if noted == self.left.meta.noted.len() && other.is_none() {
            return Ok(());
        }
        if other.is_some() {
            self.left.meta.plan = rundir::changed::stored(&self.left.plan).ok();
        }
        self.left.meta.noted.extend(other);
        let meta = self.left.meta;
        let caveats = meta.noted.clone();
        let steps = run.all_steps().into_iter().cloned().collect();
        let run = Run::assemble(&self.left.plan, run.plan_toml, meta, steps, run.failures, caveats)?;
        rundir::write_result(&self.dir, &json::result(&run))
    }
}

/// Returns the next step of an interrupted sweep; `None` if the search is done or no further step fits into the budget.
fn next(left: &InterruptedSweep) -> Result<Option<Ask>> {
    let died = |name: &str| left.meta.variants.iter().any(|v| v.name == name && v.state == State::Died);
    for series in left.plan.series() {
        // The results of a variant that died under load are final.
        if series.variant.as_ref().is_some_and(|v| died(&v.name)) {
            continue;
        }
        let search = series.plan.searcher().map_err(anyhow::Error::msg)?;
        if let Next::Measure(ask) = search.next(&series.name, &left.steps) {
            let late = over_budget(&series.plan, left.meta.budget, spent(left), &ask);
            return Ok(Some(ask).filter(|_| !late));
        }
    }
    Ok(None)
}

/// Returns the time that a sweep has spent, up to the end of its last valid step.
fn spent(left: &InterruptedSweep) -> Duration {
    Duration::from_secs_f64(left.steps.last().map_or(0.0, |s| s.ended_s.max(0.0)))
}

/// Resumes a sweep and returns everything measured in all of its attempts; the caller writes the reports.
///
/// Like [`super::run`], it needs a current-thread runtime, whose clock is paused in simulated time. It changes nothing
/// on disk until it has verified that the server is the one that was measured. An incomplete step is measured again
/// with the same arrivals and lengths, but, with a cold cache, with other prompts: the server may have cached the first
/// ones.
///
/// Only these `options` apply: the progress bar, the metrics address, the disk reserve, keeping servers, and `force`
/// apply. With `force`, the sweep continues even if plan or server have changed.
///
/// # Errors
/// The plan or the server has changed, nothing more could be measured, or the sweep broke off.
pub async fn resume(on: Resumption, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    let Resumption { dir, run_lock, left, sweep_tally: counts, groups, .. } = on;
    let spent = spent(&left);
    let InterruptedSweep { plan, meta, steps, warmups, found, .. } = left;
    disk::check_resumable(options.disk, &dir)?;
    let virtual_time = meta.virtual_time;
    if virtual_time {
        plan.check_virtual()?;
    }
    let termination = Termination::begin(interrupt, deadline(&plan, meta.budget.map(|b| b.0)));
    let counted = EarlierCounts { counts, warmups };
    let earlier = EarlierAttempts { run_lock, meta, steps, spent, found, counted, plan_changed: None };
    let origin = Origin::Resumed(Box::new(earlier));
    Box::pin(conduct(Setup { plan, dir, options, virtual_time, groups, termination, origin })).await
}

/// The earlier attempts of a resumed sweep.
pub(super) struct EarlierAttempts {
    pub(super) run_lock: RunLock,
    pub(super) meta: Meta,
    /// The valid steps.
    pub(super) steps: Vec<Step>,
    /// Time spent so far, which counts against the budget.
    pub(super) spent: Duration,
    /// Caveats about torn rows and incomplete steps that were found on disk.
    pub(super) found: Vec<Caveat>,
    pub(super) counted: EarlierCounts,
    /// The caveat about differences between the current plan and the original one, if there are any and they are
    /// allowed.
    pub(super) plan_changed: Option<Caveat>,
}

impl EarlierAttempts {
    /// Returns the number of the step that comes next.
    pub(super) fn next_step(&self) -> u32 {
        self.steps.len() as u32 + 1
    }

    /// Waits for as long as the only server of the sweep has asked for with `Retry-After`.
    ///
    /// # Errors
    /// The sweep was ended during the wait.
    pub(super) async fn wait_for_server(&self, termination: &Termination) -> Result<Option<Caveat>> {
        wait_on_resume(&self.meta, self.next_step(), termination).await
    }

    /// Prepares the only server of the sweep as at its start, and checks that it is the one that was measured.
    ///
    /// # Errors
    /// The server cannot be measured, or has changed and `force` is not set.
    pub(super) async fn same_server(
        &self,
        plan: &Plan,
        all: PlanSeries<'_>,
        host: &Arc<Host>,
        force: bool,
    ) -> Result<Prepared> {
        let earlier = &self.meta;
        let first = all.series.first().context("a plan has at least one series")?;
        let mut asked = first.plan.clone();
        // A name with a masked secret is not the model's real name.
        if !force && !redact::contains_mask(&earlier.model) {
            asked.server.model.get_or_insert_with(|| earlier.model.clone());
        }
        let mut ready = prepare::prepare(&asked, all, host).await.with_context(|| {
            format!(
                "cannot resume the run, which measured the model {:?} (--force continues with another)",
                earlier.model
            )
        })?;
        let now = meta(plan, Some(&ready), earlier.virtual_time);
        let mut noted = Vec::new();
        changes::check(changes::of_server(earlier, &now), force, &mut noted)?;
        ready.noted.extend(noted);
        ready.load.set_resumed(earlier.resumed.len() as u32 + 1);
        match earlier.words.as_ref().filter(|_| !force) {
            Some(words) => reuse_word_rates(words, &earlier.noted, &mut ready)?,
            None => tracing::info!("the lengths of prompts were calibrated again"),
        }
        Ok(ready)
    }

    /// Returns the metadata of the resumed sweep. Drops caveats about its former end, and those whose counts are made
    /// again.
    pub(super) fn resumed_meta(&self, plan: &Plan, ready: Option<&Prepared>, force: bool) -> Meta {
        let (mut meta, next) = (self.meta.clone(), self.next_step());
        meta.noted.retain(|c| c.scope().on_resume.keeps(next));
        for caveat in ready.iter().flat_map(|r| &r.noted) {
            if !meta.noted.contains(caveat) {
                meta.noted.push(caveat.clone());
            }
        }
        meta.noted.extend(self.found.iter().chain(&self.plan_changed).cloned());
        meta.words = ready.map(|r| r.load.terms().words.clone()).or(meta.words);
        meta.resumed.push(Resumed {
            at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            step: next,
            goodput_version: env!("CARGO_PKG_VERSION").into(),
        });
        let meta = if force { updated(meta, plan, ready) } else { meta };
        Meta { plan: rundir::changed::stored(plan).ok(), ..meta }
    }
}

/// Replaces the description of plan and server by the current one, for a sweep that is resumed with another plan or on
/// another server.
fn updated(meta: Meta, plan: &Plan, ready: Option<&Prepared>) -> Meta {
    let now = super::metadata::meta(plan, ready, meta.virtual_time);
    let meta = Meta { server: now.server, workload: now.workload, slo: now.slo, seed: now.seed, ..meta };
    if ready.is_some() { Meta { model: now.model, facts: now.facts, ..meta } } else { meta }
}

/// Cleans up the files of a run and opens them for writing.
///
/// # Errors
/// A file cannot be written.
pub(super) fn reopen(
    run_lock: RunLock,
    plan: &Plan,
    plan_toml: &str,
    meta: &Meta,
    steps: &[Step],
) -> Result<Writer> {
    // Caveats first: if the process is killed before the cleanup, the next resumption at worst records them twice.
    let (own, noted) = (meta.clone(), meta.noted.clone());
    let run = Run::assemble(plan, plan_toml.to_owned(), own, steps.to_vec(), Vec::new(), noted)?;
    rundir::write_result(run_lock.dir(), &json::result(&run))?;
    rundir::replace(&run_lock.dir().join(PLAN), plan_toml.as_bytes())?;
    rundir::tidy(&run_lock, steps.len())?;
    Writer::open(run_lock)
}

/// Keeps the prompt lengths of the run. `kept` are its token rates per word, `noted` its caveats.
///
/// # Errors
/// The server now counts the tokens of a prompt differently.
pub(super) fn reuse_word_rates(kept: &WordRates, noted: &[Caveat], ready: &mut Prepared) -> Result<()> {
    let uncalibrated = |noted: &[Caveat]| {
        noted.iter().any(|c| matches!(c, Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })))
    };
    if !uncalibrated(noted) && !uncalibrated(&ready.noted) {
        let (was, is) = (kept.base(), ready.load.terms().words.base());
        let words = was.words(ready.load.traffic().mean_input());
        let (was, is) = (was.tokens(words), is.tokens(words));
        if (is - was).abs() > (0.02 * was).max(2.0) {
            bail!(
                "the server counts the tokens of prompts differently than in the run: {words} words were {was:.0} tokens and are now {is:.0}; \
                 serve the same model with the same chat template, or start a new sweep"
            );
        }
    }
    ready.load.set_words(kept.clone());
    ready.noted.retain(|c| !matches!(c, Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })));
    Ok(())
}
