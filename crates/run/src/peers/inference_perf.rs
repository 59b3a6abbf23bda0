//! inference-perf: times in seconds; output tokens are counted by its own tokenizer by default.

use super::requests::Request;
use super::statistics::Values;
use super::{Data, Figure};
use goodput_core::slo::Metric;

pub(super) const DIFFERENCES: &[&str] = &[
    "time_to_first_token: from the sending to the first token that is not empty; ours from when the request was due.",
    "time_per_output_token: (last token − first) / (output tokens − 1); ours divides by output tokens less those of the first event.",
    "normalized_time_per_output_token: from the sending to the end over all output tokens; we have none of that kind.",
    "Output tokens: its own tokenizer counts the text, unless use_server_output_tokens is set; ours are the server's.",
    "Percentiles: numpy's linear interpolation over the answers that came; ours are order statistics.",
    "Which requests: all of a stage; here those of the measured window.",
    "Rates: over the time from the first sending to the last end; ours counts what was completed within the window.",
    "request_goodput: requests within every limit together by the second; goodput_percentage is their share of those that succeeded, failures left out.",
];
pub(super) const UNTOLD: &[&str] = &[
    "inter_token_latency: it gives each token by its tokenizer a time, those of one event the same, so that many gaps are zero",
    "schedule_delay, which for an imported run is known of the stage alone",
];

fn ttft(r: &Request) -> Option<f64> {
    r.since_sent(r.first_token)
}

fn latency(r: &Request) -> Option<f64> {
    r.since_sent(Some(r.end))
}

fn tpot(r: &Request) -> Option<f64> {
    let after = r.tokens()? - 1.0;
    (after > 0.0).then(|| Some((r.last_token? - r.first_token?) / after))?
}

fn normalized(r: &Request) -> Option<f64> {
    Some(latency(r)? / r.tokens()?)
}

pub(super) fn figures(d: &Data<'_>) -> Vec<Figure> {
    let count = d.answered().count() as f64;
    let output: f64 = d.answered().filter_map(|r| r.output).map(f64::from).sum();
    let limited = d.limits(&[Metric::Ttft, Metric::Tpot, Metric::E2e]);
    let good = d.answered().filter(|r| {
        d.keeps(Metric::Ttft, ttft(r)) && d.keeps(Metric::Tpot, tpot(r)) && d.keeps(Metric::E2e, latency(r))
    });
    let good = good.count() as f64;
    let s = d.step;
    let mut found = vec![
        d.figure("benchmark_time_seconds", "s", Some(d.seconds()), Some(("measure_s", Some(s.measure_s)))),
        d.figure("successes.count", "", Some(count), Some(("completed", Some(s.completed as f64)))),
        d.figure("failures.count", "", Some(d.failed() as f64), Some(("failed", Some(s.failed as f64)))),
        d.figure("requests_per_sec", "req/s", d.per_s(count), Some(("achieved_rate", Some(s.achieved_rate)))),
        d.figure(
            "output_tokens_per_sec",
            "tok/s",
            d.per_s(output),
            Some(("output_tokens_per_s", Some(s.output_tokens_per_s))),
        ),
        d.figure(
            "request_goodput",
            "req/s",
            d.per_s(good).filter(|_| limited),
            Some(("good_rate", Some(s.good_rate))),
        ),
        d.figure(
            "goodput_percentage",
            "%",
            (limited && count > 0.0).then(|| 100.0 * good / count),
            Some(("joint_attainment", s.joint_attainment.map(|a| 100.0 * a))),
        ),
    ];
    let of = |value: fn(&Request) -> Option<f64>| {
        Values::linear(d.answered().filter_map(value).map(|ms| ms / 1e3))
    };
    for (name, metric, values) in [
        ("time_to_first_token", Some(Metric::Ttft), of(ttft)),
        ("time_per_output_token", Some(Metric::Tpot), of(tpot)),
        ("normalized_time_per_output_token", None, of(normalized)),
        ("request_latency", Some(Metric::E2e), of(latency)),
    ] {
        let q = metric.map(|m| s.quantiles(m));
        let ours = |p: &'static str, of: fn(&goodput_stats::stats::step::Quantiles) -> Option<f64>| {
            q.as_ref().map(|q| (p, of(q).map(|ms| ms / 1e3)))
        };
        for (statistic, value, ours) in [
            ("mean", values.mean(), None),
            ("median", values.percentile(0.5), ours("p50", |q| q.p50)),
            ("p90", values.percentile(0.9), ours("p90", |q| q.p90)),
            ("p95", values.percentile(0.95), ours("p95", |q| q.p95)),
            ("p99", values.percentile(0.99), ours("p99", |q| q.p99)),
        ] {
            found.push(d.figure(&format!("{name}.{statistic}"), "s", value, ours));
        }
    }
    found
}
