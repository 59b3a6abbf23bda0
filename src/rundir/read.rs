//! Reading a run folder: finished, interrupted or killed.

use super::json::SCHEMA;
use super::split::{Found, searcher};
use super::table::{
    Row, read_check, read_group, read_limit, read_metric, read_replica, read_server, read_step,
};
use super::{
    CHECKS, FAILURES, FailureRow, GROUPS, LIMITS, Meta, PLAN, REPLICAS, REQUESTS, RESULT, Run, SERVER, STEPS,
    SUMMARIES, Traces, View, Why,
};
use crate::caveat::Caveat;
use crate::plan::Plan;
use crate::stats::groups::Group;
use crate::stats::step::{CheckRow, LimitRow, MetricRow, Replica, ServerSide, Step};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// Reads everything that a report needs. Steps that never ended, and torn last rows, become caveats.
///
/// Fails where the folder is no run folder, or a row other than the last does not parse.
pub fn read(dir: &Path) -> Result<Run> {
    let plan_path = dir.join(PLAN);
    if let Some(missing) = [PLAN, RESULT].into_iter().find(|name| !dir.join(name).is_file()) {
        bail!("{} is not a run folder: it has no {missing}", dir.display());
    }
    let plan_toml =
        fs::read_to_string(&plan_path).with_context(|| format!("failed to read {}", plan_path.display()))?;
    let plan = Plan::parse(&plan_toml).map_err(|e| anyhow::anyhow!("in {}: {e}", plan_path.display()))?;
    plan.try_series().map_err(|e| anyhow::anyhow!("in {}: {e}", plan_path.display()))?;
    let meta = read_meta(dir)?;
    let mut caveats = meta.noted.clone();
    let steps = read_steps(dir, &mut caveats)?;
    caveats.extend(partial_steps(dir, &steps)?);
    let failures = read_failures(dir, &mut caveats)?;
    let run = Run::assemble(&plan, plan_toml, meta, steps, failures, caveats)?;
    // Here and not for each step of a running sweep: it takes a fit for every step, and the requests of some.
    let mut run = view(run, &plan, dir)?;
    run.why = Why::of(&plan, &run, dir)?;
    for i in 0..run.parts.len() {
        run.parts[i].why = run.why.part(run.parts[i].series());
    }
    Ok(run)
}

/// With what the charts show of the fits.
fn view(mut run: Run, plan: &Plan, dir: &Path) -> Result<Run> {
    let series = plan.series();
    let first = series.first().context("a plan has at least one series")?;
    run.view = View::of(&searcher(&first.plan)?, &run.steps, run.answers.first());
    if run.parts.is_empty() {
        return Ok(run);
    }
    let traces = Traces::read(dir, &run.steps)?;
    for (part, one) in run.parts.iter_mut().zip(&series) {
        part.view = View::of(&searcher(&one.plan)?, &part.steps, part.answers.first());
        part.view.medians =
            part.steps.iter().filter_map(|s| Some((s.step, traces.of(s)?.median_bounds()?))).collect();
    }
    Ok(run)
}

impl Run {
    /// Joins what was read, or what a running sweep has so far, with what follows from it: answers and caveats, of every series.
    pub fn assemble(
        plan: &Plan,
        plan_toml: String,
        meta: Meta,
        steps: Vec<Step>,
        failures: Vec<FailureRow>,
        mut caveats: Vec<Caveat>,
    ) -> Result<Self> {
        caveats.extend(meta.resumed.last().map(|last| Caveat::Resumed {
            times: meta.resumed.len() as u32,
            at: last.at.clone(),
            step: last.step,
        }));
        let found = Found { plan_toml, meta, steps, failures, noted: caveats };
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

fn read_meta(dir: &Path) -> Result<Meta> {
    let path = dir.join(RESULT);
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let schema = value["schema"].as_str().unwrap_or_default();
    if schema != SCHEMA {
        let by = value["meta"]["goodput_version"].as_str().unwrap_or("another program");
        bail!(
            "{} has the schema {schema:?}, as {by} writes it; goodput {} reads {SCHEMA:?}: use the version that made it",
            path.display(),
            env!("CARGO_PKG_VERSION")
        );
    }
    serde_json::from_value(value["meta"].take()).with_context(|| format!("in {}: meta", path.display()))
}

/// Reads a CSV file row by row; a last row that is torn is dropped and noted.
fn rows(
    path: &Path,
    caveats: &mut Vec<Caveat>,
    mut each: impl FnMut(&csv::StringRecord, &csv::StringRecord) -> Result<()>,
) -> Result<()> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("failed to read {}", path.display())),
    };
    if bytes.is_empty() {
        return Ok(());
    }
    let torn = bytes.last() != Some(&b'\n');
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes.as_slice());
    let heads = reader.headers().with_context(|| format!("failed to read {}", path.display()))?.clone();
    let mut records = reader.into_records().peekable();
    while let Some(record) = records.next() {
        let last = records.peek().is_none();
        let parsed = record.map_err(anyhow::Error::from).and_then(|r| {
            if r.len() == heads.len() && !(last && torn) {
                each(&heads, &r)
            } else {
                Err(anyhow::anyhow!("{} cells instead of {}", r.len(), heads.len()))
            }
        });
        match parsed {
            Ok(()) => {}
            Err(_) if last && torn => {
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                caveats.push(Caveat::TornRow { file });
            }
            Err(e) => return Err(e).with_context(|| format!("failed to read a row of {}", path.display())),
        }
    }
    Ok(())
}

