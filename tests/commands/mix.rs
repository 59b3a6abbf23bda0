//! Mixes: several kinds of request on one server, each with limits of its own.

use crate::common::{column, goodput, result, simulate};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::tempdir;

/// Prompts that an M/D/1 queue of 50 ms serves all alike.
const PROMPTS: &str = "input-tokens = { fixed = 30 }\noutput-tokens = { fixed = 2 }";

/// A sweep in simulated time over these rates, each with so many requests at least.
fn sweep(dir: &Path, slo: &str, workload: &str, rates: &str, requests: u32) -> (PathBuf, String) {
    let text = format!(
        "name = \"mix\"\n{slo}\n[server]\nsimulated = {{ preset = \"md1\", service = \"50ms\" }}\nwarmup-requests = 2\n\
         [step]\nsettle = \"10s\"\nmeasure = \"2m\"\nmin-requests = {requests}\nmax-duration = \"3h\"\n[search]\nrates = {rates}\n[workload]\n{workload}\n"
    );
    simulate(dir, &text)
}

fn class(name: &str, weight: u32, slo: &str) -> String {
    format!(
        "[[workload.class]]\nname = \"{name}\"\nweight = {weight}\n{slo}\n[workload.class.prompts.synthetic]\n{PROMPTS}\n"
    )
}

fn row<'a>(step: &'a Value, class: &str, limit: &str) -> &'a Value {
    let rows = step["limits"].as_array().unwrap();
    rows.iter().find(|r| r["class"] == class && r["limit"] == limit).unwrap()
}

#[test]
fn the_class_that_misses_binds() {
    let dir = tempdir().unwrap();
    let workload =
        class("short", 1, "slo.ttft.p99 = \"200ms\"") + &class("long", 1, "slo.ttft.p99 = \"10s\"");
    let (run, said) = sweep(dir.path(), "", &workload, "[4, 14]", 20_000);
    let json = result(&run);
    let steps = json["steps"].as_array().unwrap();
    assert_eq!((&steps[0]["verdict"], &steps[1]["verdict"]), (&"meets".into(), &"fails".into()));
    assert_eq!(steps[1]["binding"], "short/ttft.p99");
    assert_eq!(row(&steps[1], "short", "ttft.p99")["verdict"], "fails");
    assert_eq!(row(&steps[1], "long", "ttft.p99")["verdict"], "meets");
    let n = |class: &str| row(&steps[1], class, "ttft.p99")["n"].as_u64().unwrap();
    let (short, long) = (n("short"), n("long"));
    assert_eq!(short + long, steps[1]["due_n"].as_u64().unwrap(), "each by its own limits alone");
    assert!((0.95..1.05).contains(&(short as f64 / long as f64)), "{short} {long}");
    // Together: every request by the limits that it has.
    let (joint, missed) = (row(&steps[1], "all", "joint"), row(&steps[1], "short", "ttft.p99"));
    assert_eq!((&joint["n"], &joint["misses"]), (&steps[1]["due_n"], &missed["misses"]));
    assert_eq!(json["goodput"]["binding"], "short/ttft.p99");
    assert!(said.contains("p99 TTFT of class short"), "{said}");
    assert!(said.contains("p99 TTFT by class at"), "{said}");
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## By class") && report.contains("p99 TTFT of class short"), "{report}");
    assert!(report.contains("200 ms for short") && !report.contains("What mixing costs"), "{report}");
    // The files say whose a request and a limit is, and are enough for the same report.
    let classes = column(&run.join("requests.csv"), "class");
    assert!(classes.iter().all(|c| c == "short" || c == "long") && classes.contains(&"long".to_owned()));
    assert_eq!(column(&run.join("groups.csv"), "name"), ["short", "long", "short", "long"]);
    goodput().args(["report", run.to_str().unwrap()]).assert().success();
    assert_eq!(result(&run), json);
}

#[test]
fn one_class_is_the_same_as_none() {
    let (a, b) = (tempdir().unwrap(), tempdir().unwrap());
    let (plain, _) = sweep(
        a.path(),
        "slo.ttft.p99 = \"200ms\"\nslo.error-rate = 0.01",
        &format!("[workload.prompts.synthetic]\n{PROMPTS}"),
        "[6, 12]",
        2000,
    );
    let own = "slo.ttft.p99 = \"200ms\"\nslo.error-rate = 0.01";
    let (mixed, _) = sweep(b.path(), "", &class("one", 7, own), "[6, 12]", 2000);
    for name in ["due_ms", "sent_ms", "first_token_ms", "last_token_ms", "outcome"] {
        let of = |run: &Path| column(&run.join("requests.csv"), name);
        assert_eq!(of(&plain), of(&mixed), "{name}");
    }
    for name in ["limit", "n", "misses", "clusters", "cluster_sq", "low", "high", "verdict"] {
        let of = |run: &Path| column(&run.join("limits.csv"), name);
        assert_eq!(of(&plain), of(&mixed), "{name}");
    }
    let (x, y) = (result(&plain), result(&mixed));
    assert_eq!(
        (&x["goodput"]["met"], &x["goodput"]["failed"]),
        (&y["goodput"]["met"], &y["goodput"]["failed"])
    );
    assert_eq!(y["goodput"]["binding"], format!("one/{}", x["goodput"]["binding"].as_str().unwrap()));
}

