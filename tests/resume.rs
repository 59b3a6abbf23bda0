//! Resuming: a sweep that was cut off goes on as if nothing had happened.
//!
//! In simulated time on a queue without randomness of its own (M/D/1) that is exact, down to every request. Other simulated
//! engines draw their own random numbers in the order of the requests they have seen, which a new one begins anew: there, and
//! on real servers, only what is asked is the same (levels, arrivals, lengths), as long as the verdicts are.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{goodput, result};
use goodput::plan::Plan;
use goodput::rundir::{self, Meta, Run, Writer, json};
use goodput::stats::step::Step;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// A plan over an M/D/1 queue that is through in a few seconds.
fn text(search: &str) -> String {
    format!(
        "name = \"md1\"\nseed = 3\n[server]\nsimulated = {{ preset = \"md1\", service = \"5ms\" }}\nwarmup-requests = 3\n\
         [slo]\nttft.p99 = \"20ms\"\n[workload.prompts.synthetic]\ninput-tokens = {{ uniform = {{ min = 20, max = 60 }} }}\n\
         output-tokens = {{ fixed = 2 }}\n[step]\nsettle = \"1s\"\nmeasure = \"5s\"\n[search]\nmax-rate = 500\n{search}\n"
    )
}

fn sweep(dir: &Path, search: &str, flags: &[&str]) -> Value {
    let (plan, run) = (dir.join("plan.toml"), dir.join("run"));
    fs::write(&plan, text(search)).unwrap();
    let command = ["sweep", plan.to_str().unwrap(), "--virtual-time", "--out", run.to_str().unwrap()];
    goodput().args(command).args(flags).assert().code(predicates::ord::ne(1));
    result(&run)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The lines of a file whose step is one of these.
fn lines(path: &Path, steps: impl Fn(usize) -> bool) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let of = |line: &&str| line.split(',').nth(1).unwrap().parse().is_ok_and(&steps);
    text.lines().filter(of).map(str::to_owned).collect()
}

/// Leaves of a file the head, the rows of the first `k` steps, some rows of the next one, and half a row after them.
fn cut(path: &Path, k: usize, more: usize) {
    let head = fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned();
    let (kept, next) = (lines(path, |s| s <= k), lines(path, |s| s == k + 1));
    let mut text = [vec![head], kept, next.iter().take(more).cloned().collect()].concat().join("\n") + "\n";
    if let Some(torn) = next.get(more) {
        text.push_str(&torn[..torn.len() / 2]);
    }
    fs::write(path, text).unwrap();
}

/// The steps without the time of day.
fn steps(result: &Value) -> Vec<Value> {
    let mut steps = result["steps"].as_array().unwrap().clone();
    steps.iter_mut().for_each(|s| drop(s.as_object_mut().unwrap().remove("started_at")));
    steps
}

#[test]
fn a_resumed_sweep_is_the_uninterrupted_one() {
    // Row: the search, and after how many of its steps it is cut, in parts of all of them.
    for (search, cuts) in [
        ("adaptive = { budget = \"100s\" }", &[0.0, 0.5, 0.99][..]),
        ("rates = [20, 60, 90, 120, 150, 40, 70]", &[0.2]),
    ] {
        goes_on(search, cuts);
    }
}

/// Within the first series, between both, and within the second.
#[test]
fn a_sweep_of_two_series_is_resumed_in_either() {
    goes_on("rates = [20, 60, 90, 120]\n[workload]\ncache = \"pair\"", &[0.25, 0.5, 0.76]);
}

