//! Charts of tiers, mixes and matrices: each shows what its kind of plan asks about.

use crate::common::goodput;
use predicates::str::contains;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// A run with a tier that is shown to meet at every level.
const TIERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/runs/tiers");

/// Two tiers that are both found.
const TWO_TIERS: &str = r#"
name = "tiers"
[server]
simulated = { preset = "md1", service = "5ms" }
warmup-requests = 0
[[slo]]
name = "tight"
ttft.p99 = "20ms"
[[slo]]
name = "loose"
ttft.p99 = "40ms"
[workload.prompts.synthetic]
input-tokens = { fixed = 30 }
output-tokens = { fixed = 2 }
[search]
max-rate = 1000
adaptive = { budget = "6m" }
"#;

/// Sweeps a plan in simulated time; returns its run folder.
fn swept(dir: &Path, plan: &str, set: &[&str]) -> PathBuf {
    let run = dir.join("run");
    let mut command = goodput();
    command.args(["sweep", plan, "--virtual-time", "--no-charts", "--out"]).arg(&run);
    for key in set {
        command.args(["--set", key]);
    }
    command.assert().code(predicates::ord::lt(4));
    run
}

/// Draws a chart of a run with further options; returns its SVG.
fn chart(run: &Path, name: &str, dir: &Path, more: &[&str]) -> String {
    let mut report = goodput();
    report.arg("report").arg(run).args(["--chart", name, "--format", "svg", "--charts-dir"]).arg(dir);
    report.args(more).assert().success();
    fs::read_to_string(dir.join(format!("{name}.svg"))).unwrap()
}

#[test]
fn every_tier_is_on_a_chart_and_has_charts_of_its_own() {
    let dir = tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, TWO_TIERS).unwrap();
    let run = swept(dir.path(), plan.to_str().unwrap(), &[]);
    let all = chart(&run, "latency", &dir.path().join("all"), &[]);
    for text in ["goodput (tight) ", "goodput of another tier", "p99 TTFT ≤ 20 ms (tight)", "(loose)"] {
        assert!(all.contains(text), "{text}");
    }
    let own = chart(&run, "latency", &dir.path().join("own"), &["--tier", "loose"]);
    assert!(own.contains("p99 TTFT ≤ 40 ms") && !own.contains("another tier") && !own.contains("20 ms"));
    let result = fs::read_to_string(run.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let rate = result["answers"][1]["goodput"]["rate"].as_f64().unwrap();
    assert!(own.contains(&format!("goodput {} req/s", goodput::units::short(rate))), "{rate}");
    goodput()
        .args(["report", TIERS, "--tier", "gold-plated"])
        .assert()
        .code(1)
        .stderr(contains("the run has no tier \"gold-plated\": it has interactive, batch"));
}

#[test]
fn a_headline_replaces_that_of_one_chart() {
    let dir = tempdir().unwrap();
    let svg = chart(Path::new(TIERS), "latency", dir.path(), &["--title", "What we promise <our> users"]);
    assert!(svg.contains("What we promise &lt;our&gt; users"), "{svg}");
    let report =
        |args: &[&str]| goodput().args(["report", TIERS, "--title", "x"]).args(args).assert().code(1);
    report(&[]).stderr(contains("--chart"));
    report(&["--chart", "latency", "--chart", "search"]).stderr(contains("a single --chart"));
    goodput()
        .args(["report", TIERS, "--chart", "latency", "--title", " "])
        .assert()
        .code(1)
        .stderr(contains("it is empty"));
}

#[test]
fn each_class_of_a_mix_is_drawn_against_its_own_limit() {
    let dir = tempdir().unwrap();
    let run = swept(dir.path(), "mix", &["search.adaptive.budget=1m"]);
    let overlay = chart(&run, "overlay", dir.path(), &[]);
    for title in ["Time to first token (TTFT) of chat, ms", "Time to first token (TTFT) of documents, "] {
        assert!(overlay.contains(title), "{title}");
    }
    for name in ["latency", "distribution"] {
        let charts = dir.path().join(name);
        let mut report = goodput();
        report
            .arg("report")
            .arg(&run)
            .args(["--chart", name, "--format", "svg", "--charts-dir"])
            .arg(&charts);
        report.assert().success();
        let svg = fs::read_to_string(charts.join("mix").join(format!("{name}.svg"))).unwrap();
        for text in ["(TTFT) of chat", "(TTFT) of documents", "p99 TTFT ≤ 300 ms", "p99 TTFT ≤ 3 s"] {
            assert!(svg.contains(text), "{name}: {text}");
        }
        let alone = fs::read_to_string(charts.join("only-chat").join(format!("{name}.svg"))).unwrap();
        assert!(!alone.contains("of documents"), "{name}");
    }
}

#[test]
fn a_matrix_shows_where_the_time_goes() {
    let dir = tempdir().unwrap();
    let run = swept(dir.path(), "matrix", &[]);
    let parts = chart(&run, "time-parts", dir.path(), &[]);
    for text in [
        "Where the time of the median request goes",
        "reading the prompt 100 % · prefill, as expected",
        "Batching sets the latency of 4",
        "slowed down by others",
    ] {
        assert!(parts.contains(text), "{text}");
    }
    let first = chart(&run, "first-tokens", dir.path(), &[]);
    for text in
        ["Median TTFT of each row against its reference", "of a cold cache", "times one request alone"]
    {
        assert!(first.contains(text), "{text}");
    }
    goodput()
        .arg("report")
        .arg(&run)
        .args(["--chart", "latency"])
        .assert()
        .code(1)
        .stderr(contains("the charts of this run: time-parts, first-tokens"));
}
