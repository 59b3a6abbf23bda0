//! `latency` and `throughput`: their tables, figures and charts, in simulated time.

use crate::common::{goodput, result};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

fn run(command: &str, out: &Path, more: &[&str]) -> assert_cmd::assert::Assert {
    let common = ["--simulated", "a40-qwen3-0.6b", "--virtual-time", "--out"];
    goodput().arg(command).args(common).arg(out).args(more).assert()
}

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

#[test]
fn latency_says_how_fast_one_request_is_and_that_it_is_no_capacity() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let says = contains("One request alone: first token after")
        .and(contains("This is not capacity"))
        .and(contains("p99 from, to"))
        .and(contains("A closed loop hides").not());
    run("latency", &out, &["--concurrency", "8,1", "--requests", "60", "--output-tokens", "40"])
        .code(0)
        .stdout(says);
    let found = result(&out);
    let levels = found["latency"]["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|l| number(&l["in_flight"])).collect::<Vec<_>>(), [1.0, 8.0]);
    assert!(levels.iter().all(|l| l["requests"].as_u64() >= Some(60)), "as many as were asked for");
    assert!(number(&levels[0]["ttft_ms"]["p50"]) < number(&levels[1]["ttft_ms"]["p50"]));
    let each = |l: &serde_json::Value| number(&l["tokens_per_s_of_a_request"]);
    assert!(each(&levels[0]) > each(&levels[1]));
    let by_hand = 40.0 / number(&levels[0]["e2e_ms"]["p50"]) * 1e3;
    assert!((each(&levels[0]) / by_hand - 1.0).abs() < 1e-9);
    assert_eq!(found["answers"].as_array().map(Vec::len), Some(0));
    assert_eq!(found["goodput"]["reason"]["ended"], "not-asked");
    for chart in ["latency-levels.png", "latency-levels.svg"] {
        assert!(fs::metadata(out.join("charts").join(chart)).unwrap().len() > 3_000);
    }
    assert_eq!(fs::read_dir(out.join("charts")).unwrap().count(), 2, "and none about an SLO");
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("This is not capacity") && !report.contains("## Limits"));
    fs::remove_dir_all(out.join("charts")).unwrap();
    goodput().arg("report").arg(&out).assert().success().stdout(contains("This is not capacity"));
    assert!(out.join("charts/latency-levels.png").exists() && result(&out)["latency"] == found["latency"]);
}

#[test]
fn throughput_doubles_until_it_buys_no_more() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let more = ["--output-tokens", "20", "--duration", "10s"];
    run("throughput", &out, &more)
        .code(0)
        .stdout(contains("The ceiling:").and(contains("more in flight buys no more")));
    let found = result(&out);
    let levels = found["throughput"]["levels"].as_array().unwrap();
    let tokens: Vec<f64> = levels.iter().map(|l| number(&l["output_tokens_per_s"])).collect();
    let growth: Vec<f64> = tokens.windows(2).map(|w| w[1] / w[0] - 1.0).collect();
    let (last, before) = growth.split_last().unwrap();
    assert!(*last < 0.05 && before.iter().all(|g| *g >= 0.05) && before.len() > 2, "{growth:?}");
    let in_flight: Vec<f64> = levels.iter().map(|l| number(&l["in_flight"])).collect();
    assert!(in_flight.windows(2).all(|w| (w[1] / w[0] - 2.0).abs() < 1e-9), "{in_flight:?}");
    let best = number(&found["throughput"]["most"]["output_tokens_per_s"]);
    assert!((best - tokens.iter().copied().fold(0.0, f64::max)).abs() < 1e-9);
    assert!(out.join("charts/ceiling.png").exists());
    let capped = dir.path().join("capped");
    run("throughput", &capped, &["--max-concurrency", "4", "--duration", "5s"])
        .code(0)
        .stdout(contains("it still grew, so the ceiling may lie higher"));
    assert_eq!(result(&capped)["throughput"]["levels"].as_array().map(Vec::len), Some(3));
}

#[test]
fn everything_at_once_ends_with_the_last_answer() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let says = contains("300 requests at once: done after").and(contains("The last tenth took"));
    run("throughput", &out, &["--all", "300", "--output-tokens", "20"]).code(0).stdout(says);
    let found = result(&out);
    let step = &found["steps"][0];
    assert_eq!(
        (&step["kind"], &step["due_n"], &step["completed"]),
        (&"burst".into(), &300.into(), &300.into())
    );
    let level = &found["throughput"]["levels"][0];
    let rate = number(&level["requests_per_s"]) * number(&level["seconds"]);
    assert!((rate - 300.0).abs() < 1e-6, "all of them, over the whole time");
    assert!(number(&level["seconds"]) * 1e3 >= number(&level["e2e_ms"]["p99"]));
    assert!(
        number(&level["e2e_ms"]["p50"]) < number(&level["e2e_ms"]["p99"]),
        "worked off one after the other"
    );
    assert!(out.join("charts/all-at-once.png").exists());
}

#[test]
fn mistakes_say_what_to_write() {
    goodput().arg("latency").assert().code(1).stderr(contains("--url URL"));
    goodput().args(["throughput", "--all", "0"]).assert().code(1);
    let args = ["latency", "--simulated", "demo", "--set", "search.rates=[1]"];
    goodput().args(args).assert().code(1).stderr(contains("needs [search] concurrency"));
    let args = ["latency", "--url", "http://127.0.0.1:1", "--virtual-time"];
    goodput().args(args).assert().code(1).stderr(contains("--virtual-time needs"));
}
