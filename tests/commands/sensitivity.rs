//! Sensitivity of the answer, and recovery of the server from a surge, on the M/D/1 queue with its known truth.

use crate::common::{goodput, result};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// A plan of the queue with 50 ms of service and 200 ms as the limit, whose goodput is 9.26 requests/s.
fn plan(dir: &Path, rest: &str) -> PathBuf {
    let plan = dir.join("plan.toml");
    let text = format!(
        "name = \"md1\"\nseed = 5\n[server]\nsimulated = {{ preset = \"md1\", service = \"50ms\" }}\nwarmup-requests = 2\n\
         [slo]\nttft.p99 = \"200ms\"\n[workload.prompts.synthetic]\ninput-tokens = {{ fixed = 30 }}\n\
         output-tokens = {{ fixed = 2 }}\n{rest}\n"
    );
    fs::write(&plan, text).unwrap();
    plan
}

const STEPS: &str = "[step]\nsettle = \"10s\"\nmeasure = \"20m\"\nmin-requests = 0\n";

fn effect<'a>(result: &'a Value, kind: &str) -> &'a Value {
    let effects = result["sensitivity"]["effects"].as_array().unwrap();
    effects.iter().find(|e| e["kind"] == kind).unwrap()
}

/// Burstier arrivals cost an M/D/1 queue −1.65 (by long simulation; `docs/sensitivity.md`); the lengths of prompts are
/// none of its business.
#[test]
fn burstiness_moves_the_answer_and_prompts_do_not() {
    let dir = tempdir().unwrap();
    let rest = format!(
        "{STEPS}[search]\nrates = [7, 12]\n[sensitivity]\nfactors = [\"burstiness\", \"prompt-length\"]\nbudget = \"40m\""
    );
    let plan = plan(dir.path(), &rest);
    let out = dir.path().join("run");
    let run = goodput().arg("sensitivity").arg(&plan).arg("--out").arg(&out).arg("--virtual-time").assert();
    run.code(0).stdout(contains("What moves the goodput most: with arrivals 20 % burstier"));
    let result = result(&out);
    let s = &result["sensitivity"];
    let centre = s["centre"].as_f64().unwrap();
    assert!(centre > 8.3 && centre < 10.2, "the truth is 9.26: {s}");
    assert_eq!((s["turns"].as_u64(), s["limit"].as_str()), (s["of_turns"].as_u64(), Some("ttft.p99")));
    let burst = effect(&result, "burstiness");
    let [low, high] = [0, 1].map(|i| burst["elasticity"]["interval90"][i].as_f64().unwrap());
    assert!(low < -1.65 && -1.65 < high && high - low < 4.0, "{burst}");
    let prompts = effect(&result, "prompt-length");
    let [low, high] = [0, 1].map(|i| prompts["elasticity"]["interval90"][i].as_f64().unwrap());
    assert!(low.abs() < 1e-6 && high.abs() < 1e-6, "the same requests take the same time: {prompts}");
    assert!(out.join("charts/sensitivity.png").is_file());
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("## What moves the answer") && report.contains("burstiness of arrivals"));
    // Nothing is left to measure: the same again, from the files.
    goodput().arg("sensitivity").arg(&out).assert().code(0).stdout(contains("burstiness of arrivals"));
    let capacity = ["--daily-volume", "5M", "--headroom", "2"];
    goodput()
        .arg("capacity")
        .arg(&out)
        .args(capacity)
        .assert()
        .success()
        .stdout(contains("With arrivals 20 % burstier: "))
        .stdout(contains("With prompts 20 % longer: still "));
}

#[test]
fn what_cannot_be_moved_is_told_before_anything_is_sent() {
    let dir = tempdir().unwrap();
    let plan = plan(dir.path(), &format!("{STEPS}[search]\nrates = [7]"));
    let at = |args: &[&str]| goodput().args(["sensitivity"]).arg(&plan).args(args).assert().code(1);
    at(&["--set", "sensitivity.factors=[\"cache-share\"]"]).stderr(contains("the prefix cache is cold"));
    at(&["--set", "search={concurrency=[2]}"]).stderr(contains("no closed loop"));
    goodput().arg("check").arg(&plan).args(["--set", "sensitivity={}"]).assert().success().stdout(contains(
        "factors   prompt-length, answer-length, burstiness changed by up to 20 %, in paired steps near the goodput, 30m in total",
    ));
}

/// The safe rate of the fit is 8.6 requests/s: in 20 s at four times that, 34.6, 292 requests pile up, and the queue
/// drains at 11.4 a second: 26 s.
#[test]
fn a_queue_recovers_from_a_surge() {
    let dir = tempdir().unwrap();
    let rest =
        format!("{STEPS}[search]\nrates = [6, 12]\n[recovery]\nfactor = 4\nsurge = \"20s\"\nhold = \"2m\"");
    let plan = plan(dir.path(), &rest);
    let out = dir.path().join("run");
    goodput()
        .arg("sweep")
        .arg(&plan)
        .arg("--out")
        .arg(&out)
        .arg("--virtual-time")
        .assert()
        .code(0)
        .stdout(contains("4 × the rate held"))
        .stdout(contains("recovery: the safe rate, a surge"));
    let result = result(&out);
    let recovery = &result["recovery"][0];
    let took = recovery["outcome"]["recovery_s"].as_f64().unwrap();
    let held = recovery["held"].as_f64().unwrap();
    assert!((7.0..9.26).contains(&held) && recovery["step"].as_u64() == Some(3), "{recovery}");
    let drained = 20.0 * (4.0 * held - 20.0) / (20.0 - held);
    assert!((0.6 * drained..1.8 * drained).contains(&took), "{took} s, where the queue takes {drained} s");
    let surged = &recovery["outcome"]["surge"];
    let due = surged["n"].as_f64().unwrap() / (80.0 * held);
    assert!((0.8..1.2).contains(&due), "{surged}");
    assert_eq!(result["steps"][2]["kind"], "recovery");
    let safe = result["goodput"]["safe_rate"].as_f64().unwrap();
    assert!(held <= safe && safe - held < 0.01, "the safe rate, cut off to three digits: {safe}");
    assert!(out.join("charts/recovery.png").is_file());
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("## Recovery from a surge"), "{report}");
}

#[test]
fn a_surge_never_goes_above_the_highest_rate() {
    let dir = tempdir().unwrap();
    let rest = format!("{STEPS}[search]\nrates = [6, 12]\nmax-rate = 12\n[recovery]\nfactor = 4");
    goodput()
        .arg("check")
        .arg(plan(dir.path(), &rest))
        .assert()
        .code(1)
        .stderr(contains("is a surge of 24, above [search] max-rate (12)"));
    let rest = format!("{STEPS}[search]\nrates = [2, 6, 12]\nmax-rate = 12\n[recovery]\nfactor = 3");
    let out = dir.path().join("run");
    goodput()
        .arg("sweep")
        .arg(plan(dir.path(), &rest))
        .arg("--out")
        .arg(&out)
        .arg("--virtual-time")
        .assert()
        .code(0)
        .stdout(contains("above search.max-rate (12)"));
    let result = result(&out);
    assert_eq!(result["steps"].as_array().map(Vec::len), Some(3));
    assert_eq!(result["recovery"][0]["not_measured"]["why"], "above-max-rate");
}
