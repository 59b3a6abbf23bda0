//! Importer of `vllm bench serve --save-result --save-detailed`: one JSON object per run, with arrays of one entry
//! per request.

use super::failure::fail;
use super::file::{List, Text, numbers};
use super::results::{ImportedRequest, Requests, ResultStep, ToolResults};
use super::time::{gaps_us, longest, since, span};
use crate::rundir::Tool;
use anyhow::{Context, Result, bail};
use goodput_core::endpoint::Api;
use goodput_core::level::Level;
use goodput_core::record::{Finished, Outcome, Phase, Record};
use goodput_workload::arrivals::{Arrivals, GammaShape};
use serde::Deserialize;

/// Reported figures that are stored for comparison with those computed from the requests.
const REPORTED: [&str; 10] = [
    "duration",
    "completed",
    "failed",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "total_input_tokens",
    "total_output_tokens",
    "max_concurrent_requests",
];
/// Latencies for which the tool reports mean, median, standard deviation and percentiles.
const LATENCIES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];

/// Failure message of a request that failed without one.
const NO_ANSWER: &str = "no answer, and no reason told";

#[derive(Deserialize)]
struct File {
    date: Option<String>,
    backend: Option<String>,
    endpoint_type: Option<String>,
    model_id: Option<String>,
    duration: f64,
    completed: Option<u64>,
    request_rate: Option<RequestRate>,
    burstiness: Option<f64>,
    max_concurrency: Option<u32>,
    ramp_up_strategy: Option<String>,
    input_lens: Option<List<u32>>,
    output_lens: Option<List<u32>>,
    ttfts: Option<List<f64>>,
    itls: Option<List<Vec<f64>>>,
    latencies: Option<List<f64>>,
    start_times: Option<List<f64>>,
    queue_times: Option<List<f64>>,
    errors: Option<List<Option<String>>>,
}

/// A number, or the string `inf`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RequestRate {
    Number(f64),
    Text(String),
}

/// Returns true if the top-level keys are those of a result file.
pub(super) fn is(keys: &[String]) -> bool {
    let has = |key: &str| keys.iter().any(|k| k == key);
    has("request_throughput") && (has("max_concurrency") || has("num_prompts") || has("ttfts"))
}

/// Reads one result file as one step.
pub(super) fn read(text: &Text) -> Result<ToolResults> {
    let file: File = text.parse("a result of vLLM bench serve")?;
    let backend = file.backend.as_deref().or(file.endpoint_type.as_deref()).unwrap_or_default();
    let chat = backend.contains("chat");
    let (level, arrivals) = level(&file)?;
    let open = level.per_s().is_some();
    let mut missing = vec![
        "when a request was due: vLLM keeps when it was released to be sent, so how late its own loop was is not known".to_owned(),
        "the server's URL".into(),
        "lengths asked for".into(),
        "whether output tokens were counted by the server or by a tokenizer".into(),
    ];
    if chat {
        missing.push(
            "whether the first chunk carried a token: vLLM takes the first with choices, which in a chat may be the role alone, so \
             TTFT may be too short and TPOT too long"
                .into(),
        );
    }
    if file.queue_times.is_none() && open {
        missing.push("how long requests waited for --max-concurrency before they were sent".into());
    }
    let (duration, date) = (file.duration, file.date.as_deref().and_then(moment));
    let (model, due_known) = (file.model_id.clone(), open && file.queue_times.is_some());
    let completed = file.completed;
    let requests = requests(file, open)?;
    let ok = requests.iter().filter(|r| r.finished.record.outcome == Outcome::Ok).count() as u64;
    if let Some(completed) = completed.filter(|n| *n != ok) {
        missing.push(format!(
            "which requests failed, for certain: {} of its requests were answered by what it keeps of each, and it reports {completed} completed",
            ok
        ));
    }
    let reported = numbers(text, |key| {
        REPORTED.contains(&key)
            || LATENCIES.iter().any(|l| key.strip_suffix(l).is_some_and(|p| p.ends_with('_')))
    })?;
    let first =
        requests.iter().filter_map(|r| r.finished.record.sent).min().unwrap_or_default().as_secs_f64();
    span(duration).context("the duration is no length of time")?;
    let step = ResultStep {
        file: text.path().to_owned(),
        level,
        arrivals,
        started: date,
        window: None,
        tool_window: [first, first + duration],
        reported,
        requests: Requests::in_memory(requests),
    };
    Ok(ToolResults {
        tool: Tool::Vllm,
        version: None,
        server: None,
        model,
        api: if chat { Api::Chat } else { Api::Completions },
        due_known,
        missing,
        left_out: Vec::new(),
        steps: vec![step],
    })
}

