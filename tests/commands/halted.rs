//! A client that is stopped in the middle of a step, by a signal: the server is not blamed, the step is measured again, and every request that
//! was due is accounted for.

use crate::common::{goodput, result, rows, until};
use goodput::sim::config::Simulated;
use goodput::sim::serve::Embedded;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// Requests that are written to the run folder before the client is stopped: it is in the middle of its window then.
const BEFORE: usize = 60;

/// Sweeps one level of a server whose answers take 1.5 s, with a timeout of 3 s, and stops the client for `halt` in the middle of the first
/// step. Returns the exit code, the steps, and the measured requests of the first one.
fn stopped(
    search: &str,
    measure: &str,
    halt: Duration,
) -> (Option<i32>, Vec<Value>, Vec<HashMap<String, String>>) {
    let sim: Simulated =
        toml::from_str("preset = \"fixed\"\nttft = \"50ms\"\ntpot = \"50ms\"\nmodel = \"tiny\"").unwrap();
    let (server, dir) = (Embedded::start(&sim).unwrap(), tempdir().unwrap());
    let (path, run) = (dir.path().join("plan.toml"), dir.path().join("run"));
    let plan = format!(
        "name = \"halted\"\n[server]\nurl = \"{}\"\nwarmup-requests = 0\n[slo]\ne2e.p90 = \"2500ms\"\n\
         [workload]\narrivals = \"constant\"\nprompts.synthetic = {{ input-tokens.fixed = 20, output-tokens.fixed = 30 }}\n\
         [step]\nsettle = \"2s\"\nmeasure = \"{measure}\"\ntimeout = \"3s\"\ndrain = \"2s\"\nmin-requests = 1\n\
         [search]\n{search}\n",
        server.url
    );
    fs::write(&path, plan).unwrap();
    let mut command = Command::new(goodput().get_program());
    command.args(["sweep", "--no-charts"]).arg(&path).arg("--out").arg(&run).env_remove("OPENAI_API_KEY");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let written = || fs::read_to_string(run.join("requests.csv")).unwrap_or_default().lines().count();
    until(&mut child, "requests are written", || written() > BEFORE);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(halt);
    kill_process(pid, Signal::CONT).unwrap();
    let code = child.wait().unwrap().code();
    let steps = result(&run)["steps"].as_array().unwrap().clone();
    (code, steps, measured(&run))
}

/// Returns the measured requests of the first step.
fn measured(run: &Path) -> Vec<HashMap<String, String>> {
    rows(&run.join("requests.csv"))
        .into_iter()
        .filter(|r| r["step"] == "1" && r["phase"] == "measure")
        .collect()
}

/// Checks that the first step of a level is invalid for the halt, and was measured again; and that its requests add up.
fn check(what: &str, halt: Duration, steps: &[Value], requests: &[HashMap<String, String>]) {
    let [first, again, ..] = steps else { panic!("{what}: measured once: {steps:?}") };
    assert_eq!(first["verdict"], "invalid", "{what}: {first}");
    assert!(first["reason"].as_str().unwrap().contains("stood still"), "{what}: {first}");
    assert!(first["halted_ms"].as_f64().unwrap() > 900.0 * halt.as_secs_f64(), "{what}: {first}");
    assert_eq!((&again["level"], &again["kind"]), (&first["level"], &first["kind"]), "{what}: {again}");
    assert!(steps.iter().all(|s| s["verdict"] != "fails"), "{what}: the server is fast: {steps:?}");
    let count = |column: &str| first[column].as_u64().unwrap();
    assert_eq!(count("due_n"), count("completed") + count("failed") + count("cut"), "{what}: {first}");
    assert_eq!(count("due_n"), requests.len() as u64, "{what}: a row each");
    let unsent = requests.iter().filter(|r| r["outcome"] == "cut" && r["sent_ms"].is_empty()).count();
    assert_eq!(count("unsent"), unsent as u64, "{what}: {first}");
}

#[test]
fn a_halt_of_the_client_is_not_the_servers() {
    std::thread::scope(|scope| {
        for (what, search) in [("open loop", "rates = [20]"), ("closed loop", "concurrency = [24]")] {
            scope.spawn(move || {
                let halt = Duration::from_secs(5);
                let (code, steps, requests) = stopped(search, "6s", halt);
                check(what, halt, &steps, &requests);
                assert_ne!(code, Some(2), "{what}: not the answer that no level meets the SLO");
            });
        }
        // The halt outlasts the window and the tail: whether the client or the end of the step comes first, what was due is accounted for.
        scope.spawn(|| {
            let halt = Duration::from_secs(16);
            let (code, steps, requests) = stopped("rates = [20]", "6s", halt);
            check("a long halt", halt, &steps, &requests);
            assert_ne!(code, Some(2), "not the answer that no level meets the SLO");
            assert_eq!(steps[0]["due_n"], 120, "20 a second for 6 s, sent or not: {}", steps[0]);
        });
    });
}
