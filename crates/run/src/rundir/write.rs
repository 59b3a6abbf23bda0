//! Writing a run folder as the sweep goes: killed at any moment, what was measured is on disk.

use super::clear::{check_empty, clear};
use super::files::replace;
use super::hold::Hold;
use super::requests::{RequestRow, RequestsWriter};
use super::table::{
    CheckColumns, GroupColumns, HistogramColumns, LimitColumns, MetricColumns, ReplicaColumns, RowsWriter,
    SampleColumns, ServerColumns, StepColumns, append_rows, write_heads,
};
use super::{
    CHECKS, FAILURES, FailureRow, GROUPS, HISTOGRAMS, LIMITS, METRICS, PARTIAL, PLAN, REPLICAS, REQUESTS,
    RESULT, SERVER, STEPS, SUMMARIES, VARIANTS,
};
use anyhow::{Context, Result, bail};
use goodput_core::record::{Failure, Finished};
use goodput_stats::stats::step::Step;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Everything that a sweep writes into its folder; `charts/` besides.
pub(super) const OURS: &[&str] = &[
    PLAN,
    RESULT,
    STEPS,
    LIMITS,
    GROUPS,
    REPLICAS,
    CHECKS,
    REQUESTS,
    PARTIAL,
    FAILURES,
    HISTOGRAMS,
    METRICS,
    VARIANTS,
    SERVER,
    SUMMARIES,
    super::imported::COUNTED,
    "report.md",
    "report.html",
];

/// A pooled distribution of one step, for `histograms.csv`: class, metric, and (low, high, count) in microseconds.
pub type Histogram<'a> = (&'a str, &'a str, Vec<(u64, u64, u64)>);

/// A value of a metric at one moment, for `server-metrics.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Seconds from the start of the step.
    pub time_s: f64,
    /// What it is: `running`, `preemptions`, or the name and labels of a series of `[[metrics]]`.
    pub name: String,
    /// Its value; counters count from the server's start.
    pub value: f64,
    /// Whose: the place of the server among those of the plan, from 0, or the name of an entry of `[[metrics]]`.
    pub source: String,
}

/// The folder of a sweep that is running.
pub struct Writer {
    dir: PathBuf,
    /// Nobody else writes into it.
    _hold: Hold,
    requests: RequestsWriter,
    metrics: RowsWriter<SampleColumns>,
    /// By class, kind and status.
    failures: BTreeMap<(String, Failure, Option<u16>), (u64, String)>,
}

impl Writer {
    /// Makes the folder and every file in it, so that a path that cannot be written to fails before there is any load.
    ///
    /// A folder that is not empty is refused unless `force`; then the files of an earlier run are removed, and no others. One that a sweep
    /// is writing into is refused in any case.
    pub fn create(dir: &Path, plan_toml: &str, force: bool) -> Result<Self> {
        check_empty(dir, force)?;
        fs::create_dir_all(dir)
            .with_context(|| format!("failed to make the output folder {}", dir.display()))?;
        let hold = Hold::take(dir)?;
        // Somebody may have been faster.
        if check_empty(dir, force)? {
            clear(dir)?;
        }
        replace(&dir.join(PLAN), plan_toml.as_bytes())?;
        for name in [STEPS, LIMITS, FAILURES, HISTOGRAMS, METRICS] {
            create(&dir.join(name))?;
        }
        create(&dir.join(REQUESTS))?;
        Self::open(hold)
    }

    /// Goes on with the folder of a sweep that ended early, once [`super::tidy`] has put it in order.
    pub fn open(hold: Hold) -> Result<Self> {
        let dir = hold.dir();
        write_heads::<HistogramColumns>(dir)?;
        let requests = RequestsWriter::open(dir)?;
        // Told to earlier versions, which look at no other lock; a file system that knows none is no reason to stop.
        if let Err(TryLockError::WouldBlock) = requests.file().try_lock() {
            bail!(busy(dir));
        }
        let metrics = RowsWriter::open(dir)?;
        Ok(Self { dir: dir.to_owned(), _hold: hold, requests, metrics, failures: BTreeMap::new() })
    }

    /// Adds a row to `server-metrics.csv`; on disk with the next [`Writer::flush`].
    pub fn sample(&mut self, series: &str, step: u32, sample: &Sample) -> Result<()> {
        self.metrics.add(&SampleColumns::new(series, step, sample))
    }

