//! Tests of the sentences about every kind of answer.

use super::*;
use goodput_core::level::Control;
use goodput_core::units::short;
use goodput_plan::MeasuredWorkload;
use goodput_run::fixture;
use goodput_run::rundir::{FailureRow, Run};
use goodput_stats::search::answer::{Bracket, Conclusion};
use goodput_stats::stats::step::Abort;
use goodput_stats::stats::summary::ERRORS;

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
}

fn first(name: &str) -> String {
    let run = case(name);
    sentences(&run, &run.answers[0]).answer
}

#[test]
fn headlines_claim_no_more_than_was_shown() {
    for (name, want) in [
        (
            "two-steps",
            "One A40 serves at least 20 requests/s within the SLO; it fails at 45 (the backlog grows)",
        ),
        ("interval", "One A40 serves 33.4 requests/s within the SLO; TTFT is the limit"),
        (
            "stability",
            "One A40 serves at least 38 requests/s within the SLO; it fails at 48 (the backlog grows)",
        ),
        ("not-reached", "One A40 serves at least 24 requests/s within the SLO; more was not tried"),
        ("one-failing", "Undecided: 60 requests/s fails, and nothing lower was tried"),
        ("adaptive-undecided", "Undecided: the steps have too few requests to tell"),
        ("none", "Not even 5 requests/s meets the SLO; TTFT is the limit"),
        ("unloaded-misses", "Even unloaded, one A40 misses the SLO; TTFT is the limit"),
        ("all-failed", "Every request failed at 2 requests/s (server-error 500)"),
        (
            "invalid",
            "One A40 serves at least 20 requests/s within the SLO; above that the client was the limit",
        ),
    ] {
        assert_eq!(headline(&case(name)), want, "{name}");
    }
    let mut run = case("not-reached");
    run.answers[0].goodput.conclusion = Conclusion::OPEN;
    assert_eq!(headline(&run), "One A40 serves at least 24 requests/s within the SLO; above is undecided");
    let mut run = case("two-steps");
    run.meta.gpus = Some(4);
    run.answers[0].goodput.binding = Some(ERRORS.into());
    assert_eq!(
        headline(&run),
        "4 × A40 serve at least 20 requests/s within the SLO; they fail at 45 (requests fail)"
    );
    run = case("invalid");
    run.answers[0].goodput.bracket.met = None;
    assert_eq!(headline(&run), "No answer: the client was the limit, not the server");
}

