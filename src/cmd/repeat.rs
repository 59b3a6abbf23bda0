//! `sweep --repeat`: one plan several times, and the pooled answer of the runs.

use super::sweep::{INTERRUPTED, UNDECIDED, drive, exit_code, of_met};
use crate::caveat::Caveat;
use crate::cli::SweepArgs;
use crate::client::config::Target;
use crate::cmd::{consent, report, say};
use crate::launch::Groups;
use crate::plan::Plan;
use crate::report::repeats::{is_complete, line, page, terminal};
use crate::rundir::repeats::{self, PooledAnswer, REPEATS_PAGE, REPEATS_TABLE, Repeats, Settings};
use crate::rundir::{self, RESULT};
use crate::search::answer::Status;
use crate::search::config::Mode;
use crate::sim::config::DEFAULT_SEED;
use crate::sweep::{self, Keep, Options, Resumption};
use crate::units::Span;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a plan several times, each into a folder of its own within that of the options.
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
    go_on(dir, plan, &settings, options, args)
}

/// Goes on with the runs of a folder: the one that was interrupted, and those that were not begun. With `--repeat` there are so many in all.
pub(super) fn resume(dir: &Path, args: &SweepArgs) -> Result<ExitCode> {
    let (mut settings, mut plan) = (repeats::settings(dir)?, repeats::plan(dir)?);
    if let Some(wanted) = args.repeat {
        if wanted < settings.repeats {
            bail!(
                "{} has {} runs, and --repeat {wanted} asks for fewer: --resume only adds runs; remove the folders of those that are not wanted",
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
    consent::ask(&[&plan], args.yes)?;
    let options = Options {
        out: dir.to_owned(),
        force: args.force,
        virtual_time: settings.virtual_time,
        budget: settings.budget.map(|b| b.0),
        progress: std::io::IsTerminal::is_terminal(&std::io::stderr()),
        listen: args.listen,
        ..Options::default()
    };
    repeats::begin(dir, &plan, &settings)?;
    go_on(dir, &plan, &settings, &options, args)
}

/// Refuses what cannot be repeated, with the reason.
fn check(plan: &Plan, args: &SweepArgs) -> Result<()> {
    if !plan.rows.is_empty() || !plan.purpose.is_goodput() || plan.slo.is_none() {
        bail!(
            "--repeat pools rates that meet an SLO, and this plan looks for none (a matrix, a latency or a throughput): repeat it with a loop \
             of `goodput sweep`"
        );
    }
    if args.restart && !launches(plan) {
        bail!(
            "--restart restarts the server that a plan starts, and this plan starts none: no [[variant]] and no [grid] of it has a command; \
             start the server by a command there, or restart it yourself between sweeps and compare the folders (`goodput compare RUN RUN RUN \
             --against RUN RUN RUN`)"
        );
    }
    Ok(())
}

/// Returns true if a plan starts a server itself.
fn launches(plan: &Plan) -> bool {
    plan.series().iter().any(|one| one.variant.as_ref().is_some_and(|v| v.start.is_some()))
}

/// The end of one run of several.
enum Ended {
    /// Its search is done, or its own deadline has come.
    Itself,
    /// A signal, or a full disk: no further run is begun.
    All(u8),
}

/// Measures the runs that are not done, and writes and prints what they come to.
fn go_on(
    dir: &Path,
    plan: &Plan,
    settings: &Settings,
    options: &Options,
    args: &SweepArgs,
) -> Result<ExitCode> {
    let keep = if settings.restart || !launches(plan) { Keep::default() } else { Keep::between_sweeps() };
    let groups = Groups::default();
    announce(plan, settings, dir);
    let mut ended = Ok(Ended::Itself);
    for run in 1..=settings.repeats {
        let one = One { dir, plan, settings, options, keep: &keep, groups: &groups, run };
        ended = one.measure(args);
        if !matches!(ended, Ok(Ended::Itself)) {
            break;
        }
    }
    let stopped = stop(&keep);
    // Of runs that were measured before an error, what they come to is told all the same.
    let told = tell(dir, args.json);
    let ended = ended?;
    stopped?;
    let repeats = told?;
    Ok(ExitCode::from(match ended {
        Ended::All(code) => code,
        Ended::Itself => code_of(dir, plan, &repeats)?,
    }))
}

/// Says how many runs there are and how long they may take in all.
fn announce(plan: &Plan, settings: &Settings, dir: &Path) {
    let each: f64 = match settings.budget {
        Some(budget) => budget.0.as_secs_f64(),
        None => super::check::longest_of(plan),
    };
    let span = |s: f64| Span(std::time::Duration::from_secs(s.round() as u64));
    tracing::info!(
        "{} runs of {}, each {} at the longest, {} in all, into {}",
        settings.repeats,
        plan.name,
        span(each),
        span(each * f64::from(settings.repeats)),
        dir.display()
    );
}

/// One run of several.
struct One<'a> {
    dir: &'a Path,
    plan: &'a Plan,
    settings: &'a Settings,
    options: &'a Options,
    keep: &'a Keep,
    groups: &'a Groups,
    run: u32,
}

impl One<'_> {
    /// Measures the run, or goes on with it, and makes its reports; does nothing where it is done.
    fn measure(&self, args: &SweepArgs) -> Result<Ended> {
        let own = repeats::folder_of(self.dir, self.run);
        let begun = own.join(RESULT).is_file();
        let measured = if begun { self.go_on(&own, args)? } else { self.begin(&own)? };
        let Ok(measured) = measured else { return Ok(Ended::All(INTERRUPTED)) };
        if !measured {
            return Ok(Ended::Itself);
        }
        let (run, _) = report::remake(&own)?;
        let repeats = repeats::read(self.dir)?;
        repeats::write(self.dir, &repeats)?;
        if let Some(done) = repeats.runs.iter().find(|r| r.run == self.run) {
            tracing::info!("run {} of {}: {}", self.run, self.settings.repeats, line(done));
        }
        Ok(match () {
            () if run.caveats.contains(&Caveat::Interrupted) => {
                super::sweep::hint(self.dir);
                Ended::All(INTERRUPTED)
            }
            () if run.caveats.iter().any(|c| matches!(c, Caveat::DiskLow { .. })) => Ended::All(UNDECIDED),
            () => Ended::Itself,
        })
    }

    /// Measures the run from its beginning; returns true, since something was measured. The inner error is the exit code of an interruption before
    /// anything was.
    fn begin(&self, own: &Path) -> Result<Result<bool, ExitCode>> {
        let plan = seeded(self.plan, self.run);
        let options = Options {
            out: own.to_owned(),
            // What is there of it has no result: it was killed before anything was measured.
            force: own.exists(),
            groups: self.groups.clone(),
            keep: self.keep.clone(),
            ..self.options.clone()
        };
        tracing::info!(
            "run {} of {}, seed {}: {}",
            self.run,
            self.settings.repeats,
            plan.seed,
            own.display()
        );
        let measured = drive(options.virtual_time, self.dir, self.groups, async |interrupt| {
            sweep::run(&plan, &options, interrupt).await.map(drop)
        });
        Ok(measured.with_context(|| self.named())?.map(|()| true))
    }

    /// Goes on with the run; returns false where nothing was left to measure. The inner error is as in [`One::begin`].
    fn go_on(&self, own: &Path, args: &SweepArgs) -> Result<Result<bool, ExitCode>> {
        let resumption = Resumption::open(own, args.budget)
            .with_context(|| self.named())?
            .with_groups(self.groups.clone());
        resumption.check_plan(args.force).with_context(|| self.named())?;
        if resumption.is_done() {
            resumption.close(args.force)?;
            return Ok(Ok(false));
        }
        let options = Options { keep: self.keep.clone(), out: PathBuf::new(), ..self.options.clone() };
        tracing::info!("run {} of {} goes on: {}", self.run, self.settings.repeats, own.display());
        let measured = drive(resumption.virtual_time(), self.dir, self.groups, async |interrupt| {
            Box::pin(sweep::resume(resumption, &options, interrupt)).await.map(drop)
        });
        Ok(measured.with_context(|| self.named())?.map(|()| true))
    }

    fn named(&self) -> String {
        format!("in run {} of {}", self.run, self.settings.repeats)
    }
}

/// Stops the server that was kept between runs.
fn stop(keep: &Keep) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start a runtime")?.block_on(keep.stop())
}

