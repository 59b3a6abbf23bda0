//! Writes a run folder during a sweep: if the sweep is killed at any moment, the finished measurements are on disk.

use super::clear::{check_empty, clear};
use super::files::replace;
use super::requests::RequestRow;
use super::run_lock::RunLock;
use super::table::{Bucket, RowsWriter, StepRow, TableRow, append_rows, append_step_rows, write_heads};
use super::tried::FILE as TRIED;
use super::{
    CHECKS, FAILURES, FailureRow, GROUPS, HISTOGRAMS, LIMITS, METRICS, PARTIAL, PLAN, REPLICAS, REQUESTS,
    RESULT, SERVER, STEPS, SUMMARIES, VARIANTS, WORKERS,
};
use anyhow::{Context, Result, bail};
use goodput_core::record::{Failure, Finished};
use goodput_stats::stats::step::Step;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// All files that a sweep writes into its folder, except those in `charts/`.
pub(super) const OURS: &[&str] = &[
    PLAN,
    RESULT,
    STEPS,
    LIMITS,
    GROUPS,
    REPLICAS,
    WORKERS,
    CHECKS,
    REQUESTS,
    PARTIAL,
    FAILURES,
    HISTOGRAMS,
    METRICS,
    VARIANTS,
    TRIED,
    super::forecasts::FILE,
    SERVER,
    SUMMARIES,
    super::imported::COUNTED,
    "report.md",
    super::REPORT_PAGE,
];

/// A pooled distribution of one step for `histograms.csv`: class, metric, and (low, high, count) in microseconds.
pub type Histogram<'a> = (&'a str, &'a str, Vec<(u64, u64, u64)>);

/// One sample of a metric for `server-metrics.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Seconds from the start of the step.
    pub time_s: f64,
    /// Name of the metric: `running`, `preemptions`, or name and labels of a series of `[[metrics]]`.
    pub name: String,
    /// Value of the metric; counters count from the server's start.
    pub value: f64,
    /// Source of the metric: index of the server in the plan, from 0, or name of an entry of `[[metrics]]`.
    pub source: String,
}

/// The folder of a running sweep.
pub struct Writer {
    dir: PathBuf,
    /// Run lock that keeps other sweeps from writing into the folder.
    _lock: RunLock,
    requests: RowsWriter<RequestRow>,
    /// The row of the last request; the next one takes its place.
    request: RequestRow,
    metrics: RowsWriter<StepRow<Sample>>,
    /// Count and sample body of the failures of the current step, by class, kind and status.
    failures: BTreeMap<(String, Failure, Option<u16>), (u64, String)>,
}

impl Writer {
    /// Creates the folder and every file in it, so that an unwritable path fails before there is any load.
    ///
    /// Refuses a folder that is not empty unless `force`; then removes the files of an earlier run and no others.
    /// Always refuses a folder that a running sweep writes into.
    pub fn create(dir: &Path, plan_toml: &str, force: bool) -> Result<Self> {
        check_empty(dir, force)?;
        fs::create_dir_all(dir)
            .with_context(|| format!("failed to make the output folder {}", dir.display()))?;
        let lock = RunLock::take(dir)?;
        // Another sweep may have written here before the lock was taken.
        if check_empty(dir, force)? {
            clear(dir)?;
        }
        replace(&dir.join(PLAN), plan_toml.as_bytes())?;
        for name in [STEPS, LIMITS, FAILURES, HISTOGRAMS, METRICS] {
            create(&dir.join(name))?;
        }
        create(&dir.join(REQUESTS))?;
        Self::open(lock)
    }

    /// Continues in the folder of an interrupted sweep after [`super::tidy`] has cleaned it up.
    pub fn open(lock: RunLock) -> Result<Self> {
        let dir = lock.dir();
        write_heads::<StepRow<Bucket>>(dir)?;
        write_heads::<StepRow<Sample>>(dir)?;
        let requests = RowsWriter::open(dir)?;
        // This lock is for earlier versions, which check no other; a file system without locks is no reason to stop.
        if let Err(TryLockError::WouldBlock) = requests.file().try_lock() {
            bail!(busy(dir));
        }
        let metrics = RowsWriter::open(dir)?;
        let request = RequestRow::empty();
        Ok(Self { dir: dir.to_owned(), _lock: lock, requests, request, metrics, failures: BTreeMap::new() })
    }

