//! A sweep that is killed or interrupted: what was measured is there, `report` makes a report of it, and `--resume` goes on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Manner, goodput, plan, result, serve};
use predicates::str::contains;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// Rows of `requests.csv`, or of a file like it, that are of these steps: step, tokens that were cached, and the whole row.
fn requests(path: &Path, steps: std::ops::RangeInclusive<u32>) -> Vec<(u32, u32, String)> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let heads = reader.headers().unwrap().clone();
    let at = |name: &str| heads.iter().position(|h| h == name).unwrap();
    let (step, cached) = (at("step"), at("cached_tokens"));
    let rows = reader.records().map(Result::unwrap);
    rows.map(|r| (r[step].parse().unwrap(), r[cached].parse().unwrap_or(0), r.iter().collect()))
        .filter(|(step, ..)| steps.contains(step))
        .collect()
}

/// Goes on with the run and returns its result, for a sweep that has then measured all six levels once.
fn resume(run: &Path) -> serde_json::Value {
    goodput().arg("sweep").arg("--resume").arg(run).assert().code(3).stdout(contains("resumed once"));
    let result = result(run);
    let steps = result["steps"].as_array().unwrap();
    let numbers: Vec<_> = steps.iter().map(|s| s["step"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert!(steps.iter().all(|s| s["abort"].is_null()));
    for (before, after) in steps.iter().zip(&steps[1..]) {
        let idle = after["started_s"].as_f64().unwrap() - before["ended_s"].as_f64().unwrap();
        assert!((0.0..0.5).contains(&idle), "{idle} s between two steps: time in between is not spent");
    }
    result
}

/// Starts a sweep of one-second steps and waits until its second step has requests on disk.
fn begin(dir: &Path) -> Child {
    let url = format!("url = \"http://{}\"", serve(Manner::Caches));
    let path = plan(dir, &url, "rates = [50, 51, 52, 53, 54, 55]");
    let child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .arg("sweep")
        .arg(path)
        .arg("--out")
        .arg(dir.join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let requests = dir.join("run/requests.csv");
    while !fs::read_to_string(&requests).unwrap_or_default().contains("\nmain,2,") {
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn kill_9_loses_no_finished_step() {
    let dir = tempdir().unwrap();
    let mut child = begin(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let run = dir.path().join("run");
    goodput().arg("report").arg(&run).assert().success().stdout(contains("Step 2 was not finished"));
    let result = result(&run);
    assert_eq!(result["steps"].as_array().unwrap().len(), 1);
    assert!(fs::read_to_string(run.join("report.md")).unwrap().contains("Step 2 was not finished"));
    assert!(run.join("charts/latency.png").is_file());
}

#[test]
fn a_killed_sweep_goes_on_with_prompts_that_the_server_has_not_seen() {
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let mut child = begin(dir.path());
    goodput()
        .arg("sweep")
        .arg("--resume")
        .arg(&run)
        .assert()
        .code(1)
        .stderr(contains("is still writing into"));
    child.kill().unwrap();
    child.wait().unwrap();
    let first_try = requests(&run.join("requests.csv"), 2..=6).len();
    let result = resume(&run);
    let partial = requests(&run.join("requests-partial.csv"), 2..=2);
    assert!(first_try.abs_diff(partial.len()) <= 1 && !partial.is_empty(), "{first_try} or one that is torn");
    assert!(result["caveats"].to_string().contains(&format!("its {} requests stand in", partial.len())));
    let again = requests(&run.join("requests.csv"), 1..=6);
    assert!(again.iter().filter(|(step, ..)| *step == 2).count() > partial.len());
    assert!(again.iter().all(|(_, cached, _)| *cached < 16), "no block of any prompt had been seen");
    let mut warmups = requests(&run.join("requests.csv"), 0..=0);
    warmups.dedup_by(|a, b| a.2 == b.2);
    assert_eq!(warmups.len(), 4, "both times two");
    assert_eq!(result["meta"]["resumed"][0]["step"], 2);
}

#[test]
fn a_torn_row_is_dropped_and_said() {
    let dir = tempdir().unwrap();
    let mut child = begin(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let run = dir.path().join("run");
    let steps = fs::read_to_string(run.join("steps.csv")).unwrap();
    fs::write(run.join("steps.csv"), format!("{steps}main,2,list,rate,5")).unwrap();
    goodput().arg("report").arg(&run).assert().success().stdout(contains("steps.csv was torn"));
    assert_eq!(result(&run)["steps"].as_array().unwrap().len(), 1);
}

#[test]
fn an_interrupted_sweep_reports_and_exits_130() {
    let dir = tempdir().unwrap();
    let child = begin(dir.path());
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let run = dir.path().join("run");
    let result = result(&run);
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.last().unwrap()["abort"], "interrupted");
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let hint = format!("goodput sweep --resume {}", run.display());
    assert!(said.lines().last().unwrap().ends_with(&hint), "{said}");
    // The step that was broken off is measured again, under its number.
    let broken_off = steps.len() as u64;
    let result = resume(&run);
    assert_eq!(result["meta"]["resumed"][0]["step"], broken_off);
    assert!(!result["caveats"].to_string().contains("interrupted"), "{}", result["caveats"]);
}

#[test]
fn reports_are_made_again_from_the_files_alone() {
    let dir = tempdir().unwrap();
    let path = plan(dir.path(), &format!("url = \"http://{}\"", serve(Manner::Plain)), "rates = [20, 40]");
    let run = dir.path().join("run");
    goodput().arg("sweep").arg(path).arg("--out").arg(&run).assert().code(3);
    let first = [fs::read(run.join("result.json")).unwrap(), fs::read(run.join("report.md")).unwrap()];
    for name in ["report.md", "charts/latency.png", "charts/throughput.png"] {
        fs::remove_file(run.join(name)).unwrap();
    }
    goodput().arg("report").arg(&run).assert().success();
    assert_eq!(first, [fs::read(run.join("result.json")).unwrap(), fs::read(run.join("report.md")).unwrap()]);
    assert!(run.join("charts/throughput.png").is_file());
    goodput().arg("report").arg(dir.path()).assert().code(1).stderr(contains("is not a run folder"));
}
