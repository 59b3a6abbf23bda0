//! The commands that findings suggest: each is valid for the plan of its run folder.

use crate::common::{goodput, result, simulate};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const FIXED: &str =
    "workload.prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }\n";
const VARIED: &str = "workload.prompts.synthetic = { input-tokens = { uniform = { min = 500, max = 700 } }, output-tokens = { fixed = 30 } }\n";
const SEATS: &str = "server.simulated = { preset = \"a40-qwen3-0.6b\", max-num-seqs = 4 }\n";
const PLAIN: &str = "server.simulated = { preset = \"a40-qwen3-0.6b\" }\n";
const STEP: &str = "step = { settle = \"2s\", measure = \"30s\" }\n";

/// Returns the plans, each with its form.
fn plans() -> Vec<(&'static str, String)> {
    let (ttft, tpot) = ("slo.ttft.p99 = \"60ms\"\n", "slo.tpot.p99 = \"7ms\"\n");
    let list = "search.rates = [5, 30]\n";
    let adaptive = "search = { adaptive = { budget = \"1m\" }, max-rate = 100 }\nstep.settle = \"2s\"\n";
    let ramp = "search = { ramp = { start = 4, factor = 2, until = \"slo-missed\" }, max-rate = 60 }\n";
    let recovery = "search = { rates = [5, 30], max-rate = 90 }\nrecovery = { factor = 2, surge = \"10s\", hold = \"30s\" }\n";
    let variants = "[[variant]]\nname = \"few\"\nset = { \"server.simulated.max-num-seqs\" = 4 }\n[[variant]]\nname = \"many\"\n";
    let grid = "[grid]\nknobs.seats = [4, 8]\nset = { \"server.simulated.max-num-seqs\" = \"{seats}\" }\n";
    let class = |name: &str, input: u32| {
        format!(
            "[[workload.class]]\nname = \"{name}\"\nweight = 1\nprompts.synthetic = {{ input-tokens.fixed = {input}, output-tokens.fixed = 30 }}\n"
        )
    };
    let mix = class("a", 300) + &class("b", 900);
    let talk =
        "workload.conversation = { turns.fixed = 3, input-tokens.fixed = 40, think.exponential = \"1s\" }\n";
    let row = |name: &str, input: u32, concurrency: u32| {
        format!(
            "[[row]]\nname = \"{name}\"\ninput-tokens.fixed = {input}\noutput-tokens.fixed = 64\nconcurrency = {concurrency}\n"
        )
    };
    let rows = row("a", 2048, 1) + &row("b", 256, 16);
    let queue = "server.simulated.preset = \"md1\"\nsearch.rates = [5, 18, 21]\n";
    vec![
        ("adaptive", format!("{SEATS}{adaptive}{ttft}{FIXED}")),
        ("list", format!("{SEATS}{list}{STEP}{ttft}{FIXED}")),
        ("list of prompts of several lengths", format!("{PLAIN}{list}{STEP}{tpot}{VARIED}")),
        ("closed loop", format!("{PLAIN}search.concurrency = [2, 32]\n{STEP}{tpot}{FIXED}")),
        ("ramp", format!("{SEATS}{ramp}{STEP}{ttft}{FIXED}")),
        ("recovery", format!("{SEATS}{recovery}{STEP}{ttft}{FIXED}")),
        ("variants", format!("{PLAIN}{list}{STEP}{ttft}{FIXED}{variants}")),
        ("grid", format!("{PLAIN}{list}{STEP}{ttft}{FIXED}{grid}")),
        ("mix", format!("{SEATS}{list}{STEP}{ttft}{mix}")),
        ("conversation", format!("{SEATS}search.rates = [1, 4]\n{STEP}{ttft}{FIXED}{talk}")),
        ("matrix", format!("{PLAIN}{STEP}{rows}")),
        ("queue", format!("{queue}{STEP}slo.ttft.p99 = \"100ms\"\n{FIXED}")),
    ]
}

/// Returns the commands of all findings and of what could not be told.
fn commands(result: &Value) -> Vec<String> {
    let of = |key: &str| result[key].as_array().cloned().unwrap_or_default();
    let all = of("findings").into_iter().chain(of("untold"));
    all.filter_map(|one| Some(one["next"]["command"].as_str()?.to_owned())).collect()
}

/// Returns the arguments of a command whose only quotes are single ones.
fn arguments(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(i, part)| {
        let quoted = i % 2 == 1;
        let words: Vec<&str> = if quoted { vec![part] } else { part.split_whitespace().collect() };
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    });
    words.skip(1).collect()
}

