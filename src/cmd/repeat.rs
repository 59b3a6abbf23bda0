//! `sweep --repeat`: runs one plan several times and pools the answers.

use super::sweep::{INTERRUPTED, UNDECIDED, drive, exit_code, of_met};
use crate::caveat::{Caveat, SweepCaveat};
use crate::cli::SweepArgs;
use crate::client::config::Target;
use crate::cmd::{consent, print_result, report, warn_if_unprinted};
use crate::launch::Groups;
use crate::plan::Plan;
use crate::report::render::markdown;
use crate::report::sections::repeats::{brief, is_complete, line, page};
use crate::rundir::repeats::{self, PooledAnswer, REPEATS_PAGE, REPEATS_TABLE, Repeats, Settings};
use crate::rundir::{self, RESULT};
use crate::search::answer::Status;
use crate::search::config::Mode;
use crate::sim::config::DEFAULT_SEED;
use crate::sweep::{self, Options, Resumption, ServerStore};
use crate::units::Span;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a plan several times, each run in its own subfolder of the run folder.
pub(super) fn begin(plan: &Plan, options: &Options, args: &SweepArgs, repeats: u32) -> Result<ExitCode> {
    check(plan, args)?;
    let dir = &options.out;
    if rundir::check_free(dir, options.force)? {
        repeats::clear(dir)?;
    }
    let settings = Settings {
        repeats,
        restart: args.restart,
        virtual_time: options.virtual_time,
        budget: options.budget.map(Span).filter(|_| !matches!(plan.search.mode, Mode::Adaptive(_))),
    };
    repeats::begin(dir, plan, &settings)?;
    measure_all(dir, plan, &settings, options, args)
}

/// Resumes the interrupted run of a folder and measures the runs that have not started. `--repeat` sets the total number of runs.
pub(super) fn resume(dir: &Path, args: &SweepArgs) -> Result<ExitCode> {
    let (mut settings, mut plan) = (repeats::settings(dir)?, repeats::plan(dir)?);
    if let Some(wanted) = args.repeat {
        if wanted < settings.repeats {
            bail!(
                "{} has {} runs, but --repeat {wanted} asks for fewer: --resume only adds runs; delete the folders of the runs to drop",
                dir.display(),
                settings.repeats
            );
        }
        settings.repeats = wanted;
    }
    match (args.budget, &mut plan.search.mode) {
        (Some(budget), Mode::Adaptive(adaptive)) => adaptive.budget = budget,
        (Some(budget), _) => settings.budget = Some(budget),
        (None, _) => {}
    }
    consent::ask(&[&plan], args.measure.yes)?;
    let options = Options {
        out: dir.to_owned(),
        force: args.folder.force,
        virtual_time: settings.virtual_time,
        budget: settings.budget.map(|b| b.0),
        progress: std::io::IsTerminal::is_terminal(&std::io::stderr()),
        listen: super::sweep::listen(args)?,
        ..Options::default()
    };
    repeats::begin(dir, &plan, &settings)?;
    measure_all(dir, &plan, &settings, &options, args)
}

/// Rejects plans and options that cannot be repeated.
fn check(plan: &Plan, args: &SweepArgs) -> Result<()> {
    if !plan.rows.is_empty() || !plan.purpose.is_goodput() || plan.slo.is_none() {
        bail!(
            "--repeat pools rates that meet an SLO, but this plan does not search for one (it is a matrix, or measures latency or throughput): \
             run `goodput sweep` in a loop instead"
        );
    }
    if args.restart && !launches(plan) {
        bail!(
            "--restart restarts the server that the plan starts, but no [[variant]] or [grid] of this plan has a command: add one, or restart \
             the server yourself between sweeps and compare the folders (`goodput compare RUN RUN RUN --against RUN RUN RUN`)"
        );
    }
    Ok(())
}

/// Returns true if the plan starts a server.
fn launches(plan: &Plan) -> bool {
    plan.series().iter().any(|one| one.variant.as_ref().is_some_and(|v| v.start().is_some()))
}

/// Decision after one run of several.
enum Next {
    /// The next run starts.
    Continue,
    /// No further run starts, because of a signal or a full disk; exit with this code.
    Stop(u8),
}

