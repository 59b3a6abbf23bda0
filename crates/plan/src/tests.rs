//! Tests of parsing, validation and defaults of plans.

use super::*;
use std::time::Duration;

const EXAMPLE: &str = include_str!("../../../tests/fixtures/plans/design.toml");

fn changed(from: &str, to: &str) -> Result<Plan, String> {
    assert!(EXAMPLE.contains(from), "{from}");
    Plan::parse(&EXAMPLE.replacen(from, to, 1)).map_err(|e| e.to_string())
}

#[test]
fn an_example_parses_and_reads_back() {
    let plan = Plan::parse(EXAMPLE).unwrap();
    let again = Plan::parse(&plan.to_toml().unwrap()).unwrap();
    assert_eq!(plan, again);
    assert_eq!(plan.hardware.gpu.as_deref(), Some("A40"));
}

/// Cases: an edit of the example, and a part of the error message, which also names the line.
#[test]
fn errors_name_the_line() {
    for (from, to, message) in [
        ("seed = 1", "sede = 1", "unknown field `sede`"),
        ("ttft.p99 = \"200ms\"", "ttft.p199 = \"200ms\"", "a percentile is written"),
        ("profile = \"chat\"", "profile = \"chatty\"", "the profiles are batch, chat"),
        ("adaptive = {", "rates = []\n# {", "the list is empty"),
        ("adaptive = {", "rates = [-1]\n# {", "a rate must be positive"),
        ("adaptive = {", "rates = [1]\nconcurrency = [1]\n# {", "only one of"),
        ("url = ", "urls = [\"http://127.0.0.1:1\"]\nurl = ", "only one of"),
        ("settle = \"10s\"", "settle = \"ten\"", "settle = \"ten\""),
        ("{ fixed = 30 }", "{ fixed = 0 }", "at least 1 token"),
        ("error-rate = 0.01", "error-rate = 1.5", "between 0 and 1"),
        ("cache = \"cold\"", "cache = \"cool\"", "unknown variant"),
        ("[search]", "[client]\nmax-lateness = 5\n[search]", "between 0 and 1"),
        ("[search]", "[client]\nthreads = 0\n[search]", "nonzero"),
        ("[search]", "[client]\nmax-late = 0.1\n[search]", "unknown field `max-late`"),
    ] {
        let e = changed(from, to).unwrap_err();
        assert!(e.contains(message), "{to}: {e}");
        assert!(e.contains("line "), "{to}: {e}");
    }
}

#[test]
fn client_limits_come_from_the_plan() {
    let plan = changed("[search]", "[client]\nmax-lateness = 0.1\nmax-starved = 0.3\nthreads = 4\n[search]")
        .unwrap();
    let want = ClientTolerance { lateness: 0.1, starved: 0.3, ..ClientTolerance::default() };
    assert_eq!((plan.allowed(), plan.client.threads.map(std::num::NonZeroU32::get)), (want, Some(4)));
    assert_eq!(Plan::parse(EXAMPLE).unwrap().allowed(), ClientTolerance::default(), "the defaults agree");
}

#[test]
fn the_default_error_share_is_above_the_error_rate_of_the_slo() {
    let plan = |slo: &str, step: &str| {
        Plan::from_text(&format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"1s\"\n{slo}\n{step}\n[workload.prompts.synthetic]\n\
             input-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 9 }}\n"
        ))
    };
    for (slo, step, share) in [
        ("", "", Some(0.1)),
        ("slo.error-rate = 0.01", "", Some(0.1)),
        ("slo.error-rate = 0.2", "", Some(0.4)),
        ("slo.error-rate = 0.9", "", Some(1.0)),
        ("slo.error-rate = 0.2", "step.max-error-share = 0.3", Some(0.3)),
        ("", "step.max-error-share = 0", Some(0.0)),
        ("slo.error-rate = 0.2", "step.max-error-share = 0.1", None),
    ] {
        let got = plan(slo, step).map(|p| p.step.max_error_share.unwrap().get());
        match share {
            Some(share) => assert!((got.unwrap() - share).abs() < 1e-12, "{slo} {step}"),
            None => assert!(format!("{:#}", got.unwrap_err()).contains("max-error-share"), "{slo} {step}"),
        }
    }
}

#[test]
fn a_timeout_below_a_limit_is_refused() {
    let plan = changed("drain = \"30s\"", "drain = \"30s\"\ntimeout = \"5s\"").unwrap();
    assert!(plan.resolve().unwrap_err().contains("timeout"));
}

#[test]
fn the_timeout_follows_the_slo() {
    let toml = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"10s\"\nslo.tpot.p99 = \"1s\"\n\
                search.rates = [1]\n\
                workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 100 }";
    let plan = Plan::parse(toml).unwrap().resolve().unwrap();
    assert_eq!(plan.timeout(), Duration::from_secs(220), "2 × (10 s + 100 × 1 s)");
}

#[test]
fn names_with_control_characters_are_refused() {
    for name in ["a\u{1b}[31m", "a\nb", "a\u{9b}", "tab\t"] {
        let text = format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n\
             workload.prompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 3 }}\n\
             [[check]]\nname = {}\nnon-empty = true\n",
            serde_json::to_string(name).unwrap()
        );
        let error = Plan::from_text(&text).unwrap_err().to_string();
        assert!(
            error.contains("[[check]] name = ") && error.contains("without control characters"),
            "{error}"
        );
    }
}
