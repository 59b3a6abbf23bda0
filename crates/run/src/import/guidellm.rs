//! Importer of GuideLLM 0.8: one JSON object with several benchmarks, each with its requests.

use super::failure::fail;
use super::file::{Figures, List, Text};
use super::results::{ImportedRequest, Requests, ResultStep, ToolResults};
use super::time::{since, span};
use crate::rundir::Tool;
use anyhow::{Context, Result, bail};
use goodput_core::endpoint::Api;
use goodput_core::level::Level;
use goodput_core::record::{Finished, Outcome, Phase, Record};
use goodput_workload::arrivals::Arrivals;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    metadata: Metadata,
    benchmarks: List<Benchmark>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    guidellm_version: Option<String>,
}

#[derive(Deserialize)]
struct Benchmark {
    config: Config,
    start_time: f64,
    end_time: f64,
    #[serde(default)]
    warmup_duration: f64,
    #[serde(default)]
    metrics: Figures,
    requests: ByStatus,
}

#[derive(Deserialize)]
struct Config {
    strategy: Strategy,
    #[serde(default)]
    backend: Backend,
}

#[derive(Deserialize)]
struct Strategy {
    type_: String,
    streams: Option<u32>,
    max_concurrency: Option<u32>,
    rate: Option<f64>,
}

#[derive(Deserialize, Default)]
struct Backend {
    target: Option<String>,
    model: Option<String>,
    request_format: Option<String>,
}

#[derive(Deserialize)]
struct ByStatus {
    successful: Option<List<Request>>,
    errored: Option<List<Request>>,
    incomplete: Option<List<Request>>,
}

#[derive(Deserialize)]
struct Request {
    info: Info,
    #[serde(default)]
    input_metrics: Counts,
    prompt_tokens: Option<u32>,
    output_tokens: Option<u32>,
}

