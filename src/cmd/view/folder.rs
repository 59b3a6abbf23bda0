//! The run folders below the folder that is viewed.

use crate::report::runs::{Entry, Summary};
use crate::rundir::{self, PLAN, RESULT};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum number of runs in an index.
const MOST_RUNS: usize = 500;
/// Maximum number of files and folders of a folder that are looked at.
const MOST_NAMES: usize = 5_000;

/// The folder that is viewed, with the runs read so far.
pub(super) struct Folder {
    dir: PathBuf,
    /// By name: the state of the result that was read, and what it said.
    known: BTreeMap<String, (State, Entry)>,
}

/// The size and the time of a file, by which a change is noticed.
type State = (u64, Option<SystemTime>);

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// It is no folder, or cannot be read.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let failed = || format!("failed to read {}", dir.display());
        ensure!(
            fs::metadata(dir).with_context(failed)?.is_dir(),
            "{} is no folder: name a run folder, or a folder of runs",
            dir.display()
        );
        Ok(Self { dir: fs::canonicalize(dir).with_context(failed)?, known: BTreeMap::new() })
    }

    /// Returns its name.
    pub(super) fn name(&self) -> String {
        self.dir.file_name().unwrap_or(self.dir.as_os_str()).to_string_lossy().into_owned()
    }

    /// Returns the folder of the run of this name. Only names of runs that are found are compared, so no other file can be reached.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        self.runs().into_iter().find(|(own, _)| own == name).map(|(_, dir)| dir)
    }

    /// Returns the runs, the newest first; those that cannot be read last.
    pub(super) fn entries(&mut self) -> Vec<Entry> {
        let mut known = std::mem::take(&mut self.known);
        for (name, dir) in self.runs() {
            let state =
                fs::symlink_metadata(dir.join(RESULT)).map(|m: Metadata| (m.len(), m.modified().ok()));
            let Ok(state) = state else { continue };
            let entry = match known.remove(&name) {
                Some((then, entry)) if then == state => entry,
                _ => read(&name, &dir),
            };
            self.known.insert(name, (state, entry));
        }
        let mut all: Vec<Entry> = self.known.values().map(|(_, entry)| entry.clone()).collect();
        let started = |e: &Entry| e.summary.as_ref().ok().map(|s| s.started.clone());
        all.sort_by_key(|e| std::cmp::Reverse(started(e)));
        all
    }

    /// Returns the names and folders of all runs: the folder itself, those in it, and those in folders of repeated runs in it.
    fn runs(&self) -> Vec<(String, PathBuf)> {
        if is_run(&self.dir) {
            return vec![(self.name(), self.dir.clone())];
        }
        let mut all = Vec::new();
        for (name, dir) in folders(&self.dir) {
            if is_run(&dir) {
                all.push((name, dir));
            } else {
                let below = folders(&dir).into_iter().filter(|(_, below)| is_run(below));
                all.extend(below.map(|(own, below)| (format!("{name}/{own}"), below)));
            }
        }
        all.truncate(MOST_RUNS);
        all
    }
}

/// Reads what the index shows of a run.
fn read(name: &str, dir: &Path) -> Entry {
    let summary = rundir::answered(dir).map(|(run, _)| Summary::of(&run)).map_err(|e| format!("{e:#}"));
    Entry { name: name.to_owned(), summary }
}

/// Returns true if a folder has the files of a run; a link is none.
fn is_run(dir: &Path) -> bool {
    [PLAN, RESULT].iter().all(|name| fs::symlink_metadata(dir.join(name)).is_ok_and(|m| m.is_file()))
}

/// Returns the folders in a folder in order of their names, without links and without names that are not UTF-8.
fn folders(dir: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut all: Vec<(String, PathBuf)> = entries
        .take(MOST_NAMES)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    all.sort();
    all
}
