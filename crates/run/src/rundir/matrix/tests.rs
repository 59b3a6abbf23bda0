use super::*;
use crate::fixture;
use goodput_stats::stats::step::{Quantiles, StepKind};
use std::collections::BTreeMap;

/// A step of a row from its number of answers, median TTFT and TPOT in ms, and tokens per answer.
fn step(series: &str, kind: StepKind, n: u64, ttft: f64, tpot: f64, out: f64) -> Step {
    let mut s = fixture::cases().swap_remove(0).1.steps.swap_remove(0);
    let q = |ms: f64| Quantiles { n, p50: Some(ms), p99: Some(2.0 * ms), ..Quantiles::default() };
    (s.series, s.kind, s.due_n, s.completed, s.failed, s.abort) = (series.into(), kind, n, n, 0, None);
    (s.stable, s.verdict, s.input_tokens_mean, s.output_tokens_mean) =
        (Some(true), Verdict::Meets, None, Some(out));
    s.latency = BTreeMap::from([
        (Metric::Ttft, q(ttft)),
        (Metric::Tpot, q(tpot)),
        (Metric::E2e, q(ttft + tpot * (out - 1.0))),
    ]);
    s
}

/// A plan with two cold rows on a line of 5 ms plus 0.02 ms per token, and the given row `X`.
fn plan(x: &str) -> Plan {
    let row = |name: &str, input: u32, rest: &str| {
        format!(
            "[[row]]\nname = \"{name}\"\ninput-tokens = {{ fixed = {input} }}\noutput-tokens = {{ fixed = 101 }}\n{rest}\n"
        )
    };
    Plan::from_text(&format!(
        "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\n{}{}{}",
        row("short", 250, "concurrency = 1"),
        row("long", 2000, "concurrency = 1"),
        row("X", 1000, x)
    ))
    .unwrap()
}

/// Returns the answer to row `X` with these steps, and with the two rows of the line if `line`.
fn of(x: &str, line: bool, own: Vec<Step>) -> RowAnswer {
    let plan = plan(x);
    let mut steps = own;
    if line {
        steps.push(step("short", StepKind::List, 50, 10.0, 5.0, 101.0));
        steps.push(step("long", StepKind::List, 50, 45.0, 5.0, 101.0));
    }
    answers(&plan, &plan.series(), &steps).swap_remove(2)
}

/// Returns the answer to a row with eight in flight, from unloaded TTFT and TPOT and those under load, in ms.
fn loaded(x: &str, alone: (f64, f64), own: (f64, f64)) -> RowAnswer {
    let reference = step("X", StepKind::Baseline, 30, alone.0, alone.1, 101.0);
    of(x, true, vec![reference, step("X", StepKind::List, 300, own.0, own.1, 101.0)])
}

const EIGHT: &str = "concurrency = 8";
const FIRST: &str = "concurrency = 8\nmetric = \"ttft\"";

#[test]
fn what_load_adds_comes_first_and_then_what_is_there_without() {
    for (x, alone, own, want) in [
        (EIGHT, (25.0, 5.0), (400.0, 5.1), Some(Bottleneck::Queue)),
        (EIGHT, (25.0, 5.0), (30.0, 11.0), Some(Bottleneck::Batching)),
        (EIGHT, (25.0, 5.0), (28.0, 5.5), Some(Bottleneck::Decode)),
        // The queue grew fourfold but is still a negligible share.
        (EIGHT, (5.0, 5.0), (20.0, 5.1), Some(Bottleneck::Decode)),
        (FIRST, (5.0, 5.0), (20.0, 5.1), Some(Bottleneck::Queue)),
        (FIRST, (25.0, 5.0), (28.0, 9.0), Some(Bottleneck::Prefill)),
        ("concurrency = 8\nmetric = \"tpot\"", (25.0, 5.0), (400.0, 5.1), Some(Bottleneck::Decode)),
        (EIGHT, (1.0, 5.0), (400.0, 9.0), None),
    ] {
        let got = loaded(x, alone, own);
        assert_eq!(got.measured, want, "{x} {own:?}: {:?}", got.evidence);
        let (alike, clear) =
            (matches!(got.evidence, Evidence::Alike(_)), matches!(got.evidence, Evidence::Largest(_)));
        assert!(alike == want.is_none() && clear == want.is_some(), "{x} {own:?}: {:?}", got.evidence);
        let p = got.parts.unwrap();
        let sum = p.overhead.unwrap() + p.prefill + p.queue + p.decode + p.batching;
        let e2e = own.0 + own.1 * 100.0;
        assert!((sum / e2e - 1.0).abs() < 1e-9, "the parts add up: {sum} of {e2e}");
    }
}

