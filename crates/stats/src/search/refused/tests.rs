//! Sweeps of made-up servers with a rate limit, and of servers that answer little or nothing.

use crate::search::adaptive::missed_unloaded;
use crate::search::answer::Status;
use crate::search::reason::{Evidence, LevelsEvidence, Reason};
use crate::search::series::tests::{run, search, step};
use crate::search::stop::Stop;
use crate::search::{Next, Search};
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use crate::stats::summary::ERRORS;
use goodput_core::level::Level;
use goodput_core::slo::Slo;

/// Returns a step that fails because this many of its requests failed, and this many of those were refused.
fn failing(level: Level, abort: Option<Abort>, (failed, refused): (u64, u64)) -> Step {
    let mut s = step(level, Verdict::Fails);
    (s.abort, s.failed, s.refused, s.binding) = (abort, failed, refused, Some(ERRORS.into()));
    s.due_n = if abort == Some(Abort::AllFailed) { failed } else { 1200 };
    for row in &mut s.limits {
        (row.n, row.misses) = (s.due_n, failed);
    }
    s
}

/// Row: the plan, the rate from which the server refuses, the kind of refusal, the measured steps, and the answer.
#[test]
fn what_refuses_a_load_may_take_a_lower_one() {
    use Evidence::{Levels, Refused};
    use LevelsEvidence::Bracket;
    type Case = (&'static str, f64, Option<Abort>, Vec<f64>, Status, fn(&Reason) -> bool);
    let cases: [Case; 8] = [
        (
            "rates = [20, 30, 10]",
            30.0,
            Some(Abort::AllFailed),
            vec![20.0, 30.0, 10.0],
            Status::Found,
            |r| matches!(r.evidence(), [.., Levels(Bracket { met, .. })] if met.level == Level::rate(20.0)),
        ),
        ("rates = [20, 30, 10]", 0.0, Some(Abort::AllFailed), vec![20.0, 10.0], Status::Undecided, |r| {
            matches!(r.evidence(), [Refused { refused: 600, due: 600, .. }, ..])
        }),
        ("rates = [20, 30, 10]", 0.0, Some(Abort::Errors), vec![20.0, 10.0], Status::Undecided, |r| {
            matches!(r.evidence(), [Refused { refused: 600, due: 1200, .. }, ..])
        }),
        ("rates = [20]", 0.0, None, vec![20.0], Status::Undecided, |r| {
            matches!(r.evidence(), [Refused { refused: 600, due: 1200, .. }, ..])
        }),
        ("rates = [20, 30]", 25.0, Some(Abort::AllFailed), vec![20.0, 30.0], Status::Found, |r| {
            r.stop() == Some(&Stop::ListDone { levels: 2 })
        }),
        ("rates = [20, 30, 40]", 25.0, Some(Abort::AllFailed), vec![20.0, 30.0], Status::Found, |r| {
            r.stop() == Some(&Stop::Refused { level: Level::rate(30.0) })
        }),
        (
            "ramp = { start = 1, factor = 2 }",
            3.0,
            Some(Abort::AllFailed),
            vec![1.0, 2.0, 4.0],
            Status::Found,
            |r| r.stop() == Some(&Stop::Refused { level: Level::rate(4.0) }),
        ),
        ("concurrency = [1]", 0.0, Some(Abort::Errors), vec![1.0], Status::Undecided, |r| {
            matches!(r.evidence(), [Refused { .. }, ..])
        }),
    ];
    for (plan, from, abort, levels, status, says) in cases {
        let server = |l: Level| match l.value >= from {
            true => failing(l, abort, (600, 600)),
            false => step(l, Verdict::Meets),
        };
        let (measured, steps) = run(&search(plan), server);
        assert_eq!(measured, levels, "{plan}");
        let a = &search(plan).answers("main", &steps)[0].goodput;
        assert_eq!(a.status(), status, "{plan}, {abort:?}: {:?}", a.reason);
        assert!(says(&a.reason), "{plan}, {abort:?}: {:?}", a.reason);
    }
}

/// If some requests were refused and many more were slow, the refusals decide nothing.
#[test]
fn a_few_refusals_are_no_excuse() {
    let mut slow = failing(Level::rate(20.0), None, (3, 3));
    (slow.binding, slow.in_flight_mean) = (Some("ttft.p99".into()), 0.5);
    slow.limits.iter_mut().for_each(|row| row.misses = 41);
    let a = &search("rates = [20]").answers("main", &[slow])[0].goodput;
    assert_eq!(a.status(), Status::None, "{:?}", a.reason);
    let failed = failing(Level::rate(20.0), Some(Abort::AllFailed), (600, 200));
    let a = &search("rates = [20]").answers("main", &[failed])[0].goodput;
    assert_eq!(a.status(), Status::None, "two thirds failed otherwise: {:?}", a.reason);
}

/// Returns one request at a time: of 643, the last ones were refused, as by a limit of 300.
fn baseline(refused: u64) -> Step {
    let mut s = failing(Level::concurrency(1), Some(Abort::Gross), (refused, refused));
    (s.kind, s.due_n, s.ended_s) = (StepKind::Baseline, 643, 5.0);
    for row in &mut s.limits {
        (row.n, row.misses) = (643, refused + 2);
    }
    s
}

#[test]
fn a_baseline_that_was_refused_shows_nothing_of_the_unloaded_server() {
    let plan = search("");
    let stop = |steps: &[Step]| match plan.next("main", steps) {
        Next::Measure(ask) => Ok(ask.kind),
        Next::Done => Err(plan.answers("main", steps)[0].goodput.status()),
    };
    assert_eq!(stop(&[baseline(343)]), Ok(StepKind::Ramp), "the 300 that were served met");
    let mut slow = baseline(343);
    slow.refused = 0;
    assert_eq!(stop(&[slow]), Err(Status::None), "what failed otherwise is the server's own");
    // The number of refusals among the misses of a class, or of gaps, is unknown: these rows show nothing.
    let mut slow = baseline(343);
    for row in &mut slow.limits {
        (row.n, row.misses) = (300, 300);
    }
    assert_eq!(
        stop(&[slow]),
        Ok(StepKind::Baseline),
        "of a class nobody knows how much was refused: once more"
    );
    let gaps: Slo = toml::from_str("itl.p99 = \"50ms\"").unwrap();
    let mut uneven = baseline(343);
    for row in &mut uneven.limits {
        (row.limit, row.n, row.misses) = ("itl.p99".into(), 3_000 + 34_300, 34_300);
    }
    assert!(missed_unloaded(&[&uneven], &gaps).is_none(), "all that were served met");
    // A list with a baseline before it.
    let listed = search("rates = [1]\nbaseline = true");
    let steps = [baseline(343), failing(Level::rate(1.0), Some(Abort::Errors), (60, 60))];
    let a = &listed.answers("main", &steps)[0].goodput;
    assert_eq!(a.status(), Status::Undecided, "{:?}", a.reason);
    let refused = Evidence::Refused { refused: 343, due: 643, level: Level::concurrency(1) };
    assert_eq!(a.reason.evidence().first(), Some(&refused));
}

/// The server is asked again after a pause, but not forever.
#[test]
fn a_server_that_refuses_everything_is_asked_three_times() {
    let plan: Search = search("");
    let mut steps = Vec::new();
    while let Next::Measure(ask) = plan.next("main", &steps) {
        let mut s = failing(ask.level, Some(Abort::AllFailed), (50, 50));
        s.kind = ask.kind;
        steps.push(s);
        assert!(steps.len() < 9, "it does not end");
    }
    let a = &plan.answers("main", &steps)[0].goodput;
    assert_eq!((steps.len(), a.status()), (3, Status::Undecided), "{:?}", a.reason);
    assert_eq!(a.reason.stop(), Some(&Stop::Refused { level: Level::concurrency(1) }));
}

/// A few requests without an answer lead neither to *none* nor to the end of the search.
#[test]
fn few_failures_end_nothing() {
    let few = |l: Level| Step {
        verdict: Verdict::Undecided,
        limits: step(l, Verdict::Undecided).limits,
        due_n: 1,
        ..failing(l, Some(Abort::NoAnswer), (1, 0))
    };
    for (plan, levels) in [
        ("rates = [0.5, 1, 2]", vec![0.5, 1.0, 2.0]),
        ("concurrency = [1, 4]", vec![1.0, 4.0]),
        ("ladder = { max = 8 }", vec![1.0, 2.0, 4.0, 8.0]),
        ("ramp = { start = 1, factor = 2 }\nmax-rate = 8", vec![1.0, 2.0, 4.0, 8.0]),
    ] {
        let (measured, steps) = run(&search(plan), few);
        assert_eq!(measured, levels, "{plan}");
        let a = &search(plan).answers("main", &steps)[0].goodput;
        assert_eq!(a.status(), Status::Undecided, "{plan}: {:?}", a.reason);
    }
}
