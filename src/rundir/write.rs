//! Writing a run folder as the sweep goes: killed at any moment, what was measured is on disk.

use super::requests::RequestRow;
use super::table::{Cells, check_cells, group_cells, limit_cells, replica_cells, step_cells};
use super::{
    CHECKS, FAILURES, FailureRow, GROUPS, HISTOGRAMS, LIMITS, LOGS, METRICS, PARTIAL, PLAN, REPLICAS,
    REQUESTS, RESULT, STEPS, VARIANTS,
};
use crate::record::{Failure, Finished, Outcome};
use crate::stats::step::Step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Everything that a sweep writes into its folder; `charts/` besides.
const OURS: &[&str] = &[
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
    "report.md",
    "report.html",
];

/// The files that have a head before the first row.
const HEADS: [(&str, &[&str]); 2] = [
    (HISTOGRAMS, &["series", "step", "class", "metric", "low_us", "high_us", "count"]),
    (METRICS, &["series", "step", "time_s", "name", "value"]),
];

/// A pooled distribution of one step, for `histograms.csv`: class, metric, and (low, high, count) in microseconds.
pub type Histogram<'a> = (&'a str, &'a str, Vec<(u64, u64, u64)>);

/// The folder of a sweep that is running.
pub struct Writer {
    dir: PathBuf,
    requests: csv::Writer<BufWriter<File>>,
    /// By class, kind and status.
    failures: BTreeMap<(String, Failure, Option<u16>), (u64, String)>,
}

impl Writer {
    /// Makes the folder and every file in it, so that a path that cannot be written to fails before there is any load.
    ///
    /// A folder that is not empty is refused unless `force`; then the files of an earlier run are removed, and no others.
    pub fn create(dir: &Path, plan_toml: &str, force: bool) -> Result<Self> {
        let occupied = check_free(dir, force)?;
        fs::create_dir_all(dir)
            .with_context(|| format!("failed to make the output folder {}", dir.display()))?;
        if occupied {
            clear(dir)?;
        }
        replace(&dir.join(PLAN), plan_toml.as_bytes())?;
        for name in [STEPS, LIMITS, FAILURES, HISTOGRAMS, METRICS] {
            create(&dir.join(name))?;
        }
        create(&dir.join(REQUESTS))?;
        Self::open(dir)
    }

    /// Goes on with the folder of a sweep that ended early, once [`super::tidy`] has put it in order.
    pub fn open(dir: &Path) -> Result<Self> {
        for (name, columns) in HEADS {
            if is_empty(&dir.join(name)) {
                head(dir, name, columns)?;
            }
        }
        let path = dir.join(REQUESTS);
        let file = open(&path)?;
        // Told to others who would go on with the folder; a file system that knows no locks is no reason to stop.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            bail!(busy(dir));
        }
        let requests = csv::WriterBuilder::new()
            .has_headers(is_empty(&path))
            .from_writer(BufWriter::with_capacity(1 << 16, file));
        Ok(Self { dir: dir.to_owned(), requests, failures: BTreeMap::new() })
    }

    /// Adds a row to `requests.csv`; on disk with the next [`Writer::flush`].
    pub fn request(&mut self, series: &str, step: u32, class: &str, finished: &Finished) -> Result<()> {
        let record = &finished.record;
        self.requests
            .serialize(RequestRow::new(series, step, class, record))
            .with_context(|| format!("failed to write {}", self.dir.join(REQUESTS).display()))?;
        if let (Outcome::Failed, Some(kind)) = (record.outcome, record.failure) {
            let entry = self.failures.entry((class.to_owned(), kind, record.status)).or_default();
            entry.0 += 1;
            if let (true, Some(sample)) = (entry.1.is_empty(), &finished.sample) {
                entry.1 = sample.to_string();
            }
        }
        Ok(())
    }

    /// Brings what was added to `requests.csv` to disk.
    pub fn flush(&mut self) -> Result<()> {
        self.requests
            .flush()
            .with_context(|| format!("failed to write {}", self.dir.join(REQUESTS).display()))
    }

    fn failure_rows(&self, series: &str, step: u32) -> Vec<FailureRow> {
        self.failures
            .iter()
            .map(|((class, kind, status), (count, sample))| FailureRow {
                series: series.into(),
                step,
                class: class.clone(),
                kind: kind.name().into(),
                status: *status,
                count: *count,
                sample: sample.clone(),
            })
            .collect()
    }

    /// Ends a step: its failures, histograms, groups, replicas, checks and limits, and last its row of `steps.csv`, which
    /// makes it count.
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

