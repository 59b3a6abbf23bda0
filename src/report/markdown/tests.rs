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

    **One A40 serves at least 20 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 45, where p99 TTFT is the limit that binds.** Evidence: 20 req/s meets, 45 req/s fails (ttft.p99: 5400 of 5400 missed); ended because all 2 levels of the list are measured.

    Three numbers are called goodput; these are all of them:

    - **goodput**, each limit at its own percentile: at least 20 req/s, fails at 45
    - **joint goodput**, at least 99 % of the requests within all limits together: at least 20 req/s, fails at 45
    - **good requests/s**, those within all limits together: 20 req/s at 20 req/s

    ## Capacity

    Held all the time at 20 requests/s (step 1), with nothing in reserve.

    |  | One A40 |
    | --- | ---: |
    | requests per second | 20 |
    | requests per minute | 1,200 |
    | requests per hour | 72,000 |
    | requests per day | 1.73 million |
    | output tokens per second | 599 |
    | prompt tokens per second | 11,976 |

    ## Caveats

    - The answer is the bracket between two measured levels; it carries no interval and no safe rate. *More levels between its two ends narrow it (search.rates), or more time for the adaptive search (--budget).*

    ## Charts

    ![Latency against achieved throughput: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/latency.png)

    ![Latency against offered rate: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/latency-offered.png)

    ![Offered load against achieved and good requests/s, and output tokens/s: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/throughput.png)

    ![Share of requests within each limit: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (TTFT)](charts/attainment.png)

    ## Accepted and rejected

    - accepted, shown to meet the SLO (req/s): 20
    - rejected, shown to fail (req/s): 45 (p99 TTFT)
    "#);
}

