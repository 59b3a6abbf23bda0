//! Real results of other tools become run folders; under the tools' own definitions their own figures come out again.

use crate::common::{goodput, result};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/peers").join(name)
}

/// Imports a fixture with these further arguments. The exit code is that of the answer.
fn import(name: &str, args: &[&str]) -> (TempDir, PathBuf) {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let code = goodput().arg("import").arg(fixture(name)).args(args).arg("--out").arg(&out).output().unwrap();
    assert!(matches!(code.status.code(), Some(0 | 2 | 3)), "{}", String::from_utf8_lossy(&code.stderr));
    (dir, out)
}

fn as_tool(run: &Path, tool: &str) -> Value {
    let out = goodput().arg("report").arg(run).args(["--as", tool, "--json"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Every figure that the tool reported comes out again. Times are kept in whole nanoseconds, so what is made of them is
/// off by a millionth at the most; gaps come from a histogram with three significant figures, and a few thousandths of
/// it lie between two buckets.
fn reconciles(run: &Path, tool: &str, least: usize) {
    let all = as_tool(run, tool);
    assert_eq!(all["own"], true);
    for step in all["steps"].as_array().unwrap() {
        let mut compared = 0;
        for figure in step["figures"].as_array().unwrap() {
            let Some(reported) = figure["reported"].as_f64() else { continue };
            let value = figure["value"].as_f64().unwrap_or_else(|| panic!("{tool}: {figure} has no value"));
            let allowed = match figure["approximate"].as_bool() {
                Some(true) => 5e-3,
                // Its own sum takes the moments at which requests begin and end on its own clock.
                _ if figure["name"] == "request_concurrency.mean" => 1e-5,
                _ => 1e-6,
            };
            let off = (value - reported).abs() / reported.abs().max(1e-3);
            assert!(off <= allowed, "{tool}, step {}: {figure} is off by {off}", step["step"]);
            compared += 1;
        }
        assert!(compared >= least, "{tool}: only {compared} figures were compared");
    }
}

#[test]
fn vllm_bench_serve_is_imported_and_reconciled() {
    let (_dir, run) = import("vllm", &["--set", "slo.ttft.p99=300ms", "--set", "slo.tpot.p99=40ms"]);
    let found = result(&run);
    let steps = found["steps"].as_array().unwrap();
    let levels: Vec<f64> = steps.iter().map(|s| s["level"].as_f64().unwrap()).collect();
    assert_eq!((levels, &steps[0]["control"]), (vec![2.5, 10.0], &Value::from("rate")));
    assert_eq!(steps[1]["verdict"], "fails", "more than the server takes");
    assert_eq!(found["meta"]["imported"]["tool"], "vllm");
    assert_eq!(found["meta"]["server"], "not-recorded");
    reconciles(&run, "vllm", 20);
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(
        report.contains("(imported from vLLM bench serve)")
            && report.contains("Not known: when a request was due"),
        "{report}"
    );
    goodput()
        .arg("sweep")
        .arg("--resume")
        .arg(&run)
        .assert()
        .code(1)
        .stderr(contains("imported from vLLM bench serve").and(contains("cannot be resumed")));
    goodput().arg("report").arg(&run).args(["--as", "vllm"]).assert().code(0).stdout(
        contains("p99_ttft_ms")
            .and(contains("it reported"))
            .and(contains("Where its definitions differ from ours")),
    );
    // Other tools' definitions of the same requests, with nothing reported beside them.
    let other = as_tool(&run, "guidellm");
    assert_eq!(
        (&other["own"], &other["steps"][0]["figures"][0]["reported"]),
        (&Value::from(false), &Value::Null)
    );
}

#[test]
fn waiting_in_the_client_counts_where_vllm_tells_it() {
    let (_dir, run) = import("vllm-capped", &["--set", "slo.ttft.p99=50ms"]);
    let found = result(&run);
    let step = &found["steps"][0];
    assert_eq!(step["level"], 12.0);
    assert!(step["lateness_p99_ms"].as_f64().is_some_and(|ms| ms > 0.1), "it had only two in flight: {step}");
    let missing = found["meta"]["imported"]["missing"].to_string();
    assert!(missing.contains("the role alone"), "{missing}");
    reconciles(&run, "vllm", 15);
}

#[test]
fn failures_are_misses_and_have_their_kind() {
    let (_dir, run) = import("vllm-failed/refused.json", &[]);
    let found = result(&run);
    let step = &found["steps"][0];
    assert_eq!((&step["failed"], &step["completed"]), (&Value::from(10), &Value::from(0)));
    let failures = std::fs::read_to_string(run.join("failures.csv")).unwrap();
    assert!(
        failures.contains("all,connect,,10,") && failures.contains("Cannot connect to host"),
        "{failures}"
    );
}

#[test]
fn guidellm_is_imported_and_reconciled() {
    let slo = ["--set", "slo.ttft.p95=200ms", "--set", "slo.tpot.p95=30ms"];
    let (_dir, run) = import("guidellm/goodput.json.gz", &slo);
    let found = result(&run);
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(
        (&steps[0]["level"], &steps[1]["level"], &steps[1]["control"]),
        (&16.0.into(), &32.0.into(), &"concurrency".into())
    );
    assert_eq!(
        (&steps[0]["completed"], &steps[0]["cut"]),
        (&Value::from(368), &Value::from(14)),
        "what was cut off is no failure"
    );
    assert_eq!(steps[0]["itl_ms"]["n"], 0, "gaps are not known");
    reconciles(&run, "guidellm", 30);
}

/// Another tool's client has no threads and no bound that a setting of ours would move.
#[test]
fn the_client_of_another_tool_is_told_nothing_of_our_settings() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let said = goodput()
        .arg("import")
        .arg(fixture("guidellm/goodput.json.gz"))
        .args(["--set", "slo.ttft.p99=200ms", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let page = std::fs::read_to_string(out.join("report.md")).unwrap();
    for text in [&said, &page, &result(&out).to_string()] {
        for ours in ["of 4,096 in flight", "step.max-in-flight)", "client.threads"] {
            assert!(!text.contains(ours), "{ours}: {text}");
        }
    }
    assert!(
        page.contains("the client sent late") && page.contains("That was the other tool's client"),
        "{page}"
    );
}

/// The p99 TTFT matches its definition in docs/import.md: it includes a request cancelled after its first token, and no
/// failed one.
#[test]
fn the_percentile_of_the_docs_is_ours() {
    let docs = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/import.md")).unwrap();
    assert!(docs.contains("r.phase = 'measure' AND r.first_token_ms IS NOT NULL AND r.outcome <> 'failed'"));
    let (_dir, out) = import("guidellm/goodput.json.gz", &["--set", "slo.ttft.p99=200ms"]);
    let table = |name: &str| -> Vec<std::collections::HashMap<String, String>> {
        csv::Reader::from_path(out.join(name)).unwrap().deserialize().map(Result::unwrap).collect()
    };
    let (requests, mut cut) = (table("requests.csv"), 0);
    for step in table("steps.csv") {
        let own = requests.iter().filter(|r| r["step"] == step["step"] && r["phase"] == "measure");
        let mut all: Vec<f64> = Vec::new();
        for r in own.filter(|r| !r["first_token_ms"].is_empty() && r["outcome"] != "failed") {
            cut += u32::from(r["outcome"] == "cut");
            all.push(r["first_token_ms"].parse::<f64>().unwrap() - r["due_ms"].parse::<f64>().unwrap());
        }
        all.sort_by(f64::total_cmp);
        let rank = (99 * all.len()).div_ceil(100);
        let told: f64 = step["ttft_p99_ms"].parse().unwrap();
        assert!((all[rank - 1] - told).abs() < 1e-6, "step {}: {} and {told}", step["step"], all[rank - 1]);
    }
    assert!(cut > 0, "some were cut off after their first token");
}

#[test]
fn aiperf_is_imported_and_reconciled() {
    let (_dir, run) = import("aiperf", &["--slo", "chat"]);
    let found = result(&run);
    assert_eq!(
        (&found["steps"][0]["completed"], &found["steps"][0]["level"]),
        (&Value::from(368), &Value::from(16.0))
    );
    assert_eq!(
        (&found["meta"]["server"], &found["meta"]["model"]),
        (&serde_json::json!({ "urls": ["http://127.0.0.1:9102"] }), &"mock".into())
    );
    reconciles(&run, "aiperf", 25);
    let named = fixture("aiperf/profile_export_aiperf.json");
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    goodput().arg("import").arg(named).args(["--settle", "1s", "--out"]).arg(&out).assert().code(3);
    let cut = result(&out);
    let n = cut["steps"][0]["due_n"].as_u64().unwrap();
    assert!((200..368).contains(&n), "the first second is not counted: {n}");
    assert_eq!(cut["steps"][0]["settle_s"], 1.0);
}

#[test]
fn inference_perf_is_imported_and_reconciled() {
    let (_dir, run) =
        import("inference-perf", &["--set", "slo.ttft.p99=200ms", "--set", "slo.tpot.p99=30ms"]);
    let found = result(&run);
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(steps.iter().map(|s| s["due_n"].as_u64().unwrap()).collect::<Vec<_>>(), [60, 180]);
    assert_eq!(
        (&steps[0]["output_tokens_mean"], &steps[0]["lateness_p99_ms"]),
        (&Value::from(16.0), &Value::Null)
    );
    assert!(run.join("imported.csv").is_file(), "its own tokenizer counted 18");
    reconciles(&run, "inference-perf", 20);
}

#[test]
fn what_cannot_be_imported_is_said() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    let import =
        |name: &str| goodput().arg("import").arg(fixture(name)).arg("--out").arg(&out).assert().code(1);
    import("genai-bench").stderr(contains("not when it was sent"));
    import("").stderr(
        contains("import the results of each tool into a folder of their own").or(contains("genai-bench")),
    );
    assert!(!out.exists(), "nothing is left behind");
}

#[test]
fn a_measured_run_is_shown_as_others_count_it() {
    let dir = tempdir().unwrap();
    let plan = "name = \"x\"\nserver.simulated = { preset = \"demo\" }\nslo = { ttft.p99 = \"200ms\", tpot.p99 = \"50ms\" }\n\
                search.rates = [20]\nstep = { settle = \"2s\", measure = \"20s\" }\n\
                workload.prompts.synthetic = { input-tokens.fixed = 64, output-tokens.fixed = 16 }\n";
    let (file, out) = (dir.path().join("plan.toml"), dir.path().join("run"));
    std::fs::write(&file, plan).unwrap();
    goodput().arg("sweep").arg(&file).args(["--virtual-time", "--out"]).arg(&out).output().unwrap();
    let ours = &result(&out)["steps"][0];
    for (tool, name) in [
        ("vllm", "median_tpot_ms"),
        ("aiperf", "inter_token_latency.p50"),
        ("guidellm", "inter_token_latency_ms.p50"),
        ("inference-perf", "time_per_output_token.median"),
    ] {
        let all = as_tool(&out, tool);
        let figures = all["steps"][0]["figures"].as_array().unwrap();
        let figure = figures.iter().find(|f| f["name"] == name).unwrap();
        let scale = if figure["unit"] == "s" { 1e3 } else { 1.0 };
        let (value, own) =
            (figure["value"].as_f64().unwrap() * scale, ours["tpot_ms"]["p50"].as_f64().unwrap());
        assert!((value - own).abs() < 0.05 * own, "{tool}: {value} {own}");
        assert!(figures.iter().all(|f| f["reported"].is_null()));
        assert!(all["differences"].as_array().unwrap().len() >= 6);
    }
    goodput()
        .arg("report")
        .arg(&out)
        .args(["--as", "genai-bench"])
        .assert()
        .code(1)
        .stderr(contains("are not known here"));
}
