//! `sweep`: runs a plan and reports the answer.

use crate::capacity::CostVerdict;
use crate::caveat::{Caveat, ServerCaveat, SweepCaveat};
use crate::cli::{FolderArgs, MeasureArgs, Output, SweepArgs};
use crate::cmd::offline::quoted;
use crate::cmd::within::is_whole;
use crate::cmd::{calibrate, consent, repeat, report, sensitivity, signals, try_advice, warn_if_unprinted};
use crate::launch::Groups;
use crate::plan::{Plan, Source};
use crate::report::watch;
use crate::rundir::matrix::RowAnswer;
use crate::rundir::repeats::{REPEATS, is_repeated};
use crate::rundir::{self, REPORT_PAGE, RESULT, Run, VariantAnswer};
use crate::search::answer::{Answer, Status};
use crate::search::config::Mode;
use crate::sweep::{self, LivePage, Options, Resumption, forecast};
use anyhow::{Context, Result, bail};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Exit code of an interrupted sweep: 128 + SIGINT, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// Exit code of a sweep that is undecided, invalid, or did not reach the highest level that the plan wants.
pub(super) const UNDECIDED: u8 = 3;

/// Runs or resumes a sweep, writes its reports and prints the answer.
pub(crate) fn sweep(args: &SweepArgs) -> Result<ExitCode> {
    match (&args.resume, args.repeat) {
        (Some(dir), _) if is_repeated(dir) => repeat::resume(dir, args),
        (Some(dir), Some(_)) => bail!(
            "{} is not a folder of repeated runs (it has no {REPEATS}), and --repeat with --resume adds runs to such a folder: leave out \
             --repeat to resume this run, or --resume to start anew",
            dir.display()
        ),
        (Some(dir), None) => resume(dir, args),
        (None, _) => begin(args),
    }
}

fn begin(args: &SweepArgs) -> Result<ExitCode> {
    let source = match &args.plan {
        Some(plan) => Source::find(plan)?,
        None => Source::fallback(),
    };
    let mut plan = Plan::load(&source, &sets(args))?;
    check_overrides(&plan, args)?;
    check_workers(&plan, args)?;
    consent::ask(&[&plan], args.measure.yes)?;
    // The adaptive search plans its steps within its budget; other modes only stop at the budget of the options.
    if let (Some(budget), Mode::Adaptive(adaptive)) = (args.budget, &mut plan.search.mode)
        && plan.rows.is_empty()
    {
        adaptive.budget = budget;
    }
    let options = Options {
        budget: args.budget.map(|b| b.0),
        calibration: args.calibration.as_deref().map(calibrate::read).transpose()?,
        listen: listen(args)?,
        workers: args.load.workers(),
        ..options(&plan, &args.measure, &args.folder)
    };
    match args.repeat {
        Some(repeats) => repeat::begin(&plan, &options, args, repeats),
        None => measure(&plan, &options, After::of(args)),
    }
}

/// Rejects workers for a plan of which a part would be sent by this machine alone, beside what workers have sent.
fn check_workers(plan: &Plan, args: &SweepArgs) -> Result<()> {
    if args.load.workers().is_some() && plan.sensitivity.is_some() {
        bail!(
            "[sensitivity] measures pairs of steps from this machine alone, which tell nothing about load from workers: leave out the table,              or measure without workers (goodput sensitivity RUN measures the pairs of a finished run)"
        );
    }
    Ok(())
}

/// Rejects --url and --model if every variant overrides them.
fn check_overrides(plan: &Plan, args: &SweepArgs) -> Result<()> {
    let series = plan.series();
    if series.iter().any(|s| s.variant.is_none()) {
        return Ok(());
    }
    if args.url.is_some() && series.iter().all(|s| s.plan.server.target != plan.server.target) {
        bail!("--url has no effect: every variant of this plan has its own url or server; leave --url out");
    }
    if args.model.is_some() && series.iter().all(|s| s.plan.server.model != plan.server.model) {
        bail!("--model has no effect: every variant of this plan sets server.model; leave --model out");
    }
    Ok(())
}

/// The work that follows a sweep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct After {
    /// Form of the reports and of the answer.
    pub(crate) output: Output,
    /// Largest number of remedies to try; `None` to try none.
    pub(crate) try_advice: Option<u32>,
    /// Measure remedies again that were measured before.
    pub(crate) again: bool,
}

impl After {
    /// Returns the work of commands that only report.
    pub(crate) const fn only(folder: &FolderArgs) -> Self {
        Self { output: folder.output(), try_advice: None, again: false }
    }

    const fn of(args: &SweepArgs) -> Self {
        Self { try_advice: args.try_advice, again: args.folder.force, ..Self::only(&args.folder) }
    }
}

/// Runs a plan into its folder, makes the reports and prints the answer.
pub(crate) fn measure(plan: &Plan, options: &Options, after: After) -> Result<ExitCode> {
    let measured = drive(options.virtual_time, &options.out, &options.groups, async |interrupt| {
        sweep::run(plan, options, interrupt).await.map(drop)
    })?;
    let code = measured.map_or_else(Ok, |()| finish(&options.out, plan, after))?;
    options.served.report(&options.out.join(REPORT_PAGE));
    Ok(code)
}