#[test]
fn a_small_report_ends_with_the_evidence() {
    insta::assert_snapshot!(small(true), @r#"
    ## Steps

    In the order they were measured. ↗: the backlog grows, so the latencies have no steady value.

    | # | level | requests | offered req/s | achieved req/s | good req/s | TTFT p50 ms | TTFT p90 ms | TTFT p99 ms | TPOT p50 ms | TPOT p99 ms | joint attainment | in flight | verdict | why |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
    | 1 | 20 req/s | 2,400 | 20 | 20 | 20 | 24.8 | 38.2 | 54.6 | 6.5 | 8.36 | 99.96 % | 9.76 | ● meets | every limit is shown to be met |
    | 2 | 45 req/s | 5,400 | 45 | 39.4 | 0.787 | 41,315 | 104,244 | 181,157 | 47 | 123 | 0 % | 562 | ✕ fails ↗ | the backlog grows |

    ## Limits

    Requests that missed each limit, of those that count; a request that failed is a miss.

    | # | level | p99 TTFT ≤ 200 ms | p99 TPOT ≤ 20 ms | stability |
    | ---: | --- | ---: | ---: | ---: |
    | 1 | 20 req/s | ● 0 of 2,400 | ● 1 of 2,400 | ● meets |
    | 2 | 45 req/s | ✕ 5,400 of 5,400 | ✕ 5,400 of 5,400 | ✕ fails |

    ## Percentiles

    Milliseconds from `due`; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, assuming independent requests.

    | # | level | metric | n | p50 | p90 | p95 | p99 | p99 from | p99 to |
    | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | 1 | 20 req/s | TTFT | 2,400 | 24.8 | 38.2 | 44.2 | 54.6 | 52.5 | 57.6 |
    | 1 | 20 req/s | TPOT | 2,400 | 6.5 | 7.34 | 7.71 | 8.36 | 8.23 | 8.54 |
    | 1 | 20 req/s | e2e | 2,400 | 211 | 342 | 400 | 502 | 482 | 531 |
    | 2 | 45 req/s | TTFT | 5,400 | 41,315 | 104,244 | 132,212 | 181,157 | 171,368 | 195,141 |
    | 2 | 45 req/s | TPOT | 5,400 | 47 | 81.1 | 96.3 | 123 | 118 | 130 |
    | 2 | 45 req/s | e2e | 5,400 | 352,267 | 727,960 | 894,934 | 1,187,140 | 1,128,699 | 1,270,627 |

    ## Throughput

    | # | level | requests/s | output tokens/s | prompt tokens/s | input tokens, mean | output tokens, mean |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: |
    | 1 | 20 req/s | 20 | 599 | 11,976 | 601 | 30 |
    | 2 | 45 req/s | 39.4 | 1,181 | 23,616 | 601 | 30 |

    ## The client

    Lateness is sent − due: the client's own fault. It is part of every latency above.

    | # | level | lateness p50 ms | lateness p99 ms | receive lag p99 ms | new connections | sent again |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: |
    | 1 | 20 req/s | 0.04 | 0.31 | – | 3 | 0 |
    | 2 | 45 req/s | 0.04 | 0.31 | – | 3 | 0 |

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
    **One A40 serves 33.4 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: with 90 % probability the boundary lies between 31.6 and 35.3, where p99 TTFT is the limit that binds; 31.6 requests/s is safe.** Evidence: 32 req/s meets, 36 req/s fails (ttft.p99: 65 of 4320 missed); undecided: 34 req/s (tpot.p99: 40 of 4080 missed); ended because all 11 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests).
    none:
    **At no measured rate does one A40 keep p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms (600 in / 30 out tokens, Poisson arrivals, cold cache): even 5 requests/s, the lowest, fails, where p99 TTFT is the limit that binds.** Evidence: the lowest level, 5 req/s, already fails (ttft.p99: 81 of 600 missed); ended because all 4 levels of the list are measured.
    not-reached:
    **One A40 serves at least 24 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.** Evidence: met up to 24 req/s (ttft.p99: 1 of 2880 missed), and no level is shown to fail; ended because all 5 levels of the list are measured; higher levels would tell how much more.
    undecided:
    **It is undecided what one A40 can take (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.** Evidence: no level is shown to meet or to fail; undecided: 5 req/s, 10 req/s, 20 req/s, 25 req/s (ttft.p99: 0 of 250 missed); ended because all 4 levels of the list are measured; longer steps at the undecided levels would decide it (step.measure, step.min-requests).
    concurrency:
    **One A40 serves at least 32 requests in flight at 29.8 requests/s (600 in / 30 out tokens, closed loop, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 128, where p99 TTFT is the limit that binds.** Evidence: 32 in flight meets, 128 in flight fails (ttft.p99: 324 of 7497 missed); undecided: 64 in flight (tpot.p99: 82 of 6905 missed); ended because all 9 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests).
    no-step:
    There is none: no step was finished.
    "#);
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

/// Of many steps only the telling ones have their percentiles; a level that a second step decided is not undecided.
#[test]
fn an_adaptive_report_stays_short() {
    let run = case("adaptive");
    let text = percentiles(&run);
    assert!(text.contains("all others stand in steps.csv"), "{text}");
    assert!(text.contains("| unloaded | TTFT |") && text.contains("| 34 req/s | TTFT |"), "{text}");
    assert!(!text.contains("| 8.64 req/s |") && !text.contains("| 36 req/s |"), "{text}");
    insta::assert_snapshot!(decided(&run), @r#"
    - accepted, shown to meet the SLO (req/s): 24.5, 30
    - rejected, shown to fail (req/s): 34.6 (p99 TPOT), 36 (p99 TTFT), 69.1 (p99 TTFT)
    - undecided, with too few requests to tell (req/s): 2.16, 4.32, 8.64, 17.3, 34
    "#);
    assert!(!decided(&case("adaptive-not-reached")).contains("8.64, 10"), "10 was decided");
    let steps = steps(&run);
    assert!(steps.contains("| 1 | unloaded | baseline | 41 |") && steps.contains("| – | too few"), "{steps}");
}

/// Set `GOODPUT_TEXT_DIR` to keep the texts and read them.
#[test]
fn every_case_reads_as_a_whole() {
    let keep = std::env::var_os("GOODPUT_TEXT_DIR").map(std::path::PathBuf::from);
    for (name, run) in fixture::cases() {
        let report = render(&run, &[]);
        let terminal = crate::report::terminal::answer(&run, &[]);
        if let Some(dir) = &keep {
            let table = |width| crate::report::terminal::table(&run, Some(width));
            let shown = format!("{}\n{}\n\n{terminal}", table(80), table(100));
            std::fs::write(dir.join(format!("{name}.md")), &report).unwrap();
            std::fs::write(dir.join(format!("{name}.txt")), shown).unwrap();
        }
        for text in [&report, &terminal] {
            assert!(
                !text.contains("NaN") && !text.contains("None") && !text.contains("inf "),
                "{name}: {text}"
            );
        }
        let lines: Vec<&str> = report.lines().filter(|l| !l.is_empty()).collect();
        let empty = lines.windows(2).find(|w| w[0].starts_with("## ") && w[1].starts_with("## "));
        assert!(empty.is_none(), "{name}: {empty:?}");
    }
}
