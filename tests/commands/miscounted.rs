//! Servers whose token counts are wrong: they are judged by the events that came, or their answers fail; no wrong count makes a server meet
//! its SLO.

use crate::common::{goodput, result};
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

/// Sweeps a server in simulated time that has the fault on this share of its answers. The first token comes after 20 ms, and the other fifteen
/// each 10 ms later. Returns the exit code and the step.
fn sweep(fault: &str, share: f64, slo: &str) -> (Option<i32>, Value) {
    let dir = tempdir().unwrap();
    let (path, run) = (dir.path().join("plan.toml"), dir.path().join("run"));
    let plan = format!(
        "name = \"miscounted\"\nslo.{slo}\nstep.settle = \"2s\"\nstep.measure = \"120s\"\nsearch.rates = [5]\n[server]\n\
         simulated = {{ preset = \"fixed\", ttft = \"20ms\", tpot = \"10ms\", fault = {{ {fault} = {share:?} }}, seed = 2 }}\nwarmup-requests = 0\n\
         [workload.prompts.synthetic]\ninput-tokens.fixed = 20\noutput-tokens.fixed = 16\n"
    );
    fs::write(&path, plan).unwrap();
    let mut command = goodput();
    let done = command
        .args(["sweep", "--no-charts", "--virtual-time"])
        .arg(&path)
        .arg("--out")
        .arg(&run)
        .output()
        .unwrap();
    let step = result(&run)["steps"][0].clone();
    (done.status.code(), step)
}

/// Row: the fault, the SLO, the exit code, the verdict and what binds.
#[test]
fn no_wrong_count_makes_a_server_faster() {
    for (fault, slo, code, verdict, binding) in [
        ("usage-own", "tpot.p90 = \"9ms\"", 2, "fails", "tpot.p90"),
        ("usage-own", "e2e.p90 = \"160ms\"", 2, "fails", "e2e.p90"),
        ("usage-own", "tpot.p90 = \"11ms\"", 0, "meets", "tpot.p90"),
        ("usage-falling", "tpot.p90 = \"9ms\"", 2, "fails", "tpot.p90"),
        ("usage-falling", "e2e.p90 = \"160ms\"", 2, "fails", "e2e.p90"),
        ("usage-falling", "e2e.p90 = \"180ms\"", 0, "meets", "e2e.p90"),
    ] {
        let (exit, step) = sweep(fault, 1.0, slo);
        assert_eq!(
            (step["verdict"].as_str(), step["binding"].as_str()),
            (Some(verdict), Some(binding)),
            "{fault}, {slo}: {step}"
        );
        assert_eq!(exit, Some(code), "{fault}, {slo}");
        assert_eq!(
            step["output_tokens_mean"].as_f64(),
            Some(16.0),
            "{fault}, {slo}: by the total at the end"
        );
        assert!((step["tpot_ms"]["p50"].as_f64().unwrap() - 10.0).abs() < 0.1, "{fault}, {slo}: {step}");
    }
}

/// A server with nothing but such answers is refused before it is loaded; one with some of them fails by its failures.
#[test]
fn answers_whose_end_or_length_is_impossible_have_failed() {
    for fault in ["usage-huge", "cut-short"] {
        let (exit, step) = sweep(fault, 0.5, "ttft.p90 = \"10s\"");
        assert_eq!((exit, step["verdict"].as_str()), (Some(3), Some("fails")), "{fault}: {step}");
        assert_eq!(step["binding"], "errors", "{fault}: {step}");
        let count = |column: &str| step[column].as_u64().unwrap();
        assert!(count("failed") > count("due_n") / 4, "{fault}: {step}");
    }
}