/// Review these as somebody who buys GPUs by them.
#[test]
fn two_sentences_of_every_status() {
    let names = [
        "found",
        "adaptive",
        "interval",
        "stability",
        "concurrency",
        "not-reached",
        "adaptive-not-reached",
        "none",
        "unloaded-misses",
        "all-failed",
        "undecided",
        "one-failing",
        "adaptive-undecided",
        "invalid",
    ];
    let said: String = names
        .map(|name| {
            let run = case(name);
            let AnswerSentences { answer: said, evidence, .. } = sentences(&run, &run.answers[0]);
            format!("{name}:\n{said}\n{evidence}\n")
        })
        .concat();
    insta::assert_snapshot!(said, @r#"
    found:
    One A40 serves at least 32 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 36, where p99 TTFT is the limit that binds.
    Evidence: 32 req/s meets (p99 TTFT: 9 of 3,840 missed); 36 req/s fails (p99 TTFT: 65 of 4,320 missed); 34 req/s is undecided (p99 TPOT: 40 of 4,080 missed); ended because all 11 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests): at 34 req/s 1,700 more requests without a miss would do, or about 1,300,000 at this share of misses.
    adaptive:
    One A40 serves at least 30 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 34.6, where p99 TPOT is the limit that binds.
    Evidence: 30 req/s meets (p99 TTFT: 5 of 3,600 missed); 34.6 req/s fails (p99 TPOT: 5 of 415 missed); 34 req/s is undecided (p99 TPOT: 10 of 1,020 missed); ended because the budget of 15m is spent.
    interval:
    One A40 serves 33.4 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, where p99 TTFT is the limit that binds; with 90 % confidence the true limit lies between 31.6 and 35.3.
    Evidence: a fit to 11 steps under load with 32,760 requests; 32 req/s meets (p99 TTFT: 9 of 3,840 missed); 36 req/s fails (p99 TTFT: 65 of 4,320 missed); ended because all 11 levels of the list are measured.
    stability:
    One A40 serves at least 38 requests/s while keeping p99 TPOT ≤ 200 ms, and fails at 48, where the backlog grows.
    Evidence: 38 req/s meets (p99 TPOT: 0 of 4,560 missed); 48 req/s fails (the backlog grows); ended because all 5 levels of the list are measured.
    concurrency:
    One A40 serves at least 32 requests in flight at 29.8 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 128, where p99 TTFT is the limit that binds.
    Evidence: 32 in flight (29.8 req/s) meet (p99 TTFT: 7 of 5,963 missed); 128 in flight (37.4 req/s) fail (p99 TTFT: 324 of 7,497 missed); 64 in flight (34.5 req/s) are undecided (p99 TPOT: 82 of 6,905 missed); ended because all 9 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests): at 64 in flight 4,000 more requests without a miss would do, or about 13,000 at this share of misses, which would fail it.
    not-reached:
    One A40 serves at least 24 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.
    Evidence: 24 req/s meets (p99 TTFT: 1 of 2,880 missed); no level is shown to fail; ended because all 5 levels of the list are measured; higher levels would tell how much more.
    adaptive-not-reached:
    One A40 serves at least 10 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.
    Evidence: 10 req/s meets (p99 TTFT: 0 of 1,200 missed; measured twice: undecided, meets); no level is shown to fail; ended because max-rate, 10 req/s, is as far as the plan goes; higher levels would tell how much more.
    none:
    At no measured rate does one A40 keep p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: even 5 requests/s, the lowest, fails, where p99 TTFT is the limit that binds.
    Evidence: 5 req/s fails (p99 TTFT: 81 of 600 missed); ended because all 4 levels of the list are measured.
    unloaded-misses:
    Even unloaded, with one request at a time, one A40 does not keep p99 TTFT ≤ 1 ms, so no rate can: the limit that binds is p99 TTFT.
    Evidence: one request at a time already misses p99 TTFT: 41 of 41 requests; ended because no load makes an unloaded server faster.
    all-failed:
    Every request to one A40 failed at 2 requests/s (server-error 500): no rate keeps p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and nothing is shown of its latencies.
    Evidence: 2 req/s fails (every request failed); ended because all 2 levels of the list are measured.
    undecided:
    It is undecided what one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.
    Evidence: 10 req/s is undecided (p99 TTFT: 0 of 100 missed); 20 req/s is undecided (p99 TTFT: 0 of 200 missed); 25 req/s is undecided (p99 TTFT: 0 of 250 missed); 1 more level is open; ended because all 4 levels of the list are measured; longer steps at the undecided levels would decide it (step.measure, step.min-requests): at 25 req/s 4,600 more requests without a miss would do.
    one-failing:
    It is undecided what one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: 60 requests/s, the lowest that was tried, fails, where p99 TTFT is the limit that binds.
    Evidence: 60 req/s fails (p99 TTFT: 7,200 of 7,200 missed); ended because the one level of the list is measured; lower levels would decide it.
    adaptive-undecided:
    It is undecided what one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.
    Evidence: 4.32 req/s is undecided (p99 TTFT: 0 of 51 missed); 8.64 req/s is undecided (p99 TTFT: 0 of 103 missed); 17.3 req/s is undecided (p99 TTFT: 0 of 207 missed); 1 more level is open; ended because the budget of 1m is spent; more time (--budget) would decide it.
    invalid:
    One A40 serves at least 20 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; above that the client was the limit, not the server.
    Evidence: 20 req/s meets (p99 TTFT: 0 of 2,400 missed); 30 req/s is invalid (the client was the limit); no level is shown to fail; ended because all 4 levels of the list are measured; a client on an idle machine with more cores, or a higher step.max-in-flight, would tell.
    "#);
}