/// Cuts a sweep after these parts of its steps, and has it go on from there.
fn goes_on(search: &str, cuts: &[f64]) {
    let dir = tempdir().unwrap();
    let whole = sweep(dir.path(), search, &[]);
    let n = whole["steps"].as_array().unwrap().len();
    assert!(n >= 7, "{search}: {n} steps");
    for k in cuts.iter().map(|part| (n as f64 * part) as usize) {
        let run = dir.path().join(format!("cut-{k}"));
        copy(&dir.path().join("run"), &run);
        for (file, more) in [("steps.csv", 0), ("limits.csv", 1), ("requests.csv", 5), ("histograms.csv", 9)]
        {
            cut(&run.join(file), k, more);
        }
        let args = ["sweep", "--json", "--resume", run.to_str().unwrap()];
        goodput().args(args).assert().stderr(contains(format!("resumed at step {}", k + 1)));
        let resumed = result(&run);
        for (a, b) in steps(&whole).iter().zip(&steps(&resumed)) {
            assert_eq!(a, b, "{search}, cut after step {k}");
        }
        assert_eq!(whole["answers"], resumed["answers"], "{search}, cut after step {k}");
        assert_eq!(steps(&resumed).len(), n);
        for file in ["requests.csv", "limits.csv", "histograms.csv"] {
            let of = |run: &Path| lines(&run.join(file), |step| step > 0);
            assert_eq!(of(&dir.path().join("run")), of(&run), "{search}, cut after step {k}: {file}");
        }
        // What was measured twice stands apart, once, and is told.
        assert_eq!(lines(&run.join("requests-partial.csv"), |step| step == k + 1).len(), 5);
        assert_eq!(fs::read_to_string(run.join("requests-partial.csv")).unwrap().lines().count(), 6);
        let said = resumed["caveats"].to_string();
        for says in ["steps.csv was torn", "limits.csv was torn", "its 5 requests stand in", "resumed once"] {
            assert!(said.contains(says), "{says}: {said}");
        }
    }
}

#[test]
fn a_search_over_files_asks_what_a_search_over_memory_asks() {
    for search in ["adaptive = { budget = \"300s\" }", "ramp = { start = 20, factor = 1.3 }"] {
        let plan = Plan::from_text(&text(search)).unwrap();
        let measured = goodput::sweep::bare::steps(&plan).unwrap();
        assert!(measured.len() > 4);
        let own = plan.searcher().unwrap();
        let dir = tempdir().unwrap();
        let plan_toml = plan.to_toml().unwrap();
        let mut writer = Writer::create(&dir.path().join("run"), &plan_toml, false).unwrap();
        let empty = Run::assemble(&plan, plan_toml, meta(), vec![], vec![], vec![]).unwrap();
        writer.result(&json::result(&empty)).unwrap();
        for n in 0..=measured.len() {
            if n > 0 {
                writer.step(&measured[n - 1], &[]).unwrap();
            }
            let read: Vec<Step> = rundir::read(&dir.path().join("run")).unwrap().steps;
            assert_eq!(own.next("main", &read), own.next("main", &measured[..n]), "{search}: after {n}");
            assert_eq!(own.answers("main", &read), own.answers("main", &measured[..n]));
            let limits = |steps: &[Step]| steps.iter().map(|s| s.limits.clone()).collect::<Vec<_>>();
            assert_eq!(limits(&read), limits(&measured[..n]));
        }
    }
}

fn meta() -> Meta {
    let fields = ["goodput_version", "host", "started", "server", "model", "workload", "slo"];
    let mut meta: Value = fields.iter().map(|f| (f.to_string(), Value::from("x"))).collect();
    (meta["seed"], meta["virtual_time"]) = (3.into(), true.into());
    serde_json::from_value(meta).unwrap()
}

#[test]
fn a_finished_sweep_is_only_reported() {
    let dir = tempdir().unwrap();
    let whole = sweep(dir.path(), "rates = [50, 150]", &[]);
    let run = dir.path().join("run");
    fs::remove_file(run.join("report.md")).unwrap();
    let code = goodput().arg("report").arg(&run).arg("--json").assert().success();
    let first: Value = serde_json::from_slice(&code.get_output().stdout).unwrap();
    let resumed = goodput().arg("sweep").arg("--resume").arg(&run).assert().code(3);
    resumed.stderr(contains("nothing is left to measure"));
    assert_eq!((&whole, &first), (&result(&run), &result(&run)));
    assert!(run.join("report.md").is_file());
}

