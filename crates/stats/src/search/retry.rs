//! Steps that failed by one burst of misses and are measured once more, since one step cannot tell a spell from overload.
//!
//! - A step of the ramp: a server that pauses once, for example to compile a kernel for a new batch size, looks overloaded
//!   for the length of a short step, and no rate as high would be tried again. It is ignored if the second step holds.
//! - A refinement step that was stopped: it was stopped *because* it was in a bad spell, so its share of misses is too
//!   high. If the second step runs its full time, the first counts as what its own clusters are worth.

use crate::stats::step::{Abort, LimitRow, Step, StepKind, Verdict};
use goodput_core::slo::Metric;

/// Share of misses above which a single burst is taken for overload: an overloaded server already has a backlog when
/// the window begins, but a pause comes later.
const ALL: f64 = 0.9;

/// Least share of its squared misses that a limit's clusters must reach for one of them to hold most of the misses.
const MOST: f64 = 0.7;

/// Returns true if a step failed by a single cluster of misses that began within its window.
fn failed_by_one_burst(step: &Step) -> bool {
    if !failed(step) || step.unanswered() || step.mostly_refused() {
        return false;
    }
    let mut missed =
        step.limits.iter().filter(|r| r.misses > 0 && Metric::of_limit(&r.limit).is_some()).peekable();
    let begins_within = |r: &LimitRow| (r.misses as f64) < ALL * r.n as f64;
    let is_mostly_one = |r: &LimitRow| r.cluster_sq as f64 >= MOST * (r.misses as f64).powi(2);
    match step.kind {
        StepKind::Ramp => missed.peek().is_some() && missed.all(|r| r.clusters <= 1 && begins_within(r)),
        // The limit that stopped the step; others may have strays beside it.
        _ => missed.max_by_key(|r| r.misses).is_some_and(|r| is_mostly_one(r) && begins_within(r)),
    }
}

/// Returns true if a step of the ramp failed, or if a refinement step was stopped for its misses. Other steps are never
/// measured once more.
fn failed(step: &Step) -> bool {
    match step.kind {
        StepKind::Ramp => step.too_much() || step.verdict == Verdict::Fails,
        StepKind::Refine => step.abort == Some(Abort::Gross),
        _ => false,
    }
}

/// Returns true if both are steps of one kind at one level.
fn is_repeat(a: &Step, b: &Step) -> bool {
    a.kind == b.kind && a.level == b.level
}

/// Returns the last of the steps if it must be measured once more.
pub(super) fn again<'a>(steps: &[&'a Step]) -> Option<&'a Step> {
    let last = steps.last()?;
    let first_time = steps.iter().filter(|s| is_repeat(s, last)).count() == 1;
    (first_time && failed_by_one_burst(last)).then_some(*last)
}

/// Returns true if a step failed by one burst, and the next step of its kind and level did not fail.
pub(super) fn is_contradicted(step: &Step, steps: &[&Step]) -> bool {
    let repeat = || steps.iter().find(|s| s.step > step.step && is_repeat(s, step));
    failed_by_one_burst(step) && repeat().is_some_and(|s| !failed(s))
}

/// Returns the steps without those of the ramp that [`again`] had measured once more and that held the second time.
pub(super) fn confirmed<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    let ignored = |s: &Step| s.kind == StepKind::Ramp && is_contradicted(s, steps);
    steps.iter().filter(|s| !ignored(s)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::series::tests::step;
    use goodput_core::level::Level;

    fn failed_step(number: u32, kind: StepKind, (misses, clusters): (u64, u64), gross: bool) -> Step {
        let mut s = step(Level::rate(30.0), if gross { Verdict::Fails } else { Verdict::Undecided });
        (s.step, s.kind) = (number, kind);
        s.abort = gross.then_some(Abort::Gross);
        let cluster_sq = misses.pow(2) / clusters.max(1);
        s.limits[0] = LimitRow { n: 1000, misses, clusters, cluster_sq, ..s.limits[0].clone() };
        s
    }

    #[test]
    fn a_ramp_step_that_failed_by_one_burst_is_measured_again_and_dropped_if_it_holds() {
        let ramp = |number, misses, gross| failed_step(number, StepKind::Ramp, misses, gross);
        let (burst, holds) = (ramp(2, (300, 1), true), ramp(3, (0, 0), false));
        let mut calm = ramp(1, (0, 0), false);
        calm.level = Level::rate(10.0);
        assert_eq!(again(&[&calm, &burst]).map(|s| s.step), Some(2));
        let twice = ramp(3, (300, 1), true);
        assert!(again(&[&calm]).is_none() && again(&[&burst, &twice]).is_none(), "held, or measured twice");
        assert_eq!(confirmed(&[&calm, &burst, &holds]).len(), 2);
        assert_eq!(confirmed(&[&calm, &burst, &twice]).len(), 3, "it failed again");
        assert_eq!(confirmed(&[&calm, &burst]).len(), 2, "nothing is dropped before it was measured again");
        for (what, misses) in [("several clusters", (300, 3)), ("all requests", (950, 1))] {
            let other = ramp(2, misses, true);
            assert!(again(&[&calm, &other]).is_none(), "{what}");
            assert_eq!(confirmed(&[&calm, &other, &holds]).len(), 3, "{what}");
        }
    }

    #[test]
    fn a_stopped_refinement_step_is_measured_again_and_contradicted_if_the_second_runs_its_time() {
        let refine = |number, misses, gross| failed_step(number, StepKind::Refine, misses, gross);
        let spell = refine(7, (460, 1), true);
        assert_eq!(again(&[&spell]).map(|s| s.step), Some(7));
        assert!(
            again(&[&refine(7, (460, 1), false)]).is_none(),
            "a step that ran its time is evidence as it is"
        );
        assert!(again(&[&refine(7, (460, 2), true)]).is_none(), "two bursts are no single spell");
        assert!(again(&[&refine(7, (950, 1), true)]).is_none(), "overload from the start");
        let (ran, stopped) = (refine(8, (20, 4), false), refine(8, (500, 1), true));
        assert!(is_contradicted(&spell, &[&spell, &ran]), "even if the second misses some");
        assert!(!is_contradicted(&spell, &[&spell, &stopped]) && !is_contradicted(&spell, &[&spell]));
        assert_eq!(confirmed(&[&spell, &ran]).len(), 2, "it is still evidence, of less weight");
    }
}
