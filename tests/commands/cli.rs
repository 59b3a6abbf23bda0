//! The command line: every command, its output and its exit code.

use crate::common::{goodput, result};
use goodput_run::fixture::json_schema::Validator;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// Every plan of `sweeps/` is valid, as a file and by its name; every profile is known to `--slo`.
#[test]
fn ready_plans_and_profiles_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (folder, built_in) in [("sweeps", goodput::plan::SWEEPS), ("slo-profiles", goodput::slo::PROFILES)] {
        let mut names: Vec<_> = fs::read_dir(root.join(folder))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        let mut known: Vec<_> = built_in.iter().map(|(n, _)| (*n).to_owned()).collect();
        known.sort();
        assert_eq!(names, known, "every file of {folder} is built in");
    }
    for (name, _) in goodput::plan::SWEEPS {
        goodput().args(["check", name]).assert().success().stdout(contains("valid plan"));
        goodput().arg("check").arg(root.join("sweeps").join(format!("{name}.toml"))).assert().success();
    }
    for (name, _) in goodput::slo::PROFILES {
        goodput().args(["check", "demo", "--set", &format!("slo={{profile=\"{name}\"}}")]).assert().success();
    }
}

#[test]
fn check_prints_what_would_run() {
    let args = ["check", "demo-virtual", "--set", "search.rates=[1, 2]", "--set", "step.measure=100s"];
    goodput().args(args).assert().success().stdout(
        contains("2: 1, 2 req/s")
            .and(contains("about 390 in these steps"))
            .and(contains("p99 TTFT ≤ 200 ms")),
    );
    let out = goodput().args(args).arg("--json").assert().success();
    let json: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    assert_eq!(json["would_run"]["requests"], 390, "(30 s + 100 s) × 3 req/s");
    assert_eq!(json["plan"]["seed"], 1);
}

#[test]
fn check_prints_the_schema_of_plans() {
    let out = goodput().args(["check", "--schema"]).assert().success();
    let schema: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    assert_eq!(schema["title"], "A sweep plan of goodput");
    assert!(
        schema["properties"]["server"].is_object()
            && schema["$defs"]["Simulated"]["properties"]["preset"].is_object()
    );
    goodput().arg("check").assert().code(1).stderr(contains("<PLAN>"));
    goodput().args(["check", "demo", "--schema"]).assert().code(1);
}

/// Rows: the command, its option, and the title of the schema of its JSON.
#[test]
fn commands_print_the_schema_of_their_json() {
    for (command, option, title) in [
        ("report", "--schema", "A result of goodput"),
        ("report", "--schema=result", "A result of goodput"),
        ("report", "--schema=repeats", "Repeated runs of goodput"),
        ("compare", "--schema", "A comparison of goodput"),
        ("capacity", "--schema", "A capacity of goodput"),
    ] {
        let out = goodput().args([command, option]).assert().success();
        let schema: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
        assert_eq!(schema["title"], title);
        Validator::new(&schema);
        goodput().arg(command).assert().code(1).stderr(contains("<RUN"));
        for other in ["runs/a", "--json"] {
            goodput().args([command, option, other]).assert().code(1).stderr(contains("cannot be used with"));
        }
    }
}

#[test]
fn check_says_what_the_adaptive_search_would_do() {
    goodput().args(["check", "a40-qwen3-0.6b"]).assert().success().stdout(
        contains("one request at a time, then rates that triple")
            .and(contains("never above 200 req/s"))
            .and(contains("at most 30m"))
            .and(contains("rates below 0.166 req/s")),
    );
    let args =
        ["check", "demo", "--set", "search.adaptive.over=\"concurrency\"", "--set", "search.confirm=\"5m\""];
    let says = contains("concurrencies that triple").and(contains("plus 5m for the soak"));
    goodput().args(args).assert().success().stdout(says);
}

/// Row: what is changed in the A40's sweep, exit code, status, and what the answer says.
#[test]
fn adaptive_sweeps_answer_in_every_way() {
    for (set, code, status, says) in [
        ("search.adaptive.budget=\"8m\"", 0, "found", "with 90 % confidence the true limit lies between"),
        ("slo.ttft.p99=\"5ms\"", 2, "none", "already misses p99 TTFT"),
        ("search.max-rate=12", 0, "not-reached", "12 requests/s"),
        ("search.adaptive.budget=\"40s\"", 3, "undecided", "budget of 40s"),
    ] {
        let dir = tempdir().unwrap();
        let out = dir.path().join("run");
        let mut sweep = goodput();
        sweep.args(["sweep", "a40-qwen3-0.6b", "--virtual-time", "--set", set, "--out"]).arg(&out);
        if status != "found" {
            sweep.arg("--no-charts");
        }
        sweep.assert().code(code).stdout(contains(says));
        let result = result(&out);
        assert_eq!(result["goodput"]["status"], status, "{set}");
        let kinds: Vec<_> = result["steps"].as_array().unwrap().iter().map(|s| s["kind"].clone()).collect();
        assert_eq!(kinds[0], "baseline", "{set}");
        if status == "found" {
            let goodput = &result["goodput"];
            let (low, high) = (goodput["interval90"][0].as_f64(), goodput["interval90"][1].as_f64());
            assert!(low > Some(30.0) && low < Some(35.6) && high > Some(35.6), "{goodput}");
            let safe = goodput["safe_rate"].as_f64();
            assert!(safe <= low && safe > Some(30.0), "{goodput}");
            assert!(
                out.join("charts/timelines.svg").is_file() && out.join("charts/slides/latency.png").is_file()
            );
        }
    }
}

