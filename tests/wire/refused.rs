//! Backing off from a server that refuses the load or dies under it, in virtual time, so that waiting for `Retry-After`
//! is free.

use crate::common::{goodput, result};
use goodput::plan::Plan;
use goodput::search::Next;
use goodput::sweep::bare::Bare;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Sweeps a server with this fault on this share of the requests.
fn sweep(fault: &str, share: f64, step: &str, search: &str) -> Value {
    sweep_in(tempfile::tempdir().unwrap().path(), fault, share, step, search).1
}

/// Sweeps as [`sweep`] does, in the given folder. Also returns the exit code.
fn sweep_in(dir: &Path, fault: &str, share: f64, step: &str, search: &str) -> (i32, Value) {
    let (plan, run) = (dir.join("plan.toml"), dir.join("run"));
    let text = format!(
        "name = \"refused\"\nseed = 1\n[server]\nwarmup-requests = 0\n[server.simulated]\npreset = \"fixed\"\nttft = \"20ms\"\n\
         tpot = \"5ms\"\nfault-after = 100\nfault = {{ {fault} = {share} }}\n[slo]\nttft.p99 = \"1s\"\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n\
         [step]\nsettle = \"5s\"\nmeasure = \"60s\"\ndrain = \"5s\"\n{step}\n[search]\n{search}\n"
    );
    fs::write(&plan, text).unwrap();
    let ended = goodput()
        .args(["sweep", "--no-charts"])
        .arg(&plan)
        .arg("--virtual-time")
        .arg("--out")
        .arg(&run)
        .assert()
        .code(predicates::ord::ne(1));
    (ended.get_output().status.code().unwrap(), result(&run))
}

fn levels(run: &Value) -> Vec<(f64, Option<&str>)> {
    let steps = run["steps"].as_array().unwrap();
    steps.iter().map(|s| (s["level"].as_f64().unwrap(), s["abort"].as_str())).collect()
}

fn caveats(run: &Value) -> String {
    let noted = &run["caveats"];
    assert!(noted.is_array(), "{noted}");
    noted.to_string()
}

#[test]
fn a_step_of_errors_is_stopped_and_nothing_as_high_follows() {
    let run = sweep("status-500", 0.4, "", "rates = [40, 20, 60]");
    assert_eq!(levels(&run), [(40.0, Some("errors")), (20.0, Some("errors"))], "60 is above both");
    let step = &run["steps"][0];
    assert_eq!(
        (step["verdict"].as_str(), step["binding"].as_str()),
        (Some("fails"), Some("errors")),
        "{step}"
    );
    assert!(step["reason"].as_str().unwrap().contains("requests failed (server-error 500)"), "{step}");
    let sent = step["due_n"].as_u64().unwrap();
    assert!(sent < 40 * 20, "it did not run its minute: {sent} requests");
    assert!(caveats(&run).contains("was stopped because"), "{}", caveats(&run));
    assert!(run["goodput"]["reason"]["ended"]["stopped"]["errors"].is_object(), "{}", run["goodput"]);
}

#[test]
fn the_plan_may_put_up_with_more() {
    let run = sweep("status-500", 0.4, "max-error-share = 0.6", "rates = [40, 60]");
    assert_eq!(levels(&run), [(40.0, None), (60.0, None)]);
    let run = sweep("status-500", 0.03, "", "rates = [40, 60]");
    assert_eq!(levels(&run), [(40.0, None), (60.0, None)], "few are put up with by default");
}

/// The simulated server sends `Retry-After: 1` with its 429s.
#[test]
fn a_server_that_says_429_is_left_alone_for_as_long_as_it_asks() {
    let run = sweep("status-429", 0.5, "", "rates = [40, 20]");
    assert_eq!(levels(&run), [(40.0, Some("errors")), (20.0, Some("errors"))]);
    assert!(
        caveats(&run).contains("asked the client to wait 1 s (Retry-After): step 2 began"),
        "{}",
        caveats(&run)
    );
    let (first, second) = (&run["steps"][0], &run["steps"][1]);
    let pause = second["started_s"].as_f64().unwrap() - first["ended_s"].as_f64().unwrap();
    assert!((0.5..10.0).contains(&pause), "{pause} s");
    let run = sweep("status-500", 0.5, "", "rates = [40, 20]");
    assert!(!caveats(&run).contains("Retry-After"), "nobody asked");
}