    /// Adds a row to `server-metrics.csv`; on disk with the next [`Writer::flush`].
    pub fn sample(&mut self, series: &str, step: u32, sample: &Sample) -> Result<()> {
        self.metrics.add(&mut StepRow { series: series.to_owned(), step, row: sample.clone() })
    }

    /// Returns the path of the run folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Adds a row to `requests.csv`; on disk with the next [`Writer::flush`].
    pub fn request(&mut self, series: &str, step: u32, class: &str, finished: &Finished) -> Result<()> {
        let record = &finished.record;
        series.clone_into(&mut self.request.series);
        class.clone_into(&mut self.request.class);
        (self.request.step, self.request.record) = (step, record.clone());
        self.requests.add(&mut self.request)?;
        // Includes requests that the default timeout cut off, although these did not fail.
        if let Some(kind) = record.failure {
            let entry = self.failures.entry((class.to_owned(), kind, record.status)).or_default();
            entry.0 += 1;
            if let (true, Some(sample)) = (entry.1.is_empty(), &finished.sample) {
                entry.1 = sample.to_string();
            }
        }
        Ok(())
    }

    /// Flushes the rows of `requests.csv` and `server-metrics.csv` to disk.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or no longer belongs to the folder: rows written to a removed file would be
    /// lost.
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

    /// Finishes a step: writes its failures, histograms, groups, replicas, workers, checks, server figures and
    /// limits, and last its row of `steps.csv`, which makes it count.
    pub fn step(&mut self, step: &Step, histograms: &[Histogram<'_>]) -> Result<()> {
        self.flush()?;
        self.end_failures(&step.series, step.step)?;
        let dir = &self.dir;
        let bucket = |class: &str, metric: &str, (low_us, high_us, count)| Bucket {
            class: class.to_owned(),
            metric: metric.to_owned(),
            low_us,
            high_us,
            count,
        };
        let buckets = histograms.iter().flat_map(|(class, metric, buckets)| {
            buckets.iter().map(move |counts| bucket(class, metric, *counts))
        });
        append_step_rows(dir, step, buckets)?;
        append_step_rows(dir, step, step.groups.iter().cloned())?;
        append_step_rows(dir, step, step.replicas.iter().cloned())?;
        append_step_rows(dir, step, step.workers.iter().cloned())?;
        append_step_rows(dir, step, step.checks.iter().cloned())?;
        append_step_rows(dir, step, step.server.is_known().then(|| step.server.clone()))?;
        append_step_rows(dir, step, step.metrics.iter().cloned())?;
        append_step_rows(dir, step, step.limits.iter().cloned())?;
        append_rows(dir, [step.clone()])
    }

    /// Writes the failures counted so far as those of `step`; 0 is for requests before the first step.
    pub fn end_failures(&mut self, series: &str, step: u32) -> Result<()> {
        append_rows(&self.dir, self.failure_rows(series, step))?;
        self.failures.clear();
        Ok(())
    }

    /// Replaces `result.json` atomically.
    pub fn result(&self, result: &serde_json::Value) -> Result<()> {
        write_result(&self.dir, result)
    }
}

/// Creates a file; fails if it exists.
fn create(path: &Path) -> Result<File> {
    File::create_new(path).with_context(|| format!("failed to make {}", path.display()))
}

/// Returns the message for a folder that another sweep writes into.
pub(super) fn busy(dir: &Path) -> String {
    format!("a sweep is still writing into {}: wait until it ends, or stop it with Ctrl-C", dir.display())
}

#[cfg(unix)]
fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// On other systems an open file cannot be removed.
#[cfg(not(unix))]
fn same_file(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// Replaces `result.json` of a run folder atomically.
pub fn write_result(dir: &Path, result: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(result).context("failed to write the result as JSON")?;
    replace(&dir.join(RESULT), &text)
}
