//! Every format of prompts and traces, read from a fixture and sent to the simulated server by its own ready plan.

use crate::common::{column, goodput, result};
use std::path::{Path, PathBuf};

fn plans() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps/traffic");
    let mut plans: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    plans.sort();
    plans
}

fn cells(dir: &Path, name: &str) -> Vec<String> {
    column(&dir.join("run/requests.csv"), name)
}

/// Observations of a plan's run, besides the success of its requests.
struct PlanRun {
    control: String,
    workload: String,
    /// The requests with their phase: turn, input tokens asked for, and those that the server counted.
    asked: Vec<f64>,
    counted: Vec<f64>,
    turns: Vec<u32>,
}

fn sweep(plan: &Path) -> PlanRun {
    let dir = tempfile::tempdir().unwrap();
    let out = goodput()
        .current_dir(dir.path())
        .args(["sweep", "--virtual-time", "--no-charts", "--out", "run"])
        .arg(plan)
        .output();
    let out = out.unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    // A plan that ships ends with an answer.
    assert_eq!(out.status.code(), Some(0), "{}: {said}", plan.display());
    let result = result(&dir.path().join("run"));
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{}: {said}", plan.display());
    assert!(
        steps.iter().all(|s| s["completed"].as_u64() > Some(0) && s["failed"] == 0),
        "{}",
        plan.display()
    );
    let numbers = |name| cells(dir.path(), name).iter().map(|c| c.parse().unwrap_or(f64::NAN)).collect();
    PlanRun {
        control: steps[0]["control"].as_str().unwrap().to_owned(),
        workload: result["meta"]["workload"]["traffic"]["requests"][0]["prompts"]["files"]
            .as_str()
            .unwrap()
            .to_owned(),
        asked: numbers("input_asked"),
        counted: numbers("input_tokens"),
        turns: cells(dir.path(), "turn").iter().map(|c| c.parse().unwrap()).collect(),
    }
}

/// Checks the output of `check` for a plan: the contents of its file, and levels with their unit.
fn check(plan: &Path, control: &str) {
    let out = goodput().arg("check").arg(plan).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(0), "{}: {}", plan.display(), String::from_utf8_lossy(&out.stderr));
    let unit = match control {
        "trace-scale" => " × trace speed",
        "sessions" => " sessions/s",
        _ => " req/s",
    };
    assert!(said.contains(&format!("{unit}\n")), "{said}");
    if plan.ends_with("text.toml") || plan.ends_with("news.toml") {
        return; // pieces as long as the plan says
    }
    assert!(said.contains("\n  files     ") && said.contains("\n            prompts  mean "), "{said}");
    if plan.ends_with("sharegpt-conversations.toml") {
        assert!(said.contains("1.31 requests per session on average; think time 1s in total"), "{said}");
    }
    if control == "trace-scale" {
        // Not one request for each unit of speed.
        assert!(
            said.contains("requests/s as recorded") && !said.contains("about 55 in these steps"),
            "{said}"
        );
        assert!(!said.contains(" req/s can be shown"), "{said}");
    }
}

#[test]
fn check_opens_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    std::fs::write(
        &plan,
        "name = \"x\"\nserver.simulated = { preset = \"demo\" }\nslo.ttft.p99 = \"500ms\"\nsearch.rates = [2]\n\
         [workload.prompts.jsonl]\nfile = \"nowhere.jsonl\"\n",
    )
    .unwrap();
    let out = goodput().arg("check").arg(&plan).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nowhere.jsonl"));
    std::fs::write(
        dir.path().join("nowhere.jsonl"),
        "{\"prompt\": \"one two three\", \"output_tokens\": 4}\n{\"prompt\": \"four\", \"output_tokens\": 40}\n",
    )
    .unwrap();
    let out = goodput().args(["check", "--json"]).arg(&plan).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let output = &said["files"][0]["output"];
    assert_eq!((&output["n"], &output["max"], &output["p50"]), (&2.into(), &40.into(), &4.into()), "{said}");
}

