//! Goodput as the limits of the SLO are scaled, against the closed form of the M/D/1 queue.

use crate::common::{goodput, result, sweep_with_charts};
use goodput::sim::engine::truth::{boundary, md1_wait_cdf};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::tempdir;

const SERVICE: Duration = Duration::from_millis(50);

/// A sweep of the queue in virtual time; a request takes its wait and 50 ms, and 200 ms is the limit.
fn sweep(dir: &Path, rest: &str) -> Value {
    let text = format!(
        "name = \"md1\"\nseed = 3\n[server]\nsimulated = {{ preset = \"md1\", service = \"50ms\" }}\nwarmup-requests = 2\n\
         [slo]\nttft.p99 = \"200ms\"\n[workload.prompts.synthetic]\ninput-tokens = {{ fixed = 30 }}\n\
         output-tokens = {{ fixed = 2 }}\n{rest}\n"
    );
    result(&sweep_with_charts(dir, &text, &["--virtual-time"]).0)
}

/// The rate at which 99 % of the requests are within so many times the limit.
fn truth(factor: f64) -> f64 {
    let wait = Duration::from_secs_f64(0.2 * factor - SERVICE.as_secs_f64());
    boundary(1.0 / SERVICE.as_secs_f64(), 0.99, |rate| md1_wait_cdf(rate, SERVICE, wait))
}

fn points(result: &Value) -> Vec<Value> {
    result["answers"][0]["slo_scale"]["points"].as_array().unwrap().clone()
}

fn at_one(result: &Value) -> Value {
    points(result).into_iter().find(|p| p["factor"] == 1.0).unwrap()
}

#[test]
fn brackets_of_listed_rates_hold_the_truth() {
    let dir = tempdir().unwrap();
    let rest = "[step]\nsettle = \"30s\"\nmeasure = \"1m\"\nmin-requests = 8000\nmax-duration = \"2h\"\n\
                [search]\nrates = [4, 6, 8, 10, 12, 14, 16]";
    let result = sweep(dir.path(), rest);
    for key in ["status", "met", "failed", "rate"] {
        assert_eq!(at_one(&result)[key], result["goodput"][key], "{key}: the SLO as it stands");
    }
    let mut brackets = 0;
    for p in points(&result) {
        let (factor, truth) = (p["factor"].as_f64().unwrap(), truth(p["factor"].as_f64().unwrap()));
        // A verdict is wrong in one of twenty cases at the boundary itself, and hardly ever 5 % beside it.
        if let Some(met) = p["met"].as_f64() {
            assert!(met <= 1.05 * truth, "× {factor}: met at {met}, the truth is {truth}");
        }
        if let Some(failed) = p["failed"].as_f64() {
            assert!(failed >= 0.95 * truth, "× {factor}: failed at {failed}, the truth is {truth}");
        }
        brackets += usize::from(p["met"].is_f64() && p["failed"].is_f64());
    }
    assert!(brackets >= 5, "{brackets} of twelve have both ends");
    let report = fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(report.contains("## Tighter and looser limits") && report.contains("| limits × |"), "{report}");
    let run = dir.path().join("run");
    assert!(run.join("charts/slo-scale.png").is_file());
    // Only what shows it has every request judged anew.
    assert!(goodput::rundir::read(&run).unwrap().view.scale.is_none());
    assert!(goodput::rundir::read_with_scale(&run).unwrap().view.scale.is_some());
    for (name, drawn) in [("slo-scale", true), ("latency", true), ("lengths-of-stay", false)] {
        let to = dir.path().join(name);
        let mut report = goodput();
        report.arg("report").arg(&run).args(["--chart", name, "--format", "svg", "--charts-dir"]).arg(&to);
        match drawn {
            true => report.assert().success(),
            false => report.assert().code(1).stderr(contains("slo-scale")),
        };
        assert_eq!(to.join(format!("{name}.svg")).is_file(), drawn);
    }
}

#[test]
fn estimates_agree_with_the_closed_form_and_end_where_nothing_was_measured() {
    let dir = tempdir().unwrap();
    let result = sweep(dir.path(), "[search]\nmax-rate = 60\nadaptive = { budget = \"60m\" }");
    for key in ["status", "rate", "interval90", "safe_rate"] {
        assert_eq!(at_one(&result)[key], result["goodput"][key], "{key}: the SLO as it stands");
    }
    let most = result["answers"][0]["slo_scale"]["measured"][1].as_f64().unwrap();
    let all = points(&result);
    let near = all.iter().filter(|p| (0.8..=1.1).contains(&p["factor"].as_f64().unwrap()));
    for p in near {
        let (rate, truth) = (p["rate"].as_f64().unwrap(), truth(p["factor"].as_f64().unwrap()));
        assert!((rate / truth - 1.0).abs() < 0.15, "× {}: {rate}, the truth is {truth}", p["factor"]);
    }
    let rates: Vec<f64> = all.iter().filter_map(|p| p["rate"].as_f64()).collect();
    assert!(rates.is_sorted() && rates.len() > 5, "looser limits allow more: {rates:?}");
    // The search measured around the boundary of the SLO as it stands, which twice the limit leaves far below.
    assert!(truth(2.0) > 1.2 * most, "{} of {most}", truth(2.0));
    let last = all.last().unwrap();
    assert!(last["rate"].is_null() && last["interval90"].is_null(), "nothing is made up: {last}");
}
