//! Every format of prompts and traces, read from a fixture and sent to the simulated server by its own ready plan.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{goodput, result};
use std::path::{Path, PathBuf};

fn plans() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps/traffic");
    let mut plans: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    plans.sort();
    plans
}

fn cells(dir: &Path, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_path(dir.join("run/requests.csv")).unwrap();
    let at = reader.headers().unwrap().iter().position(|h| h == name).unwrap();
    reader.records().map(|r| r.unwrap()[at].to_owned()).collect()
}

/// What a plan's run shows, besides that its requests were answered.
struct Seen {
    control: String,
    workload: String,
    /// The requests with their phase: turn, input tokens asked for, and those that the server counted.
    asked: Vec<f64>,
    counted: Vec<f64>,
    turns: Vec<u32>,
}

fn sweep(plan: &Path) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    let out = goodput()
        .current_dir(dir.path())
        .args(["sweep", "--virtual-time", "--out", "run"])
        .arg(plan)
        .output();
    let out = out.unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code().is_some_and(|c| c == 0 || c == 3), "{}: {said}", plan.display());
    let result = result(&dir.path().join("run"));
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{}: {said}", plan.display());
    assert!(
        steps.iter().all(|s| s["completed"].as_u64() > Some(0) && s["failed"] == 0),
        "{}",
        plan.display()
    );
    let numbers = |name| cells(dir.path(), name).iter().map(|c| c.parse().unwrap_or(f64::NAN)).collect();
    Seen {
        control: steps[0]["control"].as_str().unwrap().to_owned(),
        workload: result["meta"]["workload"].as_str().unwrap().to_owned(),
        asked: numbers("input_asked"),
        counted: numbers("input_tokens"),
        turns: cells(dir.path(), "turn").iter().map(|c| c.parse().unwrap()).collect(),
    }
}

#[test]
fn every_format_is_read_and_sent() {
    let plans = plans();
    assert!(plans.len() >= 23, "{}", plans.len());
    for plan in plans {
        let name = plan.file_stem().unwrap().to_str().unwrap().to_owned();
        let seen = sweep(&plan);
        let text = std::fs::read_to_string(&plan).unwrap();
        let trace = text.contains("[workload.trace]");
        let talks = ["sharegpt-conversations", "aiperf-multi"].contains(&name.as_str());
        let control = if trace {
            "trace-scale"
        } else if talks {
            "sessions"
        } else {
            "rate"
        };
        assert_eq!(seen.control, control, "{name}");
        assert_eq!(seen.turns.iter().any(|t| *t > 0), talks, "{name}: turns");
        assert!(seen.workload.contains(" of "), "{name}: {}", seen.workload);
        // What was asked for is what the server counts: lengths are measured, not believed.
        let both = || seen.asked.iter().zip(&seen.counted).filter(|(a, c)| a.is_finite() && c.is_finite());
        let (asked, counted) = both().fold((0.0, 0.0), |(a, c), (x, y)| (a + x, c + y));
        let off = (asked - counted).abs() / both().count() as f64;
        let mean = counted / both().count() as f64;
        assert!(
            off < (0.03 * mean).max(4.0),
            "{name}: asked {asked}, counted {counted} over {}",
            both().count()
        );
    }
}

#[test]
fn a_bad_row_is_shown_by_file_line_and_field() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("rows.jsonl"),
        "{\"prompt\": \"one\", \"output_tokens\": 4}\n{\"prompt\": 7}\n",
    )
    .unwrap();
    let plan = |more: &str| {
        format!(
            "name = \"bad\"\nserver.simulated = {{ preset = \"demo\" }}\nslo.ttft.p99 = \"500ms\"\nsearch.rates = [2]\n\
             step = {{ settle = \"1s\", measure = \"10s\" }}\n[workload.prompts.jsonl]\nfile = \"rows.jsonl\"\n{more}"
        )
    };
    let run = |more: &str| {
        std::fs::write(dir.path().join("plan.toml"), plan(more)).unwrap();
        let args = ["sweep", "plan.toml", "--virtual-time", "--force", "--out", "run"];
        goodput().current_dir(dir.path()).args(args).output().unwrap()
    };
    let out = run("");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("rows.jsonl") && said.contains("line 2") && said.contains("`prompt`"), "{said}");
    assert!(!dir.path().join("run").exists(), "nothing was measured, nothing is left");
    let out = run("skip-bad-rows = true");
    assert_ne!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
    let report = std::fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(report.contains("1 could not be read"), "{report}");
}
