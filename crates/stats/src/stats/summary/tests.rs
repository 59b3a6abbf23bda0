//! Whole steps of simulated queues, with and without faults of the client.

use super::*;
use crate::stats::cluster::pooled_inflation;
use crate::stats::compact_record::compact;
use crate::stats::queues::{Queue, Service};
use goodput_core::record::{Failure, Finished, Record};

pub(super) const FAST: Queue = Queue { servers: 1, mean_s: 0.002, service: Service::Fixed };

pub(super) fn tiers(text: &str) -> Vec<Slo> {
    vec![toml::from_str(text).unwrap()]
}

pub(in crate::stats) fn input<'a>(
    rate: f64,
    records: &'a [CompactRecord],
    itl: &'a ItlTally,
    tiers: &'a [Slo],
) -> StepInput<'a> {
    StepInput {
        series: "main",
        step: 1,
        kind: StepKind::List,
        level: Level::rate(rate),
        started_at: "2026-11-01T00:00:00Z",
        started_s: 0.0,
        ended_s: 90.0,
        settle: Duration::from_secs(10),
        measure: Duration::from_secs(60),
        tail: Duration::from_secs(5),
        drain: Duration::from_secs(1),
        abort: None,
        records,
        classes: &[],
        itl,
        earlier: &[],
        tiers,
        receive_lag_p99_ms: Some(0.1),
        client_busy: Some(0.2),
        client_waiting: Some(0.0),
        confidence: 0.95,
        halts: &[],
        workers: &[],
        client_limit: false,
        in_flight_limit: None,
        allowed: ClientTolerance::default(),
        max_error_share: None,
        price_per_hour: Some(3.6),
    }
}

/// Formats a number of requests as the reasons do.
fn count(n: u64) -> String {
    goodput_core::units::thousands(n as f64)
}