#[derive(Deserialize, Default)]
struct Counts {
    cached_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Info {
    error: Option<String>,
    timings: Timings,
}

/// Times of a request in seconds since 1970.
#[derive(Deserialize)]
struct Timings {
    targeted_start: Option<f64>,
    request_start: Option<f64>,
    first_request_iteration: Option<f64>,
    first_token_iteration: Option<f64>,
    first_output_token_iteration: Option<f64>,
    last_token_iteration: Option<f64>,
    token_iterations: Option<u32>,
    request_end: Option<f64>,
    resolve_end: Option<f64>,
}

impl Timings {
    /// Returns the due time: that of the strategy, but never later than the send. The `throughput` strategy sets the
    /// target of every request to the start of the benchmark and holds requests back by its limit on purpose, so
    /// these are due when they are sent.
    fn due(&self, targeted: bool) -> Option<f64> {
        let sent = self.request_start?;
        let target = self.targeted_start.filter(|_| targeted);
        Some(target.map_or(sent, |target| target.min(sent)))
    }
}

/// Reads a file, each benchmark as a step.
pub(super) fn read(text: &Text) -> Result<ToolResults> {
    let file: File = text.parse("a report of GuideLLM 0.8")?;
    if file.benchmarks.0.is_empty() {
        bail!("it has no benchmark");
    }
    let (mut steps, mut left_out, mut backend) = (Vec::new(), Vec::new(), Backend::default());
    for (n, mut benchmark) in (1..).zip(file.benchmarks.0) {
        backend = std::mem::take(&mut benchmark.config.backend);
        match level(&benchmark.config.strategy) {
            Err(why) => left_out.push(format!("benchmark {n} of {}: {why}", text.path().display())),
            Ok((level, arrivals)) => {
                let step = step(text, benchmark, level, arrivals);
                steps.push(step.with_context(|| format!("benchmark {n} of {}", text.path().display()))?);
            }
        }
    }
    let completions =
        backend.request_format.as_deref().is_some_and(|f| f.contains("completions") && !f.contains("chat"));
    Ok(ToolResults {
        tool: Tool::Guidellm,
        version: file.metadata.guidellm_version,
        server: backend.target,
        model: backend.model,
        api: if completions { Api::Completions } else { Api::Chat },
        due_known: true,
        missing: vec![
            "gaps between tokens: GuideLLM keeps the first and the last token, so ITL cannot be judged"
                .into(),
            "lengths asked for of each request".into(),
            "whether output tokens were counted by the server or by a tokenizer".into(),
            "requests that its warm-up and cool-down leave out".into(),
        ],
        left_out,
        steps,
    })
}

/// Returns the level and the arrival process of a benchmark, or the reason why it has no level.
fn level(strategy: &Strategy) -> Result<(Level, Option<Arrivals>), String> {
    let kind = strategy.type_.as_str();
    let rate = || strategy.rate.ok_or_else(|| format!("its strategy {kind} names no rate"));
    Ok(match kind {
        "synchronous" => (Level::concurrency(1), None),
        "concurrent" => (Level::concurrency(strategy.streams.ok_or("it names no streams")?), None),
        "throughput" => (
            Level::concurrency(
                strategy.max_concurrency.ok_or("all at once, without a limit: it has no level")?,
            ),
            None,
        ),
        "constant" | "async_constant" => (Level::rate(rate()?), Some(Arrivals::Constant)),
        "poisson" | "async_poisson" => (Level::rate(rate()?), Some(Arrivals::Poisson)),
        _ => return Err(format!("the strategy {kind} holds no level")),
    })
}

fn step(text: &Text, b: Benchmark, level: Level, arrivals: Option<Arrivals>) -> Result<ResultStep> {
    let Some(List(successful)) = b.requests.successful else {
        bail!("it has no single requests: measure again and write the JSON output with its requests");
    };
    let groups = [
        (Outcome::Ok, successful),
        (Outcome::Failed, b.requests.errored.map_or_else(Vec::new, |list| list.0)),
        (Outcome::Cut, b.requests.incomplete.map_or_else(Vec::new, |list| list.0)),
    ];
    let targeted = b.config.strategy.type_ != "throughput";
    let due = groups.iter().flat_map(|(_, requests)| requests).filter_map(|r| r.info.timings.due(targeted));
    let origin = due.fold(f64::INFINITY, f64::min);
    if !origin.is_finite() {
        bail!("none of its requests was sent");
    }
    let mut found: Vec<ImportedRequest> = Vec::new();
    for (outcome, requests) in groups {
        // Requests that were never sent contain no measurement.
        for (i, request) in
            requests.into_iter().enumerate().filter(|(_, r)| r.info.timings.request_start.is_some())
        {
            let one = record(&request, outcome, origin, targeted);
            found.push(one.with_context(|| format!("request {i} (from 0) has a time that is none"))?.into());
        }
    }
    let [from, to] = [b.start_time, b.end_time].map(|t| t - origin);
    let (start, end) = (span(from), span(to).filter(|_| to > from));
    let (start, end) = start.zip(end).context("its start_time and end_time are no window")?;
    // Without a warm-up, everything from the first request on counts.
    let start = if b.warmup_duration > 0.0 { start } else { std::time::Duration::ZERO };
    Ok(ResultStep {
        file: text.path().to_owned(),
        level,
        arrivals,
        started: jiff::Timestamp::from_microsecond((origin * 1e6) as i64).ok(),
        window: Some(start..end),
        tool_window: [from, to],
        reported: reported(&b.metrics.0),
        requests: Requests::in_memory(found),
    })
}

fn record(r: &Request, outcome: Outcome, origin: f64, targeted: bool) -> Option<Finished> {
    let t = &r.info.timings;
    // `Some(None)` is an event that did not happen, `None` an invalid time.
    let at = |time: Option<f64>| time.map(|t| since(origin, t)).map_or(Some(None), |t| t.map(Some));
    let mut record = Record::due(0, Phase::Measure, since(origin, t.due(targeted)?)?);
    (record.sent, record.attempts) = (at(t.request_start)?, 1);
    record.first_event = at(t.first_request_iteration)?;
    record.first_token = at(t.first_token_iteration)?;
    record.first_content = at(t.first_output_token_iteration)?;
    record.last_token = at(t.last_token_iteration)?;
    let end = at(t.request_end.or(t.resolve_end))?;
    record.end = end.or(record.last_token).or(record.sent)?;
    record.events = t.token_iterations.unwrap_or(0);
    (record.input_tokens, record.cached_tokens) = (r.prompt_tokens, r.input_metrics.cached_tokens);
    (record.output_tokens, record.outcome) = (r.output_tokens, outcome);
    let mut finished = Finished::new(record, Vec::new());
    if outcome == Outcome::Failed {
        fail(&mut finished, None, r.info.error.as_deref().unwrap_or_default());
    }
    Some(finished)
}

/// Returns the reported figures of the successful requests.
fn reported(metrics: &Value) -> BTreeMap<String, f64> {
    const DISTRIBUTIONS: [&str; 8] = [
        "time_to_first_token_ms",
        "time_per_output_token_ms",
        "inter_token_latency_ms",
        "request_latency",
        "requests_per_second",
        "output_tokens_per_second",
        "request_concurrency",
        "request_goodput",
    ];
    let mut found = BTreeMap::new();
    for name in DISTRIBUTIONS {
        let of = &metrics[name]["successful"];
        let figures = [("mean", &of["mean"]), ("std_dev", &of["std_dev"])];
        let percentiles = ["p50", "p90", "p95", "p99"].map(|p| (p, &of["percentiles"][p]));
        for (figure, value) in figures.into_iter().chain(percentiles) {
            found.extend(value.as_f64().map(|x| (format!("{name}.{figure}"), x)));
        }
    }
    for (name, value) in [
        ("request_totals.successful", &metrics["request_totals"]["successful"]),
        ("request_totals.errored", &metrics["request_totals"]["errored"]),
        ("request_totals.incomplete", &metrics["request_totals"]["incomplete"]),
        ("slo_attainment", &metrics["slo_attainment"]),
        ("slo_determined_requests", &metrics["slo_determined_requests"]),
    ] {
        found.extend(value.as_f64().map(|x| (name.to_owned(), x)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row: true if the strategy targets each request, and the due time of one targeted at 1 s and sent at 50 s.
    #[test]
    fn what_waits_on_purpose_is_due_when_it_is_sent() {
        for (targeted, due) in [(true, 1.0), (false, 50.0)] {
            let text = r#"{"targeted_start": 1.0, "request_start": 50.0}"#;
            let timings: Timings = serde_json::from_str(text).unwrap();
            assert_eq!(timings.due(targeted), Some(due));
        }
    }
}
