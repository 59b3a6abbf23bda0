//! The order of findings and of their advice once some of it was tried: a measured gain counts more than a forecast.

use super::kind::Rank;
use super::{Advice, Finding, Remedy};
use serde::Serialize;

/// A remedy that was measured after the sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Series whose findings advise it.
    pub series: String,
    /// Name of the remedy: `max-num-seqs=64`.
    pub remedy: String,
    /// The outcome of the trial.
    pub gain: Gain,
}

/// The gain of a remedy that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// The goodput rose to this value, in the unit of the answer.
    Gained(f64),
    /// It was measured, and the time did not suffice for an answer.
    Open,
    /// The goodput did not rise.
    NoGain,
    /// The server could not be measured with it: it did not start, for example.
    Unmeasured,
}

/// The place of advice in its order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Gained(f64),
    Untried,
    NoGain,
}

impl Place {
    /// Returns the sort key: what gained the most comes first, what gained nothing last.
    const fn key(self) -> (u8, f64) {
        match self {
            Self::Gained(goodput) => (0, -goodput),
            Self::Untried => (1, 0.0),
            Self::NoGain => (2, 0.0),
        }
    }

    fn cmp(self, other: Self) -> std::cmp::Ordering {
        let ((a, gain), (b, its)) = (self.key(), other.key());
        a.cmp(&b).then(gain.total_cmp(&its))
    }
}

/// Returns the gain of an advice for a series; `None` if it was not tried.
pub(super) fn gain(trials: &[Trial], series: &str, advice: &Advice) -> Option<Gain> {
    let remedy = Remedy::of(advice)?.name;
    trials.iter().find(|t| t.series == series && t.remedy == remedy).map(|t| t.gain)
}

/// Orders advice that was tried, and the findings of each series by it: what gained comes first, what was not tried next, what
/// gained nothing last. What broke the measurement stays before all.
pub(super) fn order(findings: &mut [Finding], trials: &[Trial]) {
    let mut places: Vec<Place> = Vec::with_capacity(findings.len());
    for finding in findings.iter_mut() {
        let place = |advice: &Advice| match gain(trials, &finding.series, advice) {
            Some(Gain::Gained(goodput)) => Place::Gained(goodput),
            Some(Gain::NoGain | Gain::Unmeasured) => Place::NoGain,
            Some(Gain::Open) | None => Place::Untried,
        };
        // A server that did not start with a remedy tells nothing about the cause.
        let first = finding
            .advice
            .iter()
            .find(|advice| gain(trials, &finding.series, advice) != Some(Gain::Unmeasured));
        let first = first.map_or(Place::Untried, place);
        let best = finding.advice.iter().map(place).min_by(|a, b| a.cmp(*b));
        // The first advice is the remedy of the cause: if it gained nothing, others of the same finding do not move it up.
        places.push(match (first, best) {
            (_, Some(Place::Gained(goodput))) => Place::Gained(goodput),
            (first, _) => first,
        });
        let mut sorted: Vec<(Place, Advice)> =
            finding.advice.iter().map(|advice| (place(advice), advice.clone())).collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(*b));
        finding.advice = sorted.into_iter().map(|(_, advice)| advice).collect();
    }
    for trial in trials {
        let own: Vec<usize> = (0..findings.len())
            .filter(|i| findings[*i].series == trial.series && findings[*i].kind.rank() != Rank::Broken)
            .collect();
        let mut sorted: Vec<(Place, Finding)> =
            own.iter().map(|i| (places[*i], findings[*i].clone())).collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(*b));
        for (i, (place, finding)) in own.into_iter().zip(sorted) {
            (places[i], findings[i]) = (place, finding);
        }
    }
}
