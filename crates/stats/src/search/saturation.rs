//! The throughput of the saturated server as a bound of an answer.
//!
//! A server that is kept full completes as much as it can. If more requests arrive than that, its backlog grows, so the
//! boundary of an open loop is not above the throughput of the peak step. The search's own steps show this badly where
//! the backlog is what binds: each of them is short against the time in which a backlog becomes visible.

use super::answer::{Conclusion, Goodput, Located, Undecided};
use super::reason::{Evidence, Reason, SearchEvidence};
use crate::stats::step::{Step, StepKind, Verdict};
use goodput_core::level::{Control, Level};

/// Factor by which the throughput of a full server may be higher another time: three standard errors of ten minutes on
/// an engine whose speed drifts by 20 % over 8 s, √(2 · 8 / 600) · 20 % = 3.3 % each.
const AGAIN: f64 = 1.1;

/// Returns the highest rate at which the server completed requests while it was kept full: `None` unless the last peak
/// step is usable and requests waited in the server, by the server's own count.
fn full(series: &str, steps: &[Step]) -> Option<f64> {
    let own = |s: &&Step| s.series == series && s.kind == StepKind::Peak && !s.is_worker_fault();
    let peak = steps.iter().rfind(|s| own(s) && s.completed > 0)?;
    let usable = peak.abort.is_none() && peak.failed == 0 && peak.verdict != Verdict::Invalid;
    let waited = peak.server.waiting_mean.is_some_and(|n| n >= 1.0);
    (usable && waited && peak.achieved_rate > 0.0).then_some(peak.achieved_rate)
}

/// Lowers an answer in requests per second that lies above the throughput of the saturated server. Leaves answers of
/// other controls, and one whose verdicts show a higher rate to meet.
pub(super) fn bounded(answer: Goodput, control: Control, series: &str, steps: &[Step]) -> Goodput {
    let Some(most) = full(series, steps).filter(|_| control == Control::Rate) else { return answer };
    if answer.bracket.met.is_some_and(|met| met > most) {
        return answer;
    }
    let bound = |high: f64| high.min(AGAIN * most);
    let mut conclusion = answer.conclusion;
    match &mut conclusion {
        Conclusion::Found(Located::Estimate { interval, safe, .. }) => {
            *interval = [interval[0].min(most), bound(interval[1])];
            *safe = safe.min(most);
        }
        Conclusion::Undecided(Undecided::Below { high, .. }) => *high = bound(*high),
        Conclusion::Found(Located::Bracket(_))
        | Conclusion::None
        | Conclusion::NotReached { .. }
        | Conclusion::Undecided(Undecided::Open | Undecided::Safe(_) | Undecided::Contradicted(_))
        | Conclusion::Invalid { .. } => return answer,
    }
    if let Some(at) = conclusion.level_mut().filter(|at| at.level > most) {
        at.per_gpu = at.per_gpu.map(|per_gpu| per_gpu * most / at.level);
        (at.level, at.throughput) = (most, Some(most));
    }
    if conclusion == answer.conclusion {
        return answer;
    }
    let evidence = answer.reason.evidence().iter().map(|e| within(e, bound)).collect::<Vec<_>>();
    let reason = Reason::new(evidence, answer.reason.ended().clone());
    let full = Evidence::Saturated { level: Level::new(Control::Rate, most) };
    Goodput { conclusion, reason: reason.preceded_by(full), ..answer }
}

/// Lowers the ends of the interval that evidence states.
fn within(evidence: &Evidence, bound: impl Fn(f64) -> f64) -> Evidence {
    let lowered = |level: &Level| Level { value: bound(level.value), ..*level };
    match evidence {
        Evidence::Search(SearchEvidence::Between { low, high }) => {
            Evidence::Search(SearchEvidence::Between { low: lowered(low), high: lowered(high) })
        }
        Evidence::Search(SearchEvidence::Below { high }) => {
            Evidence::Search(SearchEvidence::Below { high: lowered(high) })
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::conclusion;
    use crate::search::answer::Status;
    use crate::search::series::tests::step;
    use crate::search::{Point, bracket, reason::Ended};

    /// Returns a peak step that completed `achieved` requests per second while `waiting` waited in the server.
    fn peak(achieved: f64, waiting: Option<f64>) -> Step {
        let mut s = Step { kind: StepKind::Peak, ..step(Level::concurrency(80), Verdict::Undecided) };
        (s.achieved_rate, s.completed, s.series) = (achieved, 3000, "main".into());
        s.server.waiting_mean = waiting;
        s
    }

    fn answer(rate: f64, interval: [f64; 2], safe: f64) -> Goodput {
        let none: [Point; 0] = [];
        let found = conclusion(Status::Found, Some(rate), Some(interval), Some(safe));
        Goodput { conclusion: found, ..bracket(&none, Ended::LevelsLeft) }
    }

    /// Rows: estimate, interval and safe rate; the throughput of the full server; the same three afterwards.
    #[test]
    fn an_answer_is_not_above_the_throughput_of_the_full_server() {
        for (rate, interval, safe, most, bounded_rate, bounded_interval, bounded_safe) in [
            (5.94, [5.24, 8.88], 5.22, 5.0, 5.0, [5.0, 5.5], 5.0),
            (4.5, [4.2, 8.0], 4.2, 5.0, 4.5, [4.2, 5.5], 4.2),
            (4.5, [4.2, 5.2], 4.2, 5.0, 4.5, [4.2, 5.2], 4.2),
        ] {
            let before = answer(rate, interval, safe);
            let got = bounded(before.clone(), Control::Rate, "main", &[peak(most, Some(40.0))]);
            assert_eq!((got.rate(), got.safe_rate()), (Some(bounded_rate), Some(bounded_safe)));
            assert_eq!(got.interval90(), Some(bounded_interval));
            let said = got.reason.evidence().iter().any(|e| matches!(e, Evidence::Saturated { .. }));
            assert_eq!(said, got.conclusion != before.conclusion);
        }
    }

    #[test]
    fn a_peak_that_was_not_full_bounds_nothing() {
        let before = answer(5.94, [5.24, 8.88], 5.22);
        for (control, met, steps) in [
            (Control::Rate, None, vec![]),
            (Control::Rate, None, vec![peak(5.0, None)]),
            (Control::Rate, None, vec![peak(5.0, Some(0.2))]),
            (Control::Concurrency, None, vec![peak(5.0, Some(40.0))]),
            (Control::Rate, Some(5.5), vec![peak(5.0, Some(40.0))]),
        ] {
            let mut before = before.clone();
            before.bracket.met = met;
            assert_eq!(bounded(before.clone(), control, "main", &steps), before);
        }
    }
}
