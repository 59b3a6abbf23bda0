//! What is said of every kind of answer.

use super::*;
use crate::report::fixture;
use crate::rundir::FailureRow;
use crate::search::answer::Status;
use crate::stats::step::Abort;

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
}

fn first(name: &str) -> String {
    let run = case(name);
    sentences(&run, &run.answers[0])[0].clone()
}

#[test]
fn headlines_claim_no_more_than_was_shown() {
    for (name, want) in [
        ("two-steps", "One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)"),
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
    run.answers[0].goodput.status = Status::Undecided;
    assert_eq!(headline(&run), "One A40 serves at least 24 requests/s within the SLO; above is undecided");
    let mut run = case("two-steps");
    run.meta.gpus = Some(4);
    run.answers[0].goodput.binding = Some(ERRORS.into());
    assert_eq!(
        headline(&run),
        "4 × A40 serve at least 20 requests/s within the SLO; they fail at 45 (requests fail)"
    );
    run = case("invalid");
    run.answers[0].goodput.met = None;
    assert_eq!(headline(&run), "No answer: the client was the limit, not the server");
}

/// What every status says: read them as somebody who buys GPUs by them.
#[test]
fn two_sentences_of_every_status() {
    let names = [
        "found",
        "adaptive",
        "interval",
        "stability",
        "concurrency",
        "long-names",
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
            format!("{name}:\n{}\n", sentences(&run, &run.answers[0]).join("\n"))
        })
        .concat();
    insta::assert_snapshot!(said, @r#"
    found:
    One A40 serves at least 32 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 36, where p99 TTFT is the limit that binds.
    Evidence: 32 req/s meets, 36 req/s fails (ttft.p99: 65 of 4320 missed); undecided: 34 req/s (tpot.p99: 40 of 4080 missed); ended because all 11 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests).
    adaptive:
    One A40 serves at least 30 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 34.6, where p99 TPOT is the limit that binds.
    Evidence: 30 req/s meets, 34.6 req/s fails (tpot.p99: 5 of 415 missed); undecided: 34 req/s (tpot.p99: 10 of 1020 missed); ended because the bracket cannot be narrowed within what is left of 15m.
    interval:
    One A40 serves 33.4 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: with 90 % probability the boundary lies between 31.6 and 35.3, where p99 TTFT is the limit that binds; 31.6 requests/s is safe.
    Evidence: 32 req/s meets, 36 req/s fails (ttft.p99: 65 of 4320 missed); undecided: 34 req/s (tpot.p99: 40 of 4080 missed); ended because all 11 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests).
    stability:
    One A40 serves at least 38 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TPOT ≤ 200 ms, and fails at 48, where the backlog grows.
    Evidence: 38 req/s meets, 48 req/s fails (stability: the backlog grew); ended because all 5 levels of the list are measured.
    concurrency:
    One A40 serves at least 32 requests in flight at 29.8 requests/s (600 in / 30 out tokens, closed loop, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 128, where p99 TTFT is the limit that binds.
    Evidence: 32 in flight meets, 128 in flight fails (ttft.p99: 324 of 7497 missed); undecided: 64 in flight (tpot.p99: 82 of 6905 missed); ended because all 9 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests).
    long-names:
    16 × NVIDIA H200 SXM 141GB HBM3e (liquid coo… serve at least 32 requests/s, at least 2 per GPU (lognormal input of 1,800 tokens (cv 1.2, max 32,768), output 350 tokens, gamma arrivals (cv 2.5), warm prefix of 4,000…) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fail at 36, where p99 TTFT is the limit that binds.
    Evidence: 32 req/s meets, 36 req/s fails (ttft.p99: 65 of 4320 missed); undecided: 34 req/s (tpot.p99: 40 of 4080 missed); ended because all 11 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests).
    not-reached:
    One A40 serves at least 24 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.
    Evidence: met up to 24 req/s (ttft.p99: 1 of 2880 missed), and no level is shown to fail; ended because all 5 levels of the list are measured; higher levels would tell how much more.
    adaptive-not-reached:
    One A40 serves at least 10 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.
    Evidence: met up to 10 req/s (ttft.p99: 0 of 1200 missed), and no level is shown to fail; ended because 10 req/s, the plan's max-rate, is shown to meet; higher levels would tell how much more.
    none:
    At no measured rate does one A40 keep p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms (600 in / 30 out tokens, Poisson arrivals, cold cache): even 5 requests/s, the lowest, fails, where p99 TTFT is the limit that binds.
    Evidence: the lowest level, 5 req/s, already fails (ttft.p99: 81 of 600 missed); ended because all 4 levels of the list are measured.
    unloaded-misses:
    Even unloaded, with one request at a time, one A40 does not keep p99 TTFT ≤ 1 ms (600 in / 30 out tokens, Poisson arrivals, cold cache), so no rate can: the limit that binds is p99 TTFT.
    Evidence: already misses unloaded: 41 of 41 requests over 1 ms; ended because more load can only add to it.
    all-failed:
    Every request to one A40 (600 in / 30 out tokens, Poisson arrivals, cold cache) failed at 2 requests/s (server-error 500): no rate keeps p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and nothing is shown of its latencies.
    Evidence: the lowest level, 2 req/s, already fails (every request failed); ended because all 2 levels of the list are measured.
    undecided:
    It is undecided what one A40 can take (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.
    Evidence: no level is shown to meet or to fail; undecided: 5 req/s, 10 req/s, 20 req/s, 25 req/s (ttft.p99: 0 of 250 missed); ended because all 4 levels of the list are measured; longer steps at the undecided levels would decide it (step.measure, step.min-requests).
    one-failing:
    It is undecided what one A40 can take (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: 60 requests/s, the lowest that was tried, fails, where p99 TTFT is the limit that binds.
    Evidence: the lowest level, 60 req/s, already fails (ttft.p99: 7200 of 7200 missed); ended because the one level of the list is measured; lower levels would decide it.
    adaptive-undecided:
    It is undecided what one A40 can take (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.
    Evidence: no level is shown to meet or to fail; undecided: 2.16 req/s, 4.32 req/s, 8.64 req/s, 17.3 req/s (ttft.p99: 0 of 207 missed); ended because the budget of 1m is spent; more time (--budget) would decide it.
    invalid:
    One A40 serves at least 20 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; above that the client was the limit, not the server.
    Evidence: met up to 20 req/s (ttft.p99: 0 of 2400 missed), and no level is shown to fail; ended because all 4 levels of the list are measured; a client on an idle machine with more cores, or a higher step.max-in-flight, would tell.
    "#);
}

#[test]
fn sentences_of_rarer_answers() {
    let said = |run: &Run| sentences(run, &run.answers[0]);
    let mut run = case("not-reached");
    let g = &mut run.answers[0].goodput;
    (g.status, g.rate, g.per_gpu) = (Status::Undecided, None, None);
    assert!(
        said(&run)[0].ends_with("p99 TPOT ≤ 20 ms; whether it can take more is undecided."),
        "{:?}",
        said(&run)
    );
    assert!(said(&run)[1].ends_with("longer steps would decide it (step.measure, step.min-requests)."));
    run.steps[4].abort = Some(Abort::ServerGone);
    assert!(said(&run)[0].ends_with(", before the server stopped answering."), "{:?}", said(&run));
    assert!(said(&run)[1].ends_with("the server's log may tell why it stopped."), "{:?}", said(&run));

    let mut run = case("two-steps");
    run.meta.gpus = Some(4);
    run.answers[0].goodput.per_gpu = Some(5.0);
    run.answers[0].goodput.binding = Some("stability".into());
    assert!(
        said(&run)[0].starts_with("4 × A40 serve at least 20 requests/s, at least 5 per GPU ("),
        "{:?}",
        said(&run)
    );
    assert!(said(&run)[0].ends_with(", and fail at 45, where the backlog grows."), "{:?}", said(&run));
    run.answers[0].goodput.binding = Some(ERRORS.into());
    assert!(said(&run)[0].ends_with(", and fail at 45, where requests fail."), "{:?}", said(&run));

    let mut run = case("invalid");
    let g = &mut run.answers[0].goodput;
    (g.met, g.rate) = (None, None);
    assert!(said(&run)[0].ends_with("the client was the limit, not the server."), "{:?}", said(&run));

    // A level above the lowest fails, and those below it are open.
    let mut run = case("undecided");
    run.answers[0].goodput.failed = Some(20.0);
    assert!(
        said(&run)[0].ends_with("20 requests/s fails, and no lower level is shown to meet."),
        "{:?}",
        said(&run)
    );
    assert!(
        said(&run)[1].contains("; longer steps at the undecided levels would decide it"),
        "{:?}",
        said(&run)
    );

    let mut run = case("unloaded-misses");
    (run.steps[0].failed, run.steps[0].completed) = (run.steps[0].due_n, 0);
    assert!(
        said(&run)[0].contains("failed unloaded, one at a time: no rate keeps p99 TTFT ≤ 1 ms"),
        "{:?}",
        said(&run)
    );
}

#[test]
fn every_answer_is_two_sentences_with_its_slo_and_its_reason() {
    for (name, run) in fixture::cases() {
        for a in &run.answers {
            let [first, second] = sentences(&run, a);
            let whole = |s: &str| s.ends_with('.') && !s[..s.len() - 1].contains(". ") && !s.contains("..");
            assert!(whole(&first) && whole(&second), "{name}: {first} {second}");
            assert!(first.contains(&slo(&run.tiers[0])), "{name}: {first}");
            assert!(second.contains(&a.goodput.reason), "{name}: {second}");
            assert!(
                a.goodput.interval90.is_some() || a.goodput.failed.is_none_or(|f| first.contains(&short(f))),
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
        ("interval", "33.4 req/s (90 % interval 31.6 – 35.3)"),
        ("not-reached", "at least 24 req/s, none fails"),
        ("invalid", "invalid (20 req/s meets, none fails)"),
        ("none", "none (none meets, 5 req/s fails)"),
        ("unloaded-misses", "none"),
    ] {
        assert_eq!(cell(name), want, "{name}");
    }
}

#[test]
fn counts_are_short() {
    for (x, text) in [
        (0.5, "0.5"),
        (31.52, "31.5"),
        (999.6, "1,000"),
        (115_200.0, "115,200"),
        (2_764_800.0, "2.76 million"),
    ] {
        assert_eq!(count(x), text);
    }
}

#[test]
fn a_closed_loop_has_no_arrivals() {
    let mut run = case("concurrency");
    assert_eq!(workload(&run), "600 in / 30 out tokens, closed loop, cold cache");
    assert!(first("concurrency").contains("32 requests in flight at 29.8 requests/s (600 in"));
    run.meta.workload =
        "lognormal (cv 1.2, max 9) in / 30 out tokens, gamma arrivals (cv 2.5), warm cache".into();
    assert_eq!(workload(&run), "lognormal (cv 1.2, max 9) in / 30 out tokens, closed loop, warm cache");
    let open = case("found");
    assert_eq!(workload(&open), open.meta.workload);
}