/// Checks a command in the run folder: the plan with its overrides, or runs it where it has no plan.
fn check(dir: &Path, command: &str, plan: &str) {
    assert!(!command.contains("URL"), "{plan}: {command}");
    let mut arguments = arguments(command);
    let is_done = |code: Option<i32>| matches!(code, Some(0 | 2 | 3));
    match arguments[0].as_str() {
        // The advice of this run is tried: there is no plan to check.
        "sweep" if arguments.iter().any(|argument| argument == "--resume") => {
            let out = goodput().current_dir(dir).args(&arguments).output().unwrap();
            assert!(
                is_done(out.status.code()),
                "{plan}: {command}: {}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
        "sweep" => {
            arguments[0] = "check".into();
            arguments.retain(|argument| argument != "--virtual-time");
            let out = goodput().current_dir(dir).args(&arguments).output().unwrap();
            assert!(out.status.success(), "{plan}: {command}: {}", String::from_utf8_lossy(&out.stderr));
        }
        "calibrate" => assert_eq!(command, "goodput calibrate --save client.json"),
        other => panic!("{plan}: {other}"),
    }
}

#[test]
fn every_suggested_command_is_valid_for_the_plan_of_its_run() {
    for (name, plan) in plans() {
        let dir = tempdir().unwrap();
        let (run, said) = simulate(dir.path(), &format!("name = \"x\"\nseed = 7\n{plan}"));
        let result = result(&run);
        let all = commands(&result);
        assert!(!all.is_empty(), "{name} suggests nothing: {said}");
        all.iter().for_each(|command| check(&run, command, name));
    }
}

/// The command that is suggested for a server with few seats runs as it stands.
#[test]
fn a_suggested_command_runs() {
    let dir = tempdir().unwrap();
    let search = "search = { rates = [5, 30], baseline = true }\nslo.ttft.p99 = \"60ms\"\n";
    let few = SEATS.replace("max-num-seqs = 4", "max-num-seqs = 8");
    let (run, said) = simulate(dir.path(), &format!("name = \"x\"\nseed = 7\n{few}{search}{STEP}{FIXED}"));
    let result = result(&run);
    let findings = result["findings"].as_array().unwrap().iter();
    let mut changes = findings.flat_map(|f| f["changes"].as_array().unwrap());
    let seats = changes.find(|c| c["flag"] == "server.simulated.max-num-seqs").unwrap();
    assert_eq!((&seats["from"], &seats["source"]), (&8.into(), &"plan".into()));
    let to = seats["to"].as_u64().unwrap();
    assert!((16..=64).contains(&to), "{seats}");
    let advice = format!(
        "raise server.simulated.max-num-seqs from 8 (the plan) to {to}. A model fitted to this run foresees"
    );
    assert!(said.contains(&advice), "{said}");
    let command = commands(&result).into_iter().find(|c| c.contains(&format!("max-num-seqs={to}")));
    let command = command.unwrap_or_else(|| panic!("{said}"));
    let out = goodput().current_dir(&run).args(arguments(&command)).output().unwrap();
    let failed = out.status.code().is_none_or(|code| code == 1);
    assert!(!failed, "{command}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The first advice is measured after the sweep, told in the reports, and read again from the folder.
#[test]
fn advice_is_tried() {
    let dir = tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    let search = "search = { adaptive = { budget = \"6m\" }, max-rate = 200 }\nslo.ttft.p99 = \"80ms\"\n";
    fs::write(&plan, format!("name = \"x\"\nseed = 7\n{SEATS}{search}{FIXED}")).unwrap();
    let run = dir.path().join("run");
    let sweep = goodput()
        .args(["sweep", "--no-charts"])
        .arg(&plan)
        .arg("--out")
        .arg(&run)
        .args(["--virtual-time", "--try-advice"])
        .assert();
    let answers = || predicates::prelude::predicate::in_iter([0, 3]);
    sweep
        .code(answers())
        .stdout(contains("raise server.simulated.max-num-seqs from 4 (the plan) to 32. A model fitted to this run foresees"))
        .stdout(contains(" req/s). Tried: "));
    let found = result(&run);
    let outcome = &found["tried"]["outcomes"][0];
    assert_eq!(outcome["remedy"], "max-num-seqs=32");
    let (before, after) = (found["tried"]["before"].as_f64().unwrap(), outcome["after"].as_f64().unwrap());
    assert!(before < 8.0 && after > 24.0, "5.2 and 36 by long simulation: {before}, {after}");
    assert!(fs::read_to_string(run.join("report.md")).unwrap().contains(" → "));
    goodput().arg("report").arg(&run).assert().stdout(contains("Tried: "));
    // Nothing of it is left in a run that replaces this one.
    let again = goodput()
        .args(["sweep", "--no-charts"])
        .arg(&plan)
        .arg("--out")
        .arg(&run)
        .args(["--virtual-time", "--force"])
        .assert();
    again.code(answers());
    assert!(!run.join("advice").exists() && result(&run)["tried"].is_null());
    // Advice of a finished run.
    goodput()
        .args(["sweep", "--no-charts", "--try-advice", "--resume"])
        .arg(&run)
        .assert()
        .code(answers())
        .stdout(contains("Tried: "));
    // What was measured is not measured again.
    let steps = run.join("advice/steps.csv");
    let measured = fs::read_to_string(&steps).unwrap();
    let resume = |advice: &str, force: bool| {
        let mut resume = goodput();
        resume.args(["sweep", "--no-charts", advice, "--resume"]).arg(&run);
        if force {
            resume.arg("--force");
        }
        resume.assert().code(answers()).stdout(contains("Tried: "));
        fs::read_to_string(&steps).unwrap()
    };
    assert_eq!(resume("--try-advice", false), measured);
    // A trial that was interrupted goes on with its next step.
    let some: Vec<&str> = measured.split_inclusive('\n').take(3).collect();
    fs::write(&steps, some.concat()).unwrap();
    let resumed = resume("--try-advice", false);
    assert!(resumed.starts_with(&some.concat()) && resumed.lines().count() == measured.lines().count());
    assert_ne!(resume("--try-advice", true), measured, "measured again, at another time");
}
