use super::*;

fn row(limit: &str, misses: u64, verdict: Verdict) -> LimitRow {
    LimitRow {
        tier: "main".into(),
        class: "all".into(),
        limit: limit.into(),
        limit_ms: None,
        n: 1000,
        misses,
        censored: 0,
        clusters: 0,
        cluster_sq: 0,
        co_misses: Vec::new(),
        attainment: None,
        low: Some(1.0 - (misses as f64 + 3.0) / 1000.0),
        high: Some(1.0),
        verdict,
    }
}

#[test]
fn the_binding_limit_decides_the_verdict() {
    use Verdict::{Fails, Invalid, Meets, Undecided};
    for (rows, verdict, binding) in [
        (vec![], Undecided, None),
        (vec![row("ttft.p99", 2, Meets), row("joint", 900, Fails)], Meets, Some("ttft.p99")), // joint has no say
        // 8 × and 6 × the allowed share.
        (vec![row("ttft.p99", 80, Fails), row("tpot.p95", 300, Fails)], Fails, Some("ttft.p99")),
        (vec![row("ttft.p99", 80, Fails), row("tpot.p95", 600, Fails)], Fails, Some("tpot.p95")),
        (vec![row("ttft.p99", 80, Fails), row("stability", 0, Fails)], Fails, Some("stability")),
        // Failures miss every limit; if they make up the misses, they bind.
        (vec![row("ttft.p99", 80, Fails), row("error-rate", 70, Fails)], Fails, Some("error-rate")),
        (vec![row("ttft.p99", 80, Fails), row("error-rate", 20, Fails)], Fails, Some("ttft.p99")),
        (vec![row("ttft.p99", 80, Fails), row("tpot.p99", 0, Invalid)], Fails, Some("ttft.p99")),
        (vec![row("ttft.p99", 0, Meets), row("tpot.p99", 0, Invalid)], Invalid, None),
        (vec![row("ttft.p99", 9, Undecided), row("tpot.p99", 0, Meets)], Undecided, Some("ttft.p99")),
        (vec![row("ttft.p99", 0, Meets), row("stability", 0, Undecided)], Undecided, Some("stability")),
        (vec![row("ttft.p99", 5, Meets), row("tpot.p95", 40, Meets)], Meets, Some("tpot.p95")), // 43/50 against 8/10
        (vec![row("error-rate", 0, Meets), row("stability", 0, Meets)], Meets, Some("error-rate")),
    ] {
        assert_eq!(tier_verdict(&rows, "main"), (verdict, binding.map(String::from)), "{rows:?}");
    }
    assert_eq!(tier_verdict(&[row("ttft.p99", 0, Meets)], "other").0, Undecided, "rows of another tier");
}

#[test]
fn errors_bind_if_failures_make_up_the_misses() {
    use Verdict::{Fails, Undecided};
    for (limit, misses, verdict, failed, want) in [
        ("ttft.p99", 80, Fails, 40, ERRORS),
        ("ttft.p99", 80, Fails, 39, "ttft.p99"), // most were slow
        ("ttft.p99", 0, Fails, 0, "ttft.p99"),
        ("joint", 80, Fails, 80, ERRORS),
        ("ttft.p99", 80, Undecided, 80, "ttft.p99"), // nothing is shown yet
        ("error-rate", 80, Fails, 80, "error-rate"), // the plan's own limit
        ("stability", 0, Fails, 80, "stability"),
        ("itl.p99", 80, Fails, 80, "itl.p99"), // gaps, not requests
    ] {
        let got = blamed(Some(limit.into()), verdict, &[row(limit, misses, verdict)], "main", |_| failed);
        assert_eq!(got.as_deref(), Some(want), "{limit}: {failed} of {misses}");
    }
    assert_eq!(blamed(None, Fails, &[], "main", |_| 9), None);
}

#[test]
fn a_limit_of_a_class_binds_by_its_key_and_its_own_failures() {
    use Verdict::{Fails, Meets};
    let of = |class: &str, r: LimitRow| LimitRow { class: class.into(), ..r };
    let rows = [
        row("ttft.p99", 5, Meets),
        of("short", row("ttft.p99", 80, Fails)),
        of("short", row("error-rate", 10, Fails)),
        of("long", row("error-rate", 70, Fails)),
    ];
    let (verdict, binding) = tier_verdict(&rows, "main");
    assert_eq!(
        (verdict, binding.as_deref()),
        (Fails, Some("short/ttft.p99")),
        "the errors are another class's"
    );
    let failed = |of_short: u64| move |class: &str| if class == "short" { of_short } else { 900 };
    let blame = |n| blamed(binding.clone(), Fails, &rows, "main", failed(n));
    assert_eq!(blame(10).as_deref(), Some("short/ttft.p99"));
    assert_eq!(blame(60).as_deref(), Some(ERRORS));
}

#[test]
fn reasons_contain_numbers() {
    for (misses, n, low, high, verdict, want) in [
        (
            41,
            1200,
            0.9,
            0.97,
            Verdict::Fails,
            "p99 TTFT ≤ 200 ms: 41 misses of 1,200 requests (3.4 %, allowed 1 %)",
        ),
        (
            12,
            2000,
            0.981,
            0.998,
            Verdict::Undecided,
            "p99 TTFT ≤ 200 ms: 12 misses of 2,000 requests leave 0.2–1.9 %, allowed 1 %: 2,000 of about 7,000 requests needed without another miss, of about 29,000 at this share of misses",
        ),
        (
            1,
            9000,
            0.9913,
            1.0,
            Verdict::Meets,
            "p99 TTFT ≤ 200 ms: 1 miss of 9,000 requests: at most 0.87 %, allowed 1 %",
        ),
    ] {
        let row = LimitRow { n, low: Some(low), high: Some(high), ..row("ttft.p99", misses, verdict) };
        let c = JudgedRow {
            row,
            p0: 0.01,
            inflation: 16.0,
            title: "p99 TTFT ≤ 200 ms".into(),
            fault: None,
            missed: Vec::new(),
            answered: true,
        };
        assert_eq!(reason(&[c], "main", verdict, 0.05, Some("ttft.p99"), None), want);
    }
    assert_eq!(reason(&[], "main", Verdict::Undecided, 0.05, None, None), "nothing was measured");
    assert_eq!(reason(&[], "main", Verdict::Invalid, 0.05, None, None), "the client was the limit");
}
