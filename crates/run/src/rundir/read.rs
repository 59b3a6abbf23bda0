//! Reads a run folder of a finished, interrupted or killed sweep.

use super::files;
use super::json::SCHEMA;
use super::recovery;
use super::scaled;
use super::sensitivity::Sensitivity;
use super::split::{RunFiles, searcher};
use super::spoilt;
use super::table::{RowStream, StepKey, StepRow, TableRow, read_rows};
use super::{
    CHECKS, FAILURES, FailureRow, GROUPS, HISTOGRAMS, LIMITS, METRICS, Meta, PLAN, REPLICAS, REQUESTS,
    RESULT, Run, SERVER, STEPS, SUMMARIES, Traces, View, WORKERS, Why,
};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, SweepCaveat};
use goodput_plan::Plan;
use goodput_stats::stats::groups::Group;
use goodput_stats::stats::step::{CheckRow, LimitRow, MetricRow, Replica, ServerSide, Step};
use goodput_stats::stats::workers::StepWorker;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};

/// All files whose rows are read here or by reports; each is checked to be a regular file before it is opened.
const FILES: [&str; 12] = [
    REQUESTS, FAILURES, HISTOGRAMS, METRICS, GROUPS, REPLICAS, WORKERS, CHECKS, SERVER, SUMMARIES, LIMITS,
    STEPS,
];
/// Maximum number of unfinished steps whose requests are counted; a killed sweep leaves one.
const MOST_PARTIAL: usize = 100;

/// Splits an argument `RUN` or `RUN#PART` into the run folder and its part: a series, a tier, or an answer. An
/// existing folder with a `#` in its name is not split.
pub fn folder_and_part(argument: &str) -> (PathBuf, Option<&str>) {
    match argument.rsplit_once('#') {
        Some((dir, part)) if !Path::new(argument).is_dir() => (dir.into(), Some(part)),
        _ => (argument.into(), None),
    }
}

/// Reads everything that a report needs except the scaled limits, which [`read_with_scale`] adds. Unfinished steps
/// and torn last rows become caveats.
///
/// Fails if the folder is not a run folder, or if a row other than the last does not parse.
pub fn read(dir: &Path) -> Result<Run> {
    Ok(both(dir)?.0)
}

/// Reads a run like [`read`], with the answers under tighter and looser limits ([`super::SloScale`]). This reads
/// every request and judges it a dozen times, so only callers that show the result should use it.
///
/// Fails like [`read`], and if `requests.csv` cannot be read.
pub fn read_with_scale(dir: &Path) -> Result<Run> {
    let (run, plan) = both(dir)?;
    scaled_too(run, &plan, dir)
}

/// Reads a run like [`read_with_scale`], as one tier of its SLO sees it: its answer alone, and its verdicts.
///
/// # Errors
/// As [`read_with_scale`], and if the run has no tier of that name.
pub fn read_tier(dir: &Path, tier: &str) -> Result<Run> {
    let (run, plan) = answered(dir)?;
    let run = explained(run.of_tier(tier)?, &plan, dir)?;
    scaled_too(run, &plan, dir)
}

/// Adds the answers under tighter and looser limits.
fn scaled_too(mut run: Run, plan: &Plan, dir: &Path) -> Result<Run> {
    let mut scales = scaled::read(dir, &run, &plan.series())?;
    if run.parts.is_empty() {
        run.view.scale = scales.first_mut().and_then(Option::take);
    }
    for (part, scale) in run.parts.iter_mut().zip(scales) {
        part.view.scale = scale;
    }
    Ok(run)
}

/// A run with its plan.
fn both(dir: &Path) -> Result<(Run, Plan)> {
    let (run, plan) = answered(dir)?;
    let run = explained(run, &plan, dir)?;
    Ok((run, plan))
}

/// Adds the fits for charts and the findings.
fn explained(run: Run, plan: &Plan, dir: &Path) -> Result<Run> {
    // This is not done for each step of a running sweep: it needs a fit for every step, and the requests of some.
    let mut run = view(run, plan, dir)?;
    run.why = Why::of(plan, &run, dir)?;
    for i in 0..run.parts.len() {
        run.parts[i].why = run.why.part(run.parts[i].series());
    }
    Ok(run)
}

