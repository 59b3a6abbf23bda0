//! `compare --measure`: measures two servers in turns into one run folder.

use crate::caveat::{Caveat, SweepCaveat};
use crate::cli::CompareArgs;
use crate::client::BaseUrl;
use crate::cmd::consent;
use crate::cmd::report;
use crate::cmd::sweep::{INTERRUPTED, default_folder, drive};
use crate::compare::pair::{self, Schedule};
use crate::plan::{Plan, Source};
use crate::report::ChartFiles;
use crate::rundir::{self, Run};
use crate::search::config::{Mode, SearchPlan};
use crate::slo::Metric;
use crate::stats::step::Step;
use crate::sweep::{self, Options};
use crate::units::{NonEmpty, Rate, Span};
use anyhow::{Context, Result, bail};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Divisor of the budget for one ramp step. A ramp to 100 requests/s has eight steps, and there are two ramps.
const RAMP_STEPS: u32 = 120;
/// Folder of the ramps, within the run folder.
const RAMPS: &str = "ramp";
/// Folder of the probe steps, which show how long requests take, within the run folder.
const PROBES: &str = "probe";
/// Requests in a probe step.
const PROBE_REQUESTS: f64 = 20.0;
/// Lower bound on the assumed duration of the longest requests.
const LEAST_REQUEST: Duration = Duration::from_secs(1);

/// Measures both servers and returns the run folder. The inner error is the exit code of an interruption.
pub(super) fn measure(args: &CompareArgs) -> Result<Result<PathBuf, ExitCode>> {
    let sides = sides(args)?;
    pair::check(&sides)?;
    let name = format!("compare {} {}", sides[0].0, sides[1].0);
    let out = args.out.clone().unwrap_or_else(|| default_folder(&name));
    rundir::check_free(&out, args.force)?;
    consent::ask(&[&sides[0].1, &sides[1].1], args.yes)?;
    let started = tokio::time::Instant::now();
    let explored = match listed(args, &sides)? {
        Some(rates) => {
            // A budget too small even for the shortest requests is refused before anything is sent.
            Schedule::of(args.budget.0, rates.len(), LEAST_REQUEST)?;
            probes(args, &sides, &out, rates)?
        }
        None => ramps(args, &sides, &out)?,
    };
    let Exploration { rates, spent, longest_request } = match explored {
        Err(code) => return Ok(Err(code)),
        Ok(explored) => explored,
    };
    // In simulated time, only the simulated duration counts against the budget.
    let spent = if args.virtual_time { spent } else { spent.max(started.elapsed()) };
    let schedule = Schedule::of(args.budget.0.saturating_sub(spent), rates.len(), longest_request)?;
    let shown: Vec<String> = rates.iter().map(ToString::to_string).collect();
    let plan = pair::plan(&sides, NonEmpty::try_from(rates).map_err(anyhow::Error::msg)?, &schedule)?;
    tracing::info!(
        "measuring in turns at {} req/s: {} steps of each server, each {} s measured after {} s settling",
        shown.join(" and "),
        schedule.turns.get() as usize * shown.len(),
        schedule.measure.as_secs(),
        schedule.settle.as_secs()
    );
    let left = args.budget.0.saturating_sub(spent);
    let options = Options { budget: Some(left), force: true, ..options(args, &out) };
    let measured = drive(args.virtual_time, &out, &options.groups, async |interrupt| {
        sweep::run(&plan, &options, interrupt).await.map(drop)
    })?;
    if let Err(code) = measured {
        return Ok(Err(code));
    }
    let (run, _) = report::remake(&out, ChartFiles::Drawn)?;
    if run.caveats.contains(&Caveat::Sweep(SweepCaveat::Interrupted)) {
        tracing::warn!(
            "interrupted: `goodput compare {0}` compares what was measured; `goodput sweep --resume {0}` resumes",
            out.display()
        );
        return Ok(Err(ExitCode::from(INTERRUPTED)));
    }
    Ok(Ok(out))
}

fn options(args: &CompareArgs, out: &Path) -> Options {
    Options {
        out: out.to_owned(),
        force: args.force,
        virtual_time: args.virtual_time,
        progress: std::io::stderr().is_terminal(),
        ..Options::default()
    }
}