/// Whether something is in the folder already; an error unless `force`.
pub fn check_free(dir: &Path, force: bool) -> Result<bool> {
    let occupied = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => {
            return Err(e)
                .with_context(|| format!("failed to look into the output folder {}", dir.display()));
        }
    };
    if occupied && !force {
        bail!(
            "the output folder {} is not empty: choose another with --out, or replace what is there with --force",
            dir.display()
        );
    }
    Ok(occupied)
}

/// Removes the files of an earlier run. Refuses where the folder holds files of those names but no run.
fn clear(dir: &Path) -> Result<()> {
    let charts = dir.join("charts");
    let is_run = fs::read_to_string(dir.join(RESULT)).is_ok_and(|text| text.contains("\"goodput/1\""));
    if !is_run && (charts.exists() || OURS.iter().any(|name| dir.join(name).exists())) {
        bail!(
            "{} holds files that a run would replace, but is no run folder: --force replaces earlier runs only",
            dir.display()
        );
    }
    let within =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    // Those for slides, and those of each series.
    let folders = |dir: &Path| within(dir).filter(|p| p.is_dir()).collect::<Vec<_>>();
    let inner = folders(&charts);
    let innermost: Vec<PathBuf> = inner.iter().flat_map(|f| folders(f)).collect();
    let all = || innermost.iter().chain(&inner).map(PathBuf::as_path).chain([charts.as_path()]);
    let pictures = all().flat_map(within);
    let pictures = pictures.filter(|p| p.extension().is_some_and(|e| e == "png" || e == "svg"));
    for path in OURS.iter().map(|name| dir.join(name)).chain(pictures) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("failed to remove {}", path.display()));
            }
            _ => {}
        }
    }
    let logs = dir.join(LOGS);
    for log in within(&logs).filter(|p| is_run && p.extension().is_some_and(|e| e == "log")) {
        fs::remove_file(&log).with_context(|| format!("failed to remove {}", log.display()))?;
    }
    for folder in all().chain([logs.as_path()]) {
        // One that holds anything else stays, and so does what it holds.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("failed to make {}", path.display()))
}

/// What is said where another sweep holds the folder.
fn busy(dir: &Path) -> String {
    format!("a sweep is still writing into {}: wait until it ends, or stop it with Ctrl-C", dir.display())
}

/// Fails where a sweep is running in the folder.
pub(crate) fn check_idle(dir: &Path) -> Result<()> {
    match File::open(dir.join(REQUESTS)).map(|file| file.try_lock()) {
        Ok(Err(TryLockError::WouldBlock)) => bail!(busy(dir)),
        _ => Ok(()),
    }
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |m| m.len() == 0)
}

fn open(path: &Path) -> Result<File> {
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
            at.map_or("", |at| row.cells[at].as_str())
        };
        text.write_record(heads.iter().map(cell))?;
    }
    let bytes = text.into_inner().context("the rows are in memory")?;
    let mut file = open(path)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_data())
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Replaces a file by writing a new one beside it and renaming.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut f = File::create(&beside)?;
        f.write_all(bytes)?;
        f.sync_data()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("failed to write {}", path.display()))
}

/// Replaces `result.json` of a run folder as a whole.
pub fn write_result(dir: &Path, result: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(result).context("failed to write the result as JSON")?;
    replace(&dir.join(RESULT), &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::rundir::table::{Row, read_step};

    /// A folder that an earlier version began has fewer columns: what is added to it reads back all the same.
    #[test]
    fn a_file_keeps_the_columns_that_it_began_with() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STEPS);
        let mut old = step_cells(&run.steps[0]);
        // Before there were client_busy, client_waiting, and the three of a trace.
        let fewer = old.names.len() - 5;
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
