//! GuideLLM: TPOT includes the first token, ITL is a mean per request, and both are weighted by tokens.

use super::requests::Request;
use super::statistics::Values;
use super::{Data, Figure};
use goodput_core::slo::Metric;

pub(super) const DIFFERENCES: &[&str] = &[
    "time_to_first_token_ms: from the sending to the first token, reasoning included; ours from when the request was due.",
    "time_per_output_token_ms: from the sending to the last token over all output tokens, so the wait for the first is in it; ours begins with \
     the first. Requests weigh by their tokens.",
    "inter_token_latency_ms: (last token − first) / (output tokens − 1) of each request, which is our TPOT; ours is each gap between events.",
    "request_latency: from the sending to the end of the request, in seconds; our e2e from due to the last token.",
    "Percentiles: the least value whose share reaches the percentile, by weight; ours are order statistics ⌈p·n⌉ of requests.",
    "Which requests: those that succeeded; failures count against slo_attainment, what was cut off does not; ours judges the latter both ways.",
    "Rates: what ended, or was made, within the window; a token is taken to come at an even pace between the first and the last.",
    "request_goodput and slo_attainment: one limit on each of TTFT, TPOT (its own) and e2e; all of them must hold for a request.",
];
pub(super) const UNTOLD: &[&str] = &[
    "the queueing, dispatch and processing delays of its own scheduler",
    "figures by iteration (iter_tokens_per_iteration), which take every event",
];

fn ttft(r: &Request) -> Option<f64> {
    r.since_sent(r.first_token)
}

fn tpot(r: &Request) -> Option<f64> {
    Some(r.since_sent(r.last_token)? / r.tokens()?)
}

fn itl(r: &Request) -> Option<f64> {
    let after = r.tokens()? - 1.0;
    (after > 0.0).then(|| Some((r.last_token? - r.first_token?) / after))?
}

fn latency(r: &Request) -> Option<f64> {
    r.since_sent(Some(r.end))
}

/// Returns the number of tokens of a request in a window, assuming an even pace between the first and the last.
fn tokens_within(r: &Request, [from, to]: [f64; 2]) -> f64 {
    let (Some(first), Some(last), Some(n)) = (r.first_token, r.last_token, r.output) else { return 0.0 };
    let pace = if n > 1 { (last - first) / f64::from(n - 1) } else { 0.0 };
    let within = |i: u32| (from..=to).contains(&(first + pace * f64::from(i)));
    (0..n).filter(|i| within(*i)).count() as f64
}

/// Returns true if every limit can be checked for a request; others are left out of the attainment.
fn evaluable(d: &Data<'_>, r: &Request) -> bool {
    let known = [(Metric::Ttft, ttft(r)), (Metric::Tpot, tpot(r)), (Metric::E2e, latency(r))];
    known.into_iter().all(|(metric, value)| d.limit(metric).is_none() || value.is_some())
}

pub(super) fn figures(d: &Data<'_>) -> Vec<Figure> {
    let [from, to] = d.window;
    let within = |r: &&Request| (from..=to).contains(&r.end);
    let good = |r: &&Request| {
        d.keeps(Metric::Ttft, ttft(r)) && d.keeps(Metric::Tpot, tpot(r)) && d.keeps(Metric::E2e, latency(r))
    };
    let limited = d.limits(&[Metric::Ttft, Metric::Tpot, Metric::E2e]);
    let (ok, failed) = (d.answered().count(), d.failed());
    let told = d.answered().filter(|r| evaluable(d, r)).count() + failed;
    let attained = d.answered().filter(good).count() as f64 / told.max(1) as f64;
    let in_flight: f64 =
        d.answered().filter_map(|r| Some((r.end.min(to) - r.sent?.max(from)).max(0.0))).sum();
    let cut = d.requests.len() - ok - failed;
    let s = d.step;
    let mut found = vec![
        d.figure(
            "request_totals.successful",
            "",
            Some(ok as f64),
            Some(("completed", Some(s.completed as f64))),
        ),
        d.figure("request_totals.errored", "", Some(failed as f64), Some(("failed", Some(s.failed as f64)))),
        d.figure("request_totals.incomplete", "", Some(cut as f64), Some(("cut", Some(s.cut as f64)))),
        d.figure(
            "requests_per_second.mean",
            "req/s",
            d.per_s(d.answered().filter(within).count() as f64),
            Some(("achieved_rate", Some(s.achieved_rate))),
        ),
        d.figure(
            "request_concurrency.mean",
            "",
            (to > from).then(|| in_flight / (to - from)),
            Some(("in_flight_mean", Some(s.in_flight_mean))),
        ),
        d.figure(
            "output_tokens_per_second.mean",
            "tok/s",
            d.per_s(d.answered().map(|r| tokens_within(r, d.window)).sum()),
            Some(("output_tokens_per_s", Some(s.output_tokens_per_s))),
        ),
        d.figure("slo_determined_requests", "", limited.then_some(told as f64), None),
        d.figure(
            "slo_attainment",
            "",
            (limited && told > 0).then_some(attained),
            Some(("joint_attainment", s.joint_attainment)),
        ),
        d.figure(
            "request_goodput.mean",
            "req/s",
            d.per_s(d.answered().filter(good).filter(within).count() as f64).filter(|_| limited),
            Some(("good_rate", Some(s.good_rate))),
        ),
    ];
    found.extend(latencies(d));
    found
}

/// Returns the statistics of its latencies.
fn latencies(d: &Data<'_>) -> Vec<Figure> {
    let (s, mut found) = (d.step, Vec::new());
    let by = |value: fn(&Request) -> Option<f64>, weight: fn(&Request) -> f64, scale: f64| {
        Values::step(d.answered().filter_map(move |r| Some((value(r)? * scale, weight(r)))))
    };
    let tokens = |r: &Request| r.tokens().unwrap_or_default();
    for (name, unit, metric, scale, values) in [
        ("time_to_first_token_ms", "ms", Metric::Ttft, 1.0, by(ttft, |_| 1.0, 1.0)),
        ("time_per_output_token_ms", "ms", Metric::Tpot, 1.0, by(tpot, tokens, 1.0)),
        (
            "inter_token_latency_ms",
            "ms",
            Metric::Tpot,
            1.0,
            by(itl, |r| r.tokens().unwrap_or(1.0) - 1.0, 1.0),
        ),
        ("request_latency", "s", Metric::E2e, 1e-3, by(latency, |_| 1.0, 1e-3)),
    ] {
        let q = s.quantiles(metric);
        let ours = |p: &'static str, value: Option<f64>| Some((p, value.map(|v| v * scale)));
        for (statistic, value, ours) in [
            ("mean", values.mean(), None),
            ("std_dev", values.deviation(), None),
            ("p50", values.percentile(0.5), ours("p50", q.p50)),
            ("p90", values.percentile(0.9), ours("p90", q.p90)),
            ("p95", values.percentile(0.95), ours("p95", q.p95)),
            ("p99", values.percentile(0.99), ours("p99", q.p99)),
        ] {
            found.push(d.figure(&format!("{name}.{statistic}"), unit, value, ours));
        }
    }
    found
}
