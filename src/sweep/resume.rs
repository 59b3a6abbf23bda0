//! Going on with a sweep that was killed or interrupted. The search is a pure function of the steps, so nothing has to be
//! remembered: what counts of the folder is read, and the next step is asked for.
//!
//! What a resumed step asks of the server is what the uninterrupted one would have asked, nonces of cold prompts apart. What it
//! measures is the same, to the last request, in simulated time on an engine without randomness of its own; other engines begin
//! their random numbers anew, and a real server is never twice the same.

use super::begin::{Folder, first_ready};
use super::prepare::{self, Prepared};
use super::progress::Progress;
use super::tally::SweepTally;
use super::variant::Servers;
use super::{Sweep, finish, meta, over_budget, own_budget, serve, step};
use crate::caveat::Caveat;
use crate::launch::Groups;
use crate::load::host::Host;
use crate::plan::{Plan, Series};
use crate::rundir::variants::State;
use crate::rundir::{self, Left, Meta, PLAN, Resumed, Run, Writer, json};
use crate::search::config::Mode;
use crate::search::{Ask, Next};
use crate::units::Span;
use crate::workload::rate::WordRates;
use crate::workload::traffic::Traffic;
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The run folder of a sweep that may go on.
pub struct Resumption {
    dir: PathBuf,
    left: Left,
    sweep_tally: SweepTally,
    /// The step that comes next; `None` where the search is done or no further step fits into the budget.
    next: Option<Ask>,
    groups: Groups,
}

