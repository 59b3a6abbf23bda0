//! Searches over made-up steps: a server of known capacity, and every reason to stop.

use super::*;
use crate::search::answer::{Basis, KneeBasis, Status};
use crate::search::config::Open;
use crate::search::reason::StepEvidence;
use crate::search::reason::{FitEvidence, LevelsEvidence};
use crate::search::stop::HighestKey;
use crate::stats::step::{LimitRow, Quantiles};
use goodput_core::slo::Metric;
use goodput_workload::arrivals::Arrivals;
use std::collections::BTreeMap;

pub(in crate::search) fn search(text: &str) -> Search {
    let slo: Slo = toml::from_str("ttft.p99 = \"100ms\"").unwrap();
    Search::new(
        &toml::from_str(text).unwrap(),
        &StepTimes { max_error_share: Fraction::try_from(0.1).ok(), ..StepTimes::default() },
        &[slo],
        Open::rate(Arrivals::Poisson),
        Some(2),
    )
    .unwrap()
}

fn row(limit: &str, verdict: Verdict) -> LimitRow {
    LimitRow {
        tier: "main".into(),
        class: "all".into(),
        limit: limit.into(),
        limit_ms: None,
        n: 1200,
        misses: 41,
        censored: 0,
        clusters: 0,
        cluster_sq: 0,
        co_misses: Vec::new(),
        attainment: None,
        low: Some(0.9),
        high: Some(0.99),
        verdict,
    }
}

pub(in crate::search) fn step(level: Level, verdict: Verdict) -> Step {
    let ttft = Quantiles { p99: Some(10.0 + level.value), ..Quantiles::default() };
    let e2e = Quantiles { p50: Some(500.0), ..Quantiles::default() };
    Step {
        settle_s: 10.0,
        measure_s: 60.0,
        due_n: 1200,
        offered_rate: level.value,
        sent_rate: level.value,
        achieved_rate: level.value,
        latency: BTreeMap::from([(Metric::Ttft, ttft), (Metric::E2e, e2e)]),
        stable: Some(true),
        verdict,
        limits: vec![row("ttft.p99", verdict), row("joint", verdict), row("stability", Verdict::Meets)],
        ..Step::blank(level)
    }
}

/// Runs a search against `server`, which returns the step of a level. Returns the measured levels and the steps.
pub(in crate::search) fn run(search: &Search, server: impl Fn(Level) -> Step) -> (Vec<f64>, Vec<Step>) {
    let mut steps = vec![];
    for _ in 0..100 {
        match search.next("main", &steps) {
            Next::Measure(ask) => steps.push(server(ask.level)),
            Next::Done => return (steps.iter().map(|s: &Step| s.level.value).collect(), steps),
        }
    }
    panic!("the search does not end");
}

/// Returns a server that meets up to `good` and achieves at most `capacity`.
fn server(good: f64, capacity: f64) -> impl Fn(Level) -> Step {
    move |level| {
        let mut s = step(level, if level.value <= good { Verdict::Meets } else { Verdict::Fails });
        s.achieved_rate = level.value.min(capacity);
        s
    }
}

/// Returns the counts of the level that decides an answer from verdicts of single levels: the one that fails, else the
/// highest that meets.
pub(in crate::search) fn decisive(g: &Goodput) -> Option<&StepEvidence> {
    g.reason.evidence().iter().find_map(|e| match e {
        Evidence::Levels(
            LevelsEvidence::Bracket { failed: level, .. }
            | LevelsEvidence::MetUpTo(level)
            | LevelsEvidence::LowestFails(level)
            | LevelsEvidence::LowestOverloaded(level)
            | LevelsEvidence::NoneMeetsBelow(level),
        ) => Some(&level.counts),
        _ => None,
    })
}