/// A sweep over a trace tells which part of it each step replayed, and what they come to.
#[test]
fn steps_replay_parts_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let row = |i: u32| {
        format!("{{\"timestamp\":{},\"input_length\":{},\"output_length\":5}}\n", i * 250, 20 + i % 50)
    };
    std::fs::write(dir.path().join("trace.jsonl"), (0..4000).map(row).collect::<String>()).unwrap();
    let plan = |more: &str| {
        format!(
            "name = \"x\"\nserver.simulated = {{ preset = \"demo\" }}\nslo.ttft.p99 = \"500ms\"\nsearch.rates = [0.5, 1, 1.5, 2]\n\
             step = {{ settle = \"10s\", measure = \"150s\" }}\n[workload.trace]\nfile = \"trace.jsonl\"\n{more}"
        )
    };
    let run = |more: &str| {
        std::fs::write(dir.path().join("plan.toml"), plan(more)).unwrap();
        let args = ["sweep", "plan.toml", "--virtual-time", "--force", "--out", "run"];
        let out = goodput().current_dir(dir.path()).args(args).output().unwrap();
        assert_ne!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
        let parts = |s: &serde_json::Value| -> (u64, u64) {
            let t = &s["trace"];
            assert_eq!(t["of"], 4000);
            (t["from"].as_u64().unwrap(), t["n"].as_u64().unwrap())
        };
        let steps: Vec<_> =
            result(&dir.path().join("run"))["steps"].as_array().unwrap().iter().map(parts).collect();
        (steps, std::fs::read_to_string(dir.path().join("run/report.md")).unwrap())
    };
    let (drawn, report) = run("");
    let mut begins: Vec<u64> = drawn.iter().map(|p| p.0).collect();
    begins.sort_unstable();
    assert!(begins.windows(2).all(|w| w[1] > w[0] + 400), "{begins:?}");
    // 160 s and the tail, four requests a second, at half to twice the speed: some 3,200 of 4,000.
    assert!(drawn.iter().zip([320, 640, 960, 1280]).all(|(p, n)| (n..n + 100).contains(&p.1)), "{drawn:?}");
    assert!(
        report.contains("## What was replayed") && !report.contains("the answer holds for those parts"),
        "{report}"
    );
    let again = goodput().current_dir(dir.path()).args(["report", "run"]).output().unwrap();
    assert!(again.status.success());
    assert_eq!(
        std::fs::read_to_string(dir.path().join("run/report.md")).unwrap(),
        report,
        "from the folder alone"
    );
    assert_eq!(run("").0, drawn, "the same seed, the same places");
    let (first, report) = run("start = \"first\"");
    assert!(first.iter().all(|p| p.0 == 0), "{first:?}");
    assert!(
        report.contains("were sent (3") && report.contains("the answer holds for those parts"),
        "{report}"
    );
}

#[test]
fn every_format_is_read_and_sent() {
    let plans = plans();
    assert!(plans.len() >= 24, "{}", plans.len());
    for plan in plans {
        let name = plan.file_stem().unwrap().to_str().unwrap().to_owned();
        let seen = sweep(&plan);
        let text = std::fs::read_to_string(&plan).unwrap();
        let trace = text.contains("[workload.trace]");
        let conversations = ["sharegpt-conversations", "aiperf-multi", "aiperf-sessions", "tool-calls"];
        let talks = conversations.contains(&name.as_str());
        let control = if trace {
            "trace-scale"
        } else if talks {
            "sessions"
        } else {
            "rate"
        };
        check(&plan, control);
        assert_eq!(seen.control, control, "{name}");
        assert_eq!(seen.turns.iter().any(|t| *t > 0), talks, "{name}: turns");
        assert!(seen.workload.contains(" of "), "{name}: {}", seen.workload);
        // Requested lengths match the server's counts.
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
