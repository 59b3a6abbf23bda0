//! Windows of one level, compared with the single step that they replace.

use super::*;
use crate::search::answer::Status;
use crate::search::config::Open;
use crate::search::reason::StepEvidence;
use crate::search::series::tests::{decisive, step};
use crate::search::{Next, Search};
use goodput_core::units::Span;
use goodput_workload::arrivals::Arrivals;

fn slo() -> Slo {
    toml::from_str("ttft.p99 = \"100ms\"").unwrap()
}

/// Returns a window of 10,000 requests with this many misses, each a cluster by itself, judged alone.
fn window(misses: u64, verdict: Verdict) -> Step {
    let mut s = step(Level::rate(500.0), verdict);
    (s.due_n, s.completed, s.stable) = (10_000, 10_000, Some(true));
    for row in &mut s.limits {
        row.verdict = Verdict::Meets;
        if row.limit == "ttft.p99" {
            (row.n, row.misses, row.clusters, row.cluster_sq) = (10_000, misses, misses, misses);
            row.verdict = verdict;
        }
    }
    s
}

/// Returns the times of a level that is measured in `n` windows.
fn times(n: usize) -> StepTimes {
    StepTimes { measure: Span::secs(60 * n as u64), window: Some(Span::secs(60)), ..StepTimes::default() }
}

fn merge(windows: &[Step]) -> Step {
    let all: Vec<&Step> = windows.iter().collect();
    match &together(&all, &[slo()], &times(windows.len()))[..] {
        [one] => one.clone().into_owned(),
        more => panic!("{} steps", more.len()),
    }
}

#[test]
fn a_level_has_the_counts_and_rates_of_all_its_windows() {
    let of = |unsent, sent_rate, good_rate| {
        let alone = window(0, Verdict::Meets);
        Step { cut: unsent, unsent, conn_new: 3, sent_rate, good_rate, ..alone }
    };
    let all = merge(&[of(2, 400.0, 390.0), of(0, 500.0, 490.0)]);
    assert_eq!((all.cut, all.unsent, all.conn_new), (2, 2, 6));
    for (rate, want) in [(all.sent_rate, 450.0), (all.good_rate, 440.0)] {
        assert!((rate - want).abs() < 1e-9, "{rate}");
    }
}

#[test]
fn counts_are_judged_together() {
    use Verdict::{Fails, Invalid, Meets, Undecided};
    let grew = |mut s: Step| {
        s.stable = Some(false);
        s.limits.iter_mut().filter(|r| r.limit == "stability").for_each(|r| r.verdict = Fails);
        s
    };
    let refused = |s: Step| Step { abort: Some(Abort::Errors), ..s };
    for (what, windows, want, misses) in [
        ("none can tell alone", vec![window(90, Undecided); 12], Meets, 1080),
        (
            "one fails by chance",
            [vec![window(80, Meets); 11], vec![window(130, Fails)]].concat(),
            Meets,
            1010,
        ),
        (
            "half of an hour was lost",
            [vec![window(0, Meets); 11], vec![window(5_000, Fails)]].concat(),
            Fails,
            5000,
        ),
        ("all are a little above", vec![window(110, Undecided); 24], Fails, 2640),
        ("too near to tell", vec![window(99, Undecided); 2], Undecided, 198),
        (
            "the client gave out in one",
            [vec![window(0, Meets); 3], vec![window(0, Invalid)]].concat(),
            Invalid,
            0,
        ),
        (
            "the backlog grew in one",
            [vec![window(0, Meets); 3], vec![grew(window(0, Meets))]].concat(),
            Fails,
            0,
        ),
        ("one was refused", [vec![window(0, Meets); 3], vec![refused(window(9, Fails))]].concat(), Fails, 9),
    ] {
        let got = merge(&windows);
        let row = got.row("main", "ttft.p99").unwrap();
        assert_eq!((got.verdict, row.misses), (want, misses), "{what}: {row:?}");
        assert_eq!(got.due_n, 10_000 * windows.len() as u64, "{what}");
    }
}

#[test]
fn only_windows_of_one_level_are_one() {
    let at = |rate: f64| step(Level::rate(rate), Verdict::Meets);
    let steps = [at(1.0), at(2.0), at(2.0), at(1.0)];
    let all: Vec<&Step> = steps.iter().collect();
    let levels =
        |n: usize| together(&all, &[slo()], &times(n)).iter().map(|s| s.level.value).collect::<Vec<f64>>();
    assert_eq!(levels(2), [1.0, 2.0, 1.0]);
    assert_eq!(levels(1), [1.0, 2.0, 2.0, 1.0], "a level that the list names twice");
    let part = |n: usize, abort| {
        let steps = vec![Step { abort, ..window(0, Verdict::Meets) }; 2];
        let all: Vec<&Step> = steps.iter().collect();
        together(&all, &[slo()], &times(n))[0].verdict
    };
    assert_eq!(part(2, None), Verdict::Meets);
    assert_eq!(part(3, None), Verdict::Undecided, "one is left to measure");
    assert_eq!(part(2, Some(Abort::Interrupted)), Verdict::Undecided);
    assert_eq!(part(2, Some(Abort::ServerGone)), Verdict::Undecided);
}

/// Eight hours at 500 req/s: no window has more than a million requests; the answer is that of all windows together.
#[test]
fn hours_are_measured_in_windows() {
    let times = StepTimes { measure: Span::secs(8 * 3600), ..StepTimes::default() };
    let plan = toml::from_str("rates = [500]").unwrap();
    let search = Search::new(&plan, &times, &[slo()], Open::rate(Arrivals::Poisson), None).unwrap();
    let mut steps = Vec::new();
    let mut measured = Duration::ZERO;
    while let Next::Measure(ask) = search.next("main", &steps) {
        assert!(ask.level == Level::rate(500.0) && ask.measure <= Duration::from_secs(2000), "{ask:?}");
        assert!(!ask.extend);
        measured += ask.measure;
        steps.push(window(60, Verdict::Undecided));
    }
    assert_eq!((steps.len(), measured.as_secs_f64().round()), (15, 28_800.0));
    let goodput = &search.answers("main", &steps)[0].goodput;
    assert_eq!(
        (goodput.status(), goodput.bracket.met),
        (Status::NotReached, Some(500.0)),
        "{:?}",
        goodput.reason
    );
    let counts = StepEvidence::Misses { limit: "ttft.p99".into(), misses: 900, n: 150_000 };
    assert_eq!(decisive(goodput), Some(&counts), "{:?}", goodput.reason);
}
