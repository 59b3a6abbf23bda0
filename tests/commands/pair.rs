//! Pairs of a cold and a warm prefix cache: the use of the cache is reported, verified and compared.

use crate::common::{goodput, plan, result, simulate, sweep_with_charts};
use axum::routing::post;
use goodput::sim::config::Simulated;
use goodput::sim::router::router;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::tempdir;

/// A plan against the simulated A40, over in a second or two of real time.
fn a40(server: &str, workload: &str, rates: &str) -> String {
    format!(
        "name = \"pair\"\nseed = 7\n[server]\nsimulated = {{ preset = \"a40-qwen3-0.6b\"{server} }}\nwarmup-requests = 4\n\
         [slo]\nttft.p90 = \"60ms\"\n[workload]\n{workload}\n[step]\nsettle = \"2s\"\nmeasure = \"20s\"\n[search]\nrates = {rates}\n"
    )
}

const SHARED: &str = "prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 8 }, shared-prefix = { tokens = 400 } }";

fn caveats(result: &Value) -> String {
    result["caveats"].to_string()
}

#[test]
fn a_warm_cache_is_worth_what_it_saves() {
    let dir = tempdir().unwrap();
    let plan = a40("", &format!("cache = \"pair\"\n{SHARED}"), "[10, 25, 50]");
    let said = sweep_with_charts(dir.path(), &plan, &["--virtual-time"]).1;
    let run = dir.path().join("run");
    let json = result(&run);
    let names: Vec<&str> =
        json["answers"].as_array().unwrap().iter().map(|a| a["series"].as_str().unwrap()).collect();
    assert_eq!(names, ["cold", "warm"]);
    assert_eq!(json["goodput"], json["answers"][0]["goodput"], "the first");
    for step in json["steps"].as_array().unwrap() {
        let (series, hits) = (step["series"].as_str().unwrap(), step["server"]["hit_rate"].as_f64().unwrap());
        // 400 of 600 tokens, in blocks of 16 behind the 8 of the chat template: 400 of 600.
        let want = if series == "warm" { 2.0 / 3.0 } else { 0.0 };
        assert!((hits - want).abs() < 0.01, "{series}: {hits}");
    }
    // Unloaded it would be 7.9 instead of 14.7 ms; under load requests wait for an iteration that is under way, which
    // is shorter as well.
    let pair = &json["pairs"][0];
    let lower = &pair["loaded"]["lower"];
    let share = lower["share"].as_f64().unwrap();
    assert!((0.3..0.55).contains(&share), "{pair}");
    let [low, high] = [0, 1].map(|i| lower["bounds"][i].as_f64().unwrap());
    assert!(low < share && share < high && high - low < 0.2, "{lower}");
    for want in ["cold", "warm", "the median TTFT is", "prefix cache cold, and 66", "Goodput warm"] {
        assert!(said.contains(want), "{want}: {said}");
    }
    let not = caveats(&json);
    assert!(
        !["cold-hits", "warm-misses", "hit-rates-differ", "other-clients"].iter().any(|c| not.contains(c)),
        "{not}"
    );
    // One request for the shared prefix before each warm step, which counts for nothing.
    let requests = fs::read_to_string(run.join("requests.csv")).unwrap();
    assert_eq!(requests.lines().filter(|l| l.starts_with("warm,0,")).count(), 4 + 3);
    for file in [
        "charts/overlay.png",
        "charts/cold/latency.svg",
        "charts/warm/timelines.png",
        "charts/slides/overlay.png",
    ] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    for want in [
        "## Comparison",
        "## Cold and warm caches",
        "## Series cold",
        "## Series warm",
        "](charts/warm/latency.png)",
        "cache hits",
    ] {
        assert!(report.contains(want), "{want}: {report}");
    }
    fs::remove_file(run.join("report.md")).unwrap();
    fs::remove_dir_all(run.join("charts")).unwrap();
    goodput().arg("report").arg(&run).assert().success().stdout(contains("the median TTFT is"));
    assert_eq!((fs::read_to_string(run.join("report.md")).unwrap(), result(&run)), (report, json));
    assert!(run.join("charts/warm/latency.png").is_file());
}

#[test]
fn a_cache_that_is_too_small_is_not_called_warm() {
    let dir = tempdir().unwrap();
    let many = SHARED.replace("tokens = 400 }", "tokens = 400, groups = 40 }");
    // Forty prefixes are a thousand blocks.
    simulate(dir.path(), &a40(", kv-blocks = 400", &format!("cache = \"warm\"\n{many}"), "[15]"));
    let json = result(&dir.path().join("run"));
    let hits = json["steps"][0]["server"]["hit_rate"].as_f64().unwrap();
    assert!(hits < 0.4, "{hits}");
    assert!(caveats(&json).contains("warm-misses"), "{}", caveats(&json));
    let report = fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(report.contains("though 66.7 % of them are shared"), "{report}");
}