#[test]
fn sentences_of_rarer_answers() {
    let said = |run: &Run| sentences(run, &run.answers[0]);
    let mut run = case("not-reached");
    run.answers[0].goodput.conclusion = Conclusion::OPEN;
    assert!(
        said(&run).answer.ends_with("p99 TPOT ≤ 20 ms; whether it can take more is undecided."),
        "{:?}",
        said(&run)
    );
    assert!(said(&run).evidence.contains("longer steps would decide it (step.measure, step.min-requests)"));
    run.steps[4].abort = Some(Abort::ServerGone);
    assert!(said(&run).answer.ends_with(", before the server stopped answering."), "{:?}", said(&run));
    assert!(said(&run).evidence.ends_with("the server's log may tell why it stopped."), "{:?}", said(&run));

    let mut run = case("two-steps");
    run.meta.gpus = Some(4);
    run.answers[0].goodput.conclusion.level_mut().unwrap().per_gpu = Some(5.0);
    run.answers[0].goodput.binding = Some("stability".into());
    assert!(
        said(&run).answer.starts_with("4 × A40 serve at least 20 requests/s (5 per GPU) while keeping"),
        "{:?}",
        said(&run)
    );
    assert!(said(&run).answer.ends_with(", and fail at 45, where the backlog grows."), "{:?}", said(&run));
    run.answers[0].goodput.binding = Some(ERRORS.into());
    assert!(said(&run).answer.ends_with(", and fail at 45, where requests fail."), "{:?}", said(&run));

    let mut run = case("invalid");
    run.answers[0].goodput.bracket.met = None;
    assert!(said(&run).answer.ends_with("the client was the limit, not the server."), "{:?}", said(&run));

    // A level above the lowest fails, and those below it are open.
    let mut run = case("undecided");
    run.answers[0].goodput.bracket.failed = Some(20.0);
    assert!(
        said(&run).answer.ends_with("20 requests/s fails, and no lower level is shown to meet."),
        "{:?}",
        said(&run)
    );
    assert!(
        said(&run).evidence.contains("; longer steps at the undecided levels would decide it"),
        "{:?}",
        said(&run)
    );

    let mut run = case("unloaded-misses");
    (run.steps[0].failed, run.steps[0].completed) = (run.steps[0].due_n, 0);
    assert!(
        said(&run).answer.contains("failed unloaded, one at a time: no rate keeps p99 TTFT ≤ 1 ms"),
        "{:?}",
        said(&run)
    );
}

#[test]
fn every_answer_is_short_and_has_its_slo_and_evidence() {
    for (name, run) in fixture::cases() {
        for a in &run.answers {
            let AnswerSentences { answer: first, with, evidence: second, .. } = sentences(&run, a);
            assert!(with.starts_with("Measured with: ") && with.ends_with('.'), "{name}: {with}");
            let words = first.split(' ').filter(|w| w.contains(char::is_alphanumeric)).count();
            assert!(words <= 42 || name == "e2e", "{name}: {words} words: {first}");
            let whole = |s: &str| s.ends_with('.') && !s[..s.len() - 1].contains(". ") && !s.contains("..");
            assert!(whole(&first) && whole(&second), "{name}: {first} {second}");
            assert!(first.contains(&slo(tier_of(&run, a).unwrap())), "{name}: {first}");
            let ended = super::ended(a.goodput.reason.ended());
            assert!(second.contains(&ended) && !second.contains("ttft.p"), "{name}: {second}");
            assert!(second.matches("req/s (").count() <= 6, "{name}: {second}");
            assert!(
                run.terms.is_some()
                    || a.goodput.interval90().is_some()
                    || a.goodput.bracket.failed.is_none_or(|f| first.contains(&short(f))),
                "{name}: {first}"
            );
        }
    }
}

#[test]
fn a_server_that_answers_nothing_is_not_called_slow() {
    assert!(first("all-failed").contains("failed at 2 requests/s (server-error 500): no rate keeps"));
    let mut run = case("all-failed");
    run.failures.push(FailureRow {
        kind: "timeout".into(),
        count: 500,
        status: None,
        ..run.failures[0].clone()
    });
    assert_eq!(headline(&run), "Every request failed at 2 requests/s (timeout)", "the most frequent kind");
    run.failures.clear();
    assert_eq!(headline(&run), "Every request failed at 2 requests/s");
}

#[test]
fn a_cell_never_tells_the_low_end_alone() {
    let cell = |name: &str| goodput_cell(Control::Rate, &case(name).answers[0].goodput);
    for (name, want) in [
        ("found", "at least 32 req/s, fails at 36"),
        ("interval", "33.4 req/s (90 % interval 31.6 – 35.3, safe 31.6)"),
        ("open", "undecided: about 5.2 req/s (90 % interval 0 – 9.1, no safe one)"),
        ("top", "at least 10 req/s, safe 9.6"),
        ("safe-only", "undecided (8.64 req/s is safe)"),
        ("no-rate", "none (none meets, 0.33 req/s fails)"),
        ("not-reached", "at least 24 req/s, none fails"),
        ("invalid", "invalid (20 req/s meets, none fails)"),
        ("none", "none (none meets, 5 req/s fails)"),
        ("unloaded-misses", "none"),
    ] {
        assert_eq!(cell(name), want, "{name}");
    }
}

