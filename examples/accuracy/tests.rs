use crate::cases::{self, Case, Right};
use crate::run::{Answer, Run, Setting, Strategy, run};
use crate::score::{Score, Told};
use goodput::search::answer::Status;
use std::collections::HashSet;

fn all() -> Vec<Case> {
    cases::development().into_iter().chain(cases::held_out()).collect()
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
            Right::None => assert!(t.unloaded > 0.01 && case.name.starts_with("none"), "{}", case.name),
            Right::Rate | Right::NotReached => {
                assert!(t.slope > 0.0 && t.inflation > 0.8 && t.error < 0.05, "{}: {t:?}", case.name);
                assert!(t.rate.is_some_and(|r| r <= t.capacity * 1.02), "{}: {t:?}", case.name);
            }
        }
    }
    let feasible = |cases: Vec<Case>| cases.iter().filter(|c| c.right() == Right::Rate).count();
    assert!(feasible(cases::development()) >= 16 && feasible(cases::held_out()) >= 18);
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

/// Peers on a queue that they should come near to, within their own budget and a drain.
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
    // Where every rate fails, the halving ends.
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
    // Of 10, −10, 100 and 100.
    close(score.shortfall, 55.0);

    assert!(Told::of(&case, &runs).is_none(), "its answer is a rate");
    let none = Told::of(&self::case("none-20"), &runs).unwrap();
    close(none.right, 0.25);
    close(none.violates, 0.5);
    let capped = self::case("capped-2");
    let above = told(Status::NotReached, None, None, Some(1.01 * capped.truth.rate.unwrap()));
    let below = told(Status::NotReached, None, None, Some(0.5 * capped.truth.rate.unwrap()));
    let capped = Told::of(&capped, &[above, below]).unwrap();
    close(capped.right, 1.0);
    close(capped.violates, 0.5);
}