/// From its hundredth request on, the server refuses all of them, even one at a time.
#[test]
fn a_limit_of_requests_is_none_of_the_servers_speed() {
    for (search, levels) in [
        ("rates = [20, 30, 10]", vec![20.0, 10.0]),
        ("rates = [2]\nbaseline = true", vec![1.0, 2.0]),
        ("max-rate = 500\nadaptive = { budget = \"60s\" }", vec![]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (code, run) = sweep_in(dir.path(), "status-429", 1.0, "", search);
        let reason = &run["goodput"]["reason"];
        assert_eq!((code, run["goodput"]["status"].as_str()), (3, Some("undecided")), "{search}: {reason}");
        assert!(reason["evidence"][0]["refused"].is_object(), "{search}: {reason}");
        let unloaded = |e: &serde_json::Value| !e["missed-unloaded"].is_null();
        assert!(!reason["evidence"].as_array().unwrap().iter().any(unloaded), "{search}: {reason}");
        assert!(reason["ended"]["stopped"]["unloaded"].is_null(), "{search}: {reason}");
        let measured: Vec<f64> = self::levels(&run).iter().map(|(level, _)| *level).collect();
        assert!(levels.is_empty() || measured == levels, "{search}: {measured:?}");
        assert!(measured.len() < 8, "{search}: not on and on: {measured:?}");
        let noted = caveats(&run);
        assert!(
            noted.contains("\"rate-limited\"") && noted.contains("(Retry-After): step"),
            "{search}: {noted}"
        );
        let report = fs::read_to_string(dir.path().join("run/report.md")).unwrap();
        assert!(report.contains("Undecided: the server refused"), "{search}: {report}");
    }
}

/// The deadline falls into the second of a `Retry-After`: the resumed sweep waits for the rest of it.
#[test]
fn what_is_left_of_the_wait_is_waited_for_by_a_sweep_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let rates = "rates = [40, 20]";
    let (_, whole) = sweep_in(dir.path(), "status-429", 0.5, "", rates);
    let ended = whole["steps"][0]["ended_s"].as_f64().unwrap();
    let begins = whole["steps"][1]["started_s"].as_f64().unwrap();
    assert!(begins > ended + 0.2, "{ended}, {begins}");
    let dir = tempfile::tempdir().unwrap();
    let deadline = (500.0 * (ended + begins)) as u64;
    let (_, run) =
        sweep_in(dir.path(), "status-429", 0.5, "", &format!("{rates}\ndeadline = \"{deadline}ms\""));
    assert_eq!(levels(&run).len(), 1, "it ended while it waited");
    let left = run["meta"]["left_alone"][""]["left_s"].as_f64().unwrap();
    assert!(left > 0.0 && left < begins - ended, "{left}");
    goodput()
        .args(["sweep", "--no-charts", "--resume"])
        .arg(dir.path().join("run"))
        .assert()
        .code(predicates::ord::ne(1));
    let run = result(&dir.path().join("run"));
    assert!(levels(&run).len() > 1, "it went on");
    assert!(caveats(&run).contains("(Retry-After): step 2 began after"), "{}", caveats(&run));
}

