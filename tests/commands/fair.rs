//! Verdicts that are fair: to a server whose answers take longer than we wait, and not to one that hides its work or never gets to the point.

use crate::common::{goodput, result, simulate};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

fn plan(simulated: &str, slo: &str, more: &str, output: u32) -> String {
    format!(
        "name = \"fair\"\n{slo}\n{more}\n[server]\nsimulated = {{ {simulated} }}\nwarmup-requests = 0\n\
         [workload.prompts.synthetic]\ninput-tokens.fixed = 20\noutput-tokens.fixed = {output}\n"
    )
}

/// Caveats of the result, by kind.
fn caveat<'a>(result: &'a Value, kind: &str) -> Option<&'a Value> {
    result["caveats"].as_array()?.iter().find_map(|c| c["caveat"].get(kind))
}

fn count(step: &Value, column: &str) -> u64 {
    step[column].as_u64().unwrap()
}

/// Rows: more of the plan, the step's verdict and what binds, and whether requests that our timeout ends have failed. The first token comes
/// after some 60 ms, the last after 72 s; the timeout is 60 s, by the plan or by default.
#[test]
fn a_first_token_in_time_is_met_however_long_the_answer() {
    let times = "step.settle = \"70s\"\nstep.measure = \"150s\"\nsearch.rates = [5]";
    for (more, verdict, binding, failed) in [
        ("", "meets", "ttft.p90", false),
        ("slo.error-rate = 0.05", "undecided", "error-rate", false),
        ("step.timeout = \"60s\"", "meets", "ttft.p90", true),
        ("step.timeout = \"60s\"\nslo.error-rate = 0.05", "fails", "error-rate", true),
    ] {
        let dir = tempdir().unwrap();
        let simulated = "preset = \"md1\", service = \"50ms\", decode = \"8s\"";
        let plan = plan(simulated, "slo.ttft.p90 = \"200ms\"", &format!("{times}\n{more}"), 10);
        let run = simulate(dir.path(), &plan).0;
        let result = result(&run);
        let step = &result["steps"][0];
        let got = (step["verdict"].as_str().unwrap(), step["binding"].as_str().unwrap());
        assert_eq!((got, step["abort"].as_str()), ((verdict, binding), None), "{more}: {step}");
        let due = count(step, "due_n");
        let (own, other) = if failed { ("failed", "cut") } else { ("cut", "failed") };
        assert_eq!((count(step, own), count(step, other), count(step, "completed")), (due, 0, 0), "{more}");
        assert_eq!(count(step, &format!("{own}_timeout")), due, "{more}");
        assert_eq!(
            (&step["achieved_rate"], &step["good_rate"]),
            (&0.0.into(), &0.0.into()),
            "not one was completed"
        );
        let told = caveat(&result, "timed-out").unwrap();
        assert_eq!((told["is_error"].as_bool(), told["after_s"].as_f64()), (Some(failed), Some(60.0)));
        let failures = fs::read_to_string(run.join("failures.csv")).unwrap();
        assert!(failures.lines().any(|row| row.contains(",timeout,200,")), "{more}: {failures}");
    }
}

/// Cases: an SLO, further keys, and the timeout that `check` shows for answers of 1,000 tokens.
#[test]
fn check_shows_the_timeout_and_its_basis() {
    for (slo, more, says) in [
        (
            "slo.ttft.p99 = \"1s\"",
            "",
            "timeout   3m 22s per request: twice 1000 output tokens at 100ms each, since no limit bounds them; a request that takes longer is cancelled",
        ),
        (
            "slo.e2e.p99 = \"50s\"",
            "",
            "timeout   1m 40s per request: twice the longest answer that meets the SLO",
        ),
        ("slo.e2e.p99 = \"5s\"", "", "timeout   1m per request: the shortest default"),
        (
            "slo.e2e.p99 = \"5s\"",
            "step.timeout = \"20s\"",
            "timeout   20s per request (step.timeout); a request that takes longer is an error",
        ),
    ] {
        let dir = tempdir().unwrap();
        let plan = plan("preset = \"fixed\"", slo, &format!("search.rates = [1]\n{more}"), 1000);
        let path = dir.path().join("plan.toml");
        fs::write(&path, plan).unwrap();
        goodput().arg("check").arg(&path).assert().success().stdout(contains(says));
    }
}

/// Ninety of a hundred tokens are never sent: at 10 ms each the others are no faster for it, and TPOT fails its limit of 5 ms.
#[test]
fn hidden_reasoning_makes_no_token_faster() {
    let times = "step.settle = \"2s\"\nstep.measure = \"20s\"\nsearch.rates = [5]";
    for counted in [true, false] {
        let dir = tempdir().unwrap();
        let simulated = format!(
            "preset = \"fixed\", ttft = \"20ms\", tpot = \"10ms\", reasoning = {{ share = 0.9, hidden = true, counted = {counted} }}"
        );
        let plan = plan(&simulated, "slo.tpot.p90 = \"5ms\"", times, 100);
        let run = simulate(dir.path(), &plan).0;
        let result = result(&run);
        let step = &result["steps"][0];
        let ms = |metric: &str| step[metric]["p50"].as_f64().unwrap();
        assert!(
            (ms("ttft_ms") - 920.0).abs() < 2.0,
            "the first token that is sent is the ninety-first: {step}"
        );
        assert!(
            (step["output_tokens_mean"].as_f64().unwrap() - 100.0).abs() < 1e-9,
            "what was not sent is counted"
        );
        let hidden = caveat(&result, "hidden-reasoning");
        if !counted {
            // The usage says a hundred, and nothing of reasoning: nobody can know, and the caveat of the docs holds.
            assert!(ms("tpot_ms") < 1.0 && hidden.is_none(), "{step}");
            continue;
        }
        assert!((ms("tpot_ms") - 10.0).abs() < 0.5, "{step}");
        assert_eq!((step["verdict"].as_str(), step["binding"].as_str()), (Some("fails"), Some("tpot.p90")));
        assert!((hidden.unwrap()["share"].as_f64().unwrap() - 0.9).abs() < 1e-9, "{hidden:?}");
        let report = fs::read_to_string(run.join("report.md")).unwrap();
        assert!(report.contains("reasoning that it never sent, 90 % of their output tokens"), "{report}");
    }
}

#[test]
fn answers_that_never_reach_content_miss_ttfc() {
    let times = "step.settle = \"2s\"\nstep.measure = \"20s\"\nsearch.rates = [5]";
    for (share, verdict) in [("0.5", "meets"), ("1", "fails")] {
        let dir = tempdir().unwrap();
        let simulated =
            format!("preset = \"fixed\", ttft = \"20ms\", tpot = \"1ms\", reasoning = {{ share = {share} }}");
        let plan = plan(&simulated, "slo.ttfc.p50 = \"5s\"", times, 20);
        let result = result(&simulate(dir.path(), &plan).0);
        let step = &result["steps"][0];
        assert_eq!(step["verdict"].as_str(), Some(verdict), "{step}");
        assert_eq!(caveat(&result, "no-content").is_some(), verdict == "fails", "{share}");
    }
}