/// Measures the pairs that the plan asks for and tries the advice, makes the reports and prints the answer.
fn finish(dir: &Path, plan: &Plan, after: After) -> Result<ExitCode> {
    if let Err(code) = sensitivity::after_sweep(dir, plan)? {
        return Ok(code);
    }
    foresee(dir, plan)?;
    if let Some(most) = after.try_advice
        && let Err(code) = try_advice::after_sweep(dir, plan, most as usize, after.again)?
    {
        return Ok(code);
    }
    answer(dir, plan, after.output)
}

/// Simulates what single changes of the server would gain. The run keeps its answer without it.
fn foresee(dir: &Path, plan: &Plan) -> Result<()> {
    let (run, _) = rundir::answered(dir)?;
    if is_whole(&run)
        && let Err(e) = forecast::write(dir, plan, &run)
    {
        tracing::warn!("warning: the gains of changes were not simulated: {e:#}");
    }
    Ok(())
}

fn resume(dir: &Path, args: &SweepArgs) -> Result<ExitCode> {
    let resumption = Resumption::open(dir, args.budget)?;
    let plan = resumption.plan().clone();
    check_workers(&plan, args)?;
    resumption.check_plan(args.folder.force)?;
    if resumption.is_done() {
        if args.try_advice.is_some() {
            consent::ask(&[&plan], args.measure.yes)?;
        }
        resumption.close(args.folder.force)?;
        tracing::info!("nothing is left to measure in {}; rebuilding the reports", dir.display());
        return finish(dir, &plan, After::of(args));
    }
    // The folder may have been copied from elsewhere, so the user may not have confirmed its load.
    consent::ask(&[&plan], args.measure.yes)?;
    let progress = std::io::stderr().is_terminal();
    let options = Options {
        progress,
        listen: listen(args)?,
        force: args.folder.force,
        workers: args.load.workers(),
        ..Options::default()
    };
    let groups = resumption.groups();
    let measured = drive(resumption.virtual_time(), dir, &groups, async |interrupt| {
        Box::pin(sweep::resume(resumption, &options, interrupt)).await.map(drop)
    })?;
    let code = measured.map_or_else(Ok, |()| finish(dir, &plan, After::of(args)))?;
    options.served.report(&dir.join(REPORT_PAGE));
    Ok(code)
}

/// Returns the address of `--listen` with the page to serve there.
pub(super) fn listen(args: &SweepArgs) -> Result<Option<(SocketAddr, LivePage)>> {
    let Some(address) = args.listen else { return Ok(None) };
    let (html, policy) = watch::page()?;
    Ok(Some((address, LivePage { html, policy, words: watch::told })))
}

/// Runs a measurement on a new runtime, in real or simulated time. The inner error is the exit code of an interruption before anything was
/// measured.
pub(crate) fn drive(
    virtual_time: bool,
    out: &Path,
    groups: &Groups,
    measure: impl AsyncFnOnce(CancellationToken) -> Result<()>,
) -> Result<Result<(), ExitCode>> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime =
        runtime.enable_all().start_paused(virtual_time).build().context("failed to start a runtime")?;
    let interrupt = CancellationToken::new();
    let watched = signals::watch(interrupt.clone(), out, groups)?;
    let measured = runtime.block_on(measure(interrupt.clone()));
    drop(watched);
    match measured {
        Err(e) if interrupt.is_cancelled() => {
            tracing::warn!("{e:#}");
            hint(out);
            Ok(Err(ExitCode::from(INTERRUPTED)))
        }
        other => other.map(Ok),
    }
}

/// Makes the reports, prints the answer and returns its exit code.
pub(crate) fn answer(dir: &Path, plan: &Plan, output: Output) -> Result<ExitCode> {
    let (run, files) = report::remake(dir, output.charts)?;
    warn_if_unprinted(report::print(&run, &files, output.json));
    let code = exit_code(&run, plan);
    if code == INTERRUPTED {
        hint(dir);
    }
    Ok(ExitCode::from(code))
}

/// Logs how to resume an interrupted sweep, if there is something to resume.
pub(super) fn hint(dir: &Path) {
    hint_with(dir, "");
}

/// Logs how to resume an interrupted sweep with more arguments, if there is something to resume.
pub(super) fn hint_with(dir: &Path, arguments: &str) {
    if dir.join(RESULT).is_file() || is_repeated(dir) {
        let shown = dir.display().to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
        let shown =
            if shown.chars().all(plain) { shown } else { format!("'{}'", shown.replace('\'', r"'\''")) };
        tracing::warn!("to resume: goodput sweep --resume {shown}{arguments}");
    }
}

/// Converts the flags to overrides of plan keys. Later overrides win.
fn sets(args: &SweepArgs) -> Vec<String> {
    let mut sets = Vec::new();
    sets.extend(args.url.as_deref().map(|u| quoted("server.url", u)));
    sets.extend(args.model.as_deref().map(|m| quoted("server.model", m)));
    sets.extend(
        args.slo.as_deref().map(|s| format!("slo={{profile={}}}", toml::Value::String(s.to_owned()))),
    );
    sets.extend(args.confirm.map(|length| quoted("search.confirm", &length.to_string())));
    sets.extend(args.measure.set.iter().cloned());
    sets
}

