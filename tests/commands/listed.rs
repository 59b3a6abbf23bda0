//! Lists and ramps as a user runs them, in simulated time: they answer, and a ramp ends at the knee.

use crate::common::{goodput, result};
use goodput::plan::Plan;
use goodput::search::answer::{Answer, KneeBasis};
use goodput::sweep::bare;
use serde_json::Value;
use tempfile::tempdir;

/// A plan with the step times that there are by default.
fn plan(server: &str, slo: &str, search: &str) -> String {
    format!(
        "name = \"x\"\n[server]\nsimulated = {{ {server} }}\nwarmup-requests = 0\n[slo]\n{slo}\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 30 }}\noutput-tokens = {{ fixed = 2 }}\n[search]\n{search}\n"
    )
}

/// Runs a sweep of the M/D/1 queue whose goodput is 9.2576 and whose capacity is 20; its exit code, result and report.
fn sweep(search: &str) -> (Option<i32>, Value, String) {
    let dir = tempdir().unwrap();
    let (file, out) = (dir.path().join("plan.toml"), dir.path().join("run"));
    std::fs::write(&file, plan("preset = \"md1\"", "ttft.p99 = \"200ms\"", search)).unwrap();
    let ended = goodput()
        .args(["sweep", "--no-charts"])
        .arg(&file)
        .args(["--virtual-time", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    (ended.status.code(), result(&out), report)
}

fn interval(of: &Value) -> (f64, f64) {
    let [low, high] = [0, 1].map(|i| of["interval90"][i].as_f64().unwrap());
    (low, high)
}

#[test]
fn a_list_of_default_steps_is_answered() {
    let (code, found, report) = sweep("rates = [6, 8, 10, 12]");
    let g = &found["goodput"];
    assert_eq!((code, &g["status"], &g["basis"]), (Some(0), &"found".into(), &"fit".into()), "{g}");
    let (low, high) = interval(g);
    let rate = g["rate"].as_f64().unwrap();
    assert!(low < 9.2576 && 9.2576 < high && low < rate && rate < high, "{g}");
    assert!(g["safe_rate"].as_f64().is_some_and(|s| s < 9.2576), "{g}");
    assert!(
        report.contains("by a fit to the measured levels") && report.contains("a fit to 4 steps under load"),
        "{report}"
    );
    assert!(g["failed"].as_f64().is_none_or(|f| f > rate), "the bracket stands beside it: {g}");
}

#[test]
fn levels_that_all_hold_are_enough_for_the_highest() {
    let (code, found, _) = sweep("rates = [2, 4, 6]");
    let g = &found["goodput"];
    assert_eq!((code, &g["status"], &g["rate"]), (Some(0), &"not-reached".into(), &6.0.into()), "{g}");
    // Far beyond it: no level is made up below those that were measured.
    let (code, found, _) = sweep("rates = [14, 16]");
    let g = &found["goodput"];
    assert_eq!(
        (code, &g["status"], &g["rate"], &g["interval90"]),
        (Some(2), &"none".into(), &Value::Null, &Value::Null),
        "{g}"
    );
}

#[test]
fn too_few_requests_say_how_many_would_do() {
    let (_, found, report) = sweep("rates = [1, 2]");
    let reason = found["steps"][0]["reason"].as_str().unwrap();
    assert!(reason.contains(" of about ") && reason.contains(" requests needed without a miss"), "{reason}");
    assert!(report.contains("requests needed without a miss"), "{report}");
}

#[test]
fn a_ramp_ends_at_the_knee_and_says_where() {
    let (code, found, report) = sweep("ramp = { start = 2 }\nmax-rate = 500");
    let knee = &found["knee"];
    assert_eq!(code, Some(0), "{knee}");
    assert!(["throughput", "backlog"].contains(&knee["basis"].as_str().unwrap()), "{knee}");
    let ((low, high), rate) = (interval(knee), knee["rate"].as_f64().unwrap());
    assert!((rate / 20.0 - 1.0).abs() < 0.1 && low < 20.5 && 19.5 < high, "{knee}");
    let levels: Vec<f64> =
        found["steps"].as_array().unwrap().iter().map(|s| s["level"].as_f64().unwrap()).collect();
    assert!(levels.iter().all(|l| *l < 20.0 * 1.5), "not far beyond: {levels:?}");
    assert!(found["goodput"]["reason"]["ended"]["stopped"]["knee"].is_object());
    assert!(report.contains("the knee is found: beyond") && report.contains("90 % interval"), "{report}");
}

fn answer(text: &str) -> Answer {
    let plan = Plan::from_text(text).unwrap();
    let steps = bare::steps(&plan).unwrap();
    plan.searcher().unwrap().answers("main", &steps).remove(0)
}

/// Ramps of queues with an SLO that ends far below their capacity: in nine of ten the knee is within a tenth of it.
#[test]
fn knees_are_where_the_capacity_is() {
    for (server, slo, capacity) in [
        ("preset = \"md1\"", "ttft.p99 = \"200ms\"", 20.0),
        ("preset = \"mm1\"", "ttft.p99 = \"500ms\"", 20.0),
        ("preset = \"mmc\"", "ttft.p99 = \"200ms\"", 16.0),
    ] {
        let near = (1..=10).filter(|seed| {
            let search = "ramp = { start = 2 }\nmax-rate = 1000";
            let text = format!("seed = {seed}\n{}", plan(&format!("{server}, seed = {seed}"), slo, search));
            let knee = answer(&text).knee;
            knee.is_some_and(|k| k.basis != KneeBasis::Kneedle && (k.rate / capacity - 1.0).abs() <= 0.1)
        });
        assert!(near.count() >= 9, "{server}");
    }
}
