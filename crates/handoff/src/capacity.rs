//! The least and the largest number of replicas, from the `capacity.json` that `goodput capacity` writes.

use anyhow::{Context, Result, bail};
use goodput_stats::capacity::fleet::replicas_for;
use serde::Deserialize;
use std::path::Path;

/// Largest share by which the rate of a replica may differ from that of the run.
const SAME_RATE: f64 = 0.01;

/// The least and the largest number of replicas, with their reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Replicas {
    /// Replicas for the mean rate of a day, and the spare ones.
    pub least: u64,
    /// Replicas for the peak with its headroom, and the spare ones.
    pub most: u64,
    /// The rate of one replica that they were computed with, in requests per second.
    pub rate: f64,
    /// The demand in a sentence.
    pub summary: String,
}

#[derive(Deserialize)]
struct File {
    summary: String,
    demand: Demand,
    reserve: Reserve,
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Demand {
    mean_rate: f64,
}

#[derive(Deserialize)]
struct Reserve {
    spares: u64,
}

#[derive(Deserialize)]
struct Candidate {
    at_safe_rate: Option<Fleet>,
}

#[derive(Deserialize)]
struct Fleet {
    replicas: u64,
    replica: Replica,
}

#[derive(Deserialize)]
struct Replica {
    rate: f64,
}

impl Replicas {
    /// Reads the first candidate of the file.
    ///
    /// # Errors
    /// The text is no `capacity.json`, or its candidate has no safe rate.
    pub fn read(text: &str, path: &Path) -> Result<Self> {
        let file: File = serde_json::from_str(text)
            .with_context(|| format!("{} is no capacity.json of goodput capacity --out", path.display()))?;
        let Some(fleet) = file.candidates.into_iter().find_map(|c| c.at_safe_rate) else {
            bail!("{} has no candidate with a safe rate", path.display());
        };
        let rate = fleet.replica.rate;
        if !(rate > 0.0 && rate.is_finite() && file.demand.mean_rate >= 0.0) {
            bail!("{}: the rate of a replica is {rate}", path.display());
        }
        let least = replicas_for(file.demand.mean_rate, rate) + file.reserve.spares;
        Ok(Self { least: least.min(fleet.replicas), most: fleet.replicas, rate, summary: file.summary })
    }

    /// Returns true if a replica has this safe rate, in requests per second.
    pub fn is_of(&self, rate: f64) -> bool {
        (self.rate / rate - 1.0).abs() <= SAME_RATE
    }
}
