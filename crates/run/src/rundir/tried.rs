//! Advice that was tried: the goodput with each remedy, measured after the sweep in the folder `advice` of a run.

use super::variants::State;
use super::{RESULT, Run, files, read};
use anyhow::{Context, Result};
use goodput_stats::diagnosis::{Advice, Gain, Remedy, Trial};
use goodput_stats::search::answer::{Goodput, Status};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Folder of the remedies within a run folder; it is itself a run folder, with a variant for each remedy.
pub const FOLDER: &str = "advice";
/// File of a run folder that names the remedies that were tried.
pub const FILE: &str = "advice.json";

/// The remedies that are tried, as the run folder keeps them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChosenRemedies {
    /// Series whose findings advise them.
    pub series: String,
    /// Names of the remedies, in the order of the findings.
    pub remedies: Vec<String>,
}

impl ChosenRemedies {
    /// Writes the file into a run folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("failed to write the remedies as JSON")?;
        files::replace(&dir.join(FILE), text.as_bytes())
    }
}

/// The outcome of advice that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Tried {
    /// Series whose findings advise it.
    pub series: String,
    /// Goodput without any of it; `None` if there was none.
    pub before: Option<f64>,
    /// Unit of the goodput: `req/s`.
    pub unit: &'static str,
    /// The remedies that were measured.
    pub outcomes: Vec<Outcome>,
    /// Status of the answer without any of it: with *not-reached*, `before` is the highest rate that was tried. `None` if there
    /// is no answer.
    pub before_status: Option<Status>,
}

/// The outcome of one remedy.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "TriedOutcome")]
pub struct Outcome {
    /// Name of the remedy.
    pub remedy: String,
    /// Status of the answer; `None` if the server could not be measured with it.
    pub status: Option<Status>,
    /// Goodput with it.
    pub after: Option<f64>,
    /// Its 90 % interval.
    pub interval90: Option<[f64; 2]>,
    /// Reason why it could not be measured.
    pub reason: Option<String>,
}

impl Tried {
    /// Reads what was tried after a run; `None` if nothing was.
    ///
    /// # Errors
    /// A file exists but cannot be read.
    pub(super) fn read(dir: &Path, run: &Run) -> Result<Option<Self>> {
        let (file, folder) = (dir.join(FILE), dir.join(FOLDER));
        files::is_own_folder(&folder)?;
        if !file.is_file() || !folder.join(RESULT).is_file() {
            return Ok(None);
        }
        let asked: ChosenRemedies = serde_json::from_str(&files::text(&file)?)
            .with_context(|| format!("{} does not name the advice that was tried", file.display()))?;
        let (tried, _) = read::answered(&folder)?;
        let answer = run.answers.iter().find(|a| a.series == asked.series);
        let of = |variant: &super::VariantAnswer| {
            let goodput: Option<&Goodput> =
                variant.answer.as_ref().map(|a| &a.goodput).filter(|_| variant.state != State::Failed);
            Outcome {
                remedy: variant.variant.clone(),
                status: goodput.map(Goodput::status),
                after: goodput.and_then(Goodput::rate),
                interval90: goodput.and_then(Goodput::interval90),
                reason: variant.reason.clone(),
            }
        };
        Ok(Some(Self {
            before: answer.and_then(|a| a.goodput.rate()),
            before_status: answer.map(|a| a.goodput.status()),
            unit: answer.map_or("req/s", |a| a.control.unit().trim()),
            // An earlier trial may have left others.
            outcomes: tried.variants.iter().filter(|v| asked.remedies.contains(&v.variant)).map(of).collect(),
            series: asked.series,
        }))
    }

    /// Returns what a remedy gained.
    pub fn gain(&self, outcome: &Outcome) -> Gain {
        match (outcome.status, outcome.after) {
            (None, _) => Gain::Unmeasured,
            (Some(Status::None), None) => Gain::NoGain,
            (Some(Status::Invalid), _) | (Some(_), None) => Gain::Open,
            (Some(_), Some(after)) if self.before.is_none_or(|before| after > before) => Gain::Gained(after),
            // The highest rate that was tried, and the server may take more.
            (Some(Status::NotReached), Some(_)) => Gain::Open,
            (Some(Status::Found | Status::Undecided | Status::None), Some(_)) => Gain::NoGain,
        }
    }

    /// Returns the remedies as input of a diagnosis.
    pub(super) fn trials(&self) -> Vec<Trial> {
        let of = |outcome: &Outcome| Trial {
            series: self.series.clone(),
            remedy: outcome.remedy.clone(),
            gain: self.gain(outcome),
        };
        self.outcomes.iter().map(of).collect()
    }

    /// Returns the outcome of an advice for a series; `None` if it was not tried.
    pub fn of(&self, series: &str, advice: &Advice) -> Option<&Outcome> {
        let remedy = Remedy::of(advice).filter(|_| self.series == series)?;
        self.outcomes.iter().find(|outcome| outcome.remedy == remedy.name)
    }
}
