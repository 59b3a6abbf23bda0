//! `vllm bench serve`: TTFT runs from the send to the first chunk with choices; percentiles by numpy.

use super::requests::Request;
use super::statistics::Values;
use super::{Data, Figure};
use goodput_core::slo::Metric;

pub(super) const DIFFERENCES: &[&str] = &[
    "TTFT: vLLM counts from the sending to the first chunk with choices, which in a chat may be the role without a token (our first_event); \
     ours from when the request was due to the first event with a token.",
    "TPOT: vLLM divides by output tokens − 1; ours by output tokens less those of the first event (1 where they are not known).",
    "ITL: vLLM has an entry for each chunk; ours is between events with tokens.",
    "E2EL: vLLM counts from the sending to the last chunk with choices; ours from due to the last token.",
    "Percentiles: numpy's linear interpolation over the answers that came; ours are order statistics, and a limit counts failures as misses.",
    "Which requests: vLLM has no settling and no tail, so all that it sent; here those of the measured window.",
    "Rates: vLLM divides by the time from the start to the last end; ours counts what was completed within the window.",
    "request_goodput: requests within every limit together by the second, failures left out of it, whatever their share; TPOT is 0 for one token.",
];
pub(super) const UNTOLD: &[&str] = &[
    "max_output_tokens_per_s and max_concurrent_requests, which take the time of every token",
    "client_queue_time",
];

fn ttft(r: &Request) -> Option<f64> {
    r.since_sent(r.first_event.or(r.first_token))
}

fn e2el(r: &Request) -> Option<f64> {
    r.since_sent(r.last_token)
}

fn tpot(r: &Request) -> Option<f64> {
    let after = r.tokens()? - 1.0;
    (after > 0.0).then(|| Some((e2el(r)? - ttft(r)?) / after))?
}

pub(super) fn figures(d: &Data<'_>) -> Vec<Figure> {
    let sum = |of: fn(&Request) -> Option<u32>| d.answered().filter_map(of).map(f64::from).sum::<f64>();
    let (input, output) = (sum(|r| r.input), sum(|r| r.output));
    let completed = d.answered().count() as f64;
    let s = d.step;
    let good = d.answered().filter(|r| {
        // The tool counts an answer of one token with a TPOT of zero.
        let tpot = tpot(r).or((r.output == Some(1)).then_some(0.0));
        d.keeps(Metric::Ttft, ttft(r)) && d.keeps(Metric::Tpot, tpot) && d.keeps(Metric::E2e, e2el(r))
    });
    let good = d.per_s(good.count() as f64).filter(|_| d.limits(&[Metric::Ttft, Metric::Tpot, Metric::E2e]));
    let mut found = vec![
        d.figure("duration", "s", Some(d.seconds()), Some(("measure_s", Some(s.measure_s)))),
        d.figure("completed", "", Some(completed), Some(("completed", Some(s.completed as f64)))),
        d.figure("failed", "", Some(d.failed() as f64), Some(("failed", Some(s.failed as f64)))),
        d.figure(
            "request_throughput",
            "req/s",
            d.per_s(completed),
            Some(("achieved_rate", Some(s.achieved_rate))),
        ),
        d.figure("request_goodput", "req/s", good, Some(("good_rate", Some(s.good_rate)))),
        d.figure(
            "output_throughput",
            "tok/s",
            d.per_s(output),
            Some(("output_tokens_per_s", Some(s.output_tokens_per_s))),
        ),
        d.figure("total_token_throughput", "tok/s", d.per_s(input + output), None),
    ];
    let of = |value: fn(&Request) -> Option<f64>| Values::linear(d.answered().filter_map(value));
    for (name, metric, values) in [
        ("ttft", Metric::Ttft, of(ttft)),
        ("tpot", Metric::Tpot, of(tpot)),
        ("itl", Metric::Itl, Values::Pooled(d.gaps.clone())),
        ("e2el", Metric::E2e, of(e2el)),
    ] {
        let q = s.quantiles(metric);
        let ours = |p: &'static str, value| Some((p, value));
        for (statistic, value, ours) in [
            ("mean", values.mean(), None),
            ("median", values.percentile(0.5), ours("p50", q.p50)),
            ("std", values.deviation(), None),
            ("p90", values.percentile(0.9), ours("p90", q.p90)),
            ("p95", values.percentile(0.95), ours("p95", q.p95)),
            ("p99", values.percentile(0.99), ours("p99", q.p99)),
        ] {
            let figure = d.figure(&format!("{statistic}_{name}_ms"), "ms", value, ours);
            found.push(Figure { approximate: metric == Metric::Itl, ..figure });
        }
    }
    found
}
