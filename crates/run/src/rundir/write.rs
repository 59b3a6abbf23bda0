//! Writing a run folder as the sweep goes: killed at any moment, what was measured is on disk.

use super::cell::guarded;
use super::clear::{check_empty, clear};
use super::files::{is_link, replace};
use super::hold::Hold;
use super::requests::RequestRow;
use super::table::{
    Cells, check_cells, group_cells, limit_cells, metric_cells, replica_cells, server_cells, step_cells,
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
use std::io::{BufWriter, Write};
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

/// The files that have a head before the first row.
pub(super) const HEADS: [(&str, &[&str]); 2] = [
    (HISTOGRAMS, &["series", "step", "class", "metric", "low_us", "high_us", "count"]),
    (METRICS, &["series", "step", "time_s", "name", "value", "source"]),
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
    requests: csv::Writer<BufWriter<File>>,
    metrics: csv::Writer<BufWriter<File>>,
    /// How many columns `server-metrics.csv` has: one that an earlier version began does not tell the source.
    columns: usize,
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
        for (name, columns) in HEADS {
            if is_empty(&dir.join(name)) {
                head(dir, name, columns)?;
            }
        }
        let path = dir.join(REQUESTS);
        let file = open(&path)?;
        // Told to earlier versions, which look at no other lock; a file system that knows none is no reason to stop.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            bail!(busy(dir));
        }
        let requests = csv::WriterBuilder::new()
            .has_headers(is_empty(&path))
            .from_writer(BufWriter::with_capacity(1 << 16, file));
        let path = dir.join(METRICS);
        let begun = csv::Reader::from_path(&path).and_then(|mut r| r.headers().map(csv::StringRecord::len));
        let metrics = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(BufWriter::with_capacity(1 << 14, open(&path)?));
        let columns = begun.with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self { dir: dir.to_owned(), _hold: hold, requests, metrics, columns, failures: BTreeMap::new() })
    }

    /// Adds a row to `server-metrics.csv`; on disk with the next [`Writer::flush`].
    pub fn sample(&mut self, series: &str, step: u32, sample: &Sample) -> Result<()> {
        let (step, time) = (step.to_string(), sample.time_s.to_string());
        let value = sample.value.to_string();
        let cells = [series, &step, &time, &sample.name, &value, &sample.source].map(guarded);
        self.metrics
            .write_record(cells.iter().take(self.columns).map(|cell| cell.as_bytes()))
            .with_context(|| format!("failed to write {}", self.dir.join(METRICS).display()))
    }

    /// The run folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Adds a row to `requests.csv`; on disk with the next [`Writer::flush`].
    pub fn request(&mut self, series: &str, step: u32, class: &str, finished: &Finished) -> Result<()> {
        let record = &finished.record;
        self.requests
            .serialize(RequestRow::new(series, step, class, record))
            .with_context(|| format!("failed to write {}", self.dir.join(REQUESTS).display()))?;
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
        self.requests.flush().with_context(|| failed(REQUESTS))?;
        self.metrics.flush().with_context(|| failed(METRICS))?;
        let path = self.dir.join(REQUESTS);
        let there = match fs::metadata(&path) {
            Ok(there) => Some(there),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(e).with_context(|| failed(REQUESTS)),
        };
        let own = self.requests.get_ref().get_ref().metadata().with_context(|| failed(REQUESTS))?;
        if !there.is_some_and(|there| same_file(&there, &own)) {
            bail!(
                "{} is not there any more: the run folder was removed, moved or replaced while the sweep was writing into it",
                path.display()
            );
        }
        Ok(())
    }

    /// The failures counted so far, with their cells as they are written.
    fn failure_rows(&self, series: &str, step: u32) -> Vec<FailureRow> {
        self.failures
            .iter()
            .map(|((class, kind, status), (count, sample))| FailureRow {
                series: guarded(series).into(),
                step,
                class: guarded(class).into(),
                kind: kind.name().into(),
                status: *status,
                count: *count,
                sample: guarded(sample).into(),
            })
            .collect()
    }

    /// Ends a step: its failures, histograms, groups, replicas, checks, what the server says, and limits, and last its row of `steps.csv`,
    /// which makes it count.
    pub fn step(&mut self, step: &Step, histograms: &[Histogram<'_>]) -> Result<()> {
        self.flush()?;
        self.end_failures(&step.series, step.step)?;
        let mut rows = Vec::new();
        for (class, metric, buckets) in histograms {
            for (low, high, count) in buckets {
                let mut c = Cells::default();
                for (name, cell) in [
                    ("series", step.series.clone()),
                    ("step", step.step.to_string()),
                    ("class", (*class).to_owned()),
                    ("metric", (*metric).to_owned()),
                    ("low_us", low.to_string()),
                    ("high_us", high.to_string()),
                    ("count", count.to_string()),
                ] {
                    c.names.push(name.into());
                    c.cells.push(cell);
                }
                rows.push(c);
            }
        }
        append(&self.dir.join(HISTOGRAMS), &rows)?;
        let groups: Vec<Cells> = step.groups.iter().map(|g| group_cells(step, g)).collect();
        append(&self.dir.join(GROUPS), &groups)?;
        let replicas: Vec<Cells> = step.replicas.iter().map(|r| replica_cells(step, r)).collect();
        append(&self.dir.join(REPLICAS), &replicas)?;
        let checks: Vec<Cells> = step.checks.iter().map(|r| check_cells(step, r)).collect();
        append(&self.dir.join(CHECKS), &checks)?;
        append(&self.dir.join(SERVER), &server_cells(step).into_iter().collect::<Vec<_>>())?;
        let metrics: Vec<Cells> = step.metrics.iter().map(|m| metric_cells(step, m)).collect();
        append(&self.dir.join(SUMMARIES), &metrics)?;
        append(
            &self.dir.join(LIMITS),
            &step.limits.iter().map(|l| limit_cells(step, l)).collect::<Vec<_>>(),
        )?;
        append(&self.dir.join(STEPS), &[step_cells(step)])
    }

    /// Writes the failures counted so far as those of `step`; 0 for what came before the first.
    pub fn end_failures(&mut self, series: &str, step: u32) -> Result<()> {
        let path = self.dir.join(FAILURES);
        let empty = is_empty(&path);
        let mut w = csv::WriterBuilder::new().has_headers(empty).from_writer(open(&path)?);
        for row in self.failure_rows(series, step) {
            w.serialize(row).with_context(|| format!("failed to write {}", path.display()))?;
        }
        self.failures.clear();
        w.flush().with_context(|| format!("failed to write {}", path.display()))
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

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |m| m.len() == 0)
}

