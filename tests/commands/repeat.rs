//! Repeated sweeps, their pooled answer, and groups of runs in `compare`: in simulated time, and once with a server
//! that the plan starts.

use crate::common::{free_port, goodput};
use goodput::report::sections::comparison;
use goodput::rundir::repeats;
use goodput_run::fixture::json_schema::Output;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// A plan of a queue that takes 23.14 requests per second, over in a second or two of this machine's time.
fn plan(dir: &Path, name: &str, server: &str, search: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nslo.ttft.p99 = \"80ms\"\n[server]\nwarmup-requests = 0\n[server.simulated]\npreset = \"md1\"\nservice = \"20ms\"\n{server}\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 30 }}\noutput-tokens = {{ fixed = 2 }}\n[step]\nsettle = \"2s\"\n[search]\n{search}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

const SEARCH: &str = "adaptive = { budget = \"4m\" }\nmax-rate = 1000";

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn repeat(plan: &Path, out: &Path, n: &str) -> assert_cmd::Command {
    let mut command = goodput();
    command
        .args(["sweep", "--no-charts"])
        .arg(plan)
        .args(["--virtual-time", "--repeat", n, "--out"])
        .arg(out);
    command
}

#[test]
fn repeated_runs_are_pooled_and_compared_as_one_side() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("before");
    let fast = plan(dir.path(), "fast", "", SEARCH);
    repeat(&fast, &out, "3")
        .assert()
        .code(0)
        .stdout(contains("mean over runs").and(contains("from 3 of 3 runs")).and(contains("next run")))
        .stderr(
            contains("3 runs of fast, each at most 4m, at most 12m in total").and(contains("run 3 of 3")),
        );
    let all = json(&out.join("repeats.json"));
    let first = &all["pooled"][0];
    assert_eq!((&first["status"], &first["runs"], &first["pooled"]), (&"found".into(), &3.into(), &3.into()));
    let number = |key: &str| first[key].as_f64().unwrap();
    let ends = |key: &str| [0, 1].map(|i| first[key][i].as_f64().unwrap());
    let ([low, high], [next_low, next_high]) = (ends("interval90"), ends("prediction90"));
    assert!(next_low < low && low < number("rate") && number("rate") < high && high < next_high, "{first}");
    assert!((number("safe_rate") - next_low).abs() < 1e-9 && low < 23.14 && 23.14 < high, "{first}");
    // Each has a seed of its own, and so has its server.
    for run in 1..=3 {
        let own = json(&out.join(format!("run-0{run}/result.json")));
        assert_eq!(own["meta"]["seed"], run);
        let plan = fs::read_to_string(out.join(format!("run-0{run}/plan.toml"))).unwrap();
        assert!(run == 1 || plan.contains(&format!("seed = {run}")), "{plan}");
        assert_eq!(all["runs"][run - 1]["answers"][0]["goodput"], own["goodput"]);
    }
    let rates = fs::read_to_string(out.join("repeats.csv")).unwrap();
    assert_eq!(rates.lines().count(), 4, "{rates}");
    assert!(fs::read_to_string(out.join("repeats.md")).unwrap().contains("| run-02 | 2 |"));
    // The files alone say the same again.
    let told = goodput().arg("report").arg(&out).arg("--json").assert().code(0);
    let again: Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    assert_eq!(again, all);
    Output::new(&repeats::schema()).check("repeats.json", &all);
    groups(dir.path(), &out);
    more_runs(&out);
}

/// A server that takes two thirds as much, by three runs, by a list of runs, and by one run.
fn groups(dir: &Path, before: &Path) {
    let after = dir.join("after");
    repeat(&plan(dir, "slow", "slow-down = 1.5", SEARCH), &after, "3").assert().code(0);
    let compare = |arguments: &[&str]| {
        let mut command = goodput();
        command.arg("compare").args(arguments).args(["--gate", "goodput >= -5%"]);
        command.assert()
    };
    let [before, after] = [before, &after].map(|p| p.display().to_string());
    let run = |dir: &str, i: u32| format!("{dir}/run-0{i}");
    compare(&[&before, &after])
        .code(2)
        .stdout(contains("after is worse than before: goodput is").and(contains("before: 3 runs")));
    let lists = [
        run(&after, 1),
        run(&after, 2),
        run(&after, 3),
        "--against".into(),
        run(&before, 1),
        run(&before, 2),
    ];
    compare(&lists.each_ref().map(String::as_str)).code(2);
    // One run is held against what the next of three would be, and cannot be against two.
    let told = compare(&[&before, &run(&after, 1), "--json"]);
    let one: Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    Output::new(&comparison::schema()).check("one run against three", &one);
    assert_eq!(one["rows"][0]["changes"][0]["basis"], "runs", "{one}");
    assert_eq!(one["rows"][0]["each"][0].as_array().unwrap().len(), 3);
    let two = [run(&after, 1), "--against".into(), run(&before, 1), run(&before, 2)];
    compare(&two.each_ref().map(String::as_str))
        .code(3)
        .stdout(contains("one run can be held against three or more, and not against two"));
    // Runs of one server, split in two, do not differ: the gate does not fail.
    let split = [run(&before, 1), run(&before, 2), "--against".into(), run(&before, 3), run(&before, 2)];
    let told = compare(&split.each_ref().map(String::as_str));
    assert_ne!(told.get_output().status.code(), Some(2));
    compare(&[&before]).code(1).stderr(contains("name what to compare them with"));
}