/// Reads a run with its answers and its plan, without the fits for charts and without its findings, which need the requests.
///
/// # Errors
/// As [`read`].
pub fn answered(dir: &Path) -> Result<(Run, Plan)> {
    let plan_path = dir.join(PLAN);
    if let Some(missing) = [PLAN, RESULT].into_iter().find(|name| !dir.join(name).is_file()) {
        bail!("{} is not a run folder: it has no {missing}", dir.display());
    }
    FILES.iter().try_for_each(|name| files::is_there(&dir.join(name)).map(drop))?;
    let plan_toml = files::plan_text(&plan_path)?;
    let plan = Plan::parse_explained(&plan_toml).with_context(|| format!("in {}", plan_path.display()))?;
    plan.try_series().map_err(|e| anyhow::anyhow!("in {}: {e}", plan_path.display()))?;
    let meta = read_meta(dir)?;
    let mut caveats = meta.noted.clone();
    let steps = read_steps(dir, &mut caveats)?;
    caveats.extend(partial_steps(dir, &steps)?);
    let failures = read_rows(dir, &mut caveats)?;
    let run = Run::assemble(&plan, plan_toml, meta, steps, failures, caveats)?;
    Ok((run, plan))
}

/// Adds the chart data of the fits.
fn view(mut run: Run, plan: &Plan, dir: &Path) -> Result<Run> {
    let series = plan.series();
    let first = series.first().context("a plan has at least one series")?;
    run.view = View::of(&searcher(&first.plan)?, &run.steps, run.answers.first());
    run.view.sensitivity = Sensitivity::read(dir, plan)?;
    let mut recoveries = recovery::read(dir, &run.steps, &series)?;
    if run.parts.is_empty() {
        run.view.recovery = recoveries.first_mut().and_then(Option::take);
        return Ok(run);
    }
    let traces = Traces::read(dir, &run.steps)?;
    for ((part, one), recovery) in run.parts.iter_mut().zip(&series).zip(recoveries) {
        part.view = View::of(&searcher(&one.plan)?, &part.steps, part.answers.first());
        part.view.medians =
            part.steps.iter().filter_map(|s| Some((s.step, traces.of(s)?.median_bounds()?))).collect();
        part.view.recovery = recovery;
    }
    Ok(run)
}

impl Run {
    /// Assembles a run from its files, or from a running sweep so far, and derives answers and caveats of every
    /// series.
    pub fn assemble(
        plan: &Plan,
        plan_toml: String,
        meta: Meta,
        steps: Vec<Step>,
        mut failures: Vec<FailureRow>,
        mut caveats: Vec<Caveat>,
    ) -> Result<Self> {
        caveats.extend(meta.resumed.last().map(|last| {
            Caveat::Sweep(SweepCaveat::Resumed {
                times: meta.resumed.len() as u32,
                at: last.at.clone(),
                step: last.step,
            })
        }));
        let (steps, spoilt) = spoilt::set_apart(steps, &mut failures);
        let found = RunFiles { plan_toml, meta, steps, spoilt, failures, noted: caveats };
        match &plan.series()[..] {
            rows if !plan.rows.is_empty() => Self::of_rows(plan, rows, found),
            variants if variants.iter().any(|s| s.variant.is_some()) => {
                Self::of_variants(plan, variants, found)
            }
            [only] => Self::of_series(&only.plan, &only.name, found),
            several => Self::of_all(plan, several, found),
        }
    }
}

/// The parts of `result.json` that are read. All others are skipped, not kept: the steps of a long sweep take megabytes.
#[derive(Deserialize)]
struct ResultFile {
    #[serde(default)]
    schema: serde_json::Value,
    #[serde(default)]
    meta: Option<Box<RawValue>>,
}

/// Maximum size of the metadata, in bytes: a thousand times that of a long sweep.
const LARGEST_META: usize = 8 << 20;

fn read_meta(dir: &Path) -> Result<Meta> {
    let path = dir.join(RESULT);
    let text = files::text(&path)?;
    let file: ResultFile =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let meta = file.meta.as_deref().map_or("null", RawValue::get);
    if meta.len() > LARGEST_META {
        bail!(
            "the meta of {} is larger than {} MiB, which no sweep writes",
            path.display(),
            LARGEST_META >> 20
        );
    }
    let schema = file.schema.as_str().unwrap_or_default();
    if schema != SCHEMA {
        let meta: serde_json::Value = serde_json::from_str(meta).unwrap_or_default();
        let by = meta["goodput_version"].as_str().unwrap_or("another program");
        bail!(
            "{} has the schema {schema:?}, as {by} writes it; goodput {} reads {SCHEMA:?}: use the version that made it",
            path.display(),
            env!("CARGO_PKG_VERSION")
        );
    }
    serde_json::from_str(meta).with_context(|| format!("in {}: meta", path.display()))
}