/// Opens a file to write on; not one that lies elsewhere.
fn open(path: &Path) -> Result<File> {
    if is_link(path) {
        bail!("{} is a link: what is measured is written into the run folder alone", path.display());
    }
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .with_context(|| format!("failed to open {}", path.display()))
}

fn head(dir: &Path, name: &str, columns: &[&str]) -> Result<()> {
    let path = dir.join(name);
    writeln!(open(&path)?, "{}", columns.join(","))
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Appends rows in one write, with the column names before the first. A file that an earlier version began keeps its columns: each has
/// cells for those alone.
fn append(path: &Path, rows: &[Cells]) -> Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    let mut text = csv::Writer::from_writer(Vec::new());
    let heads = if is_empty(path) {
        text.write_record(&first.names)?;
        first.names.clone()
    } else {
        let mut begun =
            csv::Reader::from_path(path).with_context(|| format!("failed to open {}", path.display()))?;
        begun.headers()?.iter().map(str::to_owned).collect()
    };
    for row in rows {
        let cell = |head: &String| {
            let at = row.names.iter().position(|name| name == head);
            guarded(at.map_or("", |at| row.cells[at].as_str()))
        };
        text.write_record(heads.iter().map(|head| cell(head).into_owned()))?;
    }
    let bytes = text.into_inner().context("the rows are in memory")?;
    let mut file = open(path)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_data())
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Replaces `result.json` of a run folder as a whole.
pub fn write_result(dir: &Path, result: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(result).context("failed to write the result as JSON")?;
    replace(&dir.join(RESULT), &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rundir::table::{Row, read_step};

    /// A folder that an earlier version began has fewer columns: what is added to it reads back all the same.
    #[test]
    fn a_file_keeps_the_columns_that_it_began_with() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STEPS);
        let mut old = step_cells(&run.steps[0]);
        // Before there were client_busy and all that came after it.
        let fewer = old.names.iter().position(|name| *name == "client_busy").unwrap();
        old.names.truncate(fewer);
        old.cells.truncate(fewer);
        append(&path, &[old]).unwrap();
        append(&path, &[step_cells(&run.steps[1])]).unwrap();
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let heads = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let read = |r: &csv::StringRecord| read_step(&Row(heads.iter().zip(r.iter()).collect())).unwrap();
        assert_eq!((heads.len(), rows.len()), (fewer, 2));
        assert_eq!((read(&rows[1]).step, read(&rows[1]).client_busy), (2, None));
    }
}
