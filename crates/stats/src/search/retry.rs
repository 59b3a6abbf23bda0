//! A failed step of the ramp whose misses came as one burst. A server that pauses once, for example to compile a kernel
//! for a new batch size, looks overloaded for the length of a short step, and no rate as high would be tried again.
//! Such a step is measured once more, and is ignored if the second one holds.

use crate::stats::step::{Step, StepKind, Verdict};
use goodput_core::slo::Metric;

/// Share of misses above which a single burst is taken for overload: an overloaded server already has a backlog when
/// the window begins, but a pause comes later.
const ALL: f64 = 0.9;

/// Returns true if a step of the ramp failed by a single cluster of misses that began within its window.
fn failed_by_one_burst(step: &Step) -> bool {
    let missed = || step.limits.iter().filter(|r| r.misses > 0 && Metric::of_limit(&r.limit).is_some());
    step.kind == StepKind::Ramp
        && failed(step)
        && !step.unanswered()
        && !step.mostly_refused()
        && missed().next().is_some()
        && missed().all(|r| r.clusters <= 1 && (r.misses as f64) < ALL * r.n as f64)
}

fn failed(step: &Step) -> bool {
    step.too_much() || step.verdict == Verdict::Fails
}

fn at_one_level(a: &Step, b: &Step) -> bool {
    a.kind == StepKind::Ramp && b.kind == StepKind::Ramp && a.level == b.level
}

/// Returns the last step of the ramp if it must be measured once more.
pub(super) fn again<'a>(ramp: &[&'a Step]) -> Option<&'a Step> {
    let last = ramp.last()?;
    let first_time = ramp.iter().filter(|s| at_one_level(s, last)).count() == 1;
    (first_time && failed_by_one_burst(last)).then_some(*last)
}

/// Returns the steps without those that [`again`] had measured once more and that held the second time.
pub(super) fn confirmed<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    let contradicted = |at: usize, step: &Step| {
        let later = steps[at + 1..].iter().find(|s| at_one_level(s, step));
        failed_by_one_burst(step) && later.is_some_and(|s| !failed(s))
    };
    steps.iter().enumerate().filter(|(at, s)| !contradicted(*at, s)).map(|(_, s)| *s).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::series::tests::step;
    use crate::stats::step::{Abort, LimitRow};
    use goodput_core::level::Level;

    fn ramp(rate: f64, misses: u64, clusters: u64, gross: bool) -> Step {
        let mut s = step(Level::rate(rate), if gross { Verdict::Fails } else { Verdict::Undecided });
        s.kind = StepKind::Ramp;
        s.abort = gross.then_some(Abort::Gross);
        s.limits[0] = LimitRow { n: 1000, misses, clusters, ..s.limits[0].clone() };
        s
    }

    #[test]
    fn a_step_that_failed_by_one_burst_is_measured_again_and_dropped_if_it_holds() {
        let (calm, burst, holds) =
            (ramp(10.0, 0, 0, false), ramp(30.0, 300, 1, true), ramp(30.0, 0, 0, false));
        assert_eq!(again(&[&calm, &burst]).map(|s| s.level.value as u32), Some(30));
        assert!(again(&[&calm]).is_none() && again(&[&burst, &burst]).is_none(), "held, or measured twice");
        assert_eq!(confirmed(&[&calm, &burst, &holds]).len(), 2);
        assert_eq!(confirmed(&[&calm, &burst, &burst]).len(), 3, "it failed again");
        assert_eq!(confirmed(&[&calm, &burst]).len(), 2, "nothing is dropped before it was measured again");
        for (what, other) in
            [("several clusters", ramp(30.0, 300, 3, true)), ("all requests", ramp(30.0, 950, 1, true))]
        {
            assert!(again(&[&calm, &other]).is_none(), "{what}");
            assert_eq!(confirmed(&[&calm, &other, &holds]).len(), 3, "{what}");
        }
    }
}