#[test]
fn a_class_without_limits_has_the_plans() {
    let dir = tempdir().unwrap();
    let workload = class("own", 1, "slo.ttft.p99 = \"10s\"") + &class("other", 1, "");
    let (run, said) = sweep(dir.path(), "slo.ttft.p99 = \"200ms\"", &workload, "[14]", 3000);
    let step = &result(&run)["steps"][0];
    assert_eq!(step["binding"], "ttft.p99");
    let n = |class: &str| row(step, class, "ttft.p99")["n"].as_u64().unwrap();
    assert_eq!(n("all") + n("own"), step["due_n"].as_u64().unwrap());
    assert!(said.contains("for classes without limits of their own"), "{said}");
}

#[test]
fn classes_alone_show_what_mixing_costs() {
    let dir = tempdir().unwrap();
    let workload = "alone = true\n".to_owned()
        + &class("short", 1, "slo.ttft.p90 = \"100ms\"")
        + &class("long", 1, "slo.ttft.p90 = \"2s\"");
    let (run, said) = sweep(dir.path(), "", &workload, "[6.5, 9, 18, 24]", 8000);
    let answers = result(&run)["answers"].as_array().unwrap().clone();
    let series: Vec<&str> = answers.iter().map(|a| a["series"].as_str().unwrap()).collect();
    assert_eq!(series, ["mix", "only short", "only long"]);
    // The same queue for all: short requests hold the mix where they hold themselves; long ones may wait.
    assert_eq!(answers[0]["goodput"]["met"], answers[1]["goodput"]["met"]);
    assert!(answers[2]["goodput"]["met"].as_f64() > answers[0]["goodput"]["met"].as_f64());
    assert!(said.contains("mixing costs"), "{said}");
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## What mixing costs") && report.contains("| short |"), "{report}");
    // The card of a class by itself has its own limits.
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    let card =
        page.split("aria-label=\"only short goodput\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(card.contains("p90 TTFT ≤ 100 ms") && !card.contains("≤ 2 s"), "{card}");
    // With rates far apart the mix and its classes lie anywhere between the same two: nothing is known.
    let coarse = tempdir().unwrap();
    let (_, said) = sweep(coarse.path(), "", &workload, "[4, 16]", 3000);
    assert!(said.contains("what mixing costs cannot be told"), "{said}");
    assert!(!said.contains("next to nothing"), "{said}");
}

/// The plan of `sweeps/`, in simulated time and with a quarter of its budget: it tells what mixing costs, and its sign.
#[test]
fn the_shipped_mix_tells_what_mixing_costs() {
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let says =
        contains("mixing costs").and(contains("% of the throughput")).and(contains("cannot be told").not());
    goodput()
        .timeout(Duration::from_secs(600))
        .args(["sweep", "--no-charts", "mix", "--virtual-time", "--budget", "15m", "--out"])
        .arg(&run)
        .assert()
        .code(0)
        .stdout(says);
    assert!(fs::read_to_string(run.join("report.md")).unwrap().contains("## What mixing costs"));
}

#[test]
fn check_shows_the_classes() {
    goodput().args(["check", "mix"]).assert().success().stdout(
        contains("class chat: 90 % of the arrivals")
            .and(contains("p99 TTFT ≤ 300 ms"))
            .and(contains("series    3: mix; only chat; only documents")),
    );
}

#[test]
fn a_model_that_is_not_served_ends_it_before_anything_is_sent() {
    let dir = tempdir().unwrap();
    let classes =
        [class("chat", 3, ""), class("code", 1, "").replace("name =", "model = \"lora-a\"\nname =")];
    let plan = format!(
        "name = \"m\"\nserver.simulated.preset = \"demo\"\nslo.ttft.p99 = \"80ms\"\nsearch.rates = [1]\n{}",
        classes.join("\n")
    );
    let (file, out) = (dir.path().join("plan.toml"), dir.path().join("run"));
    fs::write(&file, plan).unwrap();
    let says = contains("[[workload.class]] code").and(contains("does not serve the model \"lora-a\""));
    goodput()
        .args(["sweep", "--no-charts"])
        .arg(&file)
        .args(["--virtual-time", "--out"])
        .arg(&out)
        .assert()
        .code(1)
        .stderr(says);
    assert!(!out.exists());
}