/// Rows of a file, grouped by step.
type ByStep<T> = HashMap<StepKey, Vec<T>>;

/// Reads a file with rows that each belong to a step.
fn by_step<T: TableRow>(dir: &Path, caveats: &mut Vec<Caveat>) -> Result<ByStep<T>> {
    let mut all: ByStep<T> = HashMap::new();
    for StepRow { series, step, row } in read_rows(dir, caveats)? {
        all.entry((series, step)).or_default().push(row);
    }
    Ok(all)
}

/// Keeps the last row of each key. A step that was killed between two files and measured again has its rows twice.
fn last_of_each<T, K: Eq + Hash>(rows: Option<Vec<T>>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut rows = rows.unwrap_or_default();
    let mut seen = HashSet::new();
    rows.reverse();
    rows.retain(|row| seen.insert(key(row)));
    rows.reverse();
    rows
}

pub(super) fn read_steps(dir: &Path, caveats: &mut Vec<Caveat>) -> Result<Vec<Step>> {
    let mut limits = by_step::<LimitRow>(dir, caveats)?;
    let mut groups = by_step::<Group>(dir, caveats)?;
    let mut replicas = by_step::<Replica>(dir, caveats)?;
    let mut workers = by_step::<StepWorker>(dir, caveats)?;
    let mut checks = by_step::<CheckRow>(dir, caveats)?;
    let mut server = by_step::<ServerSide>(dir, caveats)?;
    let mut metrics = by_step::<MetricRow>(dir, caveats)?;
    let mut steps: Vec<Step> = read_rows(dir, caveats)?;
    for step in &mut steps {
        let key = (step.series.clone(), step.step);
        step.limits =
            last_of_each(limits.remove(&key), |l| (l.tier.clone(), l.class.clone(), l.limit.clone()));
        step.groups = last_of_each(groups.remove(&key), |g| (g.by, g.name.clone()));
        step.replicas = last_of_each(replicas.remove(&key), |r| r.target);
        step.workers = last_of_each(workers.remove(&key), |w| w.worker);
        step.checks = last_of_each(checks.remove(&key), |r| (r.class.clone(), r.check.clone()));
        // Folders of earlier versions have only the columns of steps.csv.
        if let Some(own) = server.remove(&key).and_then(|mut all| all.pop()) {
            step.server = own;
        }
        step.metrics =
            last_of_each(metrics.remove(&key), |m| (m.source.clone(), m.name.clone(), m.labels.clone()));
    }
    Ok(steps)
}

/// Returns caveats for killed steps, which have requests on disk but no row of their own, and for torn rows.
fn partial_steps(dir: &Path, steps: &[Step]) -> Result<Vec<Caveat>> {
    let mut open: BTreeMap<u32, u64> = BTreeMap::new();
    let mut torn = false;
    let finished: HashSet<u32> = steps.iter().map(|s| s.step).collect();
    let Some(mut rows) = RowStream::open(&dir.join(REQUESTS))? else { return Ok(Vec::new()) };
    let columns = rows.heads().len();
    // A killed writer leaves a row with too few cells, or one that ends within a character.
    while let Some(row) = rows.next_row()? {
        match row.step {
            Some(step) if row.cells.len() == columns => {
                let kept = open.len() < MOST_PARTIAL || open.contains_key(&step);
                if step > 0 && kept && !finished.contains(&step) {
                    *open.entry(step).or_default() += 1;
                }
            }
            _ => torn = true,
        }
    }
    let mut found: Vec<Caveat> =
        torn.then(|| Caveat::Sweep(SweepCaveat::TornRow { file: REQUESTS.into() })).into_iter().collect();
    found.extend(
        open.into_iter().map(|(step, requests)| Caveat::Sweep(SweepCaveat::PartialStep { step, requests })),
    );
    Ok(found)
}
