//! Tests of the report of whole runs, word by word.

use super::*;
use crate::charts;
use crate::render::markdown::{self, blocks};
use crate::render::terminal;
use crate::sections::brief;
use goodput_run::fixture;
use goodput_run::rundir::Traces;

/// Returns the report as Markdown, with these charts.
fn render(run: &Run, charts: &[&Chart]) -> String {
    markdown::render(&document(run, charts))
}

fn text(section: &[Block]) -> String {
    blocks(section, 3)
}

fn percentiles(run: &Run) -> String {
    text(&percentiles::section(run))
}

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
}

/// Returns the report of the two-step case up to, or from, the table of steps.
fn small(from_steps: bool) -> String {
    let charts = charts::of(&case("two-steps"), &Traces::default());
    let text = render(&case("two-steps"), &charts);
    let (head, tail) = text.split_at(text.find("## Steps").unwrap());
    if from_steps { tail.to_owned() } else { head.to_owned() }
}

#[test]
fn a_small_report_begins_with_the_answer() {
    insta::assert_snapshot!(small(false), @r#"
    # One A40 serves at least 20 requests/s within the SLO; it fails at 45 (the backlog grows)

    A40, Qwen3-0.6B, 600 in / 30 out

    ## Question

    How many requests per second can one A40 take while it keeps its SLO?

    - SLO: p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms
    - workload: 600 in / 30 out tokens, Poisson arrivals, cold cache
    - model: qwen3-0.6b
    - server: http&#58;//127.0.0.1:8000
    - hardware: 1 × A40
    - measured: 2 steps, 7,800 requests, 2026-11-20 10:15:00 UTC

    ## Answer

    **One A40 serves at least 20 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 45, where p99 TTFT is the limit that binds.** Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.

    Evidence: 20 req/s meets (p99 TTFT: 0 of 2,400 missed); 45 req/s fails (p99 TTFT: 5,400 of 5,400 missed); ended because all 2 levels of the list are measured.

    Three numbers are called goodput; these are all of them:

    - **goodput**, each limit at its own percentile: at least 20 req/s, fails at 45
    - **joint goodput**, at least 99 % of the requests within all limits together: at least 20 req/s, fails at 45
    - **good requests/s**, those within all limits together: 20 req/s at 20 req/s

    *Good* counts requests due in the measured window, *achieved* those completed in it: by chance the one can be a little above the other.

    ## Accepted and rejected

    - accepted, shown to meet the SLO (req/s): 20
    - rejected, shown to fail (req/s): 45 (p99 TTFT)

    The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed together count as fewer.

    | decision | level | steps | requests | limit | missed | within | at least | at most | why |
    | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |
    | ● accepted | 20 req/s | 1 | 2,400 | p99 TTFT | 0 of 2,400 | 100 % | 99.60 % | 100 % | every limit is shown to be met |
    | ✕ rejected | 45 req/s | 2 | 5,400 | p99 TTFT | 5,400 of 5,400 | 0 % | 0 % | 0.4 % | the backlog grows |

    ## Why it stopped

    - The search ended because all 2 levels of the list are measured. The limit lies within what was measured.

    By then 2 steps had taken 5 min, of which 4 min were measured.

    ## Capacity and cost

    Held all the time at 19.96 requests/s, as achieved in step 1, with nothing in reserve. Cost is not known: the plan has no price (hardware.price-per-hour).

    |  | One A40 |
    | --- | ---: |
    | requests per second | 19.96 |
    | requests per minute | 1,200 |
    | requests per hour | 71,900 |
    | requests per day | 1.72 million |
    | output tokens per second | 599 |
    | prompt tokens per second | 12,000 |

    ## Caveats

    - The answer is a bracket between two measured levels, without a confidence interval and without a safe rate. *More levels between its two ends narrow it (search.rates, search.concurrency).*

    ## Charts

    ![Latency against achieved throughput: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (the backlog grows)](charts/latency.png)

    ![Latency against offered rate: One A40 serves at least 20 requests/s within the SLO; it fails at 45 (the backlog grows)](charts/latency-offered.png)

    ![Offered load against achieved and good requests/s, and output: At most 39.4 requests/s and 1,180 output tokens/s are completed, however much is offered](charts/throughput.png)

    ![Share of requests within each limit: At 20 requests/s 100 % of requests have a TTFT of at most 200 ms; the SLO asks for 99 %](charts/attainment.png)

    ![GPUs against daily volume: One A40 takes 1.73 million requests a day at the highest rate shown to meet the SLO](charts/capacity.png)
    "#);
}

#[test]
fn a_small_report_ends_with_the_evidence() {
    insta::assert_snapshot!(small(true), @r#"
    ## Steps

    In the order they were measured. ↗: the backlog grows, so the latencies have no steady value; what was seen stands in steps.csv.

    | # | level | requests | offered req/s | achieved req/s | good req/s | TTFT p99 ms | TPOT p99 ms | verdict |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
    | 1 | 20 req/s | 2,400 | 20 | 20 | 20 | 54.6 | 8.36 | ● meets |
    | 2 | 45 req/s | 5,400 | 45 | 39.4 | 0.787 | – | – | ✕ fails ↗ |

    ## Limits

    Requests that missed each limit, of those that count; a request that failed is a miss.

    | # | level | p99 TTFT | p99 TPOT | stability |
    | ---: | --- | ---: | ---: | ---: |
    | 1 | 20 req/s | ● 0 of 2,400 | ● 1 of 2,400 | ● meets |
    | 2 | 45 req/s | ✕ 5,400 of 5,400 | ✕ 5,400 of 5,400 | ✕ fails |

    ## Percentiles

    Milliseconds from `due`; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, at the effective n: slow requests come in clusters, so n of them are worth fewer independent ones. Where the backlog grows there is no steady value to print.

    | # | level | metric | n | effective n | p50 | p90 | p95 | p99 | p99 from | p99 to |
    | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | 1 | 20 req/s | TTFT | 2,400 | 1,920 | 24.8 | 38.2 | 44.2 | 54.6 | 52.5 | 57.6 |
    | 1 | 20 req/s | TPOT | 2,400 | 1,920 | 6.5 | 7.34 | 7.71 | 8.36 | 8.23 | 8.54 |
    | 1 | 20 req/s | e2e | 2,400 | 1,920 | 211 | 342 | 400 | 502 | 482 | 531 |
    | 2 | 45 req/s | TTFT | 5,400 | 4,320 | – | – | – | – | – | – |
    | 2 | 45 req/s | TPOT | 5,400 | 4,320 | – | – | – | – | – | – |
    | 2 | 45 req/s | e2e | 5,400 | 4,320 | – | – | – | – | – | – |

    ## Throughput

    | # | level | achieved req/s | output tokens/s | prompt tokens/s | mean in flight | input tokens, mean | output tokens, mean |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | 1 | 20 req/s | 20 | 599 | 12,000 | 9.76 | 601 | 30 |
    | 2 | 45 req/s | 39.4 | 1,180 | 23,600 | 562 | 601 | 30 |

    ## The client

    Lateness is sent − due: the client's own fault. It is part of every latency above. How far the client was from its own limits:

    - p99 lateness: at most 0.31 ms (step 1); 10 ms is allowed, 5 % of the tightest limit that counts from due
    - sending threads, busy: at most 8 % of the time (step 1)
    - sending threads, waiting for a core: at most 0.2 % of the time (step 1); 10 % is allowed
    - in flight: at most 1,407 (step 2); 4,096 is allowed (step.max-in-flight)

    | # | level | lateness p50 ms | lateness p99 ms | receive lag p99 ms | threads busy | waiting for a core | new connections | sent again |
    | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | 1 | 20 req/s | 0.04 | 0.31 | – | 8 % | 0.2 % | 3 | 0 |
    | 2 | 45 req/s | 0.04 | 0.31 | – | 8 % | 0.2 % | 3 | 0 |

    ## How to reproduce

    In the run folder, where `plan.toml` stands:

    ```sh
    goodput sweep plan.toml
    ```

    - goodput 0.1.0
    - client: linux x86_64, 2 cores
    - seed: 1
    - clock: real

    The plan as resolved, which is what `plan.toml` says:

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
        .map(|name| format!("{name}:\n{}\n", text(&answer::section(&case(name))).lines().next().unwrap()))
        .concat();
    insta::assert_snapshot!(answers, @r#"
    interval:
    **One A40 serves 33.4 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, where p99 TTFT is the limit that binds; with 90 % confidence the true limit lies between 31.6 and 35.3.** Plan with 31.6 requests/s (safe rate: 5 % chance that it is too much). Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    none:
    **At no measured rate does one A40 keep p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: even 5 requests/s, the lowest, fails, where p99 TTFT is the limit that binds.** Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    not-reached:
    **One A40 serves at least 24 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.** Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    undecided:
    **It is undecided what one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.** Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    concurrency:
    **One A40 serves at least 32 requests in flight at 29.8 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 128, where p99 TTFT is the limit that binds.** Measured with: 600 in / 30 out tokens, closed loop, cold cache.
    no-step:
    There is none: no step was finished.
    "#);
}

#[test]
fn percentiles_say_what_they_leave_out() {
    let mut run = case("two-steps");
    assert!(!percentiles(&run).contains("Not in these percentiles"));
    (run.steps[0].failed, run.steps[1].cut) = (3, 1200);
    assert!(percentiles(&run).contains("Not in these percentiles"), "{}", percentiles(&run));
    assert!(
        percentiles(&run).contains("requests 3 that failed and 1,200 that were cut off"),
        "{}",
        percentiles(&run)
    );
}

#[test]
fn text_from_outside_starts_nothing() {
    let mut run = case("found");
    run.name = "evil | name\n# heading <script>".into();
    run.meta.notes = Some("```\n# not a heading\n\u{1b}[31m".into());
    run.steps[7].reason = "a|b\nc".into();
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

/// With many steps only the informative ones have their percentiles; a level that a second step decided is not
/// undecided.
#[test]
fn an_adaptive_report_stays_short() {
    let run = case("adaptive");
    let text = percentiles(&run);
    assert!(text.contains("all others stand in steps.csv"), "{text}");
    assert!(text.contains("| unloaded | TTFT |") && text.contains("| 34 req/s | TTFT |"), "{text}");
    assert!(!text.contains("| 8.64 req/s |") && !text.contains("| 36 req/s |"), "{text}");
    let decided = self::text(&decisions::section(&run));
    let (short, _) = decided.split_once("\nThe evidence").unwrap();
    insta::assert_snapshot!(short, @r#"
    - accepted, shown to meet the SLO (req/s): 24.5, 30
    - rejected, shown to fail (req/s): 34.6 (p99 TPOT), 36 (p99 TTFT), 69.1 (p99 TTFT)
    - undecided, with too few requests to tell (req/s): 2.16, 4.32, 8.64, 17.3, 34
    "#);
    assert!(
        !self::text(&decisions::section(&case("adaptive-not-reached"))).contains("8.64, 10"),
        "10 was decided"
    );
    let steps = self::text(&steps::section(&run));
    assert!(steps.contains("| 1 | unloaded | baseline | 41 |") && steps.contains("| – |\n"));
}

/// Set `GOODPUT_TEXT_DIR` to write the texts to files and read them.
#[test]
fn every_case_reads_as_a_whole() {
    let keep = std::env::var_os("GOODPUT_TEXT_DIR").map(std::path::PathBuf::from);
    for (name, run) in fixture::cases() {
        let report = render(&run, &[]);
        let shown = |width| terminal::Screen { width, ..terminal::Screen::default() };
        let terminal = terminal::render(&brief::answer(&run, &[]), &shown(100));
        if let Some(dir) = &keep {
            let table = |width| terminal::render(&brief::table(&run), &shown(width));
            let both = format!("{}\n{}\n\n{terminal}", table(80), table(100));
            std::fs::write(dir.join(format!("{name}.md")), &report).unwrap();
            std::fs::write(dir.join(format!("{name}.txt")), both).unwrap();
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

#[test]
fn a_folder_of_an_earlier_version_assumes_independent_requests() {
    let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
    assert!(
        percentiles(&run).contains("at the effective n:") && percentiles(&run).contains("| effective n |")
    );
    for q in run.steps.iter_mut().flat_map(|s| s.latency.values_mut()) {
        (q.inflation, q.p99_high) = (Some(1e6), None);
    }
    let text = percentiles(&run);
    assert!(text.contains("An effective n below 368") && text.contains("| < 1 |"), "{text}");
    for q in run.steps.iter_mut().flat_map(|s| s.latency.values_mut()) {
        q.inflation = None;
    }
    let text = percentiles(&run);
    assert!(
        text.contains("by rank, assuming independent requests.") && !text.contains("effective"),
        "{text}"
    );
}

/// In every case, every row has a cell for each column.
#[test]
fn every_table_has_whole_rows() {
    fn check(name: &str, sections: &[Section]) {
        for section in sections {
            for block in &section.blocks {
                if let Block::Table(table) = block {
                    assert!(table.rows.iter().all(|r| r.len() == table.columns.len()), "{name}: {table:?}");
                }
            }
            check(name, &section.parts);
        }
    }
    for (name, run) in fixture::cases() {
        check(name, &document(&run, &[]).sections);
    }
}