/// Measures the runs that are not done, then writes and prints the summary.
fn measure_all(
    dir: &Path,
    plan: &Plan,
    settings: &Settings,
    options: &Options,
    args: &SweepArgs,
) -> Result<ExitCode> {
    let store = if settings.restart || !launches(plan) {
        ServerStore::default()
    } else {
        ServerStore::between_sweeps()
    };
    let groups = Groups::default();
    announce(plan, settings, dir);
    let mut next = Ok(Next::Continue);
    for run in 1..=settings.repeats {
        let repetition = Repetition { dir, plan, settings, options, store: &store, groups: &groups, run };
        next = repetition.measure(args);
        if !matches!(next, Ok(Next::Continue)) {
            break;
        }
    }
    let stopped = stop(&store);
    // After an error, the runs measured so far are still summarised.
    let summary = summarise(dir, args.folder.json);
    let next = next?;
    stopped?;
    let repeats = summary?;
    Ok(ExitCode::from(match next {
        Next::Stop(code) => code,
        Next::Continue => code_of(dir, plan, &repeats)?,
    }))
}

/// Logs the number of runs and their longest total time.
fn announce(plan: &Plan, settings: &Settings, dir: &Path) {
    let each: f64 = match settings.budget {
        Some(budget) => budget.0.as_secs_f64(),
        None => super::check::longest_total_s(plan),
    };
    let span = |s: f64| Span(std::time::Duration::from_secs(s.round() as u64));
    tracing::info!(
        "{} runs of {}, each at most {}, at most {} in total, into {}",
        settings.repeats,
        plan.name,
        span(each),
        span(each * f64::from(settings.repeats)),
        dir.display()
    );
}

/// One run of a repeated plan.
struct Repetition<'a> {
    dir: &'a Path,
    plan: &'a Plan,
    settings: &'a Settings,
    options: &'a Options,
    store: &'a ServerStore,
    groups: &'a Groups,
    /// Number of the run, from 1.
    run: u32,
}

impl Repetition<'_> {
    /// Measures or resumes the run and makes its reports. Does nothing if the run is done.
    fn measure(&self, args: &SweepArgs) -> Result<Next> {
        let folder = repeats::folder_of(self.dir, self.run);
        let begun = folder.join(RESULT).is_file();
        let measured = if begun { self.resume(&folder, args)? } else { self.begin(&folder)? };
        let Ok(measured) = measured else { return Ok(Next::Stop(INTERRUPTED)) };
        if !measured {
            return Ok(Next::Continue);
        }
        let (run, _) = report::remake(&folder, args.folder.output().charts)?;
        let repeats = repeats::read(self.dir)?;
        repeats::write(self.dir, &repeats)?;
        if let Some(done) = repeats.runs.iter().find(|r| r.run == self.run) {
            tracing::info!("run {} of {}: {}", self.run, self.settings.repeats, line(done));
        }
        Ok(match () {
            () if run.caveats.contains(&Caveat::Sweep(SweepCaveat::Interrupted)) => {
                super::sweep::hint(self.dir);
                Next::Stop(INTERRUPTED)
            }
            () if run.caveats.iter().any(|c| matches!(c, Caveat::Sweep(SweepCaveat::DiskLow { .. }))) => {
                Next::Stop(UNDECIDED)
            }
            () => Next::Continue,
        })
    }

    /// Measures the run from the start and returns true. The inner error is the exit code of an interruption before anything was measured.
    fn begin(&self, folder: &Path) -> Result<Result<bool, ExitCode>> {
        let plan = seeded(self.plan, self.run);
        let options = Options {
            out: folder.to_owned(),
            // A folder without a result is from a run that was killed before anything was measured.
            force: folder.exists(),
            groups: self.groups.clone(),
            server_store: self.store.clone(),
            ..self.options.clone()
        };
        tracing::info!(
            "run {} of {}, seed {}: {}",
            self.run,
            self.settings.repeats,
            plan.seed,
            folder.display()
        );
        let measured = drive(options.virtual_time, self.dir, self.groups, async |interrupt| {
            sweep::run(&plan, &options, interrupt).await.map(drop)
        });
        Ok(measured.with_context(|| self.title())?.map(|()| true))
    }

    /// Resumes the run; returns false if nothing was left to measure. The inner error is the exit code of an interruption.
    fn resume(&self, folder: &Path, args: &SweepArgs) -> Result<Result<bool, ExitCode>> {
        let resumption = Resumption::open(folder, args.budget)
            .with_context(|| self.title())?
            .with_groups(self.groups.clone());
        resumption.check_plan(args.folder.force).with_context(|| self.title())?;
        if resumption.is_done() {
            resumption.close(args.folder.force)?;
            return Ok(Ok(false));
        }
        let options =
            Options { server_store: self.store.clone(), out: PathBuf::new(), ..self.options.clone() };
        tracing::info!("resuming run {} of {}: {}", self.run, self.settings.repeats, folder.display());
        let measured = drive(resumption.virtual_time(), self.dir, self.groups, async |interrupt| {
            Box::pin(sweep::resume(resumption, &options, interrupt)).await.map(drop)
        });
        Ok(measured.with_context(|| self.title())?.map(|()| true))
    }

    fn title(&self) -> String {
        format!("in run {} of {}", self.run, self.settings.repeats)
    }
}

