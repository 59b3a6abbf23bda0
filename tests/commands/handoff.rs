//! `goodput handoff`: the files of a run, checked by Prometheus' own tool where it is installed.

use crate::common::{a40_without_charts, goodput};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

/// The A40's sweep, shortened, in simulated time.
fn run(dir: &TempDir, sets: &[&str]) -> PathBuf {
    let out = dir.path().join("run");
    let sets = sets.iter().flat_map(|s| ["--set", s]);
    a40_without_charts("6m").arg("--out").arg(&out).args(sets).output().unwrap();
    out
}

/// Runs promtool on a file; returns false if it is not installed.
fn promtool(verb: &str, file: &Path) -> bool {
    match Command::new("promtool").args([verb, "rules"]).arg(file).output() {
        Ok(out) => {
            let said = [out.stdout, out.stderr].concat();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&said));
            true
        }
        Err(_) => false,
    }
}

#[test]
fn alerts_are_silent_at_the_safe_rate_and_fire_beyond_the_goodput() {
    let dir = tempdir().unwrap();
    let run = run(&dir, &[]);
    let capacity = dir.path().join("capacity");
    goodput()
        .arg("capacity")
        .arg(&run)
        .args(["--daily-volume", "5M", "--out"])
        .arg(&capacity)
        .assert()
        .success();
    let out = dir.path().join("ops");
    let handoff = || {
        let mut command = goodput();
        command.arg("handoff").arg(&run).arg("--out").arg(&out).args(["--label", "job=llm"]);
        command
    };
    handoff()
        .arg("--capacity")
        .arg(capacity.join("capacity.json"))
        .args(["--start-up", "90s", "--growth", "10"])
        .assert()
        .success()
        .stdout(contains("keda-scaledobject.yaml").and(contains("goodput.rules.test.yaml")));

    let tests = fs::read_to_string(out.join("alerts/goodput.rules.test.yaml")).unwrap();
    assert!(tests.contains("at the safe rate") && tests.contains("exp_samples: []"), "{tests}");
    assert!(
        tests.contains("beyond the goodput") && tests.contains("alertstate=\\\"firing\\\", severity="),
        "{tests}"
    );
    for (verb, name) in [("check", "goodput.rules.yaml"), ("test", "goodput.rules.test.yaml")] {
        if !promtool(verb, &out.join("alerts").join(name)) {
            eprintln!("no promtool: the rules were not checked by it");
        }
    }
    // Without a capacity plan there is nothing to scale by.
    handoff().assert().success().stdout(contains("Not made").and(contains("--capacity")));
}

#[test]
fn what_cannot_be_handed_over_is_refused() {
    let dir = tempdir().unwrap();
    let run = run(&dir, &["slo.ttft.p99=\"3ms\""]);
    let out = dir.path().join("ops");
    let to = |what: &Path| {
        let mut command = goodput();
        command.arg("handoff").arg(what).arg("--out").arg(&out);
        command
    };
    to(&run).assert().code(3).stderr(contains("no rate meets the SLO"));
    assert!(!out.exists(), "nothing is written");
    to(dir.path()).assert().code(1).stderr(contains("not a run folder"));
    to(&run.with_file_name("run#fp8")).assert().code(1).stderr(contains("no series or tier \"fp8\""));
    let plan = run.join("plan.toml");
    to(&run).arg("--capacity").arg(&plan).assert().code(1).stderr(contains("is no capacity.json"));
    to(&run).args(["--label", "job"]).assert().code(1).stderr(contains("NAME=VALUE"));
}