#[test]
fn a_level_measured_again_says_so() {
    let mut run = case("adaptive-not-reached");
    run.steps[4].verdict = goodput_stats::stats::step::Verdict::Fails;
    run.answers[0].goodput.bracket.failed = Some(10.0);
    run.answers[0].goodput.bracket.met = Some(8.64);
    let evidence = &sentences(&run, &run.answers[0]).evidence;
    assert!(
        evidence.contains("10 req/s fails (") && evidence.contains("measured twice: fails, meets"),
        "{evidence}"
    );
}

#[test]
fn several_tiers_are_told_apart() {
    let run = case("tiers");
    let said: String = run
        .answers
        .iter()
        .map(|a| {
            format!("{}\n{}\n", whose(&run, a), {
                let s = sentences(&run, a);
                [s.answer, s.with, s.evidence].join("\n")
            })
        })
        .collect();
    insta::assert_snapshot!(format!("{}\n{said}", headline(&run)), @r#"
    2 × A40 serve at least 20 requests/s within the SLO of gold; they fail at 25 (TTFT)
    gold
    2 × A40 serve at least 20 requests/s (10 per GPU) within the SLO of gold (p99 TTFT ≤ 60 ms), and fail at 25, where p99 TTFT is the limit that binds.
    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: 20 req/s meets (p99 TTFT: 18 of 2,400 missed); 25 req/s fails (p99 TTFT: 49 of 3,000 missed); ended because all 8 levels of the list are measured.
    bulk
    2 × A40 serve at least 30 requests/s (15 per GPU) within the SLO of bulk (p99 TTFT ≤ 300 ms and p99 TPOT ≤ 20 ms), and fail at 36, where p99 TPOT is the limit that binds.
    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: 30 req/s meets (p99 TPOT: 11 of 3,600 missed); 36 req/s fails (p99 TPOT: 95 of 4,320 missed); ended because all 8 levels of the list are measured.
    "#);
    assert!(whose(&case("found"), &case("found").answers[0]).is_empty());
}

#[test]
fn a_knee_is_no_answer_where_there_is_none() {
    let mut a = case("found").answers[0].clone();
    assert!(knee(&a).is_some_and(|k| k.contains("37 requests/s") && k.contains("not the SLO answer")));
    for conclusion in [Conclusion::None, Conclusion::OPEN, Conclusion::Invalid { safe: None }] {
        a.goodput.conclusion = conclusion;
        assert_eq!(knee(&a), None);
    }
}

#[test]
fn the_rate_and_the_price_of_figures_are_told() {
    for (name, at, paid) in [
        ("adaptive", "at 29.94 requests/s, as achieved in step 10", Some("at 0.39 USD an hour")),
        ("concurrency", "at 32 requests in flight, 29.76 requests/s as achieved in step 6", None),
        ("tiers", "at 19.96 requests/s, as achieved in step 4", Some("at 2 × 0.39 USD an hour")),
    ] {
        let run = case(name);
        let c = run.capacity(&run.answers[0]).unwrap();
        assert_eq!((basis(&run.answers[0], &c).as_str(), price(&run).as_deref()), (at, paid), "{name}");
    }
    let mut run = case("one-step");
    run.steps[0].achieved_rate = 20.4;
    let c = run.capacity(&run.answers[0]).unwrap();
    assert_eq!(basis(&run.answers[0], &c), "at 20 requests/s, the level of step 1");
}

#[test]
fn a_closed_loop_has_no_arrivals() {
    let mut run = case("concurrency");
    assert_eq!(workload(&run), "600 in / 30 out tokens, closed loop, cold cache");
    assert!(first("concurrency").contains("32 requests in flight at 29.8 requests/s while"));
    let text = "lognormal (cv 1.2, max 9) in / 30 out tokens, closed loop, warm cache";
    run.meta.workload = MeasuredWorkload::Legacy(text.into());
    assert_eq!(workload(&run), text, "of an earlier version");
    let g = &mut run.answers[0].goodput;
    (g.conclusion, g.bracket) = (Conclusion::OPEN, Bracket { met: None, failed: Some(1.0) });
    assert_eq!(headline(&run), "Undecided: 1 request in flight fails, and nothing lower was tried");
    run.steps.retain(|s| s.level.value > 15.0);
    run.answers[0].goodput.bracket.failed = Some(16.0);
    assert_eq!(headline(&run), "Undecided: 16 requests in flight fail, and nothing lower was tried");
    let open = case("found");
    assert_eq!(workload(&open), open.meta.workload.to_string());
}
