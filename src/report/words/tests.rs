//! What is said of every kind of answer.

use super::*;
use crate::report::fixture;
use crate::rundir::FailureRow;
use crate::search::answer::Status;

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
        ("not-reached", "One A40 serves 24 requests/s within the SLO; more was not tried"),
        ("one-failing", "Undecided: 60 requests/s fails, and nothing lower was tried"),
        ("none", "Not even 5 requests/s meets the SLO; TTFT is the limit"),
        ("all-failed", "Every request failed at 2 requests/s (server-error 500)"),
        ("invalid", "No answer: the client was the limit, not the server"),
    ] {
        assert_eq!(headline(&case(name)), want, "{name}");
    }
    let mut run = case("not-reached");
    let g = &mut run.answers[0].goodput;
    (g.status, g.rate, g.per_gpu) = (Status::Undecided, None, None);
    assert_eq!(headline(&run), "One A40 serves at least 24 requests/s within the SLO; above is undecided");
    let [told, evidence] = sentences(&run, &run.answers[0]);
    assert!(told.starts_with("One A40 serves at least 24 requests/s ("), "{told}");
    assert_eq!(evidence, "24 requests/s is shown to meet the SLO; above it nothing is shown.");
    let mut run = case("two-steps");
    run.meta.gpus = Some(4);
    run.answers[0].goodput.binding = Some("stability".into());
    assert_eq!(
        headline(&run),
        "4 × A40 serve at least 20 requests/s within the SLO; they fail at 45 (the backlog grows)"
    );
    run.answers[0].goodput.per_gpu = Some(5.0);
    let [told, _] = sentences(&run, &run.answers[0]);
    assert!(told.contains("at least 20 requests/s, at least 5 requests/s per GPU ("), "{told}");
    assert!(told.ends_with(", and fail at 45."), "{told}");
    run.answers[0].goodput.binding = Some(ERRORS.into());
    assert!(headline(&run).ends_with("they fail at 45 (requests fail)"));
    assert!(sentences(&run, &run.answers[0])[1].contains("where requests fail"));
}

#[test]
fn a_server_that_answers_nothing_is_not_called_slow() {
    assert_eq!(first("all-failed"), "Every request to one A40 failed at 2 requests/s (server-error 500).");
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