#[test]
fn init_writes_a_plan_that_checks() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("plan.toml");
    goodput().arg("init").arg(&path).assert().success().stdout(contains("goodput check"));
    goodput().arg("check").arg(&path).assert().success();
    goodput().arg("init").arg(&path).assert().code(1).stderr(contains("--force"));
    goodput().arg("init").arg(&path).arg("--force").assert().success();
}

/// Row: the levels, the exit code and the status.
#[test]
fn exit_codes_follow_the_answer() {
    for (levels, code, status) in [
        ("search.rates=[5, 14]", 0, "found"),
        ("search.rates=[15, 16]", 2, "none"),
        ("search={rates=[3, 5], max-rate=5}", 0, "not-reached"),
        ("search.rates=[3, 5]", 0, "not-reached"),
        ("search={ramp={start=3, factor=1.7}, max-rate=100}", 0, "found"),
    ] {
        let dir = tempdir().unwrap();
        let out = dir.path().join("run");
        let assert = goodput()
            .args(["sweep", "demo-virtual", "--no-charts", "--virtual-time", "--set", "step.measure=5m"])
            .args(["--set", levels, "--json", "--out"])
            .arg(&out)
            .assert()
            .code(code);
        let json: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        assert_eq!(json["goodput"]["status"], status, "{levels}");
        assert_eq!(json["schema"], "goodput/1");
        assert_eq!(json, result(&out), "what --json prints is result.json");
    }
}

#[test]
fn closed_loops_run_through_the_same_load() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    goodput()
        .args(["sweep", "demo-virtual", "--virtual-time", "--set", "search.concurrency=[1, 4]", "--out"])
        .arg(&out)
        .assert()
        .code(predicates::ord::ne(1));
    let steps = result(&out)["steps"].clone();
    // One server of 50 ms, then 30 ms of decoding outside of it: alone a request takes both, four keep the server busy.
    for (step, (slots, rate)) in steps.as_array().unwrap().iter().zip([(1.0, 12.5), (4.0, 20.0)]) {
        let in_flight = step["in_flight_mean"].as_f64().unwrap();
        assert!((in_flight - slots).abs() < 0.05 * slots, "{in_flight} of {slots}");
        let achieved = step["achieved_rate"].as_f64().unwrap();
        assert!((achieved - rate).abs() < 0.02 * rate, "{achieved} of {rate}");
    }
}

#[test]
fn virtual_time_needs_a_simulated_server() {
    let dir = tempdir().unwrap();
    let args = ["sweep", "--url", "http://127.0.0.1:1", "--virtual-time", "--out"];
    goodput()
        .args(args)
        .arg(dir.path().join("run"))
        .assert()
        .code(1)
        .stderr(contains("--virtual-time needs"));
    // Answers in no time would follow each other in one instant of simulated time.
    for server in ["{ preset = \"null\" }", "{ preset = \"fixed\", ttft = \"0ms\", tpot = \"5ms\" }"] {
        let set = format!("server.simulated={server}");
        goodput()
            .args(["sweep", "demo", "--virtual-time", "--set", &set, "--out"])
            .arg(dir.path().join("run"))
            .assert()
            .code(1)
            .stderr(contains("answers take time"));
    }
}

#[test]
fn set_changes_the_plan_and_says_where_it_went_wrong() {
    goodput().args(["check", "demo", "--set", "step.mesure=3s"]).assert().code(1).stderr(
        contains("unknown key `mesure`").and(contains("--set").or(contains("with step.mesure changed"))),
    );
    goodput().args(["check", "demo", "--set", "seed"]).assert().code(1).stderr(contains("write key=value"));
}

#[test]
fn a_budget_ends_the_sweep() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    goodput()
        .args(["sweep", "demo-virtual", "--virtual-time", "--budget", "45m", "--out"])
        .arg(&out)
        .assert()
        .stdout(contains("budget"));
    let n = result(&out)["steps"].as_array().unwrap().len();
    assert!((1..=2).contains(&n), "{n} steps of twenty minutes in 45 minutes");
}

#[test]
fn shells_and_readers_are_served() {
    goodput().args(["completions", "bash"]).assert().success().stdout(contains("_goodput"));
    goodput().arg("man").assert().success().stdout(contains(".TH goodput").and(contains("virtual\\-time")));
    goodput().arg("--help").assert().success().stdout(contains("130").and(contains("goodput sweep demo")));
}