#[test]
fn overhead_and_prefill_are_told_apart_by_a_line_over_cold_lengths() {
    let own = || vec![step("X", StepKind::List, 50, 6.0, 5.0, 101.0)];
    let alone = "concurrency = 1\nmetric = \"ttft\"\nexpect = \"overhead\"";
    let got = of(alone, true, own());
    // The row itself is a point of the line, below the other two.
    assert_eq!((got.measured, got.held), (Some(Bottleneck::Prefill), Some(false)), "{:?}", got.evidence);
    let got = of(alone, false, own());
    assert_eq!((got.measured, got.held), (None, None));
    assert!(matches!(got.evidence, Evidence::NoLine(_)), "{:?}", got.evidence);
    let got = of("concurrency = 1\nexpect = \"decode\"", false, own());
    assert_eq!(got.held, Some(true), "no line is needed where decode is most of it");
}

#[test]
fn a_warm_prefix_is_held_against_the_line_of_the_cold_ones() {
    let warm = "concurrency = 8\nmetric = \"ttft\"\nprefix-reuse = 0.9\nexpect = \"cache\"";
    // A cold prompt of 1,000 tokens would take 25 ms.
    let got = loaded(warm, (8.0, 5.0), (11.0, 5.0));
    assert_eq!(got.held, Some(true), "{:?}", got.evidence);
    let saves = |e: &Evidence| matches!(e, Evidence::Largest(LatencyPart::Cache { saved_ms, .. }) if (saved_ms - 17.0).abs() < 0.5);
    assert!(saves(&got.evidence), "{:?}", got.evidence);
    assert_eq!(
        loaded(warm, (24.0, 5.0), (26.0, 5.0)).measured,
        Some(Bottleneck::Prefill),
        "nothing was saved"
    );
    let reference = step("X", StepKind::Baseline, 30, 8.0, 5.0, 101.0);
    let mut own = step("X", StepKind::List, 300, 8.5, 5.0, 101.0);
    own.server.hit_rate = Some(0.01);
    let got = of(warm, true, vec![reference, own]);
    assert_ne!(got.measured, Some(Bottleneck::Cache), "the server says that it was not used");
}

#[test]
fn a_warm_prefix_is_held_against_its_cold_twin() {
    let warm = "concurrency = 8\nmetric = \"ttft\"\nprefix-reuse = 0.9\nexpect = \"cache\"";
    let row = |name: &str, rest: &str| {
        format!(
            "[[row]]\nname = \"{name}\"\ninput-tokens = {{ fixed = 1000 }}\noutput-tokens = {{ fixed = 101 }}\n{rest}\n"
        )
    };
    for (twin, stable, want) in [
        ("concurrency = 8", true, Some((99.0, Some(110.0)))),
        ("concurrency = 8", false, None),
        ("concurrency = 4", true, None),
        ("concurrency = 8\nrate = 2", true, None),
        ("concurrency = 8\ncache = \"warm\"", true, None),
    ] {
        let text = format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\n{}{}",
            row("X", warm),
            row("cold", twin)
        );
        let plan = Plan::from_text(&text).unwrap();
        let cold = Step { stable: Some(stable), ..step("cold", StepKind::List, 300, 110.0, 5.0, 101.0) };
        let steps = [
            step("X", StepKind::Baseline, 30, 8.0, 5.0, 101.0),
            step("X", StepKind::List, 300, 11.0, 5.0, 101.0),
            step("cold", StepKind::Baseline, 30, 25.0, 5.0, 101.0),
            cold,
        ];
        let got = answers(&plan, &plan.series(), &steps).swap_remove(0);
        let parts = got.parts.unwrap();
        assert_eq!(parts.saved.map(|saved| (saved, parts.cold_twin)), want, "{twin}");
        let held = matches!(got.evidence, Evidence::Largest(LatencyPart::Cache { twin: true, .. }));
        assert_eq!(held, want.is_some(), "{twin}: {:?}", got.evidence);
    }
}

#[test]
fn thin_evidence_is_undecided_and_says_why() {
    let expect = "concurrency = 8\nexpect = \"queue\"";
    let reference = || step("X", StepKind::Baseline, 30, 25.0, 5.0, 101.0);
    let own = |n| step("X", StepKind::List, n, 400.0, 5.0, 101.0);
    let failing = Step { failed: 30, ..own(300) };
    let unusable = |is_reference, fault| Evidence::UnusableStep(UnusableStep { is_reference, fault });
    for (steps, evidence) in [
        (vec![], Evidence::NotMeasured),
        (vec![own(300)], Evidence::NoReference),
        (vec![reference(), own(19)], unusable(false, StepFault::FewAnswers(19))),
        (vec![Step { completed: 3, ..reference() }, own(300)], unusable(true, StepFault::FewAnswers(3))),
        (vec![reference(), failing], unusable(false, StepFault::Failed(0.1))),
        (
            vec![reference(), Step { verdict: Verdict::Invalid, ..own(300) }],
            unusable(false, StepFault::ClientLimit),
        ),
    ] {
        let got = of(expect, true, steps);
        assert_eq!((got.measured, got.held, got.evidence), (None, None, evidence));
    }
    assert_eq!(of(expect, true, vec![reference(), own(300)]).held, Some(true));
    let open = Step { stable: Some(false), ..own(300) };
    let got = of("rate = 8\nexpect = \"queue\"", true, vec![open]);
    assert_eq!(got.held, Some(true), "an open loop whose backlog grows needs no reference");
}
