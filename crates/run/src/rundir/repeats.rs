//! A folder with several runs of one plan, as created by `sweep --repeat`: `run-01`, `run-02` and so on are run
//! folders, and the files next to them contain the pooled results.

mod pooled;

pub use pooled::{CONFIDENCE, PooledAnswer, Shortfall, study};

use super::table::repeats_table;
use super::{Meta, PLAN, RESULT, Run, files, replace};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, SweepCaveat};
use goodput_core::units::Span;
use goodput_plan::{MeasuredServer, MeasuredWorkload, Plan};
use goodput_stats::search::answer::Answer;
use goodput_stats::search::config::Mode;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Settings, runs and their pooled answers.
pub const REPEATS: &str = "repeats.json";
/// One row per run and answer.
pub const REPEATS_TABLE: &str = "repeats.csv";
/// Markdown page for readers.
pub const REPEATS_PAGE: &str = "repeats.md";
/// Name of the format of [`REPEATS`].
pub const SCHEMA: &str = "goodput-repeats/1";

/// Maximum number of runs in one folder.
pub const MOST: u32 = 999;

/// Settings of the runs of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "RepeatSettings")]
pub struct Settings {
    /// Number of runs.
    pub repeats: u32,
    /// True if a server that the plan starts is restarted between runs.
    pub restart: bool,
    /// True if time is simulated.
    pub virtual_time: bool,
    /// Time budget of each run if the plan lists its levels; the adaptive search has its budget in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Span>,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "RunState")]
pub enum State {
    /// Not started, or ended before its first step.
    Waiting,
    /// Stopped from outside before the search finished.
    Interrupted,
    /// The search is finished.
    Done,
}

impl State {
    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Done => "done",
        }
    }
}

/// One run of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RepeatedRun {
    /// Number of the run, from 1.
    pub run: u32,
    /// Name of its folder, relative to the folder of all runs.
    pub folder: String,
    /// Seed of its plan.
    pub seed: u32,
    /// Start time (RFC 3339).
    pub started: Option<String>,
    /// Progress of the run.
    pub state: State,
    /// Its answers for each series, tier and class.
    pub answers: Vec<Answer>,
}

/// Several runs of one plan, and their pooled results. Fields may be added under the same `schema`; none changes its meaning. A
/// number that is not finite is null.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Repeats {
    /// Name and version of the format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Version of goodput that wrote it.
    pub goodput_version: &'static str,
    /// The plan's name.
    pub name: String,
    /// Server, model, workload and SLO.
    pub about: About,
    /// The settings of the runs.
    pub settings: Settings,
    /// The runs, in order.
    pub runs: Vec<RepeatedRun>,
    /// Pooled answer of each series, tier and class; the first is the main answer.
    pub pooled: Vec<PooledAnswer>,
}

/// Server, model, workload and SLO of the runs; `None` and empty until a run has started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RepeatedPlan")]
pub struct About {
    /// The server.
    pub server: Option<MeasuredServer>,
    /// The model.
    pub model: String,
    /// The workload.
    pub workload: Option<MeasuredWorkload>,
    /// Summary of the SLO.
    pub slo: String,
}

impl From<&Meta> for About {
    fn from(meta: &Meta) -> Self {
        Self {
            server: Some(meta.server.clone()),
            model: meta.model.clone(),
            workload: Some(meta.workload.clone()),
            slo: meta.slo.clone(),
        }
    }
}

/// Returns the JSON Schema of `repeats.json`.
pub fn schema() -> serde_json::Value {
    goodput_core::output_schema::of::<Repeats>("Repeated runs of goodput")
}

/// Returns true if a folder holds the runs of `sweep --repeat`.
pub fn is_repeated(dir: &Path) -> bool {
    dir.join(REPEATS).is_file()
}

/// Returns the folder of a run.
pub fn folder_of(dir: &Path, run: u32) -> PathBuf {
    dir.join(name_of(run))
}

/// Returns the name of a run's folder.
fn name_of(run: u32) -> String {
    format!("run-{run:02}")
}

/// Returns the seed of a run: the plan's seed for the first run, and one more for each later run.
pub fn seed_of(plan: &Plan, run: u32) -> u32 {
    plan.seed.wrapping_add(run - 1)
}

/// Returns the run folders that were started, in order.
///
/// # Errors
/// Fails if the settings cannot be read, or no run was started.
pub fn begun(dir: &Path) -> Result<Vec<PathBuf>> {
    let settings = settings(dir)?;
    let all = (1..=settings.repeats).map(|run| folder_of(dir, run));
    let begun: Vec<PathBuf> = all.filter(|dir| dir.join(RESULT).is_file()).collect();
    if begun.is_empty() {
        bail!("{} holds no run yet: `goodput sweep --resume {0}` measures them", dir.display());
    }
    Ok(begun)
}

