//! Steps that show nothing of the server because the client spoilt them.
//!
//! If the client stood still, the first such step at each level is measured again, since that happens by chance; if it stands still a second
//! time, the machine is at fault, and the level stays invalid. A step that a worker spoilt is measured again each time: whoever runs the sweep
//! limits the number of attempts.

use crate::stats::step::Step;

fn at_one_level(a: &Step, b: &Step) -> bool {
    a.kind == b.kind && a.level == b.level
}

/// Returns the steps without those that a worker spoilt.
pub(super) fn without_worker_faults<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    steps.iter().copied().filter(|s| !s.is_worker_fault()).collect()
}

/// Returns true if the client stood still in the step, and in no earlier one at its level.
fn is_first_halted(at: usize, steps: &[&Step]) -> bool {
    let spoilt = |s: &&&Step| s.is_spoilt_by_halt() && at_one_level(s, steps[at]);
    steps[at].is_spoilt_by_halt() && !steps[..at].iter().any(|s| spoilt(&s))
}

/// Returns the steps without those that must be measured again because the client stood still, or were.
pub(super) fn without_first_halted<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    (0..steps.len()).filter(|at| !is_first_halted(*at, steps)).map(|at| steps[at]).collect()
}

/// Returns the steps without those that were measured again because the client stood still.
pub(super) fn without_repeated_halted<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    let repeated = |at: usize| {
        is_first_halted(at, steps) && steps[at + 1..].iter().any(|later| at_one_level(later, steps[at]))
    };
    (0..steps.len()).filter(|at| !repeated(*at)).map(|at| steps[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Next;
    use crate::search::series::tests::{search, step};
    use crate::stats::step::{Abort, StepKind, Verdict};
    use goodput_core::level::Level;

    fn at(rate: f64, verdict: Verdict, halted_ms: Option<f64>) -> Step {
        Step { halted_ms, ..step(Level::rate(rate), verdict) }
    }

    #[test]
    fn a_spoilt_step_is_measured_again_once() {
        let calm = at(10.0, Verdict::Meets, None);
        let spoilt = at(20.0, Verdict::Invalid, Some(4000.0));
        let held = at(20.0, Verdict::Meets, None);
        let touched = at(30.0, Verdict::Meets, Some(200.0));
        let limited = at(40.0, Verdict::Invalid, None);
        for (what, steps, left, answers) in [
            ("it is to be measured again", vec![&calm, &spoilt], 1, 2),
            ("it was", vec![&calm, &spoilt, &held], 2, 2),
            ("spoilt again", vec![&calm, &spoilt, &spoilt], 2, 2),
            ("a halt that changed nothing", vec![&calm, &touched], 2, 2),
            ("another limit of the client", vec![&calm, &limited], 2, 2),
        ] {
            assert_eq!(
                (without_first_halted(&steps).len(), without_repeated_halted(&steps).len()),
                (left, answers),
                "{what}"
            );
        }
    }

    /// A list and a ramp ask for the level once more, even if the step ended because all of its requests had failed, and go on after a second
    /// time. The answer is that of the second step.
    #[test]
    fn the_search_asks_for_the_level_once_more() {
        let spoilt = Step { abort: Some(Abort::AllFailed), ..at(1.0, Verdict::Invalid, Some(4000.0)) };
        for plan in ["rates = [1, 2]", "ramp = { start = 1, factor = 2 }"] {
            let kind = |s: &Step| Step {
                kind: if plan.starts_with("ramp") { StepKind::Ramp } else { StepKind::List },
                ..s.clone()
            };
            let next = |steps: &[Step]| match search(plan).next("main", steps) {
                Next::Measure(ask) => Some(ask.level.value),
                Next::Done => None,
            };
            let (spoilt, held) = (kind(&spoilt), kind(&at(1.0, Verdict::Meets, None)));
            assert_eq!(next(std::slice::from_ref(&spoilt)), Some(1.0), "{plan}");
            assert_eq!(next(&[spoilt.clone(), held.clone()]), Some(2.0), "{plan}");
            let answers = search(plan).answers("main", &[spoilt, held]);
            assert_eq!(answers[0].goodput.bracket.met, Some(1.0), "{plan}");
        }
    }

    /// A step at this level that a worker spoilt: nothing in it may count.
    fn lost(like: &Step) -> Step {
        let mut lost = Step { abort: Some(Abort::WorkerLost), ..like.clone() };
        (lost.verdict, lost.stable, lost.achieved_rate) = (Verdict::Invalid, None, 0.0);
        lost.limits.iter_mut().for_each(|l| l.verdict = Verdict::Invalid);
        lost
    }

    /// In every mode a step that a worker spoilt is asked for again, each time, and the answers are those of a sweep without it.
    #[test]
    fn the_search_ignores_what_a_worker_spoilt() {
        for plan in [
            "rates = [1, 2, 4]",
            "concurrency = [1, 2, 4]",
            "ramp = { start = 1, factor = 2 }\nmax-rate = 16",
            "rates = [1, 2]\npeak = { concurrency = 64 }",
            "burst = 20",
        ] {
            let search = search(plan);
            let (mut whole, mut spoilt): (Vec<Step>, Vec<Step>) = (vec![], vec![]);
            while let Next::Measure(ask) = search.next("main", &whole) {
                assert!(whole.len() < 20, "{plan}: the search does not end");
                let verdict = if ask.level.value < 4.0 { Verdict::Meets } else { Verdict::Fails };
                let good = Step { kind: ask.kind, ..step(ask.level, verdict) };
                for _ in 0..3 {
                    assert_eq!(search.next("main", &spoilt), Next::Measure(ask), "{plan}");
                    spoilt.push(lost(&good));
                }
                whole.push(good.clone());
                spoilt.push(good);
            }
            assert!(!whole.is_empty(), "{plan}");
            assert_eq!(search.next("main", &spoilt), Next::Done, "{plan}");
            assert_eq!(search.answers("main", &spoilt), search.answers("main", &whole), "{plan}");
        }
    }
}
