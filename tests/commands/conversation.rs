//! Conversations: later turns carry the history with the server's own answers, in an open and in a closed loop.

use crate::common::{goodput, result, rows, simulate};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const INPUT: f64 = 400.0;
const FURTHER: f64 = 60.0;
const OUTPUT: f64 = 40.0;

fn sweep(dir: &Path, search: &str) -> (PathBuf, String) {
    let text = format!(
        "name = \"talk\"\nslo.ttft.p90 = \"2s\"\n[server]\nsimulated = {{ preset = \"a40-qwen3-0.6b\" }}\nwarmup-requests = 2\n\
         [step]\nsettle = \"20s\"\nmeasure = \"120s\"\n[search]\n{search}\n[hardware]\ngpu = \"A40\"\ngpus = 2\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = {INPUT} }}\noutput-tokens = {{ fixed = {OUTPUT} }}\n\
         [workload.conversation]\nturns = {{ fixed = 4 }}\ninput-tokens = {{ fixed = {FURTHER} }}\nthink = {{ exponential = \"3s\" }}\n"
    );
    simulate(dir, &text)
}

/// Measured requests that were answered: turn, due, input and cached tokens; by session.
fn answered(run: &Path) -> Vec<(u64, u64, f64, f64, f64, f64)> {
    let columns = ["session", "turn", "due_ms", "last_token_ms", "input_tokens", "cached_tokens"];
    rows(&run.join("requests.csv"))
        .iter()
        .filter(|r| r["step"] == "1" && r["phase"] != "warmup" && r["outcome"] == "ok")
        .map(|r| {
            let [session, turn, due, last, input, cached] =
                columns.map(|column| r[column].parse::<f64>().unwrap_or(0.0));
            (session as u64, turn as u64, due, last, input, cached)
        })
        .collect()
}

fn turns(step: &Value) -> Vec<&Value> {
    step["groups"].as_array().unwrap().iter().filter(|g| g["by"] == "turn").collect()
}

#[test]
fn later_turns_find_their_history_in_the_cache() {
    let dir = tempdir().unwrap();
    let (run, said) = sweep(dir.path(), "rates = [1, 2]");
    let all = answered(&run);
    assert!(all.len() > 250, "{}", all.len());
    for (session, turn, due, _, input, cached) in &all {
        let before = (*turn - 1) as f64;
        let want = INPUT + before * (FURTHER + OUTPUT);
        assert!((input - want).abs() <= 5.0 * *turn as f64, "turn {turn} has {input} tokens of {want}");
        // All but the new message and less than a block: the history holds what the server itself has said.
        let history = if *turn > 1 { input - FURTHER - 16.0 - 8.0 } else { 0.0 };
        assert!(*cached >= history, "turn {turn} of {session}: {cached} of {input} tokens cached");
        assert!(*turn > 1 || *cached < 0.2 * input, "first turns are cold: {cached}");
        if let Some((.., last, _, _)) = all.iter().find(|o| o.0 == *session && o.1 + 1 == *turn) {
            assert!(due >= last, "due when the user has read and thought: {due} after {last}");
        }
    }
    let json = result(&run);
    assert_eq!(json["control"], "sessions");
    for (step, sessions) in json["steps"].as_array().unwrap().iter().zip([1.0, 2.0]) {
        let names: Vec<&str> = turns(step).iter().map(|g| g["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["1", "2", "3", "4"]);
        assert!(turns(step).iter().all(|g| g["ttft_ms"]["p99"].as_f64().unwrap() > 0.0));
        let achieved = step["achieved_rate"].as_f64().unwrap();
        assert!(
            (achieved / sessions / 4.0 - 1.0).abs() < 0.3,
            "four requests a session: {achieved} at {sessions}"
        );
    }
    // The answer is in sessions, what it amounts to in requests.
    let g = &json["goodput"];
    let (met, requests) = (g["met"].as_f64().unwrap(), json["capacity"]["requests_per_s"].as_f64().unwrap());
    assert!((met - 2.0).abs() < 1e-9 && requests > 5.0, "{g} {requests}");
    assert!(
        g["throughput"]
            .as_f64()
            .is_some_and(|t| (t - json["steps"][1]["achieved_rate"].as_f64().unwrap()).abs() < 1e-6)
    );
    assert!(said.contains("2 sessions/s at ") && said.contains(" requests/s"), "{said}");
    assert!(said.contains("p99 TTFT by turn at 2 sessions/s: 1 "), "{said}");
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## By turn") && report.contains("| # | level | turn 1 | turn 2 |"), "{report}");
    goodput().args(["report", run.to_str().unwrap()]).assert().success();
    assert_eq!(result(&run), json, "the folder says as much");
}

#[test]
fn a_closed_loop_holds_conversations() {
    let dir = tempdir().unwrap();
    let (run, _) = sweep(dir.path(), "concurrency = [6]");
    let json = result(&run);
    assert_eq!(json["control"], "concurrency");
    let n: Vec<u64> = turns(&json["steps"][0]).iter().map(|g| g["n"].as_u64().unwrap()).collect();
    assert_eq!(n.len(), 4);
    assert!(n.iter().all(|n| *n > 10) && n.iter().max().unwrap() - n.iter().min().unwrap() < 25, "{n:?}");
    let all = answered(&run);
    assert!(all.iter().filter(|o| o.1 > 1).all(|o| o.5 > 0.5 * o.4), "later turns are cached");
}

#[test]
fn check_shows_what_a_session_is() {
    goodput()
        .args(["check", "conversation"])
        .assert()
        .success()
        .stdout(contains("5 requests per session on average"));
}