/// Reads the settings of the runs of a folder.
///
/// # Errors
/// Fails if the file is missing or has another format.
pub fn settings(dir: &Path) -> Result<Settings> {
    let path = dir.join(REPEATS);
    let value: serde_json::Value = serde_json::from_str(&files::text(&path)?)
        .with_context(|| format!("{} is not JSON", path.display()))?;
    if value["schema"] != SCHEMA {
        bail!("{} has the schema {}, and this version reads {SCHEMA:?}", path.display(), value["schema"]);
    }
    let settings: Settings = serde_json::from_value(value["settings"].clone())
        .with_context(|| format!("in {}: settings", path.display()))?;
    if !(1..=MOST).contains(&settings.repeats) {
        bail!("{} asks for {} runs, and 1 to {MOST} can be made", path.display(), settings.repeats);
    }
    Ok(settings)
}

/// Reads the plan of all runs, with the seed of the first run.
///
/// # Errors
/// Fails if the file cannot be read, or is not a plan.
pub fn plan(dir: &Path) -> Result<Plan> {
    let path = dir.join(PLAN);
    Plan::parse_explained(&files::plan_text(&path)?).with_context(|| format!("in {}", path.display()))
}

/// Initialises a folder with the plan of all runs and their settings.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn begin(dir: &Path, plan: &Plan, settings: &Settings) -> Result<()> {
    super::make_folder(dir)?;
    replace(&dir.join(PLAN), plan.to_toml()?.as_bytes())?;
    write(dir, &assemble(plan, settings.clone(), Vec::new()))
}

/// Reads all runs of a folder and pools their answers.
///
/// # Errors
/// Fails if the folder, or a run in it, cannot be read.
pub fn read(dir: &Path) -> Result<Repeats> {
    let (settings, plan) = (settings(dir)?, plan(dir)?);
    let mut found = Vec::new();
    for run in 1..=settings.repeats {
        let own = folder_of(dir, run);
        files::is_own_folder(&own)?;
        if own.join(RESULT).is_file() {
            found.push((run, super::read(&own).with_context(|| format!("in {}", own.display()))?));
        }
    }
    Ok(assemble(&plan, settings, found))
}

/// Combines runs, including those that were not started.
fn assemble(plan: &Plan, settings: Settings, found: Vec<(u32, Run)>) -> Repeats {
    let about = found.first().map(|(_, run)| About::from(&run.meta)).unwrap_or_default();
    let mut found = found.into_iter().peekable();
    let mut runs = Vec::new();
    for run in 1..=settings.repeats {
        let read = found.next_if(|(number, _)| *number == run).map(|(_, read)| read);
        let ended = |read: &Run| {
            read.caveats
                .iter()
                .any(|c| c.ends_sweep() || matches!(c, Caveat::Sweep(SweepCaveat::PartialStep { .. })))
        };
        let state = match &read {
            None => State::Waiting,
            Some(read) if ended(read) => State::Interrupted,
            Some(_) => State::Done,
        };
        runs.push(RepeatedRun {
            run,
            folder: name_of(run),
            seed: read.as_ref().map_or_else(|| seed_of(plan, run), |read| read.meta.seed),
            started: read.as_ref().map(|read| read.meta.started.clone()),
            state,
            answers: read.map(|read| read.answers).unwrap_or_default(),
        });
    }
    let confidence = match &plan.search.mode {
        Mode::Adaptive(adaptive) => adaptive.confidence.get(),
        _ => CONFIDENCE,
    };
    let pooled = pooled::of_runs(&runs, confidence);
    Repeats {
        schema: SCHEMA,
        goodput_version: env!("CARGO_PKG_VERSION"),
        name: plan.name.clone(),
        about,
        settings,
        runs,
        pooled,
    }
}

/// Writes the pooled results as JSON and CSV. The report writes the page.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(dir: &Path, repeats: &Repeats) -> Result<()> {
    let json = serde_json::to_string_pretty(repeats).context("failed to write the repeats as JSON")?;
    replace(&dir.join(REPEATS), json.as_bytes())?;
    replace(&dir.join(REPEATS_TABLE), &repeats_table(&repeats.runs)?)
}

/// Removes the runs and files of an earlier `sweep --repeat`, and nothing else.
///
/// # Errors
/// Fails if the folder contains no such runs, a sweep is writing into one of them, or a file cannot be removed.
pub fn clear(dir: &Path) -> Result<()> {
    if !is_repeated(dir) {
        bail!(
            "{} holds files, and no runs of --repeat: --force replaces earlier runs only; choose another folder with --out",
            dir.display()
        );
    }
    for run in 1..=settings(dir)?.repeats {
        let own = folder_of(dir, run);
        if own.is_dir() {
            super::check_free(&own, true)?;
            super::clear::clear(&own)?;
            // A folder with other contents stays, as do these contents.
            let _ = fs::remove_dir(&own);
        }
    }
    Ok(())
}
