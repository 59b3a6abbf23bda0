//! Tests that Prometheus can read the page, and that it has every metric of the dashboard.

use super::*;
use goodput_core::record::{Failure, Outcome};
use goodput_plan::Plan;
use goodput_stats::search::answer::{AnswerLevel, Conclusion, Located};
use goodput_stats::server::prometheus::samples;
use std::collections::BTreeSet;

const PLAN: &str = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"170ms\"\nslo.tpot.p90 = \"45ms\"\nsearch.rates = [4]\n\
                    workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 3 }";

fn record(ttft_ms: u64, outcome: Outcome) -> Record {
    let ms = Duration::from_millis;
    let mut record = Record::due(0, Phase::Measure, ms(1000));
    record.sent = Some(ms(1000));
    record.outcome = outcome;
    record.end = ms(1000 + ttft_ms + 40);
    if outcome == Outcome::Ok {
        record.first_token = Some(ms(1000 + ttft_ms));
        record.last_token = Some(record.end);
        (record.input_tokens, record.output_tokens) = (Some(5), Some(3));
    } else {
        record.failure = Some(Failure::RateLimited);
    }
    record
}

/// A sweep in the middle of its second step.
fn shown() -> (Live, Page) {
    let plan = Plan::from_text(PLAN).unwrap();
    let (live, page) = Live::new(plan.slo.as_slice(), vec![("name", "a \"quoted\" name".into())]);
    live.begin("main", 1, Level::rate(4.0), Some(4.0));
    for (ttft, outcome) in [(100, Outcome::Ok), (170, Outcome::Ok), (171, Outcome::Ok), (0, Outcome::Failed)]
    {
        live.add("main", "all", &record(ttft, outcome));
    }
    live.add("main", "all", &Record { phase: Phase::Warmup, ..record(5, Outcome::Ok) });
    let run = goodput_run::fixture::found();
    live.end(&run.steps[0]);
    live.answers(&run);
    live.begin("main", 2, Level::rate(8.0), Some(8.0));
    live.in_flight(3);
    (live, page)
}

/// Returns the sum of a metric over its labels; `None` if the page does not have it.
fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text).filter(|s| s.name == name).map(|s| s.value).reduce(|a, b| a + b)
}

fn value(page: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let found = samples(page).find(|s| s.name == name && labels.iter().all(|l| s.labels.contains(l)));
    found.map(|s| s.value)
}

#[test]
fn the_page_says_what_happened() {
    let (_live, page) = shown();
    let page = page.text();
    for (name, labels, want) in [
        ("goodput_requests_total", &["outcome=\"ok\"", "class=\"all\""][..], 3.0),
        ("goodput_requests_total", &["failure=\"rate-limited\""], 1.0),
        ("goodput_output_tokens_total", &["series=\"main\""], 9.0),
        ("goodput_ttft_seconds_count", &[], 3.0),
        ("goodput_ttft_seconds_bucket", &["le=\"0.17\""], 2.0),
        ("goodput_tpot_seconds_bucket", &["le=\"0.045\""], 3.0),
        ("goodput_in_flight", &[], 3.0),
        ("goodput_step", &[], 2.0),
        ("goodput_level", &["control=\"rate\""], 8.0),
        ("goodput_offered_requests_per_second", &[], 8.0),
        ("goodput_slo_limit_seconds", &["metric=\"ttft\"", "percentile=\"p99\""], 0.17),
    ] {
        assert_eq!(value(&page, name, labels), Some(want), "{name} {labels:?}\n{page}");
    }
    assert_eq!(sum(&page, "goodput_steps_total"), Some(1.0), "one verdict of one step");
    assert!(page.contains(r#"name="a \"quoted\" name""#) && page.ends_with("# EOF\n"), "{page}");
}

#[test]
fn an_answer_that_is_in_doubt_again_is_taken_away() {
    let (live, page) = shown();
    let mut run = goodput_run::fixture::found();
    run.answers[0].goodput.conclusion = Conclusion::Found(Located::Bracket(AnswerLevel::new(5.0)));
    live.answers(&run);
    assert_eq!(value(&page.text(), "goodput_answer", &["figure=\"rate\""]), Some(5.0));
    run.answers[0].goodput.conclusion = Conclusion::OPEN;
    live.answers(&run);
    assert_eq!(value(&page.text(), "goodput_answer", &["figure=\"rate\""]), None);
}

/// Returns the names of the metrics in an expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expression.split(move |c| !word(c)).filter(|w| w.starts_with("goodput_"))
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let (_live, page) = shown();
    let page = page.text();
    let there: BTreeSet<&str> = samples(&page).map(|s| s.name).collect();
    let text = include_str!("../../../../assets/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            for name in names(target["expr"].as_str().unwrap()) {
                assert!(there.contains(name), "{name} of {} is not on the page:\n{page}", panel["title"]);
                asked += 1;
            }
        }
    }
    assert!(asked > 15, "{asked}");
    let query = dashboard["templating"]["list"][1]["query"]["query"].as_str().unwrap();
    assert!(names(query).all(|n| there.contains(n)), "{query}");
}

/// A reader sees all changes at the start or the end of a step, or none.
#[test]
fn a_step_and_its_level_are_shown_together() {
    let (live, page) = shown();
    let run = goodput_run::fixture::found();
    live.end(&run.steps[0]);
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over() {
                live.begin("main", 2, Level::rate(8.0), Some(8.0));
                live.end(&run.steps[0]);
            }
        });
        let torn = (0..500).map(|_| page.text()).find(|text| {
            let [step, level] = ["goodput_step", "goodput_level"].map(|name| value(text, name, &[]).unwrap());
            (step > 0.0) != (level > 0.0)
        });
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(torn, None);
    });
}
