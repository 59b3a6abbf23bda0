//! Advice to be tried: which remedy of a finding, and with which command.

use super::super::remedy::Remedy;
use super::super::trial::{self, Trial};
use super::super::{Advice, Facts, Finding};
use super::{Measurement, Next};

/// Completes the commands that try advice with the number of remedies to try, up to the one of their finding. Only the first
/// series that has any is tried: for others, the plan has to be changed by hand.
pub(in crate::diagnosis) fn number_trials(findings: &mut [Finding], facts: &Facts) {
    let command = |series: &str| {
        let curve = facts.curves.iter().find(|c| c.series == series)?;
        Some(curve.command.as_deref().unwrap_or_default())
    };
    let mut remedies: Vec<(String, String)> = Vec::new();
    for finding in findings.iter() {
        let Some(command) = command(&finding.series) else { continue };
        for remedy in finding.advice.iter().filter_map(Remedy::of) {
            let known = (finding.series.clone(), remedy.name.clone());
            if can_be_tried(&remedy, command) && !remedies.contains(&known) {
                remedies.push(known);
            }
        }
    }
    let tried = remedies.first().map(|(series, _)| series.clone());
    remedies.retain(|(series, _)| Some(series) == tried.as_ref());
    for finding in findings.iter_mut().filter(|f| f.next.measurement == Measurement::TryAdvice) {
        let command = command(&finding.series).unwrap_or_default();
        let first = to_be_tried(&finding.advice, &finding.series, command, &facts.trials);
        let first = first.map(|remedy| remedy.name);
        let own =
            |(series, name): &(String, String)| *series == finding.series && Some(name) == first.as_ref();
        finding.next = match remedies.iter().position(own) {
            Some(0) => continue,
            Some(i) => Next { command: format!("{}={}", facts.try_advice, i + 1), ..finding.next.clone() },
            None => Next { measurement: Measurement::WithAdvice, command: facts.again.clone() },
        };
    }
}

/// Returns the first remedy of a finding that can be tried and was not, for the server of a series with its command.
pub(super) fn to_be_tried(
    advice: &[Advice],
    series: &str,
    command: &[String],
    trials: &[Trial],
) -> Option<Remedy> {
    let untried = advice.iter().filter(|advice| trial::gain(trials, series, advice).is_none());
    untried.filter_map(Remedy::of).find(|remedy| can_be_tried(remedy, command))
}

/// Returns true if `--try-advice` can measure a remedy: on a simulated server, or on one that the plan starts with a command.
fn can_be_tried(remedy: &Remedy, command: &[String]) -> bool {
    remedy.is_simulated() || remedy.command(command).is_some()
}