/// A run that is not there is named, measured on resuming, and further ones are added.
fn more_runs(out: &Path) {
    fs::remove_dir_all(out.join("run-03")).unwrap();
    goodput()
        .arg("report")
        .arg(out)
        .assert()
        .code(0)
        .stdout(contains("waiting").and(contains("cannot be told")));
    goodput()
        .args(["sweep", "--no-charts", "--repeat", "4", "--resume"])
        .arg(out)
        .assert()
        .code(0)
        .stdout(contains("from 4 of 4 runs"))
        .stderr(
            contains("run 3 of 4, seed 3")
                .and(contains("run 4 of 4, seed 4"))
                .and(contains("run 1 of 4:").not()),
        );
    goodput()
        .args(["sweep", "--no-charts", "--repeat", "2", "--resume"])
        .arg(out)
        .assert()
        .code(1)
        .stderr(contains("asks for fewer"));
    goodput()
        .args(["sweep", "--no-charts", "--repeat", "2", "--resume"])
        .arg(out.join("run-01"))
        .assert()
        .code(1)
        .stderr(contains("is not a folder of repeated runs"));
}

#[test]
fn runs_without_a_rate_are_told_and_give_no_safe_one() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("none");
    // One request alone takes longer than the limit.
    let hopeless = plan(dir.path(), "hopeless", "slow-down = 9", SEARCH);
    repeat(&hopeless, &out, "2")
        .assert()
        .code(2)
        .stdout(contains("none: no rate meets the SLO in any of 2 runs").and(contains("2 none")));
    let reached = plan(dir.path(), "reached", "", "rates = [5]\nmax-rate = 5");
    let out = dir.path().join("reached");
    repeat(&reached, &out, "2").assert().stdout(contains("goodput"));
    assert_eq!(json(&out.join("repeats.json"))["pooled"][0]["safe_rate"], Value::Null);
    goodput()
        .arg("check")
        .arg(&hopeless)
        .args(["--repeat", "5"])
        .assert()
        .code(0)
        .stdout(contains("5 runs, one after the other, each with the budget above: at most 20m in total"));
}

#[test]
fn what_cannot_be_repeated_is_refused_with_the_reason() {
    let dir = tempdir().unwrap();
    let (path, out) = (plan(dir.path(), "x", "", SEARCH), dir.path().join("out"));
    repeat(&path, &out, "2")
        .arg("--restart")
        .assert()
        .code(1)
        .stderr(contains("restarts the server that the plan starts"));
    assert!(!out.exists(), "nothing is left of what was refused");
    repeat(&path, &out, "1").assert().code(1).stderr(contains("1 is not in 2..=999"));
    goodput()
        .args(["sweep", "--no-charts"])
        .arg(&path)
        .arg("--restart")
        .assert()
        .code(1)
        .stderr(contains("--repeat"));
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    repeat(&path, &out, "2").assert().code(1).stderr(contains("is not empty"));
    repeat(&path, &out, "2").arg("--force").assert().code(1).stderr(contains("no runs of --repeat"));
    assert!(out.join("notes.txt").is_file());
}

/// A started server keeps running between runs, unless a restart is requested. The report has its share of this
/// machine's cores.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_the_plan_starts_is_kept_or_restarted() {
    for (restart, starts) in [(false, 1), (true, 2)] {
        let dir = tempdir().unwrap();
        let (port, log, out) = (free_port(), dir.path().join("starts"), dir.path().join("out"));
        let bin = assert_cmd::cargo::cargo_bin!("goodput").display().to_string();
        let script = format!(
            "echo up >> '{}'; exec '{bin}' simulate --preset fixed --set ttft=5ms --set tpot=1ms --port {port}",
            log.display()
        );
        let path = dir.path().join("plan.toml");
        let text = format!(
            "name = \"started\"\n[server]\nurl = \"http://127.0.0.1:{port}\"\nwarmup-requests = 2\n[slo]\nttft.p90 = \"30s\"\n\
             [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n\
             [step]\nsettle = \"200ms\"\nmeasure = \"600ms\"\ndrain = \"10s\"\n[search]\nrates = [20]\n\
             [[variant]]\nname = \"only\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n"
        );
        fs::write(&path, text).unwrap();
        let mut command = goodput();
        command.args(["sweep", "--no-charts"]).arg(&path).args(["--repeat", "2", "--out"]).arg(&out);
        if restart {
            command.arg("--restart");
        }
        let told = command.assert();
        let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
        let seen = fs::read_to_string(&log).unwrap().lines().count();
        assert_eq!(seen, starts, "{told}");
        for run in ["run-01", "run-02"] {
            let result = json(&out.join(run).join("result.json"));
            assert_eq!(result["variants"][0]["state"], "done", "{told}");
            let host = &result["steps"][0]["host"];
            assert!(host["cores"].as_u64() >= Some(1) && host["server"].as_f64().is_some(), "{host}");
        }
        let steps = fs::read_to_string(out.join("run-01/steps.csv")).unwrap();
        assert!(
            steps
                .lines()
                .next()
                .unwrap()
                .contains("host_cores,host_busy,host_server,host_others,host_steal,host_waiting")
        );
        // It is gone once the last run is over.
        assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok());
    }
}
