//! A sweep that is killed or interrupted: what was measured is there, and `report` makes a report of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Manner, goodput, plan, result, serve};
use predicates::str::contains;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// Starts a sweep of one-second steps and waits until its second step has requests on disk.
fn begin(dir: &Path) -> Child {
    let path =
        plan(dir, &format!("url = \"http://{}\"", serve(Manner::Plain)), "rates = [50, 51, 52, 53, 54, 55]");
    let child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .arg("sweep")
        .arg(path)
        .arg("--out")
        .arg(dir.join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
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