/// Returns the plans of the two sides, each with its name.
fn sides(args: &CompareArgs) -> Result<[(String, Plan); 2]> {
    let [a, b] = &args.runs[..] else {
        bail!("--measure takes two plans or URLs, got {}", args.runs.len());
    };
    if args.plan.is_some() && !is_url(a) && !is_url(b) {
        bail!("--plan is for servers given by URL, but both sides are plans: leave --plan out");
    }
    let plans = [plan(args, a)?, plan(args, b)?];
    let mut names = [name(a), name(b)];
    if names[0].to_lowercase() == names[1].to_lowercase() {
        names = ["A", "B"].map(str::to_owned);
    }
    let [first, second] = plans;
    let [one, other] = names;
    Ok([(one, first), (other, second)])
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Loads the plan of a side, with the server's URL filled in if the side is a URL.
fn plan(args: &CompareArgs, side: &str) -> Result<Plan> {
    let quoted = |text: &str| toml::Value::String(text.to_owned());
    let mut sets = Vec::new();
    let source = if is_url(side) {
        // The message does not quote the URL, which may contain a password.
        let which = if args.runs.first().is_some_and(|first| first == side) { "first" } else { "second" };
        let url: BaseUrl = side.parse().map_err(|e| anyhow::anyhow!("the {which} server: {e}"))?;
        sets.push(format!("server.url={}", quoted(&url.to_string())));
        args.plan.as_deref().map_or_else(|| Ok(Source::fallback()), Source::find)?
    } else {
        Source::find(Path::new(side))?
    };
    sets.extend(args.slo.as_deref().map(|slo| format!("slo={{profile={}}}", quoted(slo))));
    sets.extend(args.set.iter().cloned());
    Plan::load(&source, &sets)
}

/// Returns the name of a side: the stem of a file name, or the host and port of a URL.
fn name(side: &str) -> String {
    let text = match side.split_once("://") {
        Some((_, rest)) => rest.split('/').next().unwrap_or(rest).to_owned(),
        None => Path::new(side).file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default(),
    };
    let plain: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches(['.', '-']).to_owned();
    if plain.is_empty() || plain == crate::plan::MAIN { "A".to_owned() } else { plain }
}

/// Returns the rates of `--rate`, else those that both plans list; `None` if there are none.
fn listed(args: &CompareArgs, sides: &[(String, Plan); 2]) -> Result<Option<Vec<Rate>>> {
    if !args.rate.is_empty() {
        return Ok(Some(args.rate.clone()));
    }
    let of = |plan: &Plan| match &plan.search.mode {
        Mode::Rates(rates) => Some(rates.to_vec()),
        _ => None,
    };
    match (of(&sides[0].1), of(&sides[1].1)) {
        (Some(a), Some(b)) if a != b => {
            bail!("the plans list different rates: choose rates for both with --rate")
        }
        (Some(a), Some(_)) => Ok(Some(a)),
        _ => Ok(None),
    }
}

/// Findings of the short steps before the comparison.
struct Exploration {
    /// Rates to compare at.
    rates: Vec<Rate>,
    /// Time that the short steps took.
    spent: Duration,
    /// Duration of the longest requests.
    longest_request: Duration,
}

/// Findings of the short steps, or the exit code of an interruption.
type Explored = Result<Exploration, ExitCode>;

/// Measures a short step of each server at the lowest of the rates, to learn how long requests take.
fn probes(args: &CompareArgs, sides: &[(String, Plan); 2], out: &Path, rates: Vec<Rate>) -> Result<Explored> {
    let (mut spent, mut longest_request) = (Duration::ZERO, LEAST_REQUEST);
    let lowest = rates
        .iter()
        .copied()
        .min_by(|a, b| a.get().total_cmp(&b.get()))
        .context("there is no rate to measure at")?;
    // Bounded, so that the probe takes a small part of the budget.
    let enough = Duration::from_secs_f64((PROBE_REQUESTS / lowest.get()).min(600.0));
    let measure =
        enough.clamp(Duration::from_secs(2), (args.budget.0 / RAMP_STEPS * 4).max(Duration::from_secs(2)));
    for (name, plan) in sides {
        let mut plan = plan.clone();
        let one = NonEmpty::try_from(vec![lowest]).map_err(anyhow::Error::msg)?;
        plan.search =
            SearchPlan { mode: Mode::Rates(one), max_rate: plan.search.max_rate, ..SearchPlan::default() };
        (plan.step.settle, plan.step.measure, plan.step.min_requests) = (Span::secs(1), Span(measure), 0);
        plan.profile = None;
        tracing::info!("probing {name} with a short step, to see how long its requests take");
        let run = match explore(args, &plan, &out.join(PROBES).join(name))? {
            Err(code) => return Ok(Err(code)),
            Ok(run) => run,
        };
        let Some(longest) = run.steps.iter().filter_map(longest).max() else {
            bail!(
                "{name} answered no request of a short step at {} req/s, so there is nothing to compare: check the server; the step is in {}",
                lowest.get(),
                out.join(PROBES).join(name).display()
            );
        };
        // The longest of more requests, at a higher load, takes longer.
        longest_request = longest_request.max(longest * 2);
        spent += duration(&run);
    }
    Ok(Ok(Exploration { rates, spent, longest_request }))
}

/// Measures a plan that is not part of the comparison and returns its run, or the exit code of an interruption.
fn explore(args: &CompareArgs, plan: &Plan, dir: &Path) -> Result<Result<Run, ExitCode>> {
    let options = Options { force: true, ..options(args, dir) };
    let measured = drive(args.virtual_time, dir, &options.groups, async |interrupt| {
        sweep::run(plan, &options, interrupt).await.map(drop)
    })?;
    if let Err(code) = measured {
        return Ok(Err(code));
    }
    let (run, _) = report::remake(dir, ChartFiles::Drawn)?;
    if run.caveats.contains(&Caveat::Sweep(SweepCaveat::Interrupted)) {
        tracing::warn!(
            "interrupted before the comparison began, so there is nothing to resume: start it again; --rate skips the ramps"
        );
        return Ok(Err(ExitCode::from(INTERRUPTED)));
    }
    Ok(Ok(run))
}

/// Returns the time from the start of a run to the end of its last step.
fn duration(run: &Run) -> Duration {
    Duration::from_secs_f64(run.steps.last().map_or(0.0, |s| s.ended_s.max(0.0)))
}

/// Measures a short ramp of each server, to find rates that both sustain.
fn ramps(args: &CompareArgs, sides: &[(String, Plan); 2], out: &Path) -> Result<Explored> {
    let (mut spent, mut highest, mut longest_request) = (Duration::ZERO, f64::INFINITY, LEAST_REQUEST);
    for (name, plan) in sides {
        let mut plan = plan.clone();
        let most = plan.search.max_rate;
        let start = most.map_or(1.0, |m| (m.get() / 1_000.0).max(1.0)).min(most.map_or(1.0, Rate::get));
        let ramp = toml::from_str(&format!("ramp = {{ start = {start}, factor = 2.0 }}"))
            .context("the ramp does not parse")?;
        plan.search = SearchPlan {
            max_rate: Some(most.map_or(Rate::try_from(1_000.0), Ok).map_err(anyhow::Error::msg)?),
            ..ramp
        };
        let measure = (args.budget.0 / RAMP_STEPS).clamp(Duration::from_secs(2), Duration::from_secs(10));
        (plan.step.settle, plan.step.measure, plan.step.min_requests) = (Span::secs(1), Span(measure), 0);
        plan.profile = None;
        let dir = out.join(RAMPS).join(name);
        tracing::info!("no --rate given: a short ramp finds the rates that {name} sustains");
        let run = match explore(args, &plan, &dir)? {
            Err(code) => return Ok(Err(code)),
            Ok(run) => run,
        };
        let best = highest_sustained(&run).with_context(|| {
            format!(
                "{name} sustained no rate of a short ramp from {start} req/s: choose the rates with --rate; the ramp is in {}",
                dir.display()
            )
        })?;
        highest = highest.min(best.level.value);
        // The comparison runs at lower rates, where requests take no longer.
        longest_request = longest_request.max(longest(best).unwrap_or_default());
        spent += duration(&run);
    }
    let rates = pair::rates(highest).into_iter().map(Rate::try_from).collect::<Result<Vec<_>, _>>();
    Ok(Ok(Exploration { rates: rates.map_err(anyhow::Error::msg)?, spent, longest_request }))
}

/// Returns the highest step that was not overloaded and achieved at least 80 % of the offered rate.
fn highest_sustained(run: &Run) -> Option<&Step> {
    let sustained = |s: &&Step| {
        !s.kind.is_outside_search()
            && !s.overloaded()
            && s.completed > 0
            && s.achieved_rate >= 0.8 * s.offered_rate
    };
    run.steps.iter().filter(sustained).max_by(|a, b| a.level.value.total_cmp(&b.level.value))
}

/// Returns the p99 of the end-to-end latency of a step's requests.
fn longest(step: &Step) -> Option<Duration> {
    let ms = step.quantiles(Metric::E2e).p99.filter(|ms| ms.is_finite())?;
    Some(Duration::from_secs_f64((ms / 1e3).clamp(0.0, 3_600.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_have_plain_names() {
        for (side, is) in [
            ("http://127.0.0.1:8000/v1", "127.0.0.1-8000"),
            ("plans/a b.toml", "a-b"),
            ("demo", "demo"),
            ("https://gpu-1.example", "gpu-1.example"),
            ("../.toml", "toml"),
        ] {
            assert_eq!(name(side), is, "{side}");
        }
    }
}
