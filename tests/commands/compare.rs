//! Comparisons of runs: the command, its gates, and two servers measured in turns, all in simulated time.

use crate::common::goodput;
use clap::Parser;
use goodput::cli::Cli;
use goodput::compare::pair::Schedule;
use goodput::compare::paired::claims;
use goodput::compare::requests::Timed;
use goodput::compare::{Beyond, Change, Column};
use goodput::level::Level;
use goodput::plan::Plan;
use goodput::report::sections::comparison::schema;
use goodput::search::{Ask, Next};
use goodput::sweep::bare::Bare;
use goodput_run::fixture::json_schema::Output;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::tempdir;

/// A plan of a simulated server.
fn plan(dir: &Path, name: &str, server: &str, rest: &str) -> String {
    let path = dir.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nslo = {{ ttft.p99 = \"100ms\", tpot.p99 = \"30ms\" }}\n[server]\nwarmup-requests = 0\n[server.simulated]\npreset = \"a40-qwen3-0.6b\"\n{server}\n\
         [step]\nsettle = \"2s\"\nmeasure = \"60s\"\ndrain = \"5s\"\n[workload]\n\
         prompts.synthetic = {{ input-tokens = {{ fixed = 600 }}, output-tokens = {{ fixed = 30 }} }}\n[hardware]\ngpu = \"A40\"\ngpus = 1\nprice-per-hour = 0.39\ncurrency = \"USD\"\n{rest}"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn sweep(dir: &Path, name: &str, plan: &str, sets: &[&str]) -> String {
    let out = dir.join(name).display().to_string();
    let mut command = goodput();
    command.args(["sweep", "--no-charts", plan, "--virtual-time", "--out", &out]);
    sets.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    assert!(command.output().unwrap().status.code().is_some_and(|c| c != 1));
    out
}

/// Returns the rows of a comparison, which its JSON Schema describes in full, by name.
fn rows(json: &Value) -> Vec<(String, Value)> {
    Output::new(&schema()).check("compare --json", json);
    json["rows"].as_array().unwrap().iter().map(|r| (r["name"].as_str().unwrap().into(), r.clone())).collect()
}

#[test]
fn two_servers_in_turns_are_sent_the_same_and_told_apart() {
    let dir = tempdir().unwrap();
    let a = plan(dir.path(), "a", "seed = 1", "");
    let b = plan(dir.path(), "b", "seed = 2\nslow-down = 1.15", "");
    let out = dir.path().join("run");
    let asked = [
        "compare",
        "--measure",
        &a,
        &b,
        "--rate",
        "10",
        "--rate",
        "20",
        "--budget",
        "4m",
        "--virtual-time",
        "--json",
    ];
    let output = goodput().args(asked).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["answers"][0]["finding"], "worse", "{}", json["answers"]);
    assert!(json["alternating"] == true && json["levels"].as_array().unwrap().len() == 2);
    let slower = rows(&json).into_iter().find(|(name, _)| name == "tpot.p50@pooled").unwrap().1;
    let share = slower["changes"][0]["share"].as_f64().unwrap();
    assert!((0.1..0.3).contains(&share), "{share}");
    // ABBA at each of the rates, and both of a pair with the same arrivals.
    let steps = fs::read_to_string(out.join("steps.csv")).unwrap();
    let order: String = steps.lines().skip(1).take(8).map(|l| &l[..1]).collect();
    assert_eq!(order, "abbabaab", "10: ab, ba; 20: ba, ab");
    let due = |step: &str| -> Vec<String> {
        let text = fs::read_to_string(out.join("requests.csv")).unwrap();
        let own = text.lines().map(|l| l.split(',').collect::<Vec<_>>()).filter(|c| c[1] == step);
        own.map(|c| c[10].to_owned()).take(40).collect()
    };
    let sorted = |step: &str| {
        let mut all = due(step);
        all.sort();
        all
    };
    assert!(sorted("1").len() > 20 && sorted("3")[0] != sorted("1")[0]);
    let whole = |step: &str| {
        let text = fs::read_to_string(out.join("requests.csv")).unwrap();
        let mut all: Vec<String> = text
            .lines()
            .map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>())
            .filter(|c| c[1] == step && c[3] == "measure")
            .map(|c| c[10].clone())
            .collect();
        all.sort();
        all
    };
    assert_eq!(whole("1"), whole("2"), "a and b of the first pair");
    assert_eq!(whole("3"), whole("4"), "b and a of the second");
    for (gate, code) in [("tpot.p50 <= +1%", 2), ("tpot.p50@pooled <= +90%", 0), ("tpot.p90 <= +90%", 0)] {
        let judged = goodput().args(["compare", "--gate", gate]).arg(&out).assert().code(code);
        let lines = String::from_utf8_lossy(&judged.get_output().stdout).into_owned();
        let n = if gate.contains("p90") { 2 } else { 1 };
        assert_eq!(lines.matches(&format!("gate {gate}")).count(), n, "{lines}");
    }
    // The folder alone says the same again, and is an ordinary one.
    let again = goodput().args(["compare", "--json"]).arg(&out).output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["rows"], &again["answers"]), (&json["rows"], &json["answers"]));
    goodput().arg("report").arg(&out).assert().success();
    for file in ["compare.md", "compare.json", "compare-charts/overlay.svg", "report.md"] {
        assert!(out.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_rate_that_only_one_can_take_is_a_finding_and_fails_a_gate() {
    let dir = tempdir().unwrap();
    let a = plan(dir.path(), "a", "", "");
    let b = plan(dir.path(), "b", "slow-down = 6", "");
    let out = dir.path().join("run");
    let output = goodput()
        .args([
            "compare",
            "--measure",
            &a,
            &b,
            "--rate",
            "5",
            "--rate",
            "20",
            "--budget",
            "6m",
            "--virtual-time",
        ])
        .args(["--gate", "ttft.p99@20 <= +1000%", "--json", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["answers"][0]["finding"], "worse", "{}", json["answers"]);
    let text = json["answers"][0]["text"].as_str().unwrap();
    assert!(text.contains("b could not take 20 req/s in "), "{text}");
    assert!(json["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains("are left out")));
    assert_eq!(json["gates"][0]["held"], "fails", "{}", json["gates"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(out.join("probe/a/steps.csv").is_file(), "how long requests take was seen first");
    let page = fs::read_to_string(out.join("compare.md")).unwrap();
    assert!(page.contains("--gate 'ttft.p99@20 <= +1000%'`"), "the command that says the same again");
}

#[test]
fn gates_have_exit_codes_and_unlike_runs_are_refused() {
    let dir = tempdir().unwrap();
    let rates = "[search]\nrates = [10, 20, 90]";
    let a = plan(dir.path(), "a", "seed = 1", rates);
    let b = plan(dir.path(), "b", "seed = 2\nslow-down = 1.3", rates);
    let (old, new) = (sweep(dir.path(), "old", &a, &[]), sweep(dir.path(), "new", &b, &[]));
    let gate = |gates: &[&str]| {
        let mut command = goodput();
        command.args(["compare", &old, &new]);
        gates.iter().for_each(|g| {
            command.args(["--gate", g]);
        });
        command.assert()
    };
    gate(&["tpot.p50 <= +100%", "ttft.p99@10 <= +1s"]).code(0).stdout(contains("holds"));
    gate(&["tpot.p50@20 <= +5%", "knee >= 0%"]).code(2).stdout(contains("FAILS for new, tpot.p50@20"));
    gate(&["ttft.p50@pooled <= +5%"]).code(3).stdout(contains("measured in turns"));
    gate(&["failures <= +5pp"]).code(0).stdout(contains("holds"));
    gate(&["ttft.p50@77 <= +5%"]).code(3).stdout(contains("the levels compared are 10, 20"));
    gate(&["tpot.p50 <= five"]).code(1).stderr(contains("is no change").and(contains("^")));
    // What is compared is shown and not refused.
    gate(&[])
        .code(0)
        .stdout(contains("server.simulated.slow-down: – → 1.3").and(contains("new is worse than old")));
    let summary = dir.path().join("summary.md");
    fs::write(&summary, "before\n").unwrap();
    let out = dir.path().join("out");
    let both = ["compare", &old, &new, "--gate", "tpot.p50@20 <= +5%"];
    goodput().args(both).arg("--summary").arg(&summary).arg("--out").arg(&out).assert().code(2);
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n## new against old: **the gate fails**"), "{text}");
    assert!(out.join("compare-charts/overlay.png").is_file() && out.join("compare.json").is_file());
    let page = fs::read_to_string(out.join("compare.md")).unwrap();
    assert!(page.find("### What differs") < page.find("### At 10 req/s"), "what differs first");

    let junit = dir.path().join("gates.xml");
    let mut judged = goodput();
    judged.args(both).args(["--gate", "ttft.p99@10 <= +1s"]).arg("--junit").arg(&junit);
    judged.assert().code(2).stdout(contains(junit.to_str().unwrap()));
    let text = fs::read_to_string(&junit).unwrap();
    assert!(
        text.contains("<testsuites name=\"goodput compare\" tests=\"2\" failures=\"1\" errors=\"0\">"),
        "{text}"
    );
    for (name, why) in [(dir.path().to_owned(), "is a folder"), (dir.path().join("no/x.xml"), "create it")] {
        goodput().args(both).arg("--junit").arg(name).assert().code(1).stderr(contains(why));
    }

    let other = sweep(dir.path(), "other", &a, &["slo.ttft.p99=\"90ms\"", "workload.arrivals=\"constant\""]);
    goodput().args(["compare", &old, &other]).assert().code(1).stderr(
        contains("did not measure the same thing")
            .and(contains("slo.ttft.p99"))
            .and(contains("workload.arrivals")),
    );
    goodput()
        .args(["compare", &old, &other, "--force"])
        .assert()
        .code(0)
        .stdout(contains("only because of --force"));
    goodput().args(["compare", &old]).assert().code(1).stderr(contains("nothing to compare it with"));
    goodput()
        .args(["compare", &format!("{old}#x"), &new])
        .assert()
        .code(1)
        .stderr(contains("no series and no tier"));
}

/// A server that misses its SLO without load is a definite failure: a caller that accepts *undecided* must not accept
/// it.
#[test]
fn a_server_that_misses_unloaded_fails_the_gates_of_one_that_kept_its_slo() {
    let dir = tempdir().unwrap();
    let search = "[search]\nadaptive = { budget = \"3m\" }\nmax-rate = 60";
    let a = plan(dir.path(), "a", "", search);
    let b = plan(dir.path(), "b", "slow-down = 20", search);
    let (old, new) = (sweep(dir.path(), "old", &a, &[]), sweep(dir.path(), "new", &b, &[]));
    let gate = |sides: [&str; 2], gate: &str, code: i32| {
        let assert = goodput().arg("compare").args(sides).args(["--gate", gate]).assert().code(code);
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
    };
    let said = gate([&old, &new], "goodput >= -5%", 2);
    assert!(
        said.contains("FAILS for new, goodput") && said.contains("new is worse than old: goodput is 100 %"),
        "{said}"
    );
    for figure in ["joint-goodput >= -5%", "per-gpu >= -5%", "goodput >= -5req/s"] {
        gate([&old, &new], figure, 2);
    }
    for follows in ["safe-rate >= -5%", "output-tokens >= -5%", "cost-per-mtok <= +10%"] {
        let said = gate([&old, &new], follows, 2);
        assert!(said.contains("it has none, since no level keeps the SLO"), "{said}");
    }
    // A bound on how much better it may be is kept, and the other way round nothing is worse.
    gate([&old, &new], "safe-rate <= +50%", 3);
    assert!(gate([&new, &old], "goodput >= -5%", 0).contains("old is better than new"));
    gate([&new, &new], "goodput >= -5%", 3);

    // The figure called *good requests* is that of the report, whatever an overloaded step came to.
    let json = goodput().args(["compare", &old, &new, "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let row = rows(&json).into_iter().find(|(name, _)| name == "good-rate").unwrap().1;
    let report = fs::read_to_string(Path::new(&old).join("report.md")).unwrap();
    let line = report.lines().find(|l| l.starts_with("- **good requests/s**")).unwrap();
    let told: f64 = line.split("together: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let value = row["values"][0].as_f64().unwrap();
    assert!((value - told).abs() < 0.06, "{value} where the report says {line}");
}

/// Between runs at different levels, the part of a difference due to the level is unknown, however large the difference
/// is.
#[test]
fn levels_that_are_not_the_same_leave_a_gate_undecided() {
    let dir = tempdir().unwrap();
    let at = |name: &str, rate: &str| {
        let plan = plan(dir.path(), name, "", &format!("[search]\nrates = [{rate}]"));
        sweep(dir.path(), &format!("at-{name}"), &plan, &[])
    };
    let (a, b, c) = (at("a", "56"), at("b", "56.8"), at("c", "56.02"));
    let gates = ["tpot.p50 <= +1%", "ttft.p99 <= +1000%", "achieved-rate >= -5%"];
    for gate in gates {
        goodput()
            .args(["compare", &a, &b, "--gate", gate])
            .assert()
            .code(3)
            .stdout(contains("measured at 56.8 against 56 req/s").and(contains("no difference is claimed")));
    }
    goodput().args(["compare", &a, &c, "--gate", gates[1]]).assert().code(0);
    let json = goodput().args(["compare", &a, &b, "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let row = rows(&json).into_iter().find(|(name, _)| name == "tpot.p50@56").unwrap().1;
    assert_eq!(row["changes"][0]["apart"], serde_json::json!([56.0, 56.8]));
}

/// Where other steps tell how a figure grows with the level, a change is told at the level of the baseline. The servers are the same: at
/// 56.8/s their queue is longer than at 56/s, which is no difference between them.
#[test]
fn levels_that_are_nearly_the_same_are_compared_along_the_steps_around_them() {
    let dir = tempdir().unwrap();
    let at = |name: &str, rates: &str| {
        let plan = plan(dir.path(), name, "", &format!("[search]\nrates = [{rates}]"));
        sweep(dir.path(), &format!("at-{name}"), &plan, &[])
    };
    let (a, b) = (at("a", "44, 56"), at("b", "44, 56.8"));
    let output = goodput().args(["compare", &a, &b, "--gate", "achieved-rate@56 >= -10%"]).assert().code(0);
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.contains("changes are told at the level of the baseline"), "{text}");
    let json = goodput().args(["compare", &a, &b, "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let mut carried = 0;
    for (name, row) in rows(&json).into_iter().filter(|(name, _)| name.ends_with("@56")) {
        let change = &row["changes"][0];
        assert_ne!(change["beyond"], "yes", "{name}: {change}");
        carried += usize::from(change["carried"] == serde_json::json!([56.0, 56.8]));
    }
    assert!(carried >= 6, "{carried} figures were carried");
}

#[test]
fn a_measurement_that_cannot_be_had_is_refused_before_it_begins() {
    let dir = tempdir().unwrap();
    let a = plan(dir.path(), "a", "", "");
    let b = plan(dir.path(), "b", "", "[[check]]\nname = \"words\"\nregex = \"the\"");
    let measure = |args: &[&str]| {
        let out = dir.path().join("none");
        let assert = goodput()
            .args(["compare", "--measure", "--virtual-time"])
            .args(args)
            .arg("--out")
            .arg(&out)
            .assert()
            .code(1);
        assert!(!out.exists());
        assert
    };
    measure(&[&a, &b, "--rate", "5"]).stderr(contains("check.1.name"));
    measure(&[&a, &a, "--rate", "5", "--budget", "20s"]).stderr(contains("is too little for 1 rates"));
    measure(&[&a]).stderr(contains("takes two plans or URLs"));
    measure(&[&a, "http://127.0.0.1:9", "--rate", "5"])
        .stderr(contains("--virtual-time").or(contains("differ")));
}

#[test]
fn the_workflow_of_the_docs_has_commands_that_parse() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compare.md")).unwrap();
    let yaml = text.split("```yaml").nth(1).unwrap().split("```").next().unwrap();
    let joined = yaml.replace("\\\n", " ");
    let commands: Vec<&str> = joined.lines().map(str::trim).filter(|l| l.starts_with("goodput ")).collect();
    assert!(commands.len() >= 2, "{yaml}");
    assert!(yaml.contains("|| rc=$?") && yaml.contains("0|2|3)"), "an answer of a sweep ends no job: {yaml}");
    for command in commands {
        let command = command.split(" || ").next().unwrap();
        let mut words: Vec<String> = Vec::new();
        for (i, part) in command.split(['\'', '"']).enumerate() {
            if i % 2 == 1 {
                words.push(part.to_owned())
            } else {
                words.extend(part.split_whitespace().map(str::to_owned))
            }
        }
        Cli::try_parse_from(&words).unwrap_or_else(|e| panic!("{command}: {e}"));
        for gate in words.windows(2).filter(|w| w[0] == "--gate") {
            goodput::compare::gate::Gate::parse(&gate[1]).unwrap();
        }
    }
}

/// One comparison in turns on the bare model, as `examples/compare` makes hundreds of.
fn in_turns(seed: u32, slow_down: f64) -> Vec<(Column, Change)> {
    let schedule = Schedule::of(Duration::from_secs(180), 1, Duration::from_secs(1)).unwrap();
    let plan = |side: u32, slow_down: f64| {
        Plan::from_text(&format!(
            "name = \"x\"\nseed = {seed}\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n[server.simulated]\npreset = \"a40-qwen3-0.6b\"\nseed = {}\n\
             slow-down = {slow_down}\n[workload]\nprompts.synthetic = {{ input-tokens = {{ fixed = 600 }}, output-tokens = {{ fixed = 30 }} }}",
            2 * seed + side
        ))
        .unwrap()
    };
    let plans = [plan(0, 1.0), plan(1, slow_down)];
    let mut servers = [Bare::new(&plans[0]).unwrap(), Bare::new(&plans[1]).unwrap()];
    let Next::Measure(like) = plans[0].searcher().unwrap().next("main", &[]) else { panic!("a step") };
    let ask = Ask { level: Level::rate(15.0), settle: schedule.settle, measure: schedule.measure, ..like };
    let mut pairs = Vec::new();
    for _ in 0..schedule.turns.get() {
        let both = servers.each_mut().map(|server| {
            let mut requests = Vec::new();
            server.measure_each(ask, |record| requests.push(Timed::of(record))).unwrap();
            requests
        });
        pairs.push(both);
    }
    claims(&[pairs.iter().map(|[a, b]| (a.as_slice(), b.as_slice())).collect()])
}

#[test]
fn a_slower_server_is_found_and_the_same_one_is_not() {
    let found = |slow_down: f64| {
        (1..=8).filter(|s| in_turns(*s, slow_down).iter().any(|(_, c)| c.beyond == Beyond::Yes)).count()
    };
    assert_eq!(found(1.15), 8);
    assert!(found(1.0) <= 1, "{} of 8", found(1.0));
}