/// Returns the options of a sweep as the command line gives them.
pub(crate) fn options(plan: &Plan, measure: &MeasureArgs, folder: &FolderArgs) -> Options {
    Options {
        out: folder.out.clone().unwrap_or_else(|| default_folder(&plan.name)),
        force: folder.force,
        virtual_time: measure.virtual_time,
        progress: std::io::stderr().is_terminal(),
        ..Options::default()
    }
}

/// Returns `runs/NAME-TIMESTAMP`, with the name reduced to letters, digits and dashes.
pub(crate) fn default_folder(name: &str) -> PathBuf {
    let slug: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let slug: Vec<&str> = slug.split('-').filter(|part| !part.is_empty()).collect();
    let slug = if slug.is_empty() { "sweep".to_owned() } else { slug.join("-") };
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    PathBuf::from("runs").join(format!("{slug}-{now}"))
}

/// Returns the exit code of a run. With several series or tiers, the first one decides, as for `goodput` in `result.json`.
pub(super) fn exit_code(run: &Run, plan: &Plan) -> u8 {
    if run.caveats.contains(&Caveat::Sweep(SweepCaveat::Interrupted)) {
        return INTERRUPTED;
    }
    if run.caveats.iter().any(Caveat::ends_sweep) {
        return UNDECIDED;
    }
    if !run.variants.is_empty() {
        return of_variants(run, plan);
    }
    if run.caveats.iter().any(|c| matches!(c, Caveat::Server(ServerCaveat::ServerGone { .. }))) {
        return UNDECIDED;
    }
    if !run.purpose.is_goodput() {
        return if run.steps.iter().any(|s| s.completed > 0) { 0 } else { UNDECIDED };
    }
    if !run.matrix.is_empty() {
        return of_matrix(run);
    }
    run.answers.first().map_or(UNDECIDED, |answer| by_cost(run, answer, of_answer(answer, plan)))
}

/// Turns exit code 0 into 2 or 3 if the plan has a cost limit that the rate exceeds or may exceed.
fn by_cost(run: &Run, answer: &Answer, code: u8) -> u8 {
    match run.cost_range(answer).map(|range| range.verdict) {
        Some(CostVerdict::Rejected) if code == 0 => 2,
        Some(CostVerdict::Undecided) if code == 0 => UNDECIDED,
        _ => code,
    }
}

fn of_answer(answer: &Answer, plan: &Plan) -> u8 {
    match answer.goodput.status() {
        Status::Found => 0,
        Status::None => 2,
        Status::NotReached => of_met(plan, answer.goodput.rate()),
        Status::Undecided | Status::Invalid => UNDECIDED,
    }
}

/// Returns the exit code for an SLO met up to the level `met`: 0 if that is the highest listed level or max-rate.
pub(super) fn of_met(plan: &Plan, met: Option<f64>) -> u8 {
    let listed = match &plan.search.mode {
        Mode::Rates(rates) => rates.iter().map(|r| r.get()).max_by(f64::total_cmp),
        Mode::Concurrency(list) => list.iter().map(|n| f64::from(n.get())).max_by(f64::total_cmp),
        Mode::Adaptive(_) | Mode::Ramp(_) | Mode::Ladder(_) | Mode::Burst(_) => None,
    };
    let wanted = listed.or(plan.search.max_rate.map(|r| r.get()));
    let reached = wanted.is_some_and(|w| met.unwrap_or(0.0) >= w * (1.0 - 1e-9));
    if reached { 0 } else { UNDECIDED }
}

/// Returns the exit code of the best variant, since the question is whether any of them meets the SLO; 1 if none was measured.
fn of_variants(run: &Run, plan: &Plan) -> u8 {
    let series = plan.series();
    let code = |v: &VariantAnswer| {
        let own = series.iter().find(|s| s.name == v.series)?;
        let answer = v.answer.as_ref()?;
        Some(by_cost(run.part(&v.series), answer, of_answer(answer, &own.plan)))
    };
    let mut codes: Vec<u8> = run.variants.iter().filter_map(code).collect();
    // The best code first: found, undecided, none.
    codes.sort_by_key(|code| [0, UNDECIDED, 2].iter().position(|c| c == code));
    codes.first().copied().unwrap_or(1)
}

/// Returns the exit code of a matrix: 0 if every expectation held.
fn of_matrix(run: &Run) -> u8 {
    let open = |r: &RowAnswer| r.figures.is_none() || (r.expected.is_some() && r.held.is_none());
    match () {
        () if run.matrix.iter().any(|r| r.held == Some(false)) => 2,
        () if run.matrix.iter().any(open) => UNDECIDED,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_plain_names() {
        let path = default_folder("A40, Qwen3-0.6B: 600 in / 30 out");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("a40-qwen3-0-6b-600-in-30-out-2"), "{name}");
        assert!(default_folder("///").file_name().unwrap().to_str().unwrap().starts_with("sweep-2"));
    }
}
