//! The report of whole runs, word by word.

use super::*;
use crate::report::fixture;

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
}

/// The report of the two-step case up to, and from, the table of steps.
fn small(from_steps: bool) -> String {
    let text = render(
        &case("two-steps"),
        &super::super::charts::of(&case("two-steps"), &crate::rundir::Traces::default()),
    );
    let (head, tail) = text.split_at(text.find("## Steps").unwrap());
    if from_steps { tail.to_owned() } else { head.to_owned() }
}

#[test]
fn a_small_report_begins_with_the_answer() {
    insta::assert_snapshot!(small(false), @r#"
    # One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)

    A40, Qwen3-0.6B, 600 in / 30 out

    ## Question

    How many requests per second can one A40 take while it keeps its SLO?

    - SLO: p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms
    - workload: 600 in / 30 out tokens, Poisson arrivals, cold cache
    - model: qwen3-0.6b
    - server: http&#58;//127.0.0.1:8000
    - hardware: 1 × A40
    - measured: 2 steps, 7,800 requests, 2026-11-20T10:15:00Z

    ## Answer

    **One A40 serves at least 20 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 45.** The boundary lies between 20 requests/s, shown to meet the SLO, and 45 requests/s, shown to fail, where p99 TTFT is what fails: two measured levels, not a confidence interval.

    Evidence: every level of the plan was measured.

    Three numbers are called goodput; these are all of them:

    - **goodput**, each limit at its own percentile: 20 req/s (met 20, failed 45)
    - **joint goodput**, at least 99 % of the requests within all limits together: 20 req/s (met 20, failed 45)
    - **good requests/s**, at each step: at most 20 req/s, at 20 requests/s

    ## Charts

    ![Latency against achieved throughput: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/latency.png)

    ![Latency against offered rate: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/latency-offered.png)

    ![Offered load against achieved and good requests/s, and output tokens/s: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/throughput.png)

    ![Share of requests within each limit: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/attainment.png)

    ## Caveats

    - The answer is the bracket between two measured levels; it carries no interval and no safe rate. *Put more levels between the two ends of the bracket to narrow it.*
    "#);
}

#[test]
fn a_small_report_ends_with_the_evidence() {
    insta::assert_snapshot!(small(true), @r#"
    ## Steps

    | # | level | offered req/s | achieved req/s | good req/s | TTFT p50 ms | TTFT p90 ms | TTFT p99 ms | TPOT p50 ms | TPOT p99 ms | joint attainment | in flight | verdict | why |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
    | 1 | 20 req/s | 20 | 20 | 20 | 24.8 | 38.2 | 54.6 | 6.5 | 8.36 | 99.96 % | 9.76 | ● meets | every limit is shown to be met |
    | 2 | 45 req/s | 45 | 39.4 | 0.787 | 41,315 | 104,244 | 181,157 | 47 | 123 | 0 % | 562 | ✕ fails | the backlog grows |

    ## Limits

    Requests that missed each limit, of those that count; a request that failed is a miss.

    | level | p99 TTFT ≤ 200 ms | p99 TPOT ≤ 20 ms | stability |
    | --- | ---: | ---: | ---: |
    | 20 req/s | ● 0 of 2,400 | ● 1 of 2,400 | ● meets |
    | 45 req/s | ✕ 5,400 of 5,400 | ✕ 5,400 of 5,400 | ✕ fails |

    ## Percentiles

    Milliseconds from `due`; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, assuming independent requests.

    | level | metric | n | p50 | p90 | p95 | p99 | p99 from | p99 to |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | 20 req/s | TTFT | 2,400 | 24.8 | 38.2 | 44.2 | 54.6 | 52.5 | 57.6 |
    | 20 req/s | TPOT | 2,400 | 6.5 | 7.34 | 7.71 | 8.36 | 8.23 | 8.54 |
    | 20 req/s | e2e | 2,400 | 211 | 342 | 400 | 502 | 482 | 531 |
    | 45 req/s | TTFT | 5,400 | 41,315 | 104,244 | 132,212 | 181,157 | 171,368 | 195,141 |
    | 45 req/s | TPOT | 5,400 | 47 | 81.1 | 96.3 | 123 | 118 | 130 |
    | 45 req/s | e2e | 5,400 | 352,267 | 727,960 | 894,934 | 1,187,140 | 1,128,699 | 1,270,627 |

    ## Throughput

    | level | requests/s | output tokens/s | prompt tokens/s | input tokens, mean | output tokens, mean |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | 20 req/s | 20 | 599 | 11,976 | 601 | 30 |
    | 45 req/s | 39.4 | 1,181 | 23,616 | 601 | 30 |

    ## The client

    Lateness is sent − due: the client's own fault. It is part of every latency above.

    | level | lateness p50 ms | lateness p99 ms | receive lag p99 ms | new connections | sent again |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | 20 req/s | 0.04 | 0.31 | – | 3 | 0 |
    | 45 req/s | 0.04 | 0.31 | – | 3 | 0 |

    ## How to reproduce

    ```sh
    goodput sweep plan.toml
    ```

    - goodput 0.1.0
    - client: linux x86_64, 2 cores
    - seed: 1
    - clock: real

    The plan as resolved, `plan.toml` of the run folder:

    ```toml
    name = "A40, Qwen3-0.6B, 600 in / 30 out"
    seed = 1
    ```

    ## Notes

    ```text
    hypothesis: prefill bound
    ```
    "#);
}

#[test]
fn answers_claim_no_more_than_was_shown() {
    let answers: String = ["interval", "none", "not-reached", "undecided", "concurrency", "no-step"]
        .map(|name| format!("{name}:\n{}\n", answer(&case(name)).lines().next().unwrap()))
        .concat();
    insta::assert_snapshot!(answers, @r#"
    interval:
    **One A40 serves 33.4 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms.** With 90 % probability the boundary lies between 31.6 and 35.3 requests/s, where p99 TTFT is what fails; 31.6 requests/s is safe.
    none:
    **At no measured rate does one A40 meet p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms.** 5 requests/s is shown to fail, where p99 TTFT is what fails; no level is shown to meet the SLO.
    not-reached:
    **One A40 serves 24 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and that is the highest level that was tried.** 24 requests/s is shown to meet the SLO; no level is shown to fail.
    undecided:
    **The steps do not show at which level one A40 meets p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms.** No level is shown to meet the SLO, and none to fail.
    concurrency:
    **One A40 serves at least 32 requests in flight at 29.8 requests/s (600 in / 30 out tokens, closed loop, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 128.** The boundary lies between 32 requests in flight, shown to meet the SLO, and 128 requests in flight, shown to fail, where p99 TTFT is what fails: two measured levels, not a confidence interval.
    no-step:
    There is none: no step was finished.
    "#);
}

#[test]
fn good_requests_are_those_of_the_tier() {
    let mut run = case("two-steps");
    let joint = |tier: &str, misses| crate::stats::step::LimitRow {
        tier: tier.into(),
        limit: "joint".into(),
        n: 2400,
        misses,
        ..run.steps[0].limits[0].clone()
    };
    let rows = [joint("main", 0), joint("bulk", 1200)];
    run.steps[0].limits.extend(rows);
    for (tier, want) in [("main", 20.0), ("bulk", 10.0)] {
        let good = good_rate(&run.steps[0], tier);
        assert!((good - want).abs() < 1e-9, "{tier}: {good}");
    }
    run.steps.truncate(1);
    let bulk = Answer { tier: "bulk".into(), ..run.answers[0].clone() };
    assert!(three(&run, &bulk, true).contains("at most 10 req/s, at 20 requests/s"));
}

#[test]
fn percentiles_say_what_they_leave_out() {
    let mut run = case("two-steps");
    assert!(!percentiles(&run).contains("Of answered requests"));
    (run.steps[0].failed, run.steps[1].cut) = (3, 1200);
    assert!(percentiles(&run).contains("Of answered requests"), "{}", percentiles(&run));
    assert!(percentiles(&run).ends_with("3 failed, 1,200 cut off.\n"), "{}", percentiles(&run));
}

#[test]
fn text_from_outside_starts_nothing() {
    let mut run = case("found");
    run.name = "evil | name\n# heading <script>".into();
    run.meta.notes = Some("```\n# not a heading\n\u{1b}[31m".into());
    run.steps[0].reason = "a|b\nc".into();
    run.plan_toml = "x = \"```\"\n".into();
    let text = render(&run, &[]);
    assert!(
        !text.contains("<script") && !text.contains('\u{1b}') && text.contains("evil \\| name \\# heading")
    );
    assert_eq!(
        text.lines().filter(|l| l.starts_with("# ")).count(),
        2,
        "the title, and the note in its fence"
    );
    assert!(
        text.contains("````text\n```") && text.contains("````toml\nx = \"```\"") && text.contains("a\\|b c")
    );
}