#[test]
fn lists_are_run_as_they_are_written() {
    let (levels, steps) = run(&search("rates = [8, 1, 2]"), server(2.0, 100.0));
    assert_eq!(levels, [8.0, 1.0, 2.0]);
    let a = &search("rates = [8, 1, 2]").answers("main", &steps)[0];
    assert_eq!(
        (a.goodput.status(), a.goodput.bracket.met, a.goodput.bracket.failed),
        (Status::Found, Some(2.0), Some(8.0))
    );
    assert_eq!(
        (a.goodput.rate(), a.goodput.per_gpu(), a.goodput.binding.as_deref()),
        (Some(2.0), Some(1.0), Some("ttft.p99"))
    );
    let counts = || StepEvidence::Misses { limit: "ttft.p99".into(), misses: 41, n: 1200 };
    let at = |rate| LevelEvidence { level: Level::rate(rate), achieved_rate: rate, counts: counts() };
    assert_eq!(
        a.goodput.reason,
        Reason::new(
            [
                Evidence::Fit(FitEvidence::BelowLowest { level: Level::rate(1.0) }),
                Evidence::Levels(LevelsEvidence::Bracket { met: at(2.0), failed: at(8.0) }),
            ],
            Ended::Stopped(Stop::ListDone { levels: 3 })
        )
    );
    assert_eq!(
        (a.goodput.interval90(), a.goodput.safe_rate()),
        (None, None),
        "a bracket carries no interval"
    );
    assert_eq!(a.goodput.basis, Basis::Bracket, "counts that no curve fits");
    let (levels, steps) = run(&search("concurrency = [1, 8, 64]"), |level| Step {
        achieved_rate: 12.3,
        ..server(8.0, 100.0)(level)
    });
    let a = &search("concurrency = [1, 8, 64]").answers("main", &steps)[0];
    assert_eq!((levels.len(), a.control, a.goodput.rate()), (3, Control::Concurrency, Some(8.0)));
    let [.., Evidence::Levels(LevelsEvidence::Bracket { met, .. })] = a.goodput.reason.evidence() else {
        panic!("{:?}", a.goodput.reason)
    };
    assert_eq!((met.level, met.achieved_rate), (Level::concurrency(8), 12.3));
}

#[test]
fn a_dead_server_ends_a_list() {
    for (abort, levels) in [
        (Abort::AllFailed, 1),
        (Abort::ServerGone, 1),
        (Abort::NoAnswer, 3), // too few to say so
        (Abort::Gross, 3),    // the list was asked for: it goes on
    ] {
        let (measured, _) =
            run(&search("rates = [1, 2, 4]"), |l| Step { abort: Some(abort), ..step(l, Verdict::Fails) });
        assert_eq!(measured.len(), levels, "{abort}");
    }
    let search = search("rates = [1, 2]");
    let steps = [Step { abort: Some(Abort::Interrupted), ..step(Level::rate(1.0), Verdict::Undecided) }];
    let Next::Measure(again) = search.next("main", &steps) else { panic!("a step") };
    assert_eq!(again.level, Level::rate(1.0), "an interrupted step is measured again");
    assert_eq!((again.kind, again.ends, again.extend), (StepKind::List, Ends::AtItsTime, true));
    let a = &search.answers("main", &steps)[0].goodput;
    assert_eq!((a.status(), a.reason.ended()), (Status::Undecided, &Ended::LevelsLeft));
    assert_eq!(search.next("other", &steps), Next::Measure(again), "each series on its own");
}

#[test]
fn a_failing_server_is_left_alone() {
    let refuses = |most: f64| {
        move |l: Level| {
            let abort = (l.value > most).then_some(Abort::Errors);
            Step { abort, ..step(l, if abort.is_some() { Verdict::Fails } else { Verdict::Meets }) }
        }
    };
    for (plan, most, levels, ended) in [
        ("rates = [1, 2, 4, 8]", 2.5, vec![1.0, 2.0, 4.0], Stop::Errors { level: Level::rate(4.0) }),
        ("rates = [8, 1, 9, 2]", 5.0, vec![8.0, 1.0, 2.0], Stop::Errors { level: Level::rate(8.0) }),
        ("rates = [1, 2, 4]", 2.5, vec![1.0, 2.0, 4.0], Stop::ListDone { levels: 3 }),
        (KNEE, 2.5, vec![1.0, 2.0, 4.0], Stop::Errors { level: Level::rate(4.0) }),
        ("ladder = { max = 64 }", 2.5, vec![1.0, 2.0, 4.0], Stop::Errors { level: Level::concurrency(4) }),
    ] {
        let (measured, steps) =
            run(&search(plan), |l| Step { output_tokens_per_s: 100.0 * l.value, ..refuses(most)(l) });
        assert_eq!(measured, levels, "{plan}");
        let stop = search(plan).decide(&of_series("main", &steps)).expect_err("it has ended");
        assert_eq!(stop, ended, "{plan}");
    }
}

