//! The outcome of advice that was tried, in English.

use crate::words::level_number;
use goodput_run::rundir::tried::{Outcome, Tried};
use goodput_stats::diagnosis::Gain;
use goodput_stats::search::answer::Status;

/// The sentence behind a remedy that gained nothing.
const NO_GAIN: &str = " It shows no gain: do not follow this advice.";

/// Returns what a remedy gained, as a sentence: `Tried: 5 → 26.1 req/s (90 % interval 24.8–27.5).`
pub(crate) fn tried(all: &Tried, outcome: &Outcome) -> String {
    let least = if all.before_status == Some(Status::NotReached) { "at least " } else { "" };
    let none = if all.before_status == Some(Status::Undecided) { "undecided" } else { "no goodput" };
    let before = all.before.map_or(none.to_owned(), |rate| format!("{least}{}", level_number(rate)));
    let unit = all.unit;
    let interval = outcome
        .interval90
        .map(|[low, high]| format!(" (90 % interval {}–{})", level_number(low), level_number(high)));
    match (outcome.status, outcome.after) {
        (None, _) => {
            let why = outcome.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("Tried: the server could not be measured with it{why}.")
        }
        (Some(Status::NotReached), Some(after)) => {
            format!("Tried: {before} → at least {} {unit}.", level_number(after))
        }
        (Some(_), Some(after)) => {
            let verdict = match all.gain(outcome) {
                Gain::Gained(_) | Gain::Open | Gain::Unmeasured => "",
                Gain::NoGain => NO_GAIN,
            };
            let interval = interval.unwrap_or_default();
            format!("Tried: {before} → {} {unit}{interval}.{verdict}", level_number(after))
        }
        (Some(Status::None), None) => {
            format!("Tried: {before} → none; no rate meets the SLO with it.{NO_GAIN}")
        }
        (Some(_), None) => "Tried: undecided in the time it had.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told() {
        let all = |before, before_status| Tried {
            series: "main".into(),
            before,
            unit: "req/s",
            outcomes: vec![],
            before_status: Some(before_status),
        };
        let of = |status, after, interval90| Outcome {
            remedy: "max-num-seqs=32".into(),
            status,
            after,
            interval90,
            reason: Some("it ran out of memory".into()),
        };
        let found = of(Some(Status::Found), Some(26.1), Some([24.8, 27.5]));
        for (before, outcome, says) in [
            (Some(5.0), &found, "Tried: 5 → 26.1 req/s (90 % interval 24.8–27.5)."),
            (None, &found, "Tried: no goodput → 26.1 req/s (90 % interval 24.8–27.5)."),
            (
                Some(30.0),
                &found,
                "Tried: 30 → 26.1 req/s (90 % interval 24.8–27.5). It shows no gain: do not follow this advice.",
            ),
            (
                Some(5.0),
                &of(None, None, None),
                "Tried: the server could not be measured with it: it ran out of memory.",
            ),
            (
                Some(5.0),
                &of(Some(Status::None), None, None),
                "Tried: 5 → none; no rate meets the SLO with it. It shows no gain: do not follow this advice.",
            ),
            (Some(5.0), &of(Some(Status::Undecided), None, None), "Tried: undecided in the time it had."),
        ] {
            assert_eq!(tried(&all(before, Status::Found), outcome), says);
        }
        let more = of(Some(Status::NotReached), Some(60.0), None);
        for (outcome, says) in [
            (&found, "Tried: at least 24 → 26.1 req/s (90 % interval 24.8–27.5)."),
            (&more, "Tried: at least 24 → at least 60 req/s."),
        ] {
            assert_eq!(tried(&all(Some(24.0), Status::NotReached), outcome), says);
        }
    }
}
