//! Findings and floors, from whole sweeps of the simulated A40 in virtual time.

use crate::common::{goodput, result, simulate, sweep_with_charts};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// Runs a plan in simulated time, and gives its run folder and what it printed.
fn plan(server: &str, rest: &str) -> String {
    format!(
        "name = \"why\"\nseed = 7\nserver = {{ simulated = {{ preset = \"a40-qwen3-0.6b\"{server} }}, warmup-requests = 4 }}\n\
         step = {{ settle = \"4s\", measure = \"60s\" }}\n{rest}"
    )
}

fn sweep(dir: &Path, server: &str, rest: &str) -> (PathBuf, String) {
    simulate(dir, &plan(server, rest))
}

fn kinds(result: &Value, series: &str) -> Vec<String> {
    let all = result["findings"].as_array().unwrap().iter();
    all.filter(|f| f["series"] == series).map(|f| f["kind"].as_str().unwrap().to_owned()).collect()
}

const FIXED: &str =
    "workload.prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }\n";
const SEARCH: &str = "search = { rates = [5, 20, 42], baseline = true }\nslo.ttft.p99 = \"80ms\"\n";

/// The queue that the boundary of this server consists of, its floors by the data sheet, and the same again from the files alone.
#[test]
fn findings_and_floors_come_from_the_run_folder() {
    let dir = tempdir().unwrap();
    let hardware = "hardware = { gpu = \"A40\", gpus = 1 }\n\
                    model = { parameters = \"0.6B\", precision = \"bf16\", layers = 28, kv-heads = 8, head-size = 128 }\n";
    let text = plan("", &format!("{SEARCH}{FIXED}{hardware}"));
    let (run, said) = sweep_with_charts(dir.path(), &text, &["--virtual-time"]);
    let first = result(&run);
    // The cause of a queue comes before the queue.
    assert_eq!(kinds(&first, "main"), ["prefill-bound", "queueing"], "{}", first["findings"]);
    let finding = &first["findings"][1];
    assert!(finding["evidence"][0]["value"].as_f64().unwrap() > 2.0, "{finding}");
    assert!(finding["next"]["command"].as_str().unwrap().contains("workload.arrivals=constant"), "{finding}");
    // 4 ms of host work, 1.7 ms of weights and 0.1 ms of KV cache, of which memory takes the last two.
    let alone = &first["roofline"][0]["decode"][0];
    let [floor, ratio] = [&alone["floor"]["floor_ms"], &alone["ratio"]].map(|v| v.as_f64().unwrap());
    assert!((floor - 1.825).abs() < 0.01 && (3.0..3.4).contains(&ratio), "{alone}");
    for want in
        ["Why, and what to change:", "2. Queueing", "TPOT against memory bandwidth: one request alone"]
    {
        assert!(said.contains(want), "{want}: {said}");
    }
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## Why, and what to change") && report.contains("## Against the hardware"));
    fs::remove_file(run.join("report.md")).unwrap();
    goodput().args(["report", run.to_str().unwrap()]).assert().success();
    let again = result(&run);
    assert_eq!((&again["findings"], &again["roofline"]), (&first["findings"], &first["roofline"]));
    assert_eq!(fs::read_to_string(run.join("report.md")).unwrap(), report);
}

/// Prompts of different lengths let the unloaded step tell what each token costs: 16 µs of products and half a microsecond of attention.
#[test]
fn prompts_of_different_lengths_show_prefill() {
    let dir = tempdir().unwrap();
    let mixed = FIXED.replace("{ fixed = 600 }", "{ uniform = { min = 200, max = 2000 } }");
    let (run, _) = sweep(dir.path(), "", &format!("{}{mixed}", SEARCH.replace("80ms", "60ms")));
    let result = result(&run);
    assert!(kinds(&result, "main").iter().any(|k| k == "prefill-bound"), "{}", result["findings"]);
}

/// A server without a prefix cache: warm is as cold.
#[test]
fn a_cache_that_is_off_is_found() {
    let dir = tempdir().unwrap();
    let warm = "[workload]\ncache = \"pair\"\nprompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 }, \
                shared-prefix = { tokens = 400 } }\n";
    let (off, _) = sweep(dir.path(), ", prefix-cache = false", &format!("{SEARCH}{warm}"));
    let result = result(&off);
    assert!(kinds(&result, "warm").iter().any(|k| k == "cache-misses"), "{}", result["findings"]);
    assert!(!kinds(&result, "cold").iter().any(|k| k == "cache-misses"), "{}", result["findings"]);
    let on = tempdir().unwrap();
    let result = crate::common::result(&sweep(on.path(), "", &format!("{SEARCH}{warm}")).0);
    assert!(!kinds(&result, "warm").iter().any(|k| k == "cache-misses"), "{}", result["findings"]);
}
