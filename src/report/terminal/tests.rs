//! The table and the answer as a terminal shows them.

use super::*;
use crate::report::fixture;

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
}

#[test]
fn the_usual_table() {
    insta::assert_snapshot!(table(&case("found"), None), @r#"
    ───────────────────────────────────────────────────────────────────────────────────────────────
     offered   achieved    good   TTFT p50   TTFT p99   TPOT p99   mean in   verdict
       req/s      req/s   req/s         ms         ms         ms    flight
    ───────────────────────────────────────────────────────────────────────────────────────────────
           5       4.99    4.99       19.8       37.8       6.68      1.42   ● meets
          10       9.98    9.98         21       40.6       6.97      3.31   ● meets
          15         15      15       22.5       45.6       7.46      5.91   ● meets
          20         20      20       24.8       54.6       8.36      9.76   ● meets
          25       24.9    24.9       28.5       70.9       10.1        16   ● meets
          28       27.9    27.9       32.1       87.6       11.9      22.1   ● meets
          30       29.9    29.8       35.6        104       13.7        28   ● meets
          32       31.9    31.8       40.6        127       16.1      36.4   ● meets
          34       33.9    33.6       48.5        164       19.9      49.8   ○ undecided: p99 TPOT
          36       35.9    35.1       62.8        230       26.1      73.8   ✕ fails: p99 TTFT
          48       39.4   0.787     44.1 s      193 s        123       600   ✕ fails: p99 TTFT
    ───────────────────────────────────────────────────────────────────────────────────────────────
    "#);
}

#[test]
fn a_closed_loop_on_a_narrow_terminal() {
    insta::assert_snapshot!(table(&case("concurrency"), Some(80)), @r#"
    ────────────────────────────────────────────────────────────────────────────
        in  achieved   good  TTFT p50  TTFT p99  TPOT p99  mean in  verdict
    flight     req/s  req/s        ms        ms        ms   flight
    ────────────────────────────────────────────────────────────────────────────
         1      3.15   3.15      19.5      37.1       6.6        1  ● meets
         2      5.85   5.85        20      38.2      6.72        2  ● meets
         4      10.2   10.2        21      40.8      6.99        4  ● meets
         8      16.4   16.4      23.1      47.6      7.66        8  ● meets
        16      23.4   23.4      27.1      64.7      9.42       16  ● meets
        32      29.8   29.7      35.2       102      13.5       32  ● meets
        64      34.5     34      51.4       178      21.2       64  ○ undecided
       128      37.4   35.5      83.9       326      34.3      128  ✕ fails
       256      39.1   27.5       149       620      55.8      256  ✕ fails
    ────────────────────────────────────────────────────────────────────────────
    "#);
}

#[test]
fn tables_fit() {
    for (name, run) in fixture::cases() {
        for width in [80, 100, 120] {
            let widest = table(&run, Some(width)).lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{name} at {width}: {widest}");
        }
    }
}

#[test]
fn the_answer_in_words() {
    let files = [PathBuf::from("runs/a/report.md")];
    insta::assert_snapshot!(answer(&case("interval"), &files), @r#"
    One A40 serves 33.4 requests/s (600 in / 30 out tokens, Poisson arrivals, cold cache) while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms.
    With 90 % probability the boundary lies between 31.6 and 35.3 requests/s, where p99 TTFT is what fails; 31.6 requests/s is safe.
    Evidence: every level of the plan was measured.

    goodput        33.4 req/s (90 % interval 31.6 – 35.3)
    joint goodput  32 req/s (met 32, failed 36)
    knee           37 requests/s, 37 req/s achieved

    runs/a/report.md
    "#);
    insta::assert_snapshot!(answer(&case("no-step"), &[]), @r#"
    No answer: no step was finished.

    Read this with care:
    ! The answer is the bracket between two measured levels; it carries no interval and no safe rate.
      → Put more levels between the two ends of the bracket to narrow it.
    "#);
}

#[test]
fn colour_adds_and_removes_nothing_else() {
    let text = format!("{}\n{}", table(&case("found"), None), answer(&case("found"), &[]));
    assert_eq!(paint(&text, false), text);
    let painted = paint(&text, true);
    assert!(painted.contains("\u{1b}[31m✕ fails\u{1b}[0m") && painted.contains("\n\u{1b}[33m! \u{1b}[0m"));
    let bare =
        ["\u{1b}[0m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"].iter().fold(painted, |t, c| t.replace(c, ""));
    assert_eq!(bare, text);
}
