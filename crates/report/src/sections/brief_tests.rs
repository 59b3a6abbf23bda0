//! Tests of the table and the answer on a terminal.

use super::*;
use crate::render::terminal::{Screen, render};
use goodput_run::fixture;

fn shown(document: &Document, width: Option<u16>, colour: bool) -> String {
    let usual = Screen::default();
    render(document, &Screen { width: width.unwrap_or(usual.width), colour, ..usual })
}

fn table(run: &Run, width: Option<u16>) -> String {
    shown(&super::table(run), width, false)
}

fn answer(run: &Run, files: &[PathBuf]) -> String {
    shown(&super::answer(run, files), None, false)
}

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
}

#[test]
fn the_usual_table() {
    insta::assert_snapshot!(table(&case("found"), None), @r#"
    ─────────────────────────────────────────────────────────────────────────────────────────
     #  level  achieved   good  TTFT p50  TTFT p99  TPOT p99  mean in  verdict
        req/s     req/s  req/s        ms        ms        ms   flight
    ─────────────────────────────────────────────────────────────────────────────────────────
     1      5      4.99   4.99      19.8      37.8      6.68     1.42  ● meets
     2     10      9.98   9.98        21      40.6      6.97     3.31  ● meets
     3     15        15     15      22.5      45.6      7.46     5.91  ● meets
     4     20        20     20      24.8      54.6      8.36     9.76  ● meets
     5     25      24.9   24.9      28.5      70.9      10.1       16  ● meets
     6     28      27.9   27.9      32.1      87.6      11.9     22.1  ● meets
     7     30      29.9   29.8      35.6       104      13.7       28  ● meets
     8     32      31.9   31.8      40.6       127      16.1     36.4  ● meets
     9     34      33.9   33.6      48.5       164      19.9     49.8  ○ undecided: p99 TPOT
    10     36      35.9   35.1      62.8       230      26.1     73.8  ✕ fails: p99 TTFT
    11     48      39.4  0.787         –         –         –      600  ✕ fails: p99 TTFT ↗
    ─────────────────────────────────────────────────────────────────────────────────────────
     ↗ the backlog grows: no steady latency · undecided: too few requests to tell
    "#);
}

#[test]
fn a_closed_loop_on_a_narrow_terminal() {
    insta::assert_snapshot!(table(&case("concurrency"), Some(80)), @r#"
    ─────────────────────────────────────────────────────────────────────────
    #      level  achieved   good  TTFT p50  TTFT p99  TPOT p99  verdict
       in flight     req/s  req/s        ms        ms        ms
    ─────────────────────────────────────────────────────────────────────────
    1          1      3.15   3.15      19.5      37.1       6.6  ● meets
    2          2      5.85   5.85        20      38.2      6.72  ● meets
    3          4      10.2   10.2        21      40.8      6.99  ● meets
    4          8      16.4   16.4      23.1      47.6      7.66  ● meets
    5         16      23.4   23.4      27.1      64.7      9.42  ● meets
    6         32      29.8   29.7      35.2       102      13.5  ● meets
    7         64      34.5     34      51.4       178      21.2  ○ undecided
    8        128      37.4   35.5      83.9       326      34.3  ✕ fails
    9        256      39.1   27.5       149       620      55.8  ✕ fails
    ─────────────────────────────────────────────────────────────────────────
     undecided: too few requests to tell
    "#);
}

#[test]
fn an_adaptive_sweep_by_level() {
    insta::assert_snapshot!(table(&case("adaptive"), Some(100)), @r#"
    ─────────────────────────────────────────────────────────────────────────────────────────────
     #     level  step      requests  achieved   good  TTFT p99  TPOT p99  verdict
           req/s                         req/s  req/s        ms        ms
    ─────────────────────────────────────────────────────────────────────────────────────────────
     1  unloaded  baseline        41      3.15   3.15      37.1       6.6  –
     2      2.16  ramp            25      2.16   2.16      36.8      6.56  ○ undecided
     3      4.32  ramp            51      4.31   4.31      37.5      6.65  ○ undecided
     4      8.64  ramp           103      8.62   8.62      39.7      6.88  ○ undecided
     5      17.3  ramp           207      17.3   17.3      49.1       7.8  ○ undecided
     8      24.5  refine       2,940      24.5   24.4      68.8      9.86  ● meets
    10        30  refine       3,600      29.9   29.8       104      13.7  ● meets
    11        34  refine       1,020      33.9   33.6       164      19.9  ○ undecided: p99 TPOT
     6      34.6  ramp           415      34.5   34.1       180      21.4  ✕ fails: p99 TPOT
     9        36  refine       4,320      35.9   35.1       230      26.1  ✕ fails: p99 TTFT
     7      69.1  ramp           829      39.4  0.787         –         –  ✕ fails: p99 TTFT ↗
    ─────────────────────────────────────────────────────────────────────────────────────────────
     baseline: one request at a time · ramp: short, to find the range · refine: to decide
     ↗ the backlog grows: no steady latency · undecided: too few requests to tell
    "#);
    insta::assert_snapshot!(table(&case("adaptive"), Some(80)), @r#"
    ────────────────────────────────────────────────────────────────────────────
     #     level  step      requests  achieved  TTFT p99  TPOT p99  verdict
           req/s                         req/s        ms        ms
    ────────────────────────────────────────────────────────────────────────────
     1  unloaded  baseline        41      3.15      37.1       6.6  –
     2      2.16  ramp            25      2.16      36.8      6.56  ○ undecided
     3      4.32  ramp            51      4.31      37.5      6.65  ○ undecided
     4      8.64  ramp           103      8.62      39.7      6.88  ○ undecided
     5      17.3  ramp           207      17.3      49.1       7.8  ○ undecided
     8      24.5  refine       2,940      24.5      68.8      9.86  ● meets
    10        30  refine       3,600      29.9       104      13.7  ● meets
    11        34  refine       1,020      33.9       164      19.9  ○ undecided
     6      34.6  ramp           415      34.5       180      21.4  ✕ fails
     9        36  refine       4,320      35.9       230      26.1  ✕ fails
     7      69.1  ramp           829      39.4         –         –  ✕ fails ↗
    ────────────────────────────────────────────────────────────────────────────
     baseline: one request at a time · ramp: short, to find the range
     refine: to decide · ↗ the backlog grows: no steady latency
     undecided: too few requests to tell
    "#);
}

#[test]
fn tables_fit_and_break_no_cell() {
    for (name, run) in fixture::cases() {
        for width in [80, 100, 120] {
            let text = table(&run, Some(width));
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{name} at {width}: {widest}\n{text}");
            // Three lines of frame, two of head, a row per step, the legend.
            let most = run.steps.len() + 5 + 5;
            assert!(text.lines().count() <= most, "{name} at {width}:\n{text}");
        }
    }
}

#[test]
fn the_limit_that_decides_has_its_column() {
    let text = table(&case("e2e"), Some(80));
    assert!(text.contains("TTFT p50") && text.contains("e2e p95"), "{text}");
    assert!(!table(&case("one-token"), None).contains("TPOT p99  "), "nothing to show");
}

#[test]
fn files_are_named_by_folder() {
    let files = [
        "r/report.md",
        "r/charts/a.png",
        "r/charts/a.svg",
        "r/charts/slides/a.png",
        "r/charts/b.png",
        "r/charts/b.svg",
    ];
    let files = files.map(PathBuf::from);
    let text = |files: &[PathBuf]| shown(&Document::of(vec![Section::untitled(places(files))]), None, false);
    assert_eq!(text(&files), "r/report.md\nr/charts: 2 charts as PNG and SVG, 1 slide");
    assert_eq!(text(&files[..1]), "r/report.md");
    assert_eq!(text(&[]), "");
}

#[test]
fn the_answer_as_sentences() {
    let files = [PathBuf::from("runs/a/report.md"), PathBuf::from("runs/a/charts/latency.png")];
    let said = |name: &str| answer(&case(name), &files);
    insta::assert_snapshot!(said("adaptive"), @r#"
    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: 30 req/s meets (p99 TTFT: 5 of 3,600 missed); 34.6 req/s fails (p99 TPOT: 5 of 415 missed); 34 req/s is undecided (p99 TPOT: 10 of 1,020 missed); ended because the budget of 15m is spent.

    goodput          at least 30 req/s, fails at 34.6 · each limit on its own
    joint goodput    at least 30 req/s, fails at 34.6 · 99 % of requests within all limits
    good requests/s  29.8 req/s at 30 req/s · due in the window and within all limits
    client           p99 lateness 0.31 of 10 ms allowed · threads busy 8 % · 2,160 of 4,096 in flight

    Held all the time at 29.94 requests/s, as achieved in step 10, with nothing in reserve:
    requests  1,800 a minute, 108,000 an hour, 2.59 million a day
    tokens    898 output a second, 18,000 prompt a second
    cost      0.121 USD for a million output tokens, 0.00362 USD for 1,000 requests, at 0.39 USD an hour

    Caveats:
    ! The answer is a bracket between two measured levels, without a confidence interval and without a safe rate.
      → More time narrows it (--budget), down to search.adaptive.width where that is set.

    runs/a/charts: 1 chart as PNG and SVG

    One A40 serves at least 30 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fails at 34.6, where p99 TPOT is the limit that binds.
    Report: runs/a/report.md
    "#);
    insta::assert_snapshot!(said("interval"), @r#"
    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: a fit to 11 steps under load with 32,760 requests; 32 req/s meets (p99 TTFT: 9 of 3,840 missed); 36 req/s fails (p99 TTFT: 65 of 4,320 missed); ended because all 11 levels of the list are measured.

    goodput          33.4 req/s (90 % interval 31.6 – 35.3, safe 31.6) · each limit on its own
    joint goodput    at least 32 req/s, fails at 36 · 99 % of requests within all limits
    good requests/s  31.8 req/s at 32 req/s · due in the window and within all limits
    knee             beyond 37 requests/s more load buys hardly any throughput (90 % interval 35.9–38.2, 37 req/s achieved) · not the SLO answer
    client           p99 lateness 0.31 of 10 ms allowed · threads busy 8 % · 325 of 4,096 in flight

    Held all the time at 31.6 requests/s, the safe rate:
    requests  1,900 a minute, 114,000 an hour, 2.73 million a day
    tokens    948 output a second, 19,000 prompt a second
    And at 33.4 requests/s, the goodput, with nothing in reserve: 2,000 a minute, 120,000 an hour, 2.89 million a day; tokens 1,000 output a second, 20,000 prompt a second

    runs/a/charts: 1 chart as PNG and SVG

    One A40 serves 33.4 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, where p99 TTFT is the limit that binds; with 90 % confidence the true limit lies between 31.6 and 35.3.
    Plan with 31.6 requests/s (safe rate: 5 % chance that it is too much).
    Report: runs/a/report.md
    "#);
    insta::assert_snapshot!(said("long-names"), @r#"
    Measured with: lognormal input of 1,800 tokens (cv 1.2, max 32,768), output 350 tokens, gamma arrivals (cv 2.5), warm prefix of 4,000 tokens.
    Evidence: 32 req/s meets (p99 TTFT: 9 of 3,840 missed); 36 req/s fails (p99 TTFT: 65 of 4,320 missed); 34 req/s is undecided (p99 TPOT: 40 of 4,080 missed); ended because all 11 levels of the list are measured; longer steps at the undecided levels would narrow it (step.measure, step.min-requests): at 34 req/s 1,700 more requests without a miss would do, or about 1,300,000 at this share of misses.

    goodput          at least 32 req/s, fails at 36 · each limit on its own
    joint goodput    at least 32 req/s, fails at 36 · 99 % of requests within all limits
    good requests/s  31.8 req/s at 32 req/s · due in the window and within all limits
    knee             latency turns up at 37 requests/s (36.9 req/s achieved), Kneedle's mark, not tested · not the SLO answer
    client           p99 lateness 0.31 of 10 ms allowed · threads busy 8 % · 1,500 of 4,096 in flight

    Held all the time at 31.94 requests/s, as achieved in step 8, with nothing in reserve:
    requests  1,920 a minute, 115,000 an hour, 2.76 million a day
    tokens    958 output a second, 19,200 prompt a second
    cost      14.8 EUR for a million output tokens, 0.445 EUR for 1,000 requests, at 16 × 3.2 EUR an hour
    per GPU   2 requests/s, 59.9 output tokens/s

    Caveats:
    ! The answer is a bracket between two measured levels, without a confidence interval and without a safe rate.
      → More levels between its two ends narrow it (search.rates, search.concurrency).

    runs/a/charts: 1 chart as PNG and SVG

    16 × NVIDIA H200 SXM 141GB HBM3e (liquid coo… serve at least 32 requests/s (2 per GPU) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, and fail at 36, where p99 TTFT is the limit that binds.
    Report: runs/a/report.md
    "#);
}

#[test]
fn open_answers_and_tiers_as_sentences() {
    let files = [PathBuf::from("runs/a/report.md"), PathBuf::from("runs/a/charts/latency.png")];
    let said = |name: &str| answer(&case(name), &files);
    insta::assert_snapshot!(answer(&case("unloaded-misses"), &[]), @r#"
    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: one request at a time already misses p99 TTFT: 41 of 41 requests; ended because no load makes an unloaded server faster.

    goodput          none · each limit on its own
    joint goodput    none · 99 % of requests within all limits
    good requests/s  0 req/s · due in the window and within all limits
    client           p99 lateness 0.31 of 0.05 ms allowed · threads busy 8 % · 3 of 4,096 in flight

    Even unloaded, with one request at a time, one A40 does not keep p99 TTFT ≤ 1 ms, so no rate can: the limit that binds is p99 TTFT.
    "#);
    insta::assert_snapshot!(answer(&case("adaptive-undecided"), &[]), @r#"
    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: 4.32 req/s is undecided (p99 TTFT: 0 of 51 missed); 8.64 req/s is undecided (p99 TTFT: 0 of 103 missed); 17.3 req/s is undecided (p99 TTFT: 0 of 207 missed); 1 more level is open; ended because the budget of 1m is spent; more time (--budget) would decide it.

    goodput          undecided · each limit on its own
    joint goodput    undecided · 99 % of requests within all limits
    good requests/s  best step 17.3 req/s at 17.3 req/s · due in the window and within all limits
    client           p99 lateness 0.31 of 10 ms allowed · threads busy 8 % · 19 of 4,096 in flight

    It is undecided what one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: no level is shown to meet or to fail.
    "#);
    insta::assert_snapshot!(format!("{}\n\n{}", table(&case("tiers"), Some(100)), said("tiers")), @r#"
    ──────────────────────────────────────────────────────────────────────────────────────
    #  level  achieved   good  TTFT p50  TTFT p99  TPOT p99  mean in  verdict
       req/s     req/s  req/s        ms        ms        ms   flight  (gold)
    ──────────────────────────────────────────────────────────────────────────────────────
    1      5      4.99   4.98      19.8      37.8      6.68     1.42  ● meets
    2     10      9.98   9.96        21      40.6      6.97     3.31  ● meets
    3     15        15   14.9      22.5      45.6      7.46     5.91  ● meets
    4     20        20   19.8      24.8      54.6      8.36     9.76  ● meets
    5     25      24.9   24.5      28.5      70.9      10.1       16  ✕ fails: p99 TTFT
    6     30      29.9   28.4      35.6       104      13.7       28  ✕ fails: p99 TTFT
    7     36      35.9   15.8      62.8       230      26.1     73.8  ✕ fails: p99 TTFT
    8     48      39.4  0.787         –         –         –      600  ✕ fails: p99 TTFT ↗
    ──────────────────────────────────────────────────────────────────────────────────────
     ↗ the backlog grows: no steady latency

    Measured with: 600 in / 30 out tokens, Poisson arrivals, cold cache.
    Evidence: 20 req/s meets (p99 TTFT: 18 of 2,400 missed); 25 req/s fails (p99 TTFT: 49 of 3,000 missed); ended because all 8 levels of the list are measured.

    gold:
    goodput          at least 20 req/s, fails at 25 · each limit on its own
    joint goodput    at least 20 req/s, fails at 25 · 99 % of requests within all limits
    good requests/s  19.8 req/s at 20 req/s · due in the window and within all limits
    client           p99 lateness 0.31 of 3 ms allowed · threads busy 8 % · 1,500 of 4,096 in flight

    Held all the time within the SLO of gold at 19.96 requests/s, as achieved in step 4, with nothing in reserve:
    requests  1,200 a minute, 71,900 an hour, 1.72 million a day
    tokens    599 output a second, 12,000 prompt a second
    cost      0.362 USD for a million output tokens, 0.0109 USD for 1,000 requests, at 2 × 0.39 USD an hour
    per GPU   9.98 requests/s, 299 output tokens/s

    2 × A40 serve at least 30 requests/s (15 per GPU) within the SLO of bulk (p99 TTFT ≤ 300 ms and p99 TPOT ≤ 20 ms), and fail at 36, where p99 TPOT is the limit that binds.
      bulk: held all the time at 29.94 requests/s, as achieved in step 6: 1,800 a minute, 108,000 an hour, 2.59 million a day; tokens 898 output a second, 18,000 prompt a second; cost 0.241 USD for a million output tokens, 0.00724 USD for 1,000 requests, at 2 × 0.39 USD an hour; per GPU 15 requests/s, 449 output tokens/s

    Caveats:
    ! The answer is a bracket between two measured levels, without a confidence interval and without a safe rate.
      → More levels between its two ends narrow it (search.rates, search.concurrency).

    runs/a/charts: 1 chart as PNG and SVG

    2 × A40 serve at least 20 requests/s (10 per GPU) within the SLO of gold (p99 TTFT ≤ 60 ms), and fail at 25, where p99 TTFT is the limit that binds.
    Report: runs/a/report.md
    "#);
    insta::assert_snapshot!(answer(&case("no-step"), &[]), @r#"
    No answer: no step was finished.
    "#);
}

#[test]
fn a_ramp_that_is_undecided_is_not_coloured() {
    let painted = shown(&super::table(&case("adaptive")), Some(100), true);
    assert_eq!(painted.matches("\u{1b}[33m").count(), 1, "the refined step alone: {painted}");
}

#[test]
fn colour_adds_and_removes_nothing_else() {
    let run = case("adaptive");
    let both = |colour| {
        let [table, answer] = [super::table(&run), super::answer(&run, &[])].map(|d| shown(&d, None, colour));
        format!("{table}\n{answer}")
    };
    let (text, painted) = (both(false), both(true));
    assert!(painted.contains("\u{1b}[31m✕ fails:\u{1b}[0m") && painted.contains("\n\u{1b}[33m!\u{1b}[0m "));
    let bare =
        ["\u{1b}[0m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"].iter().fold(painted, |t, c| t.replace(c, ""));
    assert_eq!(bare, text);
}
