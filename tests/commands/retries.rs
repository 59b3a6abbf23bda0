//! Connections that the server resets: counted beside the answer, whether requests are sent again or not.

use crate::common::{goodput, result};
use serde_json::Value;
use std::fs;
use std::thread;
use tempfile::tempdir;

/// Sweeps a server over a socket that resets a fifth of its connections. Returns the step that counts, and the texts of the caveats. On a
/// busy machine the client may stand still in a step, which is invalid then and measured again.
fn sweep(settings: &str) -> (Value, String) {
    let dir = tempdir().unwrap();
    let (path, run) = (dir.path().join("plan.toml"), dir.path().join("run"));
    let plan = format!(
        "name = \"retries\"\nslo.ttft.p99 = \"10s\"\nslo.error-rate = 0.1\nstep.settle = \"1s\"\nstep.measure = \"2s\"\nstep.max-error-share = 1.0\n\
         search.rates = [100]\n{settings}\n[server]\nwarmup-requests = 0\n\
         simulated = {{ preset = \"fixed\", ttft = \"5ms\", tpot = \"1ms\", fault = {{ reset = 0.2 }}, fault-after = 90, seed = 2 }}\n\
         [workload.prompts.synthetic]\ninput-tokens.fixed = 20\noutput-tokens.fixed = 4\n"
    );
    fs::write(&path, plan).unwrap();
    let done = goodput().arg("sweep").arg(&path).arg("--out").arg(&run).output().unwrap();
    let result = result(&run);
    let steps = result["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["verdict"] != "invalid");
    let step = step.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&done.stderr))).clone();
    let caveats: Vec<&str> =
        result["caveats"].as_array().unwrap().iter().filter_map(|c| c["text"].as_str()).collect();
    let all = format!("{}\n{}", caveats.join("\n"), fs::read_to_string(run.join("report.md")).unwrap());
    let csv = fs::read_to_string(run.join("steps.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains(",attempts,resets"), "{csv}");
    (step, all)
}

#[test]
fn a_retry_hides_no_reset() {
    let [none, one, counted] = ["", "client.retries = 1", "client.retries = 1\nslo.count-retries = true"]
        .map(|settings| thread::spawn(move || sweep(settings)));
    let errors = |step: &Value| {
        let rows = step["limits"].as_array().unwrap();
        rows.iter().find(|row| row["limit"] == "error-rate").unwrap()["misses"].as_u64().unwrap()
    };
    for (step, retries, counts) in [(none, 0, false), (one, 1, false), (counted, 1, true)]
        .map(|(run, retries, counts)| (run.join().unwrap(), retries, counts))
    {
        let (step, said) = step;
        let count = |column: &str| step[column].as_u64().unwrap();
        let (attempts, resets, retried) = (count("attempts"), count("resets"), count("retried"));
        let told = format!(
            "{retries} retries: {attempts} attempts, {resets} resets, {retried} retried, {} failed",
            count("failed")
        );
        assert_eq!(attempts, count("due_n") + retried, "{told}");
        assert_eq!(resets, retried + count("failed"), "{told}");
        assert!(resets * 10 > attempts, "a fifth: {told}");
        match retries {
            0 => assert!(retried == 0 && count("failed") == resets, "{told}"),
            _ => assert!(retried > 0 && count("failed") < retried, "{told}"),
        }
        let missed = if counts { retried } else { count("failed") };
        assert_eq!(errors(&step), missed, "{told}");
        for shown in [format!("reset under {resets} of {attempts} attempts"), "connections reset".to_owned()]
        {
            assert!(said.contains(&shown), "{shown}: {said}");
        }
    }
}
