//! Goodputs that were found before, in a file beside the build: they take minutes, and depend on the model alone.

use crate::case::Case;
use crate::truth;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Goodputs by the case that they were found for.
pub(crate) struct Store {
    path: PathBuf,
    known: Mutex<HashMap<u64, f64>>,
}

impl Store {
    /// Reads what was found before with this build of the model.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let known = text.lines().filter_map(|line| {
            let (key, value) = line.split_once('\t')?;
            Some((key.parse().ok()?, value.parse().ok()?))
        });
        Ok(Self { path: path.to_owned(), known: Mutex::new(known.collect()) })
    }

    /// Returns the goodput of a case, found now, beginning `near` a rate, if it was not before.
    pub(crate) fn goodput(&self, case: &Case, near: f64) -> Result<f64> {
        self.known_or(key(case, None)?, || {
            truth::goodput(case, near).with_context(|| format!("truth of {}", case.name))
        })
    }

    /// Returns true if a case's server meets its SLO at a rate.
    pub(crate) fn reaches(&self, case: &Case, rate: f64) -> Result<bool> {
        let rate_met = self
            .known_or(key(case, Some(rate))?, || Ok(if truth::reaches(case, rate)? { rate } else { 0.0 }))?;
        Ok(rate_met > 0.0)
    }

    fn known_or(&self, key: u64, find: impl FnOnce() -> Result<f64>) -> Result<f64> {
        if let Some(known) = self.lock().get(&key) {
            return Ok(*known);
        }
        let found = find()?;
        let mut known = self.lock();
        known.insert(key, found);
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        writeln!(file, "{key}\t{found}")?;
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, f64>> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Identifies what the goodput depends on, or what a server does at a rate: the engine with all of its settings, the workload
/// and the limits.
fn key(case: &Case, rate: Option<f64>) -> Result<u64> {
    let alone = Case { name: "any".into(), ..case.engine_alone() };
    let plan = alone.plan(&[])?;
    let engine = plan.simulated()?.map(|sim| format!("{:?} {:?}", sim.engine, sim.speed)).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (plan.to_toml()?, engine, format!("{} {:?}", case.failed, case.error_rate)).hash(&mut hasher);
    if let Some(rate) = rate {
        rate.to_bits().hash(&mut hasher);
    }
    Ok(hasher.finish())
}