    /// The run folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Adds a row to `requests.csv`; on disk with the next [`Writer::flush`].
    pub fn request(&mut self, series: &str, step: u32, class: &str, finished: &Finished) -> Result<()> {
        let record = &finished.record;
        self.requests.add(&RequestRow::new(series, step, class, record))?;
        // Also of one that the default timeout cut off, though it has not failed.
        if let Some(kind) = record.failure {
            let entry = self.failures.entry((class.to_owned(), kind, record.status)).or_default();
            entry.0 += 1;
            if let (true, Some(sample)) = (entry.1.is_empty(), &finished.sample) {
                entry.1 = sample.to_string();
            }
        }
        Ok(())
    }

    /// Brings what was added to `requests.csv` and `server-metrics.csv` to disk.
    ///
    /// # Errors
    /// A file cannot be written, or is none of the folder's any more: what is written into a file that was removed is lost.
    pub fn flush(&mut self) -> Result<()> {
        let failed = |name: &str| format!("failed to write {}", self.dir.join(name).display());
        self.requests.flush()?;
        self.metrics.flush()?;
        let path = self.dir.join(REQUESTS);
        let there = match fs::metadata(&path) {
            Ok(there) => Some(there),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(e).with_context(|| failed(REQUESTS)),
        };
        let own = self.requests.file().metadata().with_context(|| failed(REQUESTS))?;
        if !there.is_some_and(|there| same_file(&there, &own)) {
            bail!(
                "{} is not there any more: the run folder was removed, moved or replaced while the sweep was writing into it",
                path.display()
            );
        }
        Ok(())
    }

    /// Returns the failures counted so far.
    fn failure_rows(&self, series: &str, step: u32) -> Vec<FailureRow> {
        self.failures
            .iter()
            .map(|((class, kind, status), (count, sample))| FailureRow {
                series: series.to_owned(),
                step,
                class: class.clone(),
                kind: kind.name().into(),
                status: *status,
                count: *count,
                sample: sample.clone(),
            })
            .collect()
    }

    /// Ends a step: its failures, histograms, groups, replicas, checks, what the server says, and limits, and last its row of `steps.csv`,
    /// which makes it count.
    pub fn step(&mut self, step: &Step, histograms: &[Histogram<'_>]) -> Result<()> {
        self.flush()?;
        self.end_failures(&step.series, step.step)?;
        let dir = &self.dir;
        let bucket = |class: &str, metric: &str, (low_us, high_us, count)| HistogramColumns {
            series: step.series.clone(),
            step: step.step,
            class: class.to_owned(),
            metric: metric.to_owned(),
            low_us,
            high_us,
            count,
        };
        let buckets = histograms.iter().flat_map(|(class, metric, buckets)| {
            buckets.iter().map(move |counts| bucket(class, metric, *counts))
        });
        append_rows(dir, buckets)?;
        append_rows(dir, step.groups.iter().map(|g| GroupColumns::new(step, g)))?;
        append_rows(dir, step.replicas.iter().map(|r| ReplicaColumns::new(step, r)))?;
        append_rows(dir, step.checks.iter().map(|c| CheckColumns::new(step, c)))?;
        append_rows(dir, ServerColumns::new(step))?;
        append_rows(dir, step.metrics.iter().map(|m| MetricColumns::new(step, m)))?;
        append_rows(dir, step.limits.iter().map(|l| LimitColumns::new(step, l)))?;
        append_rows(dir, [StepColumns::from(step)])
    }

    /// Writes the failures counted so far as those of `step`; 0 for what came before the first.
    pub fn end_failures(&mut self, series: &str, step: u32) -> Result<()> {
        append_rows(&self.dir, self.failure_rows(series, step))?;
        self.failures.clear();
        Ok(())
    }

    /// Replaces `result.json` as a whole: a reader sees the old one or the new one, never a part.
    pub fn result(&self, result: &serde_json::Value) -> Result<()> {
        write_result(&self.dir, result)
    }
}

/// Makes a file where there is none.
fn create(path: &Path) -> Result<File> {
    File::create_new(path).with_context(|| format!("failed to make {}", path.display()))
}

/// What is said where another sweep holds the folder.
pub(super) fn busy(dir: &Path) -> String {
    format!("a sweep is still writing into {}: wait until it ends, or stop it with Ctrl-C", dir.display())
}

#[cfg(unix)]
fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn same_file(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// Replaces `result.json` of a run folder as a whole.
pub fn write_result(dir: &Path, result: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(result).context("failed to write the result as JSON")?;
    replace(&dir.join(RESULT), &text)
}