/// Returns the level, and the arrival process of an open loop.
fn level(file: &File) -> Result<(Level, Option<Arrivals>)> {
    if let Some(strategy) = &file.ramp_up_strategy {
        bail!(
            "its rate grew within the run (--ramp-up-strategy {strategy}), so it has no level: give each rate a run of its own"
        );
    }
    let rate = match &file.request_rate {
        Some(RequestRate::Number(rate)) if rate.is_finite() => Some(*rate),
        Some(RequestRate::Text(text)) if text != "inf" => bail!("request_rate is {text:?}, which is no rate"),
        _ => None,
    };
    if let Some(rate) = rate {
        let burstiness = file.burstiness.unwrap_or(1.0);
        let arrivals = match burstiness {
            b if (b - 1.0).abs() < 1e-9 => Arrivals::Poisson,
            b if b.is_infinite() || b > 1e6 => Arrivals::Constant,
            b => Arrivals::Gamma(GammaShape {
                cv: b.sqrt().recip().try_into().map_err(anyhow::Error::msg).context("burstiness")?,
            }),
        };
        return Ok((Level::rate(rate), Some(arrivals)));
    }
    let n = match file.max_concurrency {
        Some(n) => n,
        // All requests are sent at once, so as many are in flight as there are requests.
        None => file.ttfts.as_ref().map_or(0, |ttfts| ttfts.0.len()) as u32,
    };
    Ok((Level::concurrency(n), None))
}

/// Returns an array with an entry for each request; fails with a remedy if it is missing.
fn array<T>(of: Option<List<T>>, name: &str, n: usize) -> Result<Vec<T>> {
    let Some(List(entries)) = of else {
        bail!(
            "it has no {name}, so when its requests were sent and answered is not known: measure again with a vLLM that writes it"
        );
    };
    if entries.len() != n {
        bail!("{name} has {} entries where ttfts has {n}: the file is damaged", entries.len());
    }
    Ok(entries)
}

fn requests(file: File, open: bool) -> Result<Vec<ImportedRequest>> {
    let Some(List(ttfts)) = file.ttfts else {
        bail!(
            "it has no single requests: measure again with `vllm bench serve … --save-result --save-detailed`"
        );
    };
    let n = ttfts.len();
    if n == 0 {
        bail!("it has no request");
    }
    let starts = array(file.start_times, "start_times", n)?;
    let itls = array(file.itls, "itls", n)?;
    let outputs = array(file.output_lens, "output_lens", n)?;
    let inputs = file.input_lens.map(|lens| array(Some(lens), "input_lens", n)).transpose()?;
    let errors = file.errors.map(|errors| array(Some(errors), "errors", n)).transpose()?;
    let latencies = file.latencies.map(|l| array(Some(l), "latencies", n)).transpose()?;
    let queues = file.queue_times.map(|q| array(Some(q), "queue_times", n)).transpose()?;
    // Requests that the client held back were due all the same: the server was not slow to begin. In a
    // closed loop requests wait for one another on purpose.
    let queued = |i: usize| queues.as_ref().filter(|_| open).map_or(0.0, |q| q[i].max(0.0));
    let origin = (0..n).map(|i| starts[i] - queued(i)).fold(f64::INFINITY, f64::min);
    let mut found = Vec::with_capacity(n);
    for (i, gaps) in itls.into_iter().enumerate() {
        let bad = |what: &str| format!("request {} (from 0): {what} is no time", i);
        let due = since(origin, starts[i] - queued(i)).with_context(|| bad("start_times"))?;
        let sent = since(origin, starts[i]).with_context(|| bad("start_times"))?;
        let mut record = Record::due(0, Phase::Measure, due);
        (record.sent, record.attempts) = (Some(sent), 1);
        record.input_tokens = inputs.as_ref().map(|lens| lens[i]);
        let told = errors.as_ref().and_then(|e| e[i].as_deref()).filter(|e| !e.trim().is_empty());
        // An HTTP error with an empty reason has an empty error text, and times although it was never answered.
        let silent = ttfts[i] == 0.0 && outputs[i] == 0;
        let error = told.or(silent.then_some(NO_ANSWER));
        let whole: f64 = latencies.as_ref().map_or_else(|| ttfts[i] + gaps.iter().sum::<f64>(), |l| l[i]);
        let took = span(whole).with_context(|| bad("latencies"))?;
        record.end = sent + took;
        if let Some(error) = error {
            let mut finished = Finished::new(record, Vec::new());
            fail(&mut finished, None, error);
            found.push(finished.into());
            continue;
        }
        let first = sent + span(ttfts[i]).with_context(|| bad("ttfts"))?;
        let gaps_us = gaps_us(gaps.into_iter());
        record.outcome = Outcome::Ok;
        record.first_event = Some(first);
        (record.first_token, record.last_token) = (Some(first), Some(record.end.max(first)));
        record.output_tokens = Some(outputs[i]);
        (record.events, record.itl_max) = (gaps_us.len() as u32 + 1, longest(&gaps_us));
        found.push(Finished::new(record, gaps_us).into());
    }
    Ok(found)
}

/// Parses a date like `20261120-105106`, whose time zone is not recorded: assumed to be UTC.
fn moment(date: &str) -> Option<jiff::Timestamp> {
    let at = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", date).ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}