/// Stops the server that was kept running between runs.
fn stop(store: &ServerStore) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start a runtime")?.block_on(store.stop())
}

/// Returns the plan of a run: from run to run, the seeds of the plan and of a simulated server go up by one.
fn seeded(plan: &Plan, run: u32) -> Plan {
    let mut seeded = plan.clone();
    seeded.seed = repeats::seed_of(plan, run);
    if let Target::Simulated(table) = &mut seeded.server.target {
        shift_seed(table, run - 1, true);
    }
    for variant in &mut seeded.variants {
        let simulated = variant.set.get_mut("server").and_then(|server| server.get_mut("simulated"));
        if let Some(table) = simulated.and_then(toml::Value::as_table_mut) {
            shift_seed(table, run - 1, false);
        }
    }
    seeded
}

/// Adds `by` to the seed of a simulated server. A missing seed counts as the default if `or_default` is set, else it stays missing.
fn shift_seed(table: &mut toml::Table, by: u32, or_default: bool) {
    const SEED: &str = "seed";
    let given = table.get(SEED).map(toml::Value::as_integer);
    let seed = match given {
        Some(seed) => seed,
        None => or_default.then_some(DEFAULT_SEED as i64),
    };
    if let Some(seed) = seed.filter(|_| by > 0) {
        table.insert(SEED.to_owned(), toml::Value::Integer(seed.saturating_add(i64::from(by))));
    }
}

/// Reads the runs of a folder, and writes and prints their summary.
pub(super) fn summarise(dir: &Path, json: bool) -> Result<Repeats> {
    let repeats = repeats::read(dir)?;
    repeats::write(dir, &repeats)?;
    let path = dir.join(REPEATS_PAGE);
    rundir::replace(&path, markdown::render(&page(&repeats, dir)).as_bytes())?;
    let files = [path, dir.join(REPEATS_TABLE)].map(|path| path.display().to_string());
    warn_if_unprinted(print_result(json, &repeats, || brief(&repeats, &files)));
    Ok(repeats)
}

/// Returns the exit code of the pooled answer: that of the first series, or of the best variant.
fn code_of(dir: &Path, plan: &Plan, repeats: &Repeats) -> Result<u8> {
    if !is_complete(repeats) {
        return Ok(UNDECIDED);
    }
    let code = |p: &PooledAnswer| match p.status {
        Status::Found => 0,
        Status::None => 2,
        Status::NotReached => of_met(plan, p.bracket.and_then(|ends| ends[0])),
        Status::Undecided | Status::Invalid => UNDECIDED,
    };
    let code = match (&repeats.pooled[..], plan.variants().is_empty()) {
        ([], _) => UNDECIDED,
        ([first, ..], true) => code(first),
        (all, false) => {
            let mut codes: Vec<u8> = all.iter().map(code).collect();
            codes.sort_by_key(|code| [0, UNDECIDED, 2].iter().position(|c| c == code));
            codes[0]
        }
    };
    if code != 0 || plan.hardware.max_cost_per_mtok.is_none() {
        return Ok(code);
    }
    // With a cost limit, the runs must agree on whether their rates stay within it.
    let mut codes = Vec::new();
    for folder in repeats::begun(dir)? {
        codes.push(exit_code(&rundir::read(&folder)?, plan));
    }
    codes.dedup();
    Ok(if let [only] = codes[..] { only } else { UNDECIDED })
}