const KNEE: &str = "ramp = { start = 1, factor = 2 }";
const MISSED: &str = "ramp = { start = 1, factor = 2, until = \"slo-missed\" }";

/// Returns the last rate of a ramp and the reason why it stopped.
fn ramp(plan: &str, server: impl Fn(Level) -> Step) -> (f64, Stop) {
    let (levels, steps) = run(&search(plan), server);
    let stop = search(plan).decide(&of_series("main", &steps)).expect_err("it has ended");
    (levels.last().copied().expect("a step"), stop)
}

/// Returns the end of a ramp: its last rate, with the stop at that level.
fn at(value: f64, stop: fn(Level) -> Stop) -> (f64, Stop) {
    (value, stop(Level::rate(value)))
}

fn max_rate(level: Level) -> Stop {
    Stop::Highest { key: HighestKey::MaxRate, level }
}

#[test]
fn ramps_never_go_beyond_an_overload() {
    let unstable = |l: Level| Step { stable: Some(l.value < 8.0), ..step(l, Verdict::Meets) };
    let gross =
        |l: Level| Step { abort: (l.value >= 4.0).then_some(Abort::Gross), ..step(l, Verdict::Meets) };
    let invalid = |l: Level| step(l, if l.value < 4.0 { Verdict::Meets } else { Verdict::Invalid });
    assert_eq!(ramp(MISSED, unstable), at(8.0, |level| Stop::Unstable { level }));
    for plan in [KNEE, MISSED] {
        assert_eq!(ramp(plan, invalid), at(4.0, |level| Stop::ClientLimit { level }));
        // Aborted for gross misses that the client caused.
        let late = |l: Level| Step { abort: gross(l).abort, ..invalid(l) };
        assert_eq!(ramp(plan, late), at(4.0, |level| Stop::ClientLimit { level }));
    }
    assert_eq!(ramp(MISSED, gross), at(4.0, |level| Stop::Gross { level }));
    // Past the knee the ramp returns, but never to a level as high as one that was too much.
    let (levels, _) = run(&search(KNEE), unstable);
    let mut too_much = f64::INFINITY;
    for level in &levels {
        assert!(*level < too_much, "{levels:?}");
        too_much = if *level >= 8.0 { *level } else { too_much };
    }
    assert!(levels.len() > 4 && levels[4..].iter().all(|l| (4.0..8.0).contains(l)), "{levels:?}");
}

/// A server completes at most 10 requests per second, whatever the SLO.
#[test]
fn a_ramp_finds_the_knee_and_stops() {
    for good in [1.0, 1e9] {
        let (levels, steps) = run(&search(KNEE), server(good, 10.0));
        assert_eq!(levels, [1.0, 2.0, 4.0, 8.0, 16.0, 11.3, 9.51, 10.4], "SLO met up to {good}");
        let knee = search(KNEE).answers("main", &steps)[0].knee.unwrap();
        assert_eq!(knee.basis, KneeBasis::Throughput);
        let [low, high] = knee.interval90.unwrap();
        assert!((knee.rate - 10.0).abs() < 0.3 && low < 10.0 && 10.0 < high && high < 1.2 * low, "{knee:?}");
        let stop = search(KNEE).decide(&of_series("main", &steps)).expect_err("it has ended");
        assert_eq!(stop, Stop::Knee { knee, control: Control::Rate });
    }
    // The first rate is already beyond the server: no lower one was measured to return to.
    let (levels, _) = run(&search(KNEE), server(1e9, 0.5));
    assert_eq!(levels, [1.0]);
}