/// Row: the search, the first budget, the second, and what the plan holds then.
#[test]
fn more_budget_measures_more() {
    for (search, first, second, plan) in [
        ("adaptive = { budget = \"1h\", width = 0.01 }", "60s", "150s", "budget = \"2m 30s\""),
        ("rates = [20, 30, 40, 50]", "80s", "10m", "rates = [20.0, 30.0, 40.0, 50.0]"),
    ] {
        let dir = tempdir().unwrap();
        let n = steps(&sweep(dir.path(), search, &["--budget", first])).len();
        let run = dir.path().join("run");
        let resume = |flags: &[&str]| {
            goodput().arg("sweep").arg("--resume").arg(&run).args(flags).assert().code(predicates::ord::ne(1))
        };
        resume(&[]).stderr(contains("nothing is left to measure"));
        resume(&["--budget", second]).stderr(contains(format!("resumed at step {}", n + 1)));
        let more = result(&run);
        assert!(steps(&more).len() > n, "{search}: {n} steps and then {}", steps(&more).len());
        let text = fs::read_to_string(run.join("plan.toml")).unwrap();
        assert!(text.contains(plan), "{text}");
        assert!(!more["caveats"].to_string().contains("budget-spent"));
    }
}

#[test]
fn what_cannot_go_on_says_why() {
    let dir = tempdir().unwrap();
    sweep(dir.path(), "rates = [50, 150]", &[]);
    let broken = |edit: fn(&Path), says: &str| {
        let run = dir.path().join("broken");
        let _ = fs::remove_dir_all(&run);
        copy(&dir.path().join("run"), &run);
        cut(&run.join("steps.csv"), 1, 0);
        edit(&run);
        let before = fs::read(run.join("steps.csv")).unwrap();
        goodput().arg("sweep").arg("--resume").arg(&run).assert().code(1).stderr(contains(says));
        assert_eq!(before, fs::read(run.join("steps.csv")).unwrap(), "{says}: nothing was touched");
    };
    broken(|run| fs::remove_file(run.join("plan.toml")).unwrap(), "is not a run folder: it has no plan.toml");
    broken(|run| edit(run, "plan.toml", "seed = 3", "seed = \"three\""), "invalid type");
    broken(|run| edit(run, "plan.toml", "seed = 3", "seed = 4"), "made with the seed 3, now it is 4");
    broken(|run| edit(run, "plan.toml", "20ms", "30ms"), "made with the SLO p99 TTFT ≤ 20ms, now it is");
    broken(|run| edit(run, "result.json", "goodput/1", "goodput/9"), "use the version that made it");
    broken(
        |run| edit(run, "result.json", "\"simulated\"", "\"other\""),
        "does not serve the model \"other\"",
    );
    broken(
        |run| edit(run, "result.json", "\"per_word\": 1.0", "\"per_word\": 1.4"),
        "counts prompts otherwise",
    );
    broken(|run| edit(run, "steps.csv", "main,1,", "main,7,"), "not numbered 1, 2, 3");
    goodput().args(["sweep", "--resume", "/nowhere"]).assert().code(1).stderr(contains("not a run folder"));
    for with in [&["demo"][..], &["--out", "x"], &["--set", "seed=1"], &["--url", "http://x"], &["--force"]] {
        let assert = goodput().args(["sweep", "--resume", "x"]).args(with).assert().code(2);
        assert.stderr(contains("cannot be used with").and(contains("--resume")));
    }
}

fn edit(run: &Path, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(run.join(file)).unwrap();
    assert!(text.contains(from), "{file} holds {from}: {text}");
    fs::write(run.join(file), text.replace(from, to)).unwrap();
}