#[test]
fn check_tells_of_every_series() {
    let dir = tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, a40("", &format!("cache = \"pair\"\n{SHARED}"), "[10, 25]")).unwrap();
    let said = goodput().arg("check").arg(&plan).assert().success();
    said.stdout(
        contains("series    2: cold; warm")
            .and(contains("warm cache"))
            .and(contains("2 series, one after the other")),
    );
    let json = goodput().arg("check").arg(&plan).arg("--json").assert().success();
    let json: Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(json["series"][1]["name"], "warm");
    let one = json["would_run"]["longest_s"].as_f64().unwrap();
    assert!((json["longest_s"].as_f64().unwrap() - 2.0 * one).abs() < 1e-6);
}

/// A simulated server that offers to empty its cache, and how often it was asked to.
fn resettable() -> (SocketAddr, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, count) = (listener.local_addr().unwrap(), asked.clone());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let sim: Simulated = toml::from_str("preset = \"demo\"\nmodel = \"tiny\"").unwrap();
            let reset = post(move || async move { format!("{}", count.fetch_add(1, Ordering::SeqCst)) });
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router(&sim).route("/reset_prefix_cache", reset)).await.unwrap();
        });
    });
    (address, asked)
}

#[test]
fn a_server_that_can_is_told_to_forget_before_each_cold_step() {
    let (address, asked) = resettable();
    let dir = tempdir().unwrap();
    let plan = plan(dir.path(), &format!("url = \"http://{address}\""), "rates = [20, 30]");
    let run = |out: &str, cache: &str| {
        let args = ["sweep", plan.to_str().unwrap(), "--set", &format!("workload.cache={cache}"), "--out"];
        goodput().args(args).arg(dir.path().join(out)).assert().code(predicates::ord::ne(1));
        asked.swap(0, Ordering::SeqCst)
    };
    assert_eq!(
        (run("cold", "cold"), run("warm", "warm")),
        (2, 0),
        "before each of two steps; never when warm"
    );
}

/// Too few requests for a verdict: the levels that both measured are compared all the same.
#[test]
fn listed_levels_are_compared_whatever_their_verdict() {
    let dir = tempdir().unwrap();
    let plan = a40("", &format!("cache = \"pair\"\n{SHARED}"), "[4, 8]")
        .replace("measure = \"20s\"", "measure = \"5s\"");
    let (run, said) = simulate(dir.path(), &plan.replace("ttft.p90", "ttft.p99"));
    let json = result(&run);
    let statuses: Vec<_> =
        json["answers"].as_array().unwrap().iter().map(|a| &a["goodput"]["status"]).collect();
    assert_eq!(statuses, ["undecided", "undecided"]);
    let pair = &json["pairs"][0];
    let levels: Vec<_> =
        pair["listed"].as_array().unwrap().iter().map(|m| m["cold"]["level"].as_f64()).collect();
    assert_eq!(levels, [Some(4.0), Some(8.0)]);
    assert_eq!(pair["loaded"]["cold"]["level"].as_f64(), Some(8.0));
    assert!(
        said.contains("At 8 requests/s the median TTFT is") && !said.contains("There is no load"),
        "{said}"
    );
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("| 4 requests/s |") && report.contains("| 8 requests/s |"), "{report}");
}

#[test]
fn somebody_else_on_the_server_is_noticed() {
    let (address, _) = resettable();
    let dir = tempdir().unwrap();
    let plan = plan(dir.path(), &format!("url = \"http://{address}\""), "rates = [20]");
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = is_over.clone();
    let somebody = std::thread::spawn(move || {
        let prompt = "word ".repeat(2000);
        let body = format!("{{\"model\":\"tiny\",\"prompt\":\"{prompt}\",\"max_tokens\":1}}");
        let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n";
        while !watched.load(Ordering::Relaxed) {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let run = dir.path().join("run");
    goodput()
        .arg("sweep")
        .arg(&plan)
        .arg("--out")
        .arg(&run)
        .assert()
        .stdout(contains("Somebody else used the server in step 1"));
    is_over.store(true, Ordering::Relaxed);
    somebody.join().unwrap();
    assert!(caveats(&result(&run)).contains("other-clients"));
}