/// Summarises a step of `FAST` at 100 requests/s, with each record changed by `change` and the input by `set`.
pub(super) fn step(slo: &str, change: impl Fn(&mut Record), set: impl Fn(&mut StepInput<'_>)) -> Step {
    let mut records = FAST.records(100.0, 10.0, 60.0, 3);
    records.iter_mut().for_each(change);
    let records = compact(&records);
    let (tiers, itl) = (tiers(slo), ItlTally::new(&tiers(slo)));
    let mut input = input(100.0, &records, &itl, &tiers);
    set(&mut input);
    summarize(&input)
}

pub(super) const TTFT: &str = "ttft.p99 = \"100ms\"";

pub(super) fn fail(r: &mut Record, failure: Failure) {
    (r.outcome, r.failure, r.first_token, r.last_token) = (Outcome::Failed, Some(failure), None, None);
}

pub(super) fn every(n: u64, change: impl Fn(&mut Record)) -> impl Fn(&mut Record) {
    move |r| {
        if r.id % n == 0 {
            change(r)
        }
    }
}

#[test]
fn a_lightly_loaded_step_meets_and_its_figures_agree() {
    let s = step(TTFT, |_| (), |_| ());
    assert_eq!(
        (s.verdict, s.binding.as_deref(), s.stable),
        (Verdict::Meets, Some("ttft.p99"), Some(true)),
        "{}",
        s.reason
    );
    assert_eq!(
        s.reason,
        format!("p99 TTFT ≤ 100 ms: 0 misses of {} requests: at most 0.79 %, allowed 1 %", count(s.due_n))
    );
    for (what, got, want, within) in [
        ("offered", s.offered_rate, 100.0, 5.0),
        ("sent", s.sent_rate, s.offered_rate, 0.1),
        ("achieved", s.achieved_rate, s.offered_rate, 0.1),
        ("good", s.good_rate, s.offered_rate, 1e-9),
        ("output tokens", s.output_tokens_per_s, 2.0 * s.achieved_rate, 1e-9),
        ("in flight", s.in_flight_mean, 0.225, 0.03), // ρ + ρ²/2(1−ρ) at ρ = 0.2
        ("cost", s.cost_per_mtok.unwrap(), 1e-3 / s.output_tokens_per_s * 1e6, 1e-9),
        ("TPOT", s.quantiles(Metric::Tpot).p50.unwrap(), 2.0, 1e-3),
    ] {
        assert!((got - want).abs() <= within, "{what}: {got}, not {want}");
    }
    assert_eq!((s.completed, s.failed, s.cut, s.joint_attainment), (s.due_n, 0, 0, Some(1.0)));
    assert_eq!(s.quantiles(Metric::Ttft).n, s.due_n);
    assert_eq!(
        s.limits.iter().map(|r| r.limit.as_str()).collect::<Vec<_>>(),
        ["ttft.p99", "joint", "stability"]
    );
}

/// Rows: steps without any answer, and their verdicts.
#[test]
fn few_failures_decide_no_more_than_their_counts() {
    for (what, step, want, binding) in [
        (
            "ten that were shown to miss, of too few to say that nobody is there",
            step(
                TTFT,
                |r| fail(r, Failure::ServerError),
                |i| (i.abort, i.records) = (Some(Abort::NoAnswer), &i.records[1100..1110]),
            ),
            Verdict::Fails,
            Some("errors"),
        ),
        (
            "one that failed",
            step(
                TTFT,
                |r| fail(r, Failure::ServerError),
                |i| (i.abort, i.records) = (Some(Abort::NoAnswer), &i.records[1100..1101]),
            ),
            Verdict::Undecided,
            Some("ttft.p99"),
        ),
        (
            "none due in the window",
            step(TTFT, |_| (), |i| (i.abort, i.records) = (Some(Abort::NoAnswer), &[])),
            Verdict::Undecided,
            Some("ttft.p99"),
        ),
        (
            "none due in the window, of a server that is dead",
            step(TTFT, |_| (), |i| (i.abort, i.records) = (Some(Abort::AllFailed), &[])),
            Verdict::Undecided,
            Some("ttft.p99"),
        ),
    ] {
        assert_eq!((step.verdict, step.binding.as_deref()), (want, binding), "{what}: {}", step.reason);
    }
}

#[test]
fn verdicts_follow_the_records() {
    let slow = |r: &mut Record| r.first_token = Some(r.due + Duration::from_millis(150));
    let keep = |_: &mut StepInput<'_>| ();
    for (what, step, want, binding) in [
        ("20 % too slow", step(TTFT, every(5, slow), keep), Verdict::Fails, Some("ttft.p99")),
        ("1 % too slow", step(TTFT, every(100, slow), keep), Verdict::Undecided, Some("ttft.p99")),
        (
            "20 % refused",
            step(
                "ttft.p99 = \"100ms\"\nerror-rate = 0.01",
                every(5, |r| fail(r, Failure::RateLimited)),
                keep,
            ),
            Verdict::Fails,
            Some("error-rate"),
        ),
        (
            "one refused of none allowed",
            step("error-rate = 0.0", every(3000, |r| fail(r, Failure::ServerError)), keep),
            Verdict::Fails,
            Some("error-rate"),
        ),
        (
            "too short to tell",
            step(TTFT, |_| (), |i| i.records = &i.records[..2000]),
            Verdict::Undecided,
            Some("ttft.p99"),
        ),
        (
            "interrupted",
            step(TTFT, |_| (), |i| i.abort = Some(Abort::Interrupted)),
            Verdict::Undecided,
            Some("ttft.p99"),
        ),
        (
            "server gone",
            step(TTFT, every(5, slow), |i| i.abort = Some(Abort::ServerGone)),
            Verdict::Undecided,
            Some("ttft.p99"),
        ),
        (
            "all failed at once",
            step(
                TTFT,
                |r| fail(r, Failure::Connect),
                |i| (i.abort, i.records) = (Some(Abort::AllFailed), &i.records[1100..1110]),
            ),
            Verdict::Fails,
            Some("errors"),
        ),
        (
            "TPOT of one-token answers",
            step("tpot.p99 = \"1ms\"", |r| (r.output_asked, r.output_tokens) = (1, Some(1)), keep),
            Verdict::Meets,
            None,
        ),
        (
            "TPOT of answers cut down to one token",
            step("tpot.p99 = \"1ms\"", |r| (r.output_asked, r.output_tokens) = (30, Some(1)), keep),
            Verdict::Undecided,
            Some("tpot.p99"),
        ),
    ] {
        assert_eq!((step.verdict, step.binding.as_deref()), (want, binding), "{what}: {}", step.reason);
    }
}

#[test]
fn answers_without_content_miss_a_limit_on_content() {
    let keep = |_: &mut StepInput<'_>| ();
    for (what, step, want, binding) in [
        (
            "TTFC of answers without content",
            step("ttfc.p99 = \"1s\"", |r| r.first_content = None, keep),
            Verdict::Fails,
            Some("ttfc.p99"),
        ),
        (
            "TTFC of answers that another tool measured, without content",
            step("ttfc.p99 = \"1s\"", |r| (r.first_content, r.output_asked) = (None, 0), keep),
            Verdict::Undecided,
            Some("ttfc.p99"),
        ),
    ] {
        assert_eq!((step.verdict, step.binding.as_deref()), (want, binding), "{what}: {}", step.reason);
    }
}

#[test]
fn an_overload_is_unstable_whatever_the_limits() {
    let q = Queue { servers: 1, mean_s: 0.05, service: Service::Fixed };
    let records = compact(&q.records(24.0, 10.0, 60.0, 1));
    let (tiers, itl) = (tiers("e2e.p99 = \"1h\""), ItlTally::new(&[]));
    let s = summarize(&input(24.0, &records, &itl, &tiers));
    assert_eq!((s.verdict, s.binding.as_deref(), s.stable), (Verdict::Fails, Some("stability"), Some(false)));
    assert!(s.reason.starts_with("not stable") && s.overloaded(), "{}", s.reason);
    let mut closed = input(24.0, &records, &itl, &tiers);
    closed.level = Level::concurrency(8);
    assert_eq!(summarize(&closed).stable, Some(true), "a closed loop is bounded");
}

#[test]
fn a_late_client_is_not_a_slow_server() {
    let late = |ms| {
        move |r: &mut Record| {
            let by = Duration::from_millis(ms);
            (r.sent, r.end) = (r.sent.map(|t| t + by), r.end + by);
            (r.first_token, r.last_token) = (r.first_token.map(|t| t + by), r.last_token.map(|t| t + by));
        }
    };
    let keep = |_: &mut StepInput<'_>| ();
    let s = step(TTFT, late(150), keep);
    assert_eq!(
        (s.verdict, s.binding.clone()),
        (Verdict::Invalid, None),
        "the limit is passed before anything is sent"
    );
    assert!(
        s.reason
            .contains("p99 lateness of 150 ms where 5 ms is allowed (5 % of the tightest limit of 100 ms)"),
        "{}",
        s.reason
    );
    assert_eq!(step(TTFT, late(50), keep).verdict, Verdict::Meets, "its lateness included, it still meets");
    let slow = |r: &mut Record| {
        late(50)(r);
        r.first_token = r.sent.map(|t| t + Duration::from_millis(150));
    };
    assert_eq!(step(TTFT, slow, keep).verdict, Verdict::Fails, "it fails counted from sent as well");
    // 50 ms per token, 2 of them lag: it is the client that misses the limit of 49 ms.
    let stretched = |r: &mut Record| r.last_token = r.first_token.map(|t| t + Duration::from_millis(50));
    for (lag, want) in [(0.1, Verdict::Fails), (3.0, Verdict::Invalid)] {
        let s = step("tpot.p99 = \"49ms\"", stretched, |i| i.receive_lag_p99_ms = Some(lag));
        assert_eq!(s.verdict, want, "lag of {lag} ms: {}", s.reason);
    }
}

#[test]
fn a_client_at_its_limit_decides_nothing() {
    let held = |from: u64| {
        move |r: &mut Record| {
            if r.due >= Duration::from_secs(from) {
                (r.sent, r.end) = (None, r.due);
                fail(r, Failure::ClientLimit);
            }
        }
    };
    let limited = |i: &mut StepInput<'_>| (i.client_limit, i.in_flight_limit) = (true, Some(4096));
    let s = step(TTFT, held(40), limited);
    assert_eq!(s.verdict, Verdict::Invalid);
    assert!(s.reason.contains("max-in-flight") && s.sent_rate < 60.0, "{}", s.reason);
    let slow_then_held = |r: &mut Record| {
        r.first_token = Some(r.due + Duration::from_millis(150));
        held(40)(r);
    };
    assert_eq!(step(TTFT, slow_then_held, limited).verdict, Verdict::Fails, "shown by those due before");
    let unsent =
        every(10, |r| (r.sent, r.first_token, r.last_token, r.outcome) = (None, None, None, Outcome::Cut));
    let s = step(TTFT, unsent, |_| ());
    assert_eq!(s.verdict, Verdict::Invalid);
    assert!(s.reason.starts_with("the client sent"), "{}", s.reason);
    let refused = step(
        TTFT,
        |r| {
            fail(r, Failure::Connect);
            r.sent = None
        },
        |_| (),
    );
    assert_eq!(refused.verdict, Verdict::Fails, "a refused connection is the server's");
}

/// Every tenth request was reset and sent again; every fifth of these was reset again.
#[test]
fn attempts_and_resets_are_counted() {
    let change = |r: &mut Record| {
        r.attempts = 1 + u8::from(r.id.is_multiple_of(10));
        if r.id.is_multiple_of(50) {
            fail(r, Failure::Reset);
        }
    };
    for (count_retries, missed) in [(false, "failed"), (true, "retried")] {
        let slo = format!("{TTFT}\nerror-rate = 0.5\ncount-retries = {count_retries}");
        let s = step(&slo, change, |_| ());
        assert!(s.retried > 500 && s.failed > 100, "{} {}", s.retried, s.failed);
        assert_eq!((s.attempts, s.resets), (s.due_n + s.retried, s.retried + s.failed));
        let errors = s.limits.iter().find(|row| row.limit == "error-rate").unwrap();
        assert_eq!(errors.misses, if count_retries { s.retried } else { s.failed }, "{missed}");
        let latency = s.limits.iter().find(|row| row.limit == "ttft.p99").unwrap();
        assert_eq!(latency.misses, s.failed, "a retry in time is no miss of a latency");
    }
}

#[test]
fn gaps_and_tiers_have_rows_of_their_own() {
    let mut records = FAST.records(100.0, 10.0, 60.0, 3);
    let mut two = tiers("name = \"gold\"\nitl.p95 = \"5ms\"");
    two.extend(tiers("name = \"best-effort\"\nitl.p95 = \"50ms\"\nttft.p50 = \"1s\""));
    let mut itl = ItlTally::new(&two);
    for r in &mut records {
        r.output_asked = 11;
        let stalled = r.id % 4 == 0; // a quarter of the requests, each with three of ten gaps: 7.5 %
        let gaps_us = (0..10).map(|i| if stalled && i < 3 { 20_000 } else { 1_000 }).collect();
        itl.add(&Finished::new(r.clone(), gaps_us));
    }
    let s = summarize(&input(100.0, &compact(&records), &itl, &two));
    let row = |tier: &str, limit: &str| {
        s.limits.iter().find(|r| r.tier == tier && r.limit == limit).unwrap().clone()
    };
    let gold = row("gold", "itl.p95");
    assert_eq!((gold.n, s.quantiles(Metric::Itl).n), (10 * s.due_n, 10 * s.due_n));
    assert!((gold.attainment.unwrap() - 0.925).abs() < 1e-3 && gold.verdict == Verdict::Fails, "{gold:?}");
    assert!(gold.cluster_sq >= 9 * gold.clusters, "three misses at a time: {gold:?}");
    assert_eq!(tier_verdict(&s.limits, "best-effort").0, Verdict::Meets);
    assert_eq!(
        (s.verdict, s.binding.as_deref()),
        (Verdict::Fails, Some("itl.p95")),
        "the first tier is the step's"
    );
    assert!((s.joint_attainment.unwrap() - 0.75).abs() < 0.01, "a request is good if its own gaps are");
}

#[test]
fn nothing_measured_is_undecided() {
    let s = step(TTFT, |_| (), |i| i.records = &[]);
    assert_eq!((s.verdict, s.due_n, s.stable, s.cost_per_mtok), (Verdict::Undecided, 0, None, None));
    assert_eq!(s.reason, "p99 TTFT ≤ 100 ms: no requests to judge");
}

#[test]
fn failures_are_reported_if_they_are_the_cause() {
    let boom = |r: &mut Record| {
        fail(r, Failure::ServerError);
        r.status = Some(500);
    };
    let s = step(TTFT, every(5, boom), |_| ());
    assert_eq!((s.verdict, s.binding.as_deref()), (Verdict::Fails, Some("errors")));
    assert_eq!(
        s.reason,
        format!("{} of {} requests failed (server-error 500)", count(s.failed), count(s.due_n))
    );
    assert_eq!(step_verdict(&s, "main"), (s.verdict, s.binding.clone()), "the search sees the same");
    let two = |r: &mut Record| if r.id.is_multiple_of(2) { boom(r) } else { fail(r, Failure::Timeout) };
    let s = step(TTFT, two, |_| ());
    assert!(s.reason.contains("(timeout × ") || s.reason.contains("(server-error 500 × "), "{}", s.reason);
    let imported = |r: &mut Record| (r.first_content, r.output_asked) = (None, 0);
    let no_answer = step("ttfc.p99 = \"1s\"", imported, |_| ());
    assert_eq!(no_answer.reason, "p99 TTFC ≤ 1 s: no answer could be judged");
}

#[test]
fn percentiles_include_requests_that_were_cut_off() {
    let cut = |r: &mut Record| (r.outcome, r.first_content) = (Outcome::Cut, r.first_token);
    let s = step(TTFT, every(5, cut), |_| ());
    assert!(s.cut > 0);
    assert_eq!(s.quantiles(Metric::Ttft).n, s.due_n, "their first token came");
    assert_eq!(s.quantiles(Metric::E2e).n, s.completed, "their last did not");
    let s = step(TTFT, every(5, |r| (r.outcome, r.first_token) = (Outcome::Cut, None)), |_| ());
    assert_eq!(s.quantiles(Metric::Ttft).n, s.completed, "nothing is known");
    let failed = |r: &mut Record| (r.outcome, r.failure) = (Outcome::Failed, Some(Failure::Truncated));
    let s = step(TTFT, every(5, failed), |_| ());
    assert_eq!(s.quantiles(Metric::Ttft).n, s.completed, "a failure is never a latency");
}

/// The clusters of earlier steps determine how many requests count as one.
#[test]
fn the_inflation_is_pooled_over_the_steps() {
    let with = |misses, cluster_sq, n, kind| {
        let mut s = step(TTFT, |_| (), |i| i.kind = kind);
        let row = &mut s.limits[0];
        (row.misses, row.cluster_sq, row.n) = (misses, cluster_sq, n);
        s
    };
    let of = |steps: &[Step]| pooled_inflation(steps, None, "main", "ttft.p99", 0.01);
    for (what, steps, want) in [
        ("nothing seen", vec![], 16.0),
        ("no miss", vec![with(0, 0, 5000, StepKind::Refine)], 16.0),
        ("alone", vec![with(90, 90, 5000, StepKind::Refine)], 2.5), // (160 + 90) / 100
        ("in tens", vec![with(50, 500, 5000, StepKind::List), with(40, 400, 5000, StepKind::Ramp)], 10.6),
        ("an overload says nothing", vec![with(900, 90_000, 5000, StepKind::Ramp)], 16.0),
        ("nor does an unloaded server", vec![with(10, 1000, 5000, StepKind::Baseline)], 16.0),
    ] {
        assert!((of(&steps) - want).abs() < 1e-9, "{what}: {}", of(&steps));
    }
    let other = pooled_inflation(&[with(90, 90, 5000, StepKind::Refine)], None, "main", "tpot.p99", 0.01);
    assert!((other - 16.0).abs() < 1e-9, "each limit has its own");
    // The verdict uses it: some forty separate misses of 6,000 requests.
    let slow = |r: &mut Record| r.first_token = Some(r.due + Duration::from_millis(150));
    let seen = [with(900, 900, 100_000, StepKind::Refine)];
    let alone = step(TTFT, every(150, slow), |_| ());
    assert_eq!(alone.verdict, Verdict::Undecided, "{}", alone.reason);
    let mut records = FAST.records(100.0, 10.0, 60.0, 3);
    records.iter_mut().for_each(every(150, slow));
    let (tiers, itl) = (tiers(TTFT), ItlTally::new(&tiers(TTFT)));
    let informed = summarize(&StepInput { earlier: &seen, ..input(100.0, &compact(&records), &itl, &tiers) });
    assert_eq!(informed.verdict, Verdict::Meets, "{}", informed.reason);
}

/// One request at a time has no queue: a few misses decide, but a single one does not.
#[test]
fn an_unloaded_server_is_judged_by_few_requests() {
    let slow = |r: &mut Record| r.first_token = Some(r.due + Duration::from_millis(150));
    let unloaded = |missed: u64| {
        let mut records = FAST.records(0.5, 0.0, 30.0, 3);
        records.retain(|r| r.phase == Phase::Measure);
        records.truncate(10);
        assert_eq!(records.len(), 10);
        records.iter_mut().take(missed as usize).for_each(slow);
        let (tiers, itl) = (tiers(TTFT), ItlTally::new(&tiers(TTFT)));
        let records = compact(&records);
        let input = input(1.0, &records, &itl, &tiers);
        let level = Level::concurrency(1);
        let settle = Duration::ZERO;
        summarize(&StepInput { kind: StepKind::Baseline, level, settle, confidence: 0.99, ..input }).verdict
    };
    assert_eq!(
        [unloaded(0), unloaded(1), unloaded(5)],
        [Verdict::Undecided, Verdict::Undecided, Verdict::Fails]
    );
}

/// Rows: the SLO, whether the plan sets the timeout that ends every request, how many get their first token only then, the verdict,
/// and the binding limit.
#[test]
fn a_first_token_before_the_clients_timeout_counts() {
    let with_errors = "ttft.p99 = \"100ms\"\nerror-rate = 0.01";
    for (slo, given, slow, verdict, binding) in [
        (TTFT, false, 0, Verdict::Meets, "ttft.p99"),
        (TTFT, true, 0, Verdict::Meets, "ttft.p99"),
        (TTFT, true, 10, Verdict::Fails, "ttft.p99"), // slow, which is no error
        (with_errors, false, 0, Verdict::Undecided, "error-rate"),
        (with_errors, true, 0, Verdict::Fails, "error-rate"),
    ] {
        let end = |r: &mut Record| {
            r.outcome = if given { Outcome::Failed } else { Outcome::Cut };
            (r.failure, r.output_asked, r.last_token) = (Some(Failure::Timeout), 1000, None);
            r.end = r.due + Duration::from_secs(5);
            if slow > 0 && r.id.is_multiple_of(slow) {
                r.first_token = Some(r.due + Duration::from_secs(1));
            }
        };
        let s = step(slo, end, |_| ());
        let why = format!("{slo} {given} {slow}: {}", s.reason);
        assert_eq!((s.verdict, s.binding.as_deref()), (verdict, Some(binding)), "{why}");
        assert_eq!((s.completed, s.good_rate, s.all_failed()), (0, 0.0, false), "{why}");
        let counts = [s.failed, s.failed_timeout, s.cut, s.cut_timeout];
        let want = if given { [s.due_n, s.due_n, 0, 0] } else { [0, 0, s.due_n, s.due_n] };
        assert_eq!(counts, want, "{why}");
        assert_eq!(s.quantiles(Metric::Ttft).n, s.due_n, "what is known is in the percentiles");
        assert_eq!(step_verdict(&s, "main"), (s.verdict, s.binding.clone()), "the search sees the same");
    }
}