fn by_name<'a>(heads: &'a csv::StringRecord, record: &'a csv::StringRecord) -> Row<'a> {
    Row(heads.iter().zip(record.iter()).collect())
}

fn read_steps(dir: &Path, caveats: &mut Vec<Caveat>) -> Result<Vec<Step>> {
    let mut limits: HashMap<(String, u32), Vec<LimitRow>> = HashMap::new();
    rows(&dir.join(LIMITS), caveats, |heads, record| {
        let (key, limit) = read_limit(&by_name(heads, record))?;
        // A step that was killed between the two files, and measured again, has its limits twice: the last ones count.
        let own = limits.entry(key).or_default();
        own.retain(|l| (&l.tier, &l.class, &l.limit) != (&limit.tier, &limit.class, &limit.limit));
        own.push(limit);
        Ok(())
    })?;
    let mut groups: HashMap<(String, u32), Vec<Group>> = HashMap::new();
    rows(&dir.join(GROUPS), caveats, |heads, record| {
        let (key, group) = read_group(&by_name(heads, record))?;
        let own = groups.entry(key).or_default();
        own.retain(|g| (g.by, &g.name) != (group.by, &group.name));
        own.push(group);
        Ok(())
    })?;
    let mut replicas: HashMap<(String, u32), Vec<Replica>> = HashMap::new();
    rows(&dir.join(REPLICAS), caveats, |heads, record| {
        let (key, replica) = read_replica(&by_name(heads, record))?;
        let own = replicas.entry(key).or_default();
        own.retain(|r| r.target != replica.target);
        own.push(replica);
        Ok(())
    })?;
    let mut checks: HashMap<(String, u32), Vec<CheckRow>> = HashMap::new();
    rows(&dir.join(CHECKS), caveats, |heads, record| {
        let (key, check) = read_check(&by_name(heads, record))?;
        let own = checks.entry(key).or_default();
        own.retain(|r| (&r.class, &r.check) != (&check.class, &check.check));
        own.push(check);
        Ok(())
    })?;
    let mut server: HashMap<(String, u32), ServerSide> = HashMap::new();
    rows(&dir.join(SERVER), caveats, |heads, record| {
        let (key, side) = read_server(&by_name(heads, record))?;
        server.insert(key, side);
        Ok(())
    })?;
    let mut metrics: HashMap<(String, u32), Vec<MetricRow>> = HashMap::new();
    rows(&dir.join(SUMMARIES), caveats, |heads, record| {
        let (key, row) = read_metric(&by_name(heads, record))?;
        let own = metrics.entry(key).or_default();
        own.retain(|m| (&m.source, &m.name, &m.labels) != (&row.source, &row.name, &row.labels));
        own.push(row);
        Ok(())
    })?;
    let mut steps = Vec::new();
    rows(&dir.join(STEPS), caveats, |heads, record| {
        let mut step = read_step(&by_name(heads, record))?;
        let key = (step.series.clone(), step.step);
        step.limits = limits.remove(&key).unwrap_or_default();
        step.groups = groups.remove(&key).unwrap_or_default();
        step.replicas = replicas.remove(&key).unwrap_or_default();
        step.checks = checks.remove(&key).unwrap_or_default();
        step.server = server.remove(&key).unwrap_or(step.server);
        step.metrics = metrics.remove(&key).unwrap_or_default();
        steps.push(step);
        Ok(())
    })?;
    Ok(steps)
}

/// Steps with requests on disk but no row of their own: killed while they ran.
fn partial_steps(dir: &Path, steps: &[Step]) -> Result<Vec<Caveat>> {
    let mut open: BTreeMap<u32, u64> = BTreeMap::new();
    let mut torn = Vec::new();
    let finished: Vec<u32> = steps.iter().map(|s| s.step).collect();
    let path = dir.join(REQUESTS);
    if !path.is_file() {
        return Ok(torn);
    }
    let file = fs::File::open(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(std::io::BufReader::new(file));
    let heads = reader.byte_headers().map(csv::ByteRecord::len).unwrap_or(0);
    let mut record = csv::ByteRecord::new();
    // A killed writer leaves a row with too few cells, or ends in the middle of a character.
    while reader.read_byte_record(&mut record).unwrap_or(false) {
        let number =
            std::str::from_utf8(record.get(1).unwrap_or_default()).ok().and_then(|s| s.parse::<u32>().ok());
        match number {
            Some(step) if record.len() == heads => {
                if step > 0 && !finished.contains(&step) {
                    *open.entry(step).or_default() += 1;
                }
            }
            _ => torn.push(Caveat::TornRow { file: REQUESTS.into() }),
        }
    }
    torn.extend(open.into_iter().map(|(step, requests)| Caveat::PartialStep { step, requests }));
    Ok(torn)
}

fn read_failures(dir: &Path, caveats: &mut Vec<Caveat>) -> Result<Vec<FailureRow>> {
    let mut failures = Vec::new();
    rows(&dir.join(FAILURES), caveats, |heads, record| {
        failures.push(record.deserialize(Some(heads))?);
        Ok(())
    })?;
    Ok(failures)
}
