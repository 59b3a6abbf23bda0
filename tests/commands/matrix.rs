//! The matrix of `sweeps/`, whole and in simulated time: its answers, an expectation that is wrong, and the pace of its rows.

use crate::common::{goodput, result, rows};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::tempdir;

/// When the requests of a series were sent and over, in milliseconds, those under load alone, by when they were sent.
fn sent(dir: &Path, series: &str, step: u64) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = rows(&dir.join("requests.csv"))
        .iter()
        .filter(|r| r["series"] == series && r["step"].parse() == Ok(step))
        .filter_map(|r| Some((r["sent_ms"].parse().ok()?, r["end_ms"].parse().ok()?)))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

fn in_flight(all: &[(f64, f64)]) -> usize {
    all.iter().map(|(at, _)| all.iter().filter(|(from, to)| from <= at && at < to).count()).max().unwrap()
}

#[test]
fn the_matrix_is_answered_row_by_row() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let says = contains("8 of 8 expectations held")
        .and(contains("A short, alone: How fast is a short request"))
        .and(contains("Expected cache, and it holds"));
    let mut command = goodput();
    command.timeout(Duration::from_secs(300)).args(["sweep", "matrix", "--virtual-time"]);
    command.args(["--set", "step.measure=30s", "--out"]).arg(&out).assert().code(0).stdout(says);
    let first = result(&out);
    let rows = first["matrix"].as_array().unwrap();
    let expects = rows.iter().filter(|r| !r["expected"].is_null());
    let by: Vec<_> = expects.map(|r| (r["measured"].as_str().unwrap(), &r["held"])).collect();
    let want = ["decode", "prefill", "decode", "batching", "batching", "batching", "cache", "batching"];
    assert!(by.iter().zip(want).all(|(got, want)| got.0 == want && got.1 == true), "{by:?}");
    // The cache is held against the same load without it, and the last of the rows D is full: it completes little more.
    let (warm, cold) = (&rows[6], &rows[7]);
    assert_eq!(warm["parts"]["cold_twin"], cold["figures"]["ttft_p50_ms"]);
    let ttft = |r: &serde_json::Value| r["figures"]["ttft_p50_ms"].as_f64().unwrap();
    let saved = warm["parts"]["saved"].as_f64().unwrap();
    assert!((saved - (ttft(cold) - ttft(warm))).abs() < 1e-6 && saved > 80.0, "{saved}");
    let tokens = |row: usize| rows[row]["figures"]["output_tokens_per_s"].as_f64().unwrap();
    assert!(tokens(4) > 1.6 * tokens(3) && tokens(5) < 1.6 * tokens(4), "{} {}", tokens(4), tokens(5));
    assert!(rows.iter().all(|r| r["figures"]["requests"].as_u64() >= Some(40)));
    assert_eq!(
        rows[0]["figures"]["reference"],
        serde_json::Value::Null,
        "one at a time is its own reference"
    );
    let steps = first["steps"].as_array().unwrap();
    let step = |n: &serde_json::Value| steps.iter().find(|s| s["step"] == *n).unwrap();
    assert_eq!(step(&rows[3]["figures"]["reference"])["kind"], "baseline");
    assert_eq!(first["answers"].as_array().map(Vec::len), Some(0), "no row has an SLO");

    // No faster than the pace: a row a second, and one twice a second with at most sixteen in flight.
    for (series, row, gap, most) in [("A short, alone", 0, 1000.0, 1), ("E warm prefix", 6, 500.0, 16)] {
        let number = rows[row]["figures"]["step"].as_u64().unwrap();
        let all = sent(&out, series, number);
        // The timer of simulated time counts whole milliseconds.
        assert!(all.len() > 30 && all.windows(2).all(|w| w[1].0 - w[0].0 > gap - 1.001), "{series}");
        assert!(in_flight(&all) <= most, "{series}: {}", in_flight(&all));
    }

    // The report follows from the folder alone.
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("### E warm prefix: Does the prefix cache") && report.contains("● held"));
    fs::remove_file(out.join("report.md")).unwrap();
    goodput().arg("report").arg(&out).assert().success().stdout(contains("8 of 8 expectations held"));
    assert_eq!(
        (fs::read_to_string(out.join("report.md")).unwrap(), &result(&out)["matrix"]),
        (report, &first["matrix"])
    );
}

/// Row of a small matrix against a server that takes 100 ms, and what it does.
#[test]
fn a_wrong_expectation_is_reported_and_a_pace_is_a_closed_loops() {
    let dir = tempdir().unwrap();
    let (path, out) = (dir.path().join("plan.toml"), dir.path().join("run"));
    let row = |name: &str, rest: &str| {
        format!(
            "[[row]]\nname = \"{name}\"\ninput-tokens = {{ fixed = 64 }}\noutput-tokens = {{ fixed = 11 }}\n{rest}\n"
        )
    };
    let text = format!(
        "name = \"small\"\nserver.simulated = {{ preset = \"fixed\", ttft = \"20ms\", tpot = \"8ms\" }}\nstep = {{ settle = \"1s\", measure = \"20s\" }}\n\
         {}{}{}",
        row("slow pace", "concurrency = 4\nrate = 5\nexpect = \"queue\""),
        row("no pace", "concurrency = 2\nrate = 1000\nexpect = \"decode\""),
        row("open", "rate = 40\nexpect = \"decode\"")
    );
    fs::write(&path, text).unwrap();
    goodput()
        .arg("check")
        .arg(&path)
        .assert()
        .success()
        .stdout(contains("rows").and(contains("open: 40 req/s")));
    let says = contains("2 of 3 expectations held")
        .and(contains("Expected queue, and it does not hold: it is decode"));
    goodput()
        .args(["sweep", "--no-charts"])
        .arg(&path)
        .args(["--virtual-time", "--out"])
        .arg(&out)
        .assert()
        .code(2)
        .stdout(says);
    let found = result(&out);
    let step = |row: usize| found["matrix"][row]["figures"]["step"].as_u64().unwrap();
    assert_eq!(found["matrix"][0]["held"], false);
    let slow = sent(&out, "slow pace", step(0));
    assert!(slow.windows(2).all(|w| w[1].0 - w[0].0 > 200.0 - 1e-3), "five a second at the most");
    assert_eq!(in_flight(&slow), 1, "a request takes half of the gap");
    // A pace that the loop cannot keep: each of two slots sends as soon as its answer is there.
    let fast = sent(&out, "no pace", step(1));
    assert_eq!(in_flight(&fast), 2);
    let waits = fast.windows(3).map(|w| w[2].0 - w[0].1);
    assert!(waits.into_iter().all(|ms| (-1e-3..2.0).contains(&ms)), "the next goes when one is done");
    let open = sent(&out, "open", step(2));
    assert!(in_flight(&open) > 4, "an open loop waits for nobody");
}

#[test]
fn a_row_that_does_not_fit_the_model_ends_it_before_the_first() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let says = contains("in the series E").and(contains("does not fit into the model's 4096 tokens"));
    let mut command = goodput();
    command.args([
        "sweep",
        "--no-charts",
        "matrix",
        "--virtual-time",
        "--set",
        "server.simulated.max-model-len=4096",
        "--out",
    ]);
    command.arg(&out).assert().code(1).stderr(says);
    assert!(!out.exists());
}
