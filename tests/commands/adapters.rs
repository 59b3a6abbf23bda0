//! Requests to several models or LoRA adapters of one server.

use crate::common::{column, goodput, result, sweep};
use goodput::sim::serve::Embedded;
use predicates::prelude::{PredicateBooleanExt, predicate::str::contains};

fn plan(server: &str, workload: &str) -> String {
    format!(
        "name = \"adapters\"\nslo.ttft.p99 = \"1s\"\n[server]\nwarmup-requests = 2\n{server}\n[workload]\n{workload}\n\
         prompts.synthetic = {{ input-tokens = {{ fixed = 40 }}, output-tokens = {{ fixed = 4 }} }}\n\
         [step]\nsettle = \"2s\"\nmeasure = \"60s\"\n[search]\nrates = [5]\n"
    )
}

const SERVER: &str = "adapters = { chat = \"/loras/chat\" }\n\
                      simulated = { preset = \"fixed\", ttft = \"40ms\", model = \"base\", adapters = { names = [\"sql\"], load-time = \"300ms\" } }";

#[test]
fn each_model_has_its_results_and_the_cost_of_its_first_request() {
    let dir = tempfile::tempdir().unwrap();
    let choices = "model = { choices = [\"base\", \"sql\", \"chat\"], weights = [2, 1, 1] }";
    let (run, _) = sweep(dir.path(), &plan(SERVER, choices), &["--virtual-time"]);
    let result = result(&run);
    let first = result["meta"]["first_requests"].as_array().unwrap();
    let figures = |at: usize, key: &str| first[at][key].as_f64().map(|s| (1000.0 * s).round());
    let names: Vec<_> = first.iter().map(|times| times["model"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "sql", "chat"]);
    let usual = figures(0, "second_s").unwrap();
    for (at, loading, waits) in [(0, None, 0.0), (1, None, 300.0), (2, Some(300.0), 0.0)] {
        let [first, second] = ["first_s", "second_s"].map(|key| figures(at, key).unwrap());
        assert!(
            (first - usual - waits).abs() <= 2.0 && (second - usual).abs() <= 2.0,
            "{first} {second} {usual}"
        );
        assert_eq!(figures(at, "load_s"), loading);
    }
    let classes = column(&dir.path().join("run/requests.csv"), "class");
    let share = |name: &str| classes.iter().filter(|c| *c == name).count() as f64 / classes.len() as f64;
    for (name, want) in [("base", 0.5), ("sql", 0.25), ("chat", 0.25)] {
        assert!((share(name) - want).abs() < 0.12, "{name}: {}", share(name));
    }
    let report = std::fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(report.contains("## First requests") && report.contains("| sql |"), "{report}");
}

#[test]
fn a_variant_loads_its_adapters_and_unloads_them() {
    // Both variants are sent to one server; only the first loads the adapter, and the second would find it if it were left.
    let dir = tempfile::tempdir().unwrap();
    let sim =
        Embedded::start(&toml::from_str("preset = \"fixed\"\nttft = \"5ms\"\nmodel = \"base\"").unwrap())
            .unwrap();
    let variants = "[[variant]]\nname = \"with\"\nset = { \"server.adapters\" = { sql = \"/loras/sql\" }, \"server.model\" = \"sql\" }\n\
                    [[variant]]\nname = \"without\"\nset = { \"server.model\" = \"sql\" }\n";
    let text = plan(&format!("url = \"{}\"", sim.url), "").replace("60s", "1s").replace("2s\"", "100ms\"")
        + variants;
    let (run, _) = sweep(dir.path(), &text, &[]);
    let result = result(&run);
    let variants = result["meta"]["variants"].as_array().unwrap();
    assert_eq!(variants[0]["state"], "done", "{}", variants[0]);
    assert!(variants[0]["first_requests"][0]["load_s"].as_f64().is_some(), "{}", variants[0]);
    assert_eq!(variants[1]["state"], "failed");
    let reason = variants[1]["reason"].as_str().unwrap();
    assert!(reason.contains("does not serve the model \"sql\""), "{reason}");
}

#[test]
fn an_adapter_that_cannot_be_loaded_ends_the_sweep_before_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let server = "adapters = { base = \"/loras/x\" }\nsimulated = { preset = \"fixed\", model = \"base\" }";
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, plan(server, "")).unwrap();
    let mut run = goodput();
    run.args(["sweep", "--virtual-time", "--out"]).arg(dir.path().join("run")).arg(&path);
    run.assert().failure().stderr(
        contains("[server.adapters] base was not loaded (HTTP 400)")
            .and(contains("conflicts with a served base model")),
    );
}

#[test]
fn an_adapter_that_cannot_be_loaded_leaves_none_behind() {
    let dir = tempfile::tempdir().unwrap();
    let sim = Embedded::start(&toml::from_str("preset = \"fixed\"\nmodel = \"base\"").unwrap()).unwrap();
    let error = |server: &str| {
        let path = dir.path().join("plan.toml");
        std::fs::write(&path, plan(&format!("url = \"{}\"\n{server}", sim.url), "")).unwrap();
        let mut run = goodput();
        run.args(["sweep", "--out"]).arg(dir.path().join("run")).arg(&path);
        String::from_utf8(run.assert().failure().get_output().stderr.clone()).unwrap()
    };
    let refused = error("adapters = { a = \"/loras/a\", base = \"/loras/b\" }");
    assert!(refused.contains("[server.adapters] base was not loaded"), "{refused}");
    let after = error("model = \"a\"");
    assert!(after.contains("does not serve the model \"a\""), "{after}");
}