impl Resumption {
    /// Reads a run folder; changes nothing. With a `budget` the search goes on under that one in place of its own.
    ///
    /// Fails where it is no run folder, cannot be read, or was written in another form; the message says what to do.
    pub fn open(dir: &Path, budget: Option<Span>) -> Result<Self> {
        let mut sweep_tally = SweepTally::default();
        let mut left = rundir::left(dir, |series, class, record| sweep_tally.add(series, class, record))?;
        match (budget, &mut left.plan.search.mode) {
            (Some(budget), Mode::Adaptive(adaptive)) if left.plan.rows.is_empty() => adaptive.budget = budget,
            (Some(budget), _) => left.meta.budget = own_budget(&left.plan, Some(budget.0)),
            (None, _) => {}
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
        Ok(Self { dir: dir.to_owned(), left, sweep_tally, next, groups: Groups::default() })
    }

    /// Lists what is started for the variants, so that it can be ended where this process leaves at once.
    pub fn groups(&self) -> Groups {
        self.groups.clone()
    }

    /// The plan, with the budget that counts.
    pub fn plan(&self) -> &Plan {
        &self.left.plan
    }

    /// Whether the sweep ran in simulated time, and so has to go on.
    pub fn virtual_time(&self) -> bool {
        self.left.meta.virtual_time
    }

    /// Whether there is nothing left to measure.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Where there is nothing left to measure: an interruption that came after the last step left nothing out.
    pub fn close(mut self) -> Result<()> {
        let run = rundir::read(&self.dir)?;
        let noted = self.left.meta.noted.len();
        self.left.meta.noted.retain(|c| *c != Caveat::Interrupted);
        if noted == self.left.meta.noted.len() {
            return Ok(());
        }
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
pub async fn resume(
    on: Resumption,
    progress: bool,
    listen: Option<SocketAddr>,
    interrupt: CancellationToken,
) -> Result<Run> {
    let Resumption { dir, left, sweep_tally, groups, .. } = on;
    let before = spent(&left);
    let Left { mut plan, meta: earlier, steps, warmups, found, .. } = left;
    if earlier.virtual_time {
        plan.check_virtual()?;
    }
    if !earlier.virtual_time {
        super::warn_of_descriptors(&plan);
    }
    let live = listen.map(|address| serve(&plan, address)).transpose()?;
    let host = Host::of(&plan.client, earlier.virtual_time)?;
    let traffic = plan.open_files()?;
    let series = plan.series();
    let next = steps.len() as u32 + 1;
    let times = earlier.resumed.len() as u32 + 1;
    let mut servers = Servers::new(&plan, &dir, groups, &earlier.variants, times);
    let ready = Box::pin(only_server(&plan, (&series, &traffic), &earlier, &host, &interrupt)).await?;
    let meta = resumed_meta(earlier, ready.as_ref(), found, next);
    let plan_toml = plan.to_toml()?;
    let opening = |e: anyhow::Error| e.context(format!("failed to resume {}", dir.display()));
    // Notes first: killed between the two, they are at worst made twice.
    let noted =
        Run::assemble(&plan, plan_toml.clone(), meta.clone(), steps.clone(), Vec::new(), meta.noted.clone());
    rundir::write_result(&dir, &json::result(&noted?)).map_err(opening)?;
    rundir::replace(&dir.join(PLAN), plan_toml.as_bytes()).map_err(opening)?;
    rundir::tidy(&dir, steps.len()).map_err(opening)?;
    let writer = Writer::open(&dir)?;
    let ready = match ready {
        Some(ready) => ready,
        None => {
            let folder =
                Folder { plan: &plan, plan_toml: &plan_toml, writer: &writer, meta: &meta, steps: &steps };
            let first =
                Box::pin(first_ready(&series, &mut servers, &folder, (&traffic, &host, &interrupt))).await?;
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
        began: Instant::now(),
        before,
        warmups,
        resets: true,
        interrupt,
        sweep_tally,
        progress: Progress::new(progress, step::shown_limit(&plan)),
        live,
    };
    sweep
        .progress
        .say(&format!("resumed at step {next}, with {} of the sweep spent", Span::secs(before.as_secs())));
    Box::pin(sweep.run(&series)).await?;
    finish(&dir)
}

/// The notes of a sweep that goes on: what was true of its end is not any more, and what is counted again is counted anew.
fn resumed_meta(mut meta: Meta, ready: Option<&Prepared>, found: Vec<Caveat>, next: u32) -> Meta {
    meta.noted.retain(|c| match c {
        Caveat::Interrupted | Caveat::BudgetSpent { .. } => false,
        Caveat::NotDrained { step, .. } | Caveat::Profiler { step, .. } => *step < next,
        other => !SweepTally::counts(other),
    });
    for caveat in ready.iter().flat_map(|r| &r.noted) {
        if !meta.noted.contains(caveat) {
            meta.noted.push(caveat.clone());
        }
    }
    for (then, now) in meta.facts.iter().zip(ready.iter().flat_map(|r| &r.facts)) {
        if let Some((what, was, is)) = now.changed(then) {
            meta.noted.push(Caveat::ServerChanged { what: what.into(), was, is });
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

/// The server of a sweep that has one for all of its series, made ready again; `None` where each variant has its own.
async fn only_server(
    plan: &Plan,
    (series, traffic): (&[Series], &Traffic),
    earlier: &Meta,
    host: &Host,
    interrupt: &CancellationToken,
) -> Result<Option<Prepared>> {
    if series.iter().any(|one| one.variant.is_some()) {
        return Ok(None);
    }
    let ready = tokio::select! {
        ready = ready_again(plan, (traffic, series), earlier, host) => ready?,
        () = interrupt.cancelled() => bail!("interrupted before anything was measured"),
    };
    ready.check_series(series, traffic)?;
    Ok(Some(ready))
}

/// Makes everything ready as at the start of the sweep, and refuses another server than the one that was measured.
async fn ready_again(
    plan: &Plan,
    (traffic, series): (&Traffic, &[Series]),
    earlier: &Meta,
    host: &Host,
) -> Result<Prepared> {
    let first = series.first().context("a plan has at least one series")?;
    let mut asked = first.plan.clone();
    asked.server.model.get_or_insert_with(|| earlier.model.clone());
    let mut ready = prepare::prepare(&asked, (traffic, series), host).await.with_context(|| {
        format!("cannot go on with the run, which was made against the model {:?}", earlier.model)
    })?;
    let now = meta(plan, Some(&ready), earlier.virtual_time);
    for (what, was, is) in [
        ("server", &earlier.server, &now.server),
        ("model", &earlier.model, &now.model),
        ("workload", &earlier.workload, &now.workload),
        ("SLO", &earlier.slo, &now.slo),
        ("seed", &earlier.seed.to_string(), &now.seed.to_string()),
    ] {
        if was != is {
            bail!(
                "the run was made with the {what} {was}, now it is {is}: put it back, or start a new sweep"
            );
        }
    }
    ready.resumed = earlier.resumed.len() as u32 + 1;
    match &earlier.words {
        Some(words) => keep_lengths(words, &earlier.noted, &mut ready)?,
        None => tracing::info!(
            "the run does not tell how it measured the lengths of prompts: they were measured anew"
        ),
    }
    Ok(ready)
}

/// Prompts keep the lengths that they had, unless the server has begun to count otherwise. `kept` is how it counted words, `noted` what
/// was noted of it.
pub(super) fn keep_lengths(kept: &WordRates, noted: &[Caveat], ready: &mut Prepared) -> Result<()> {
    let uncalibrated =
        |noted: &[Caveat]| noted.iter().any(|c| matches!(c, Caveat::InputNotCalibrated { .. }));
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
    ready.noted.retain(|c| !matches!(c, Caveat::InputNotCalibrated { .. }));
    Ok(())
}
