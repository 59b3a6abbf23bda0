use crate::cases::{self, Case, Right};
use crate::run::{Answer, Run, Setting, Strategy, run};
use crate::score::{Score, StatusScore};
use goodput::search::answer::Status;
use goodput::slo::Metric;
use goodput::stats::step::{Step, StepKind};
use std::collections::HashSet;

fn all() -> Vec<Case> {
    let sets = [cases::development(), cases::held_out(), cases::former()];
    sets.into_iter().flatten().collect()
}

fn case(name: &str) -> Case {
    all().into_iter().find(|c| c.name == name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn every_case_has_a_plan_and_a_truth() {
    let mut names = HashSet::new();
    for case in all() {
        assert!(names.insert(case.name.clone()), "{} is there twice", case.name);
        let (plan, _) = case.build(1, 900.0, 0.1).unwrap_or_else(|e| panic!("{}: {e:#}", case.name));
        assert_eq!(plan.search.max_rate.is_some(), case.right() == Right::NotReached, "{}", case.name);
        let t = case.truth;
        assert!(t.is_known(), "{} has no truth", case.name);
        match case.right() {
            Right::None => assert!(t.unloaded > t.allowed, "{}", case.name),
            Right::Rate | Right::NotReached => {
                assert!(t.slope > 0.0 && t.inflation > 0.2 && t.error < 0.12, "{}: {t:?}", case.name);
                let open = !case.closed_loop && case.conversation.is_none();
                assert!(!open || t.rate.is_some_and(|r| r <= t.capacity * 1.02), "{}: {t:?}", case.name);
            }
        }
    }
    let feasible = |cases: Vec<Case>| cases.iter().filter(|c| c.right() == Right::Rate).count();
    assert!(feasible(cases::development()) >= 60 && feasible(cases::former()) >= 17);
    assert_eq!(cases::held_out().len(), 40);
}

#[test]
fn every_group_has_development_cases() {
    let cases = cases::development();
    for group in cases::Group::ALL {
        assert!(cases.iter().any(|c| c.group == group), "{}", group.title());
    }
    assert!(cases.iter().all(|c| c.change.is_some() != c.group.is_steady()));
}

/// Compares the closed form of a queue with a simulation of it.
#[test]
fn truths_are_found_by_simulation() {
    for (name, within) in [("mm1-p90", 0.05), ("md1-p95", 0.05), ("break-md1-slower-1.25", 0.06)] {
        let case = case(name);
        let (found, said) = crate::truth::find(&case, 200_000).unwrap();
        let (rate, exact) = (found.rate.unwrap(), case.truth.rate.unwrap());
        assert!((rate / exact - 1.0).abs() < within, "{name}: {rate} for {exact}; {said}");
        assert!((found.capacity / case.truth.capacity - 1.0).abs() < 0.02, "{name}: {found:?}");
    }
}

/// A change within a step occurs once, in the right step; and an answer reports a change in its words.
#[test]
fn servers_change_as_the_cases_say() {
    let setting = Setting { strategy: Strategy::Ours, budget_s: 300.0, width: 0.1 };
    let rates = |name: &str, kind: StepKind| {
        let run = run(&case(name), setting, 1).unwrap();
        run.steps.iter().filter(|s| s.kind == kind).map(|s| s.quantiles(Metric::Ttft).p99).collect::<Vec<_>>()
    };
    // Requests that arrive during a pause of one second wait until its end.
    let ramp = rates("stall-wide-ramp-1s", StepKind::Ramp);
    assert!(ramp[0].unwrap() < 20.0 && ramp[1].unwrap() > 500.0, "{ramp:?}");
    let after = run(&case("break-md1-slower-1.25"), setting, 1).unwrap().steps;
    let service = |s: &&Step| s.quantiles(Metric::Ttft).p50.unwrap();
    let baseline = service(&&after[0]);
    let last = service(&after.last().as_ref().unwrap());
    assert!((baseline - 50.0).abs() < 1e-6 && last > 62.0, "{baseline} and {last}");
}

#[test]
fn runs_have_random_numbers_of_their_own_and_repeat() {
    let (a, b) = (case("md1"), case("mm1"));
    assert_ne!(a.seed(1), a.seed(2));
    assert_ne!(a.seed(1), b.seed(1));
    let setting = Setting { strategy: Strategy::Bisect, budget_s: 300.0, width: 0.1 };
    let sent = |seed| run(&a, setting, seed).unwrap().steps.iter().map(|s| s.due_n).collect::<Vec<_>>();
    assert_eq!(sent(1), sent(1));
    assert_ne!(sent(1), sent(2));
}

/// Peers get near the truth of a queue, within their budget and a drain.
#[test]
fn peers_come_to_a_rate() {
    for (strategy, low, high) in [
        (Strategy::Grid, 0.5, 1.6),
        (Strategy::Bisect, 0.5, 1.6),
        // A closed loop of four never lets a queue of five grow: it finds the capacity, 20 req/s.
        (Strategy::Joint, 2.0, 2.2),
        (Strategy::Joint95, 2.0, 2.2),
    ] {
        let case = case("md1");
        let run = run(&case, Setting { strategy, budget_s: 900.0, width: 0.1 }, 1).unwrap();
        let ratio = run.answer.rate.unwrap() / case.truth.rate.unwrap();
        assert!((low..high).contains(&ratio), "{strategy:?}: {ratio}");
        assert!(run.spent_s < 935.0, "{strategy:?}: {}", run.spent_s);
        assert_eq!(run.answer.safe, run.answer.rate, "{strategy:?}");
    }
    // If every rate fails, the halving ends.
    let none = Case::new("late", case("md1").engine).limit(goodput::slo::Metric::Ttft, 20.0);
    let late = run(&none, Setting { strategy: Strategy::Bisect, budget_s: 9000.0, width: 0.1 }, 1).unwrap();
    assert_eq!((late.answer.status, late.answer.rate), (Status::None, None));
    assert!(late.spent_s < 1000.0, "{}", late.spent_s);
    let capped = case("capped-2");
    let run = run(&capped, Setting { strategy: Strategy::Grid, budget_s: 900.0, width: 0.1 }, 1).unwrap();
    assert_eq!((run.answer.status, run.answer.rate), (Status::NotReached, capped.max_rate()));
}

fn told(status: Status, rate: Option<f64>, interval: Option<[f64; 2]>, safe: Option<f64>) -> Run {
    let answer = Answer { status, rate, interval, safe, names_change: false, reason: String::new() };
    Run { answer, spent_s: 1.0, cpu_s: None, steps: vec![] }
}

#[test]
fn scores_count_what_they_say() {
    let case = case("md1");
    let truth = case.truth.rate.unwrap();
    assert!(case.truth.error <= 0.0, "it is exact");
    let at = |x: f64| Some(x * truth);
    let runs = [
        told(Status::Found, at(1.1), Some([0.9 * truth, 1.2 * truth]), at(0.9)),
        // Above the truth, and the interval misses it.
        told(Status::Found, at(1.21), Some([1.1 * truth, 1.3 * truth]), at(1.1)),
        // No safe rate: the interval begins at zero.
        told(Status::Found, at(1.0), Some([0.0, 1.2 * truth]), None),
        // No rate, no interval.
        told(Status::None, None, None, None),
    ];
    let score = Score::of(&case, &runs).unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} for {b}");
    close(score.bias, 100.0 * (1.1_f64.ln() + 1.21_f64.ln()) / 3.0);
    close(score.rmse, 100.0 * ((1.1_f64.ln().powi(2) + 1.21_f64.ln().powi(2)) / 3.0).sqrt());
    close(score.rated, 0.75);
    close(score.coverage.unwrap(), 2.0 / 3.0);
    close(score.violates, 0.25);
    close(score.unsafe_share, 0.5);
    close(score.denied, 0.25);
    close(score.held, 0.5);
    close(score.named, 0.0);
    // Of 10, −10, 100 and 100.
    close(score.shortfall, 55.0);

    assert!(StatusScore::of(&case, &runs).is_none(), "its answer is a rate");
    let none = StatusScore::of(&self::case("none-20"), &runs).unwrap();
    close(none.right, 0.25);
    close(none.violates, 0.5);
    let capped = self::case("capped-2");
    let above = told(Status::NotReached, None, None, Some(1.01 * capped.truth.rate.unwrap()));
    let below = told(Status::NotReached, None, None, Some(0.5 * capped.truth.rate.unwrap()));
    let capped = StatusScore::of(&capped, &[above, below]).unwrap();
    close(capped.right, 1.0);
    close(capped.violates, 0.5);
}
