//! `compare --measure`: two servers in turns, into an ordinary run folder.

use crate::caveat::Caveat;
use crate::cli::CompareArgs;
use crate::client::BaseUrl;
use crate::cmd::consent;
use crate::cmd::report;
use crate::cmd::sweep::{INTERRUPTED, default_folder, drive};
use crate::compare::pair::{self, Schedule};
use crate::plan::{Plan, Source};
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

/// So many steps as long as its own go into the budget: a ramp to 100 requests per second has eight, and there are two ramps.
const RAMP_STEPS: u32 = 120;
/// The folder of the ramps, within the run folder.
const RAMPS: &str = "ramp";
/// That of the steps that show how long requests take.
const PROBES: &str = "probe";
/// Requests of such a step.
const PROBED: f64 = 20.0;
/// The longest requests take this long at the least.
const LEAST_REQUEST: Duration = Duration::from_secs(1);

/// Measures both and returns the run folder; the inner error is the exit code of an interruption.
pub(super) fn measure(args: &CompareArgs) -> Result<Result<PathBuf, ExitCode>> {
    let sides = sides(args)?;
    pair::check(&sides)?;
    let name = format!("compare {} {}", sides[0].0, sides[1].0);
    let out = args.out.clone().unwrap_or_else(|| default_folder(&name));
    rundir::check_free(&out, args.force)?;
    consent::ask(&[&sides[0].1, &sides[1].1], args.yes)?;
    let started = tokio::time::Instant::now();
    let looked = match listed(args, &sides)? {
        Some(rates) => {
            // What is too little for the shortest requests is refused before anything is sent.
            Schedule::of(args.budget.0, rates.len(), LEAST_REQUEST)?;
            probes(args, &sides, &out, rates)?
        }
        None => ramps(args, &sides, &out)?,
    };
    let (rates, spent, request) = match looked {
        Err(code) => return Ok(Err(code)),
        Ok(looked) => looked,
    };
    // On the real clock what it took in all counts; in simulated time what it would have taken.
    let spent = if args.virtual_time { spent } else { spent.max(started.elapsed()) };
    let schedule = Schedule::of(args.budget.0.saturating_sub(spent), rates.len(), request)?;
    let shown: Vec<String> = rates.iter().map(ToString::to_string).collect();
    let plan = pair::plan(&sides, NonEmpty::try_from(rates).map_err(anyhow::Error::msg)?, &schedule)?;
    tracing::info!(
        "in turns at {} req/s: {} steps of each, {} s measured after {} s",
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
    let (run, _) = report::remake(&out)?;
    if run.caveats.contains(&Caveat::Interrupted) {
        tracing::warn!(
            "interrupted: `goodput compare {0}` compares what was measured; `goodput sweep --resume {0}` goes on",
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

/// The two plans, each with a name.
fn sides(args: &CompareArgs) -> Result<[(String, Plan); 2]> {
    let [a, b] = &args.runs[..] else {
        bail!("--measure takes two plans or URLs, and {} were given", args.runs.len());
    };
    if args.plan.is_some() && !is_url(a) && !is_url(b) {
        bail!("--plan is for servers that are given by URL, and both are plans");
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

/// The plan of a side.
fn plan(args: &CompareArgs, side: &str) -> Result<Plan> {
    let quoted = |text: &str| toml::Value::String(text.to_owned());
    let mut sets = Vec::new();
    let source = if is_url(side) {
        // Not quoted: it may hold a password.
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

/// What a side is called: of a file its stem, of a URL its host and port.
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

/// The rates that are asked for, or that both plans list.
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
            bail!("the plans list different rates: say with --rate at which both are measured")
        }
        (Some(a), Some(_)) => Ok(Some(a)),
        _ => Ok(None),
    }
}

/// The rates, how long it took to look, and how long the longest requests take; or the exit code of an interruption.
type Looked = Result<(Vec<Rate>, Duration, Duration), ExitCode>;

/// A short step of each server at the lowest of the rates that are asked for: how long its requests take.
fn probes(args: &CompareArgs, sides: &[(String, Plan); 2], out: &Path, rates: Vec<Rate>) -> Result<Looked> {
    let (mut spent, mut request) = (Duration::ZERO, LEAST_REQUEST);
    let lowest =
        rates.iter().copied().min_by(|a, b| a.get().total_cmp(&b.get())).context("a rate is asked for")?;
    // Some requests, within a small part of the budget.
    let enough = Duration::from_secs_f64((PROBED / lowest.get()).min(600.0));
    let measure =
        enough.clamp(Duration::from_secs(2), (args.budget.0 / RAMP_STEPS * 4).max(Duration::from_secs(2)));
    for (name, plan) in sides {
        let mut plan = plan.clone();
        let one = NonEmpty::try_from(vec![lowest]).map_err(anyhow::Error::msg)?;
        plan.search =
            SearchPlan { mode: Mode::Rates(one), max_rate: plan.search.max_rate, ..SearchPlan::default() };
        (plan.step.settle, plan.step.measure, plan.step.min_requests) = (Span::secs(1), Span(measure), 0);
        plan.profile = None;
        tracing::info!("a short step of {name} shows how long its requests take");
        let run = match looked_at(args, &plan, &out.join(PROBES).join(name))? {
            Err(code) => return Ok(Err(code)),
            Ok(run) => run,
        };
        let Some(longest) = run.steps.iter().filter_map(longest).max() else {
            bail!(
                "{name} answered no request of a short step at {} req/s, so there is nothing to compare; {} has the step",
                lowest.get(),
                out.join(PROBES).join(name).display()
            );
        };
        // At more load, and of more requests, the longest takes longer.
        request = request.max(longest * 2);
        spent += took(&run);
    }
    Ok(Ok((rates, spent, request)))
}

/// Measures what is no part of the comparison, and returns its run.
fn looked_at(args: &CompareArgs, plan: &Plan, dir: &Path) -> Result<Result<Run, ExitCode>> {
    let options = Options { force: true, ..options(args, dir) };
    let measured = drive(args.virtual_time, dir, &options.groups, async |interrupt| {
        sweep::run(plan, &options, interrupt).await.map(drop)
    })?;
    if let Err(code) = measured {
        return Ok(Err(code));
    }
    let (run, _) = report::remake(dir)?;
    if run.caveats.contains(&Caveat::Interrupted) {
        tracing::warn!(
            "interrupted before the comparison itself had begun: there is nothing to resume, start it again (--rate spares the ramps)"
        );
        return Ok(Err(ExitCode::from(INTERRUPTED)));
    }
    Ok(Ok(run))
}

/// What a run took.
fn took(run: &Run) -> Duration {
    Duration::from_secs_f64(run.steps.last().map_or(0.0, |s| s.ended_s.max(0.0)))
}

/// A short ramp of each server, one after the other: rates that both take.
fn ramps(args: &CompareArgs, sides: &[(String, Plan); 2], out: &Path) -> Result<Looked> {
    let (mut spent, mut highest, mut request) = (Duration::ZERO, f64::INFINITY, LEAST_REQUEST);
    for (name, plan) in sides {
        let mut plan = plan.clone();
        let most = plan.search.max_rate;
        let start = most.map_or(1.0, |m| (m.get() / 1_000.0).max(1.0)).min(most.map_or(1.0, Rate::get));
        let ramp = toml::from_str(&format!("ramp = {{ start = {start}, factor = 2.0 }}"))
            .context("the ramp is one")?;
        plan.search = SearchPlan {
            max_rate: Some(most.map_or(Rate::try_from(1_000.0), Ok).map_err(anyhow::Error::msg)?),
            ..ramp
        };
        let measure = (args.budget.0 / RAMP_STEPS).clamp(Duration::from_secs(2), Duration::from_secs(10));
        (plan.step.settle, plan.step.measure, plan.step.min_requests) = (Span::secs(1), Span(measure), 0);
        plan.profile = None;
        let dir = out.join(RAMPS).join(name);
        tracing::info!("no --rate: a short ramp of {name} shows what it takes");
        let run = match looked_at(args, &plan, &dir)? {
            Err(code) => return Ok(Err(code)),
            Ok(run) => run,
        };
        let best = taken(&run).with_context(|| {
            format!("{name} took no rate of a short ramp from {start} req/s: say with --rate at which both are to be measured; {} has the ramp", dir.display())
        })?;
        highest = highest.min(best.level.value);
        // The rates that are measured are lower, so that their requests take no longer.
        request = request.max(longest(best).unwrap_or_default());
        spent += took(&run);
    }
    let rates = pair::rates(highest).into_iter().map(Rate::try_from).collect::<Result<Vec<_>, _>>();
    Ok(Ok((rates.map_err(anyhow::Error::msg)?, spent, request)))
}

/// The highest step that ran to its end, stable, and achieved what was offered.
fn taken(run: &Run) -> Option<&Step> {
    let kept = |s: &&Step| {
        !s.kind.is_outside_search()
            && !s.overloaded()
            && s.completed > 0
            && s.achieved_rate >= 0.8 * s.offered_rate
    };
    run.steps.iter().filter(kept).max_by(|a, b| a.level.value.total_cmp(&b.level.value))
}

/// How long the longest requests of a step take, but for one in a hundred.
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