/// Steps of one to four requests, of which more than two thirds fail: rows are status and seeds.
#[test]
fn a_few_failures_end_no_list() {
    for status in ["status-503", "status-500"] {
        for seed in 1..=12 {
            let dir = tempfile::tempdir().unwrap();
            let (plan, run) = (dir.path().join("plan.toml"), dir.path().join("run"));
            let text = format!(
                "name = \"few\"\nseed = {seed}\n[server]\nwarmup-requests = 0\n[server.simulated]\npreset = \"fixed\"\nttft = \"20ms\"\n\
                 tpot = \"5ms\"\nfault = {{ {status} = 0.7 }}\nfault-after = 2\n[slo]\nttft.p99 = \"1s\"\n[workload.prompts.synthetic]\n\
                 input-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n[step]\nsettle = \"1s\"\nmeasure = \"2s\"\n\
                 max-error-share = 0.9\n[search]\nrates = [0.5, 1, 2]\n"
            );
            fs::write(&plan, text).unwrap();
            goodput()
                .args(["sweep", "--no-charts"])
                .arg(&plan)
                .args(["--virtual-time", "--out"])
                .arg(&run)
                .assert()
                .code(3);
            let run = result(&run);
            assert_eq!(levels(&run).len(), 3, "{status}, seed {seed}: {:?}", levels(&run));
            for step in run["steps"].as_array().unwrap() {
                let (due, verdict) = (step["due_n"].as_u64().unwrap(), step["verdict"].as_str().unwrap());
                assert!(due > 0 || verdict == "undecided", "{status}, seed {seed}: {step}");
            }
        }
    }
}

/// On a dead server, fifty failures end the sweep without the step at 10 req/s.
#[test]
fn a_dead_server_is_still_left_alone() {
    let run = sweep("status-500", 1.0, "", "rates = [40, 20, 10]");
    assert_eq!(levels(&run), [(40.0, Some("errors")), (20.0, Some("all-failed"))]);
}

/// A server that answers one after the other some twenty times a second is asked five times, here and on the engine by
/// itself, and each request still finds it empty.
#[test]
fn one_request_at_a_time_keeps_to_the_highest_rate() {
    for (search, step) in
        [("adaptive = { budget = \"60s\" }", 3.0), ("rates = [1, 5]\nbaseline = true", 60.0)]
    {
        let dir = tempfile::tempdir().unwrap();
        let (plan, run) = (dir.path().join("plan.toml"), dir.path().join("run"));
        let text = |most: &str| {
            format!(
                "name = \"paced\"\nseed = 1\n[server]\nwarmup-requests = 0\n[server.simulated]\npreset = \"fixed\"\nttft = \"20ms\"\n\
                 tpot = \"5ms\"\n[slo]\nttft.p99 = \"1s\"\n[workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\n\
                 output-tokens = {{ fixed = 6 }}\n[step]\nsettle = \"5s\"\nmeasure = \"60s\"\n[search]\n{search}\n{most}\n"
            )
        };
        fs::write(&plan, text("max-rate = 5")).unwrap();
        let command = goodput()
            .args(["sweep", "--no-charts"])
            .arg(&plan)
            .args(["--virtual-time", "--out"])
            .arg(&run)
            .assert();
        command.code(predicates::ord::ne(1));
        let first = &result(&run)["steps"][0];
        assert_eq!(first["kind"], "baseline", "{search}");
        let (due, ttft) = (first["due_n"].as_f64().unwrap(), first["ttft_ms"]["p50"].as_f64().unwrap());
        assert!((5.0 * step - 1.0..=5.0 * step + 1.0).contains(&due), "{search}: {due} in {step} s");
        assert!((19.0..22.0).contains(&ttft), "{search}: {ttft} ms, as of one alone");
        assert_eq!(first["in_flight_max"], 1, "{search}");
        let of_engine = |most: &str| {
            let plan = Plan::from_text(&text(most)).unwrap();
            let Next::Measure(ask) = plan.searcher().unwrap().next("main", &[]) else { panic!("a step") };
            Bare::new(&plan).unwrap().measure(ask).unwrap().due_n as f64
        };
        assert!((of_engine("max-rate = 5") - due).abs() <= 1.0, "{search}: {}", of_engine("max-rate = 5"));
        assert!(of_engine("max-rate = 500") > 3.0 * due, "{search}: nothing holds it");
    }
}