/// Throughput shows no break here, but the backlog grows.
#[test]
fn a_growing_backlog_brackets_the_knee() {
    let grows = |l: Level| Step { stable: Some(l.value < 9.0), ..step(l, Verdict::Meets) };
    let (_, steps) = run(&search(KNEE), grows);
    let knee = search(KNEE).answers("main", &steps)[0].knee.unwrap();
    let [low, high] = knee.interval90.unwrap();
    assert!(low < 9.0 && 9.0 <= high && high <= 1.11 * low + 1e-9, "{knee:?}");
    assert_eq!(knee.basis, KneeBasis::Backlog);
}

#[test]
fn gross_misses_at_the_end_of_a_step_end_a_ramp_too() {
    let missing = |l: Level, misses| {
        let mut s = step(l, Verdict::Fails);
        s.limits[0].misses = misses;
        s
    };
    let often = |l: Level| missing(l, if l.value < 4.0 { 41 } else { 600 });
    let missed = ramp("ramp = { start = 4, until = \"slo-missed\" }", often);
    assert_eq!(missed, at(4.0, |level| Stop::Gross { level }));
    let knee = ramp(&format!("{KNEE}\nmax-rate = 8"), often);
    assert_eq!(knee, at(8.0, max_rate), "the knee may lie far above the SLO");
    // The stop requires that every tier is missed.
    let two = |l: Level| {
        let mut s = missing(l, 600);
        let bulk = |limit| LimitRow { tier: "bulk".into(), misses: 0, ..row(limit, Verdict::Meets) };
        s.limits.extend([bulk("ttft.p99"), bulk("stability")]);
        s
    };
    assert_eq!(ramp("ramp = { start = 1, factor = 2 }\nmax-rate = 8", two), at(8.0, max_rate));
}

/// Answers take 30 s: at any rate, hardly half of them arrive within a window of a minute after ten seconds of
/// settling.
#[test]
fn long_answers_are_no_knee() {
    let slow = |l: Level| {
        let mut s = server(4.0, 1e9)(l);
        s.latency.insert(Metric::Ttft, Quantiles { p50: Some(50.0), ..Quantiles::default() });
        s.latency.insert(Metric::E2e, Quantiles { p50: Some(30_050.0), ..Quantiles::default() });
        s.achieved_rate = l.value * 40.0 / 60.0;
        s
    };
    assert_eq!(ramp("ramp = { start = 1, factor = 2 }\nmax-rate = 128", slow), at(128.0, max_rate));
}

#[test]
fn failures_bind_in_the_answer_too() {
    let failing = Step { failed: 40, ..step(Level::rate(4.0), Verdict::Fails) };
    let a = &search("rates = [4]").answers("main", &[failing])[0];
    for g in [&a.goodput, &a.joint_goodput] {
        assert_eq!(g.binding.as_deref(), Some("errors"));
        assert_eq!(decisive(g), Some(&StepEvidence::Failed { failed: 40, due: 1200 }), "{:?}", g.reason);
    }
}

#[test]
fn ramps_end_by_their_rules() {
    assert_eq!(ramp(MISSED, server(4.0, 1e9)), at(8.0, |level| Stop::SloMissed { level }));
    for (max, plan) in [(5.0, KNEE), (8.0, MISSED), (1.0, KNEE)] {
        assert_eq!(ramp(&format!("{plan}\nmax-rate = {max}"), server(9.0, 1e9)), at(max, max_rate));
    }
    let first = search(KNEE).next("main", &[]);
    let Next::Measure(first) = first else { panic!("a step") };
    assert_eq!((first.level, first.kind, first.ends), (Level::rate(1.0), StepKind::Ramp, Ends::WhenBehind));
}

