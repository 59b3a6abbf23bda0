//! Importer of inference-perf 0.5: a folder with `per_request_lifecycle_metrics.json`, one file per stage, and
//! `config.yaml`.

use super::failure::fail;
use super::file::{Figures, List, Text};
use super::results::{ImportedRequest, Requests, ResultStep, ToolResults};
use super::time::{gaps_us, longest, since};
use super::yaml;
use crate::rundir::Tool;
use anyhow::{Context, Result, bail};
use goodput_core::endpoint::Api;
use goodput_core::level::Level;
use goodput_core::record::{Finished, Outcome, Phase, Record, TokenSource};
use goodput_workload::arrivals::Arrivals;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Request {
    start_time: f64,
    end_time: f64,
    #[serde(default)]
    info: Info,
    error: Option<Figures>,
}

#[derive(Deserialize, Default)]
struct Info {
    input_tokens: Option<u32>,
    response_metrics: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    output_tokens: Option<u32>,
    server_usage: Option<Usage>,
    #[serde(default)]
    output_token_times: Vec<f64>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
}

/// Reads a folder, each stage as a step. `requests` is the file with the requests.
pub(super) fn read(requests: &Path) -> Result<ToolResults> {
    let folder = requests.parent().unwrap_or(Path::new("."));
    let text = Text::read(requests)?;
    let List(mut all): List<Request> = text.parse("inference-perf's per_request_lifecycle_metrics.json")?;
    drop(text);
    if all.is_empty() {
        bail!("{} has no request", requests.display());
    }
    if let Some(odd) = all.iter().position(|r| !r.start_time.is_finite() || !r.end_time.is_finite()) {
        bail!("{}: request {odd} (from 0) has a time that is none", requests.display());
    }
    all.sort_by(|a, b| a.start_time.total_cmp(&b.start_time));
    let config = config(folder)?;
    let files = stages(folder)?;
    if files.is_empty() {
        bail!(
            "there is no stage_0_lifecycle_metrics.json beside {}: which requests are of which stage is not known; measure again with \
             report.request_lifecycle.per_stage: true",
            requests.display()
        );
    }
    let mut steps = Vec::new();
    let mut rest = all;
    for (n, path) in files {
        let summary: Value = Text::summary(&path)?.parse("inference-perf's metrics of a stage")?;
        let count = summary["load_summary"]["count"].as_u64().and_then(|n| usize::try_from(n).ok());
        let count = count.with_context(|| format!("{} has no load_summary.count", path.display()))?;
        if count == 0 {
            continue;
        }
        if count > rest.len() {
            bail!(
                "{} counts {count} requests where {} has {} left for it: the files are not of one run",
                path.display(),
                requests.display(),
                rest.len()
            );
        }
        let later = rest.split_off(count);
        let of_stage = std::mem::replace(&mut rest, later);
        let level = level(&config, n, &summary).with_context(|| format!("{} (stage {n})", path.display()))?;
        steps.push(step(path, of_stage, level, &summary)?);
    }
    if !rest.is_empty() {
        bail!("{} has {} requests of no stage: the files are not of one run", requests.display(), rest.len());
    }
    Ok(ToolResults {
        tool: Tool::InferencePerf,
        version: None,
        server: config["server"]["base_url"].as_str().map(str::to_owned),
        model: config["server"]["model_name"].as_str().map(str::to_owned),
        api: if config["api"]["type"].as_str() == Some("completion") { Api::Completions } else { Api::Chat },
        due_known: false,
        missing: vec![
            "when a request was due: inference-perf keeps its schedule delay for a stage only, so latency counts from the sending".into(),
            "when it was run: its clock counts from the start of the machine".into(),
            "lengths asked for of each request".into(),
        ],
        left_out: Vec::new(),
        steps,
    })
}

/// Reads the configuration; returns null if the file does not exist.
fn config(folder: &Path) -> Result<Value> {
    let path = folder.join("config.yaml");
    if !path.is_file() {
        return Ok(Value::Null);
    }
    Ok(yaml::read(Text::summary(&path)?.text()))
}

