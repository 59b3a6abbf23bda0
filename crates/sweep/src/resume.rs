//! Going on with a sweep that was killed or interrupted. The search is a pure function of the steps, so nothing has to be
//! remembered: what counts of the folder is read, and the next step is asked for.
//!
//! What a resumed step asks of the server is what the uninterrupted one would have asked, nonces of cold prompts apart. What it
//! measures is the same, to the last request, in simulated time on an engine without randomness of its own; other engines begin
//! their random numbers anew, and a real server is never twice the same.

use super::about::meta;
use super::bounds::{deadline, over_budget};
use super::ending::Ending;
use super::journal::Counted;
use super::prepare::{self, PlanSeries, Prepared};
use super::retry_after::wait_on_resume;
use super::start::{Origin, Setup, conduct};
use super::tally::SweepTally;
use super::{Options, disk, own_budget, same};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, LengthsCaveat};
use goodput_core::redact;
use goodput_core::units::Span;
use goodput_load::launch::Groups;
use goodput_load::load::host::Host;
use goodput_plan::Plan;
use goodput_run::rundir::variants::State;
use goodput_run::rundir::{self, Hold, Left, Meta, PLAN, Resumed, Run, Writer, json};
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Ask, Next};
use goodput_stats::stats::step::Step;
use goodput_workload::rate::WordRates;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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

/// Resumes a sweep and returns everything measured in all of its tries; the caller writes the reports.
///
/// As [`super::run`], it needs a current-thread runtime whose clock is paused where time is simulated. Nothing on disk is changed before the
/// server was found to be the one that was measured. A step that was broken off is measured again with the same arrivals and lengths, but,
/// with a cold cache, other prompts: the server may have seen the first.
///
/// Of the `options` the progress bar, the address for metrics, the disk, the servers that are kept, and `force` count: with it the sweep goes on
/// even if plan or server have changed.
///
/// # Errors
/// The plan or the server has changed, nothing more could be measured, or the sweep broke off.
pub async fn resume(on: Resumption, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    let Resumption { dir, hold, left, sweep_tally: counts, groups, .. } = on;
    let spent = spent(&left);
    let Left { plan, meta, steps, warmups, found, .. } = left;
    disk::check_resumable(options.disk, &dir)?;
    let virtual_time = meta.virtual_time;
    if virtual_time {
        plan.check_virtual()?;
    }
    let ending = Ending::begin(interrupt, deadline(&plan, meta.budget.map(|b| b.0)));
    let counted = Counted { counts, warmups };
    let earlier = Earlier { hold, meta, steps, spent, found, counted, plan_changed: None };
    let origin = Origin::Resumed(Box::new(earlier));
    conduct(Setup { plan, dir, options, virtual_time, groups, ending, origin }).await
}

/// The earlier tries of a sweep that is resumed.
pub(super) struct Earlier {
    pub(super) hold: Hold,
    pub(super) meta: Meta,
    /// The steps that count.
    pub(super) steps: Vec<Step>,
    /// Time spent.
    pub(super) spent: Duration,
    /// Torn rows and broken-off steps that were found on disk.
    pub(super) found: Vec<Caveat>,
    pub(super) counted: Counted,
    /// The differences between the plan now and the plan then, if there are any and they are allowed.
    pub(super) plan_changed: Option<Caveat>,
}

impl Earlier {
    /// Returns the number of the step that comes next.
    pub(super) fn next_step(&self) -> u32 {
        self.steps.len() as u32 + 1
    }

    /// Waits for as long as the only server of the sweep asked to be left alone.
    ///
    /// # Errors
    /// The sweep was ended meanwhile.
    pub(super) async fn wait_for_server(&self, ending: &Ending) -> Result<Option<Caveat>> {
        wait_on_resume(&self.meta, self.next_step(), ending).await
    }

    /// Makes the only server of the sweep ready as at its start, and refuses another one than was measured.
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
        // A name from which a secret was cut out is no name of a model.
        if !force && !redact::contains_mask(&earlier.model) {
            asked.server.model.get_or_insert_with(|| earlier.model.clone());
        }
        let mut ready = prepare::prepare(&asked, all, host).await.with_context(|| {
            format!(
                "cannot go on with the run, which was made against the model {:?} (--force goes on with another)",
                earlier.model
            )
        })?;
        let now = meta(plan, Some(&ready), earlier.virtual_time);
        let mut noted = Vec::new();
        same::check(same::of_server(earlier, &now), force, &mut noted)?;
        ready.noted.extend(noted);
        ready.load.set_resumed(earlier.resumed.len() as u32 + 1);
        match earlier.words.as_ref().filter(|_| !force) {
            Some(words) => keep_lengths(words, &earlier.noted, &mut ready)?,
            None => tracing::info!("the lengths of prompts were measured anew"),
        }
        Ok(ready)
    }

    /// Returns the facts about the sweep now that it is resumed. Caveats about its end are not true any more, and counts are made anew.
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
        Meta { plan: rundir::changed::kept(plan).ok(), ..meta }
    }
}

/// Replaces the description of plan and server by the current one, for a sweep that is resumed with another plan or on another server.
fn updated(meta: Meta, plan: &Plan, ready: Option<&Prepared>) -> Meta {
    let now = super::about::meta(plan, ready, meta.virtual_time);
    let meta = Meta { server: now.server, workload: now.workload, slo: now.slo, seed: now.seed, ..meta };
    if ready.is_some() { Meta { model: now.model, facts: now.facts, ..meta } } else { meta }
}

/// Puts the files of a run in order and opens them.
///
/// # Errors
/// A file cannot be written.
pub(super) fn reopen(
    hold: Hold,
    plan: &Plan,
    plan_toml: &str,
    meta: &Meta,
    steps: &[Step],
) -> Result<Writer> {
    // Caveats first: if the process is killed between the two, they are at worst made twice.
    let (own, noted) = (meta.clone(), meta.noted.clone());
    let run = Run::assemble(plan, plan_toml.to_owned(), own, steps.to_vec(), Vec::new(), noted)?;
    rundir::write_result(hold.dir(), &json::result(&run))?;
    rundir::replace(&hold.dir().join(PLAN), plan_toml.as_bytes())?;
    rundir::tidy(&hold, steps.len())?;
    Writer::open(hold)
}

/// Prompts keep the lengths that they had, unless the server has begun to count otherwise. `kept` is how it counted words, `noted` what
/// was noted of it.
pub(super) fn keep_lengths(kept: &WordRates, noted: &[Caveat], ready: &mut Prepared) -> Result<()> {
    let uncalibrated = |noted: &[Caveat]| {
        noted.iter().any(|c| matches!(c, Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })))
    };
    if !uncalibrated(noted) && !uncalibrated(&ready.noted) {
        let (was, is) = (kept.base(), ready.load.terms().words.base());
        let words = was.words(ready.load.traffic().mean_input());
        let (was, is) = (was.tokens(words), is.tokens(words));
        if (is - was).abs() > (0.02 * was).max(2.0) {
            bail!(
                "the server counts prompts otherwise than in the run: {words} words were {was:.0} tokens and are now {is:.0}; \
                 serve the same model with the same chat template, or start a new sweep"
            );
        }
    }
    ready.load.set_words(kept.clone());
    ready.noted.retain(|c| !matches!(c, Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })));
    Ok(())
}
