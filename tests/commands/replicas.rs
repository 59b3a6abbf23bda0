//! Several replicas of one service, used in turn: the report names a slow one, and says nothing for a single server.

use crate::common::{goodput, loose, plan, result};
use goodput::sim::serve::Embedded;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use tempfile::tempdir;

/// A server that needs so long for every first token.
fn server(ttft: &str) -> Embedded {
    let text = format!("preset = \"fixed\"\nttft = \"{ttft}\"\ntpot = \"1ms\"\nmodel = \"tiny\"");
    Embedded::start(&toml::from_str(&text).unwrap()).unwrap()
}

const SEARCH: &str = "rates = [40, 60]";

#[test]
fn the_slow_replica_is_named() {
    // As slow as a halt of this machine for a second would make the other one; steps begin when it is filled.
    let (fast, slow) = (server("5ms"), server("1s"));
    let dir = tempdir().unwrap();
    let (run, urls) = (dir.path().join("run"), format!("urls = [\"{}\", \"{}/v1/\"]", fast.url, slow.url));
    let plan = plan(dir.path(), &urls, SEARCH);
    loose(&plan);
    let times = ["--set", "step.settle=3s", "--set", "step.measure=3s"];
    let args =
        [&["sweep", "--no-charts", plan.to_str().unwrap(), "--out", run.to_str().unwrap()], &times[..]]
            .concat();
    let named = format!("Replica {} is slower than the others", slow.url);
    goodput().args(args).assert().stdout(contains(&named).and(contains("Requests are dealt in turn")));
    let json = result(&run);
    for step in json["steps"].as_array().unwrap() {
        let [a, b] = step["replicas"].as_array().unwrap().as_slice() else { panic!("{step}") };
        assert_eq!((&a["url"], &b["url"]), (&fast.url.as_str().into(), &slow.url.as_str().into()));
        let n = |v: &serde_json::Value| v["n"].as_u64().unwrap();
        assert_eq!(n(a) + n(b), step["due_n"].as_u64().unwrap());
        assert!(n(a).abs_diff(n(b)) <= 1, "dealt in turn: {a} {b}");
        assert_eq!((&a["apart"], &b["apart"]), (&serde_json::Value::Null, &"ttft".into()), "{a} {b}");
        let p50 = |v: &serde_json::Value| v["ttft_ms"]["p50"].as_f64().unwrap();
        assert!(p50(a) < p50(b) && p50(b) >= 1_000.0, "{a} {b}");
    }
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(
        report.contains("## Replicas") && report.contains("while requests are dealt in turn"),
        "{report}"
    );
    // The run folder alone says as much, and a report made again says it again.
    assert_eq!(fs::read_to_string(run.join("replicas.csv")).unwrap().lines().count(), 1 + 2 * 2);
    goodput().args(["report", run.to_str().unwrap()]).assert().success().stdout(contains(&named));
    assert_eq!(result(&run), json);
    // Killed before the second step counted: measured again, and once in the file.
    let steps = run.join("steps.csv");
    let text = fs::read_to_string(&steps).unwrap();
    fs::write(&steps, text.lines().take(2).map(|l| format!("{l}\n")).collect::<String>()).unwrap();
    goodput()
        .args(["sweep", "--no-charts", "--resume", run.to_str().unwrap()])
        .assert()
        .stdout(contains(&named));
    assert_eq!(fs::read_to_string(run.join("replicas.csv")).unwrap().lines().count(), 1 + 2 * 2);
}

#[test]
fn one_server_has_no_replicas() {
    let one = server("5ms");
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let plan = plan(dir.path(), &format!("urls = [\"{}\"]", one.url), "rates = [40]");
    let args = ["sweep", "--no-charts", plan.to_str().unwrap(), "--out", run.to_str().unwrap()];
    goodput().args(args).assert().stdout(contains("eplica").not());
    assert!(!run.join("replicas.csv").exists());
    assert!(result(&run)["steps"][0].get("replicas").is_none());
    assert!(!fs::read_to_string(run.join("report.md")).unwrap().contains("Replicas"));
}
