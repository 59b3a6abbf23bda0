//! A client that is asked for more than it can send says that it was the limit, never that the server was slow.

use assert_cmd::Command;
use serde_json::Value;

/// No client sends this many requests a second.
const BEYOND: &str = "200000";

const PLAN: &str = r#"
name = "beyond the ceiling"
[server]
simulated = { preset = "null" }
warmup-requests = 0
[slo]
ttft.p99 = "20ms"
[workload.prompts.synthetic]
input-tokens = { fixed = 16 }
output-tokens = { fixed = 2 }
[step]
settle = "20ms"
measure = "100ms"
timeout = "60s"
max-in-flight = 100000
[search]
rates = [BEYOND]
"#;

#[test]
fn a_step_beyond_the_clients_ceiling_is_invalid_not_slow() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    std::fs::write(&plan, PLAN.replace("BEYOND", BEYOND)).unwrap();
    let mut command = Command::cargo_bin("goodput").unwrap();
    let out = command
        .args(["sweep", "--no-charts"])
        .arg(&plan)
        .arg("--json")
        .arg("--out")
        .arg(dir.path().join("run"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let result: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(out.status.code(), Some(3), "invalid, not none: {said}");
    assert_eq!(result["goodput"]["status"], "invalid");
    let step = &result["steps"][0];
    assert_eq!(step["verdict"], "invalid", "{step}");
    let reason = step["reason"].as_str().unwrap();
    assert!(reason.contains("client"), "it says whose fault it is: {reason}");
    let late = step["lateness_p99_ms"].as_f64().unwrap();
    assert!(late > 1.0, "it was late: {late} ms");
}

#[test]
fn a_plan_beyond_the_calibration_is_told_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, calibration) = (dir.path().join("plan.toml"), dir.path().join("client.json"));
    std::fs::write(&plan, PLAN.replace("BEYOND", "400")).unwrap();
    let at = |rate: u32| {
        format!(
            r#"{{"goodput_version":"0.1.0","host":"another machine","at":"2026-11-20T10:15:00Z","threads":1,"lateness":[],
            "ttft_error":[],"ceiling":{rate},"ceiling_streamed":{rate},"closed":{{"slots":32,"rate":9000.0,"cpu_ms":0.1}},"streams":{{"tried":100,
            "open":100,"lost":0,"rss_mib":null,"descriptors":200,"descriptors_hard":200,"ports":null}}}}"#
        )
    };
    let sweep = |run: &str| {
        let mut command = Command::cargo_bin("goodput").unwrap();
        command.args(["sweep", "--no-charts"]).arg(&plan).arg("--calibration").arg(&calibration);
        command.arg("--out").arg(dir.path().join(run)).output().unwrap()
    };
    for (ceiling, beyond) in [(100, true), (100_000, false)] {
        std::fs::write(&calibration, at(ceiling)).unwrap();
        let run = format!("run-{ceiling}");
        let said = String::from_utf8(sweep(&run).stderr).unwrap();
        assert!(said.contains("measured on another machine"), "{said}");
        assert_eq!(said.contains("calibrated for 100:"), beyond, "{said}");
        let report = std::fs::read_to_string(dir.path().join(run).join("report.md")).unwrap();
        assert!(report.contains("calibration: p99 lateness stays below 1 ms"), "{report}");
        assert_eq!(report.contains("calibrated for 100:"), beyond, "{report}");
    }
    std::fs::write(&calibration, "{}").unwrap();
    let refused = sweep("refused");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said.contains("is not a calibration file") && said.contains("goodput calibrate --save"),
        "{said}"
    );
    assert!(!dir.path().join("refused").exists(), "nothing was begun");
}