/// Returns the plan of a run: its seed, and that of a simulated server, are one more for each run before it.
fn seeded(plan: &Plan, run: u32) -> Plan {
    let mut own = plan.clone();
    own.seed = repeats::seed_of(plan, run);
    if let Target::Simulated(table) = &mut own.server.target {
        shift(table, run - 1, true);
    }
    for variant in &mut own.variants {
        let simulated = variant.set.get_mut("server").and_then(|server| server.get_mut("simulated"));
        if let Some(table) = simulated.and_then(toml::Value::as_table_mut) {
            shift(table, run - 1, false);
        }
    }
    own
}

/// Adds to the seed of a simulated server; a missing seed is the default where `or_default`.
fn shift(table: &mut toml::Table, by: u32, or_default: bool) {
    const SEED: &str = "seed";
    let known = table.get(SEED).map(toml::Value::as_integer);
    let seed = match known {
        Some(seed) => seed,
        None => or_default.then_some(DEFAULT_SEED as i64),
    };
    if let Some(seed) = seed.filter(|_| by > 0) {
        table.insert(SEED.to_owned(), toml::Value::Integer(seed.saturating_add(i64::from(by))));
    }
}

/// Reads the runs of a folder, writes what they come to, and prints it.
pub(super) fn tell(dir: &Path, json: bool) -> Result<Repeats> {
    let repeats = repeats::read(dir)?;
    repeats::write(dir, &repeats)?;
    let path = dir.join(REPEATS_PAGE);
    rundir::replace(&path, page(&repeats, dir).as_bytes())?;
    if json {
        say(&serde_json::to_string_pretty(&repeats).context("failed to write the repeats as JSON")?)?;
        return Ok(repeats);
    }
    let files = [path, dir.join(REPEATS_TABLE)].map(|path| path.display().to_string());
    say(&terminal(&repeats, &files))?;
    Ok(repeats)
}

/// Returns the exit code of the pooled answer. Of several series the first one's decides, of variants the best one's.
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
    // A plan that limits what tokens may cost accepts only a rate that keeps the limit: in every run.
    let mut codes = Vec::new();
    for own in repeats::begun(dir)? {
        codes.push(exit_code(&rundir::read(&own)?, plan));
    }
    codes.dedup();
    Ok(if let [only] = codes[..] { only } else { UNDECIDED })
}
