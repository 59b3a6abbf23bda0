//! AIPerf: its inter-token latency is our TPOT; gaps are its inter-chunk latency.

use super::requests::Request;
use super::statistics::Values;
use super::{Data, Figure};
use goodput_core::slo::Metric;

pub(super) const DIFFERENCES: &[&str] = &[
    "time_to_first_token: from the sending to the first response with content, reasoning included; ours from when the request was due.",
    "inter_token_latency: (request latency − TTFT) / (output tokens − those of the first chunk, 1 where not known) of each request, which is our TPOT.",
    "inter_chunk_latency: each gap between chunks, which is our ITL.",
    "request_latency: from the sending to the last response; our e2e from due to the last token.",
    "Percentiles: numpy's linear interpolation over the answers that came (of very many chunks an estimate); ours are order statistics.",
    "Which requests: those of the profiled phase, warm-up left out; here those of the measured window.",
    "Rates: over the time of the phase, about from the first sending to the last end; ours counts what was completed within the window.",
    "goodput: requests within every limit together by the second; a request that lacks a metric is not good, and neither is one that failed.",
];
pub(super) const UNTOLD: &[&str] = &[
    "time_to_second_token, which takes the time of every event",
    "the times of HTTP (DNS, connecting, sending), and tokens in flight",
];

fn ttft(r: &Request) -> Option<f64> {
    r.since_sent(r.first_token)
}

fn latency(r: &Request) -> Option<f64> {
    r.since_sent(r.last_token)
}

fn itl(r: &Request) -> Option<f64> {
    let after = r.tokens()? - f64::from(r.first_event_tokens.unwrap_or(1));
    (after > 0.0).then(|| Some((latency(r)? - ttft(r)?) / after))?
}

/// Returns the time from the first send to the last end, in seconds; rates use the phase instead, which is a little
/// longer.
fn duration(d: &Data<'_>) -> Option<f64> {
    let first = d.requests.iter().filter_map(|r| r.sent).fold(f64::INFINITY, f64::min);
    let last = d.requests.iter().map(|r| r.end).fold(f64::NEG_INFINITY, f64::max);
    Some((last - first) / 1e3).filter(|s| s.is_finite())
}

pub(super) fn figures(d: &Data<'_>) -> Vec<Figure> {
    let output: f64 = d.answered().filter_map(|r| r.output).map(f64::from).sum();
    let count = d.answered().count() as f64;
    let good = d.answered().filter(|r| {
        d.keeps(Metric::Ttft, ttft(r)) && d.keeps(Metric::Tpot, itl(r)) && d.keeps(Metric::E2e, latency(r))
    });
    let good = d.per_s(good.count() as f64).filter(|_| d.limits(&[Metric::Ttft, Metric::Tpot, Metric::E2e]));
    let s = d.step;
    let mut found = vec![
        d.figure("request_count.avg", "", Some(count), Some(("completed", Some(s.completed as f64)))),
        d.figure(
            "error_request_count.avg",
            "",
            Some(d.failed() as f64),
            Some(("failed", Some(s.failed as f64))),
        ),
        d.figure("benchmark_duration.avg", "s", duration(d), Some(("measure_s", Some(s.measure_s)))),
        d.figure(
            "request_throughput.avg",
            "req/s",
            d.per_s(count),
            Some(("achieved_rate", Some(s.achieved_rate))),
        ),
        d.figure(
            "output_token_throughput.avg",
            "tok/s",
            d.per_s(output),
            Some(("output_tokens_per_s", Some(s.output_tokens_per_s))),
        ),
        d.figure("goodput.avg", "req/s", good, Some(("good_rate", Some(s.good_rate)))),
    ];
    let of = |value: fn(&Request) -> Option<f64>| Values::linear(d.answered().filter_map(value));
    let tokens = |of: fn(&Request) -> Option<u32>| Values::linear(d.answered().filter_map(of).map(f64::from));
    for (name, unit, metric, values) in [
        ("time_to_first_token", "ms", Some(Metric::Ttft), of(ttft)),
        ("inter_token_latency", "ms", Some(Metric::Tpot), of(itl)),
        ("inter_chunk_latency", "ms", Some(Metric::Itl), Values::Pooled(d.gaps.clone())),
        ("request_latency", "ms", Some(Metric::E2e), of(latency)),
        ("input_sequence_length", "tok", None, tokens(|r| r.input)),
        ("output_sequence_length", "tok", None, tokens(|r| r.output)),
    ] {
        let q = metric.map(|m| s.quantiles(m));
        let ours = |p: &'static str, of: fn(&goodput_stats::stats::step::Quantiles) -> Option<f64>| {
            q.as_ref().map(|q| (p, of(q)))
        };
        for (statistic, value, ours) in [
            ("avg", values.mean(), None),
            ("std", values.deviation(), None),
            ("p50", values.percentile(0.5), ours("p50", |q| q.p50)),
            ("p90", values.percentile(0.9), ours("p90", |q| q.p90)),
            ("p95", values.percentile(0.95), ours("p95", |q| q.p95)),
            ("p99", values.percentile(0.99), ours("p99", |q| q.p99)),
        ] {
            let figure = d.figure(&format!("{name}.{statistic}"), unit, value, ours);
            found.push(Figure { approximate: metric == Some(Metric::Itl), ..figure });
        }
    }
    found
}