#[test]
fn each_tier_has_its_answer() {
    let tiers: Vec<Slo> = ["gold", "bulk"]
        .iter()
        .map(|n| toml::from_str(&format!("name = \"{n}\"\nttft.p99 = \"1s\"")).unwrap())
        .collect();
    let plan = toml::from_str("ramp = { start = 1, factor = 2, until = \"slo-missed\" }").unwrap();
    let search =
        Search::new(&plan, &StepTimes::default(), &tiers, Open::rate(Arrivals::Poisson), None).unwrap();
    let rows = |tier: &str, level: Level, good: f64, joint: f64| -> Vec<LimitRow> {
        let at = |good| if level.value <= good { Verdict::Meets } else { Verdict::Fails };
        let named = |limit, verdict| LimitRow { tier: tier.into(), ..row(limit, verdict) };
        vec![named("ttft.p99", at(good)), named("joint", at(joint)), named("stability", Verdict::Meets)]
    };
    let (levels, steps) = run(&search, |l| Step {
        limits: [rows("gold", l, 2.0, 1.0), rows("bulk", l, 8.0, 8.0)].concat(),
        ..step(l, Verdict::Meets)
    });
    assert_eq!(levels, [1.0, 2.0, 4.0, 8.0, 16.0], "until the last tier is missed");
    let answers = search.answers("main", &steps);
    let bracket = |g: &Goodput| (g.bracket.met.unwrap(), g.bracket.failed.unwrap());
    assert_eq!((answers[0].tier.as_str(), answers[1].tier.as_str()), ("gold", "bulk"));
    assert_eq!(answers.iter().map(|a| bracket(&a.goodput)).collect::<Vec<_>>(), [(2.0, 4.0), (8.0, 16.0)]);
    assert_eq!(bracket(&answers[0].joint_goodput), (1.0, 2.0), "the joint goodput is its own");
}

#[test]
fn instability_fails_the_joint_goodput_too() {
    let mut s = step(Level::rate(4.0), Verdict::Meets);
    s.limits[2].verdict = Verdict::Fails;
    s.stable = Some(false);
    let a = &search("rates = [4]").answers("main", &[s])[0];
    assert_eq!(
        (a.joint_goodput.status(), a.joint_goodput.binding.as_deref()),
        (Status::Undecided, Some("stability"))
    );
    assert_eq!(decisive(&a.goodput), Some(&StepEvidence::Unstable), "{:?}", a.goodput.reason);
}

#[test]
fn none_needs_a_server_that_is_not_overloaded() {
    let one = Level::rate(100.0);
    let failing = |level| step(level, Verdict::Fails);
    let all_failed = |level| Step { abort: Some(Abort::AllFailed), ..failing(level) };
    for (what, step, want) in [
        ("stable to its end", Step { in_flight_mean: 9.0, ..failing(one) }, Status::None),
        ("unstable", Step { stable: Some(false), ..failing(one) }, Status::Undecided),
        ("not known", Step { stable: None, in_flight_mean: 9.0, ..failing(one) }, Status::Undecided),
        ("not known, but empty", Step { stable: None, in_flight_mean: 0.4, ..failing(one) }, Status::None),
        (
            "ended early",
            Step { abort: Some(Abort::Gross), in_flight_mean: 9.0, ..failing(one) },
            Status::Undecided,
        ),
        ("closed loop at one", failing(Level::concurrency(1)), Status::None),
        ("closed loop at four", failing(Level::concurrency(4)), Status::Undecided),
        ("nothing is answered", all_failed(one), Status::None),
        ("nothing is answered, closed loop", all_failed(Level::concurrency(4)), Status::None),
    ] {
        let a = &search("rates = [100]").answers("main", &[step])[0].goodput;
        assert_eq!((a.status(), a.rate()), (want, None), "{what}: {:?}", a.reason);
        let overloaded = |e: &Evidence| matches!(e, Evidence::Levels(LevelsEvidence::LowestOverloaded(_)));
        let lower = a.reason.evidence().iter().any(overloaded);
        assert_eq!(lower, want == Status::Undecided, "{what}: {:?}", a.reason);
    }
    let a = &search("rates = [100]").answers("main", &[all_failed(one)])[0].goodput;
    assert_eq!(decisive(a), Some(&StepEvidence::AllFailed), "{:?}", a.reason);
}