/// Returns the files of the stages in order.
fn stages(folder: &Path) -> Result<Vec<(usize, PathBuf)>> {
    let entries = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .with_context(|| format!("cannot look into {}", folder.display()))?;
    let mut found: Vec<(usize, PathBuf)> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.trim_end_matches(".gz");
            let n = name.strip_prefix("stage_")?.strip_suffix("_lifecycle_metrics.json")?.parse().ok()?;
            Some((n, path))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Returns the level of a stage, and the arrival process of an open loop.
fn level(config: &Value, n: usize, summary: &Value) -> Result<(Level, Option<Arrivals>)> {
    let (load, stage) = (&config["load"], &config["load"]["stages"][n]);
    if let Some(users) = stage["concurrency_level"].as_f64().filter(|n| (1.0..4e9).contains(n)) {
        return Ok((Level::concurrency(users as u32), None));
    }
    let rate = stage["rate"].as_f64().or_else(|| summary["load_summary"]["requested_rate"].as_f64());
    let rate = rate.context("neither it nor config.yaml names a rate or a concurrency")?;
    let arrivals = match load["type"].as_str() {
        Some("constant") => Some(Arrivals::Constant),
        Some("poisson") => Some(Arrivals::Poisson),
        _ => None,
    };
    Ok((Level::rate(rate), arrivals))
}

fn step(
    file: PathBuf,
    requests: Vec<Request>,
    level: (Level, Option<Arrivals>),
    summary: &Value,
) -> Result<ResultStep> {
    let origin = requests.first().map_or(0.0, |r| r.start_time);
    let last_end = requests.iter().map(|r| r.end_time).fold(origin, f64::max);
    let mut found = Vec::with_capacity(requests.len());
    for (i, r) in requests.iter().enumerate() {
        let one = seen(r, origin);
        found.push(one.with_context(|| {
            format!("{}: request {i} (from 0) of the stage has a time that is none", file.display())
        })?);
    }
    Ok(ResultStep {
        file,
        level: level.0,
        arrivals: level.1,
        started: None,
        window: None,
        tool_window: [0.0, last_end - origin],
        reported: reported(summary),
        requests: Requests::in_memory(found),
    })
}

fn seen(r: &Request, origin: f64) -> Option<ImportedRequest> {
    let sent = since(origin, r.start_time)?;
    let mut record = Record::due(0, Phase::Measure, sent);
    (record.sent, record.attempts) = (Some(sent), 1);
    record.end = since(origin, r.end_time)?.max(sent);
    let usage = r.info.response_metrics.as_ref().and_then(|m| m.server_usage.as_ref());
    record.input_tokens = usage.and_then(|u| u.prompt_tokens).or(r.info.input_tokens);
    if let Some(error) = r.error.as_ref().map(|e| &e.0).filter(|e| !e.is_null()) {
        let mut finished = Finished::new(record, Vec::new());
        let text = match (error["error_type"].as_str(), error["error_msg"].as_str()) {
            (Some(kind), Some(message)) => format!("{kind}: {message}"),
            _ => error.as_str().map_or_else(|| error.to_string(), str::to_owned),
        };
        fail(&mut finished, None, &text);
        return Some(finished.into());
    }
    record.outcome = Outcome::Ok;
    let empty = Vec::new();
    let metrics = r.info.response_metrics.as_ref();
    // The list has one time per token by its own tokenizer; tokens of one event share a time.
    let mut times = metrics.map_or(&empty, |m| &m.output_token_times).clone();
    times.dedup();
    let at = |t: Option<&f64>| t.map_or(Some(None), |t| since(origin, *t).map(Some));
    (record.first_token, record.last_token) = (at(times.first())?, at(times.last())?.or(Some(record.end)));
    let counted = metrics.and_then(|m| m.output_tokens);
    let told = usage.and_then(|u| u.completion_tokens);
    record.output_tokens = told.or(counted);
    record.token_source =
        told.map(|_| TokenSource::Usage).or_else(|| counted.map(|_| TokenSource::Tokenizer));
    let gaps_us = gaps_us(times.windows(2).map(|w| w[1] - w[0]));
    (record.events, record.itl_max) = (times.len() as u32, longest(&gaps_us));
    Some(ImportedRequest {
        finished: Finished::new(record, gaps_us),
        counted: counted.filter(|own| told.is_some_and(|t| t != *own)),
    })
}

/// Returns the reported figures of a stage, under the names in its file.
fn reported(summary: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let ok = &summary["successes"];
    for name in [
        "request_latency",
        "time_to_first_token",
        "time_per_output_token",
        "normalized_time_per_output_token",
        "inter_token_latency",
    ] {
        for statistic in ["mean", "median", "p90", "p95", "p99"] {
            found.extend(ok["latency"][name][statistic].as_f64().map(|x| (format!("{name}.{statistic}"), x)));
        }
    }
    for (name, value) in [
        ("benchmark_time_seconds", &summary["benchmark_time_seconds"]),
        ("successes.count", &ok["count"]),
        ("failures.count", &summary["failures"]["count"]),
        ("requests_per_sec", &ok["throughput"]["requests_per_sec"]),
        ("output_tokens_per_sec", &ok["throughput"]["output_tokens_per_sec"]),
        ("request_goodput", &ok["goodput_metrics"]["request_goodput"]),
        ("goodput_percentage", &ok["goodput_metrics"]["goodput_percentage"]),
    ] {
        found.extend(value.as_f64().map(|x| (name.to_owned(), x)));
    }
    found
}
