//! Importer of AIPerf 0.13: `profile_export.jsonl` with one row per request, and `profile_export_aiperf.json` with
//! the configuration.
//!
//! The rows are streamed twice instead of held in memory: first for their times, then to convert each into a record.

use super::failure::fail;
use super::file::Text;
use super::results::{ImportedRequest, Requests, ResultStep, ToolResults};
use super::time::{gaps_us, longest, span};
use crate::rundir::Tool;
use anyhow::{Context, Result, anyhow, bail};
use goodput_core::endpoint::Api;
use goodput_core::level::Level;
use goodput_core::record::{Conn, Finished, Outcome, Phase, Record, TokenSource};
use goodput_workload::arrivals::{Arrivals, GammaShape};
use goodput_workload::open_packed;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum length in bytes of a row.
const LONGEST_ROW: usize = 64 << 20;
/// Maximum number of rows, for each of which some numbers stay in memory.
const MOST_ROWS: usize = 20_000_000;

#[derive(Deserialize)]
struct RequestLine {
    metadata: Metadata,
    #[serde(default)]
    metrics: Metrics,
    error: Option<ErrorDetails>,
}

#[derive(Deserialize)]
struct Metadata {
    benchmark_phase: Option<String>,
    credit_issued_ns: Option<u64>,
    request_start_ns: u64,
    request_ack_ns: Option<u64>,
    request_end_ns: Option<u64>,
    #[serde(default)]
    was_cancelled: bool,
}

#[derive(Deserialize, Default)]
struct Metrics {
    time_to_first_token: Option<Measured>,
    time_to_first_output_token: Option<Measured>,
    request_latency: Option<Measured>,
    input_sequence_length: Option<Measured>,
    output_sequence_length: Option<Measured>,
    usage_completion_tokens: Option<Measured>,
    reasoning_token_count: Option<Measured>,
    http_req_connection_reused: Option<Measured>,
    inter_chunk_latency: Option<Many>,
}

#[derive(Deserialize)]
struct Measured {
    value: Option<f64>,
}

#[derive(Deserialize)]
struct Many {
    #[serde(default)]
    value: Vec<f64>,
}

#[derive(Deserialize)]
struct ErrorDetails {
    code: Option<i64>,
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    message: String,
}

/// The configuration and the reported figures.
#[derive(Deserialize)]
struct Summary {
    aiperf_version: Option<String>,
    start_time: Option<String>,
    end_time: Option<String>,
    input_config: Value,
    #[serde(flatten)]
    figures: BTreeMap<String, Value>,
}

/// Returns true if a line is a record of AIPerf.
pub(super) fn is_row(line: &str) -> bool {
    serde_json::from_str::<RequestLine>(line).is_ok()
}

/// Reads the records, and the summary next to them.
pub(super) fn read(rows: &Path) -> Result<ToolResults> {
    let summary = Path::with_file_name(rows, "profile_export_aiperf.json");
    let summary = [summary.clone(), summary.with_extension("json.gz")].into_iter().find(|p| p.is_file()).with_context(|| {
        format!(
            "there is no profile_export_aiperf.json beside {}: it tells the rate or the concurrency; name the folder that AIPerf wrote",
            rows.display()
        )
    })?;
    let text = Text::summary(&summary)?;
    let summary: Summary = text.parse("AIPerf's profile_export_aiperf.json")?;
    let config = &summary.input_config;
    let endpoint = &config["endpoint"];
    let (level, arrivals) = level(config).map_err(|e| anyhow!("{}: {e}", text.path().display()))?;
    let server_counts = endpoint["use_server_token_count"].as_bool().unwrap_or(false);
    let lines = Lines::open(rows, server_counts)?;
    let mut missing = vec![
        "when a request was due: AIPerf keeps when its credit was issued, so how late the issuing itself was is not known".to_owned(),
        "lengths asked for of each request".into(),
    ];
    if !endpoint["streaming"].as_bool().unwrap_or(false) {
        missing.push("the first token: it was measured without --streaming, so only e2e is known".into());
    }
    let [first_sent, last_end] =
        [lines.first_sent, lines.last_end].map(|t| t.saturating_sub(lines.origin) as f64 / 1e9);
    let step = ResultStep {
        file: rows.to_owned(),
        level,
        arrivals,
        started: i64::try_from(lines.origin / 1000)
            .ok()
            .and_then(|us| jiff::Timestamp::from_microsecond(us).ok()),
        window: None,
        tool_window: [first_sent, first_sent + phase_s(&summary).unwrap_or(last_end - first_sent)],
        reported: reported(&summary.figures),
        requests: Requests::Lines(lines),
    };
    Ok(ToolResults {
        tool: Tool::Aiperf,
        version: summary.aiperf_version.clone(),
        server: endpoint["urls"][0].as_str().map(str::to_owned),
        model: config["models"]["items"][0]["name"].as_str().map(str::to_owned),
        api: if endpoint["type"].as_str() == Some("completions") { Api::Completions } else { Api::Chat },
        due_known: true,
        missing,
        left_out: Vec::new(),
        steps: vec![step],
    })
}

/// Returns the duration of the profiled phase in seconds, over which the tool computes its rates; both ends are of
/// one clock, so the time zone does not matter.
fn phase_s(summary: &Summary) -> Option<f64> {
    let at =
        |text: &Option<String>| text.as_deref()?.trim_end_matches('Z').parse::<jiff::civil::DateTime>().ok();
    let took = at(&summary.end_time)?.duration_since(at(&summary.start_time)?).as_secs_f64();
    (took > 0.0).then_some(took)
}

/// Returns the level of the profiled phase, and the arrival process of an open loop.
fn level(config: &Value) -> Result<(Level, Option<Arrivals>), String> {
    let phases = config["phases"]
        .as_array()
        .ok_or("input_config names no phases: this is no result of AIPerf 0.13")?;
    let profiled: Vec<&Value> = phases.iter().filter(|p| p["kind"].as_str() == Some("profiling")).collect();
    let [phase] = profiled.as_slice() else {
        return Err(format!(
            "it has {} profiled phases where one is expected: import the folder of each",
            profiled.len()
        ));
    };
    let kind = phase["type"].as_str().unwrap_or_default();
    if ["rate_ramp", "rate_series", "concurrency_ramp"]
        .iter()
        .any(|key| phase[*key].is_object() || phase[*key].is_array())
    {
        return Err("its load changed within the run, so it has no level".into());
    }
    let rate = || phase["rate"].as_f64().ok_or_else(|| format!("its phase of type {kind} names no rate"));
    Ok(match kind {
        "concurrency" => {
            let n = phase["concurrency"].as_u64().and_then(|n| u32::try_from(n).ok());
            (Level::concurrency(n.ok_or("it names no concurrency")?), None)
        }
        "poisson" => (Level::rate(rate()?), Some(Arrivals::Poisson)),
        "constant" => (Level::rate(rate()?), Some(Arrivals::Constant)),
        "gamma" => {
            let cv = phase["smoothness"].as_f64().unwrap_or(1.0).sqrt().recip();
            (Level::rate(rate()?), Some(Arrivals::Gamma(GammaShape { cv: cv.try_into()? })))
        }
        _ => {
            return Err(format!("a load of type {kind:?} holds no level: a rate or a concurrency is needed"));
        }
    })
}

/// Returns the figures of the summary, named `metric.statistic`.
fn reported(figures: &BTreeMap<String, Value>) -> BTreeMap<String, f64> {
    const WANTED: [&str; 13] = [
        "request_count",
        "error_request_count",
        "request_throughput",
        "output_token_throughput",
        "total_token_throughput",
        "benchmark_duration",
        "goodput",
        "time_to_first_token",
        "inter_token_latency",
        "inter_chunk_latency",
        "request_latency",
        "input_sequence_length",
        "output_sequence_length",
    ];
    let mut found = BTreeMap::new();
    for name in WANTED {
        for statistic in ["avg", "std", "p50", "p90", "p95", "p99"] {
            let value = figures.get(name).and_then(|f| f[statistic].as_f64());
            found.extend(value.map(|x| (format!("{name}.{statistic}"), x)));
        }
    }
    found
}

/// The rows of a file that belong to the profiled phase.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    /// Times in nanoseconds since 1970: first due, first sent, last due, last end.
    origin: u64,
    first_sent: u64,
    last_due: u64,
    last_end: u64,
    /// Rank of each row of the phase in order of `due`.
    ids: Vec<u32>,
    server_counts: bool,
}

impl Lines {
    /// Reads the times of all rows.
    fn open(path: &Path, server_counts: bool) -> Result<Self> {
        let mut due: Vec<(u64, u32)> = Vec::new();
        let (mut first_sent, mut last_end) = (u64::MAX, 0);
        rows(path, |row| {
            if due.len() == MOST_ROWS {
                bail!("{} has more than twenty million requests: import its parts", path.display());
            }
            due.push((row.metadata.due(), due.len() as u32));
            first_sent = first_sent.min(row.metadata.request_start_ns);
            last_end = last_end.max(row.metadata.end());
            Ok(())
        })?;
        due.sort_unstable();
        let (Some((origin, _)), Some((last_due, _))) = (due.first().copied(), due.last().copied()) else {
            bail!("{} has no request of the profiled phase", path.display());
        };
        if span(last_end.saturating_sub(origin) as f64 / 1e9).is_none() {
            bail!(
                "{}: its times (request_start_ns, request_end_ns) lie more than three years apart",
                path.display()
            );
        }
        let mut ids = vec![0; due.len()];
        for (id, (_, n)) in (0..).zip(&due) {
            ids[*n as usize] = id;
        }
        let path = path.to_owned();
        Ok(Self { path, origin, first_sent, last_due, last_end, ids, server_counts })
    }

    pub(super) fn last_due(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.last_due - self.origin))
    }

    pub(super) fn each(self, take: &mut dyn FnMut(ImportedRequest) -> Result<()>) -> Result<()> {
        let mut n = 0;
        rows(&self.path, |row| {
            let id = self.ids.get(n).copied().context("the file has changed while it was read")?;
            n += 1;
            take(self.request(&row, u64::from(id)).into())
        })
    }

    fn request(&self, row: &RequestLine, id: u64) -> Finished {
        let (meta, m) = (&row.metadata, &row.metrics);
        let at = |ns: u64| Duration::from_nanos(ns.saturating_sub(self.origin));
        let sent = at(meta.request_start_ns);
        let mut record = Record::due(id, Phase::Measure, at(meta.due()));
        (record.sent, record.attempts) = (Some(sent), 1);
        record.headers = meta.request_ack_ns.filter(|t| *t <= self.last_end).map(at);
        record.end = at(meta.end());
        record.conn =
            number(&m.http_req_connection_reused).map(|x| if x > 0.5 { Conn::Reused } else { Conn::New });
        record.input_tokens = tokens(&m.input_sequence_length);
        if meta.was_cancelled {
            record.outcome = Outcome::Cut;
            return Finished::new(record, Vec::new());
        }
        if let Some(error) = &row.error {
            let mut finished = Finished::new(record, Vec::new());
            let status = error.code.and_then(|c| u16::try_from(c).ok());
            let named = error.r#type.as_deref().unwrap_or_default();
            fail(&mut finished, status, &format!("{named}: {}", error.message));
            return finished;
        }
        // AIPerf gives these times in milliseconds after the send.
        let after = |of: &Option<Measured>| number(of).and_then(|ms| span(ms / 1e3)).map(|d| sent + d);
        record.outcome = Outcome::Ok;
        record.first_token = after(&m.time_to_first_token);
        record.first_content = after(&m.time_to_first_output_token);
        record.last_token = after(&m.request_latency).or(Some(record.end));
        let usage = tokens(&m.usage_completion_tokens).filter(|_| self.server_counts);
        record.output_tokens = usage.or_else(|| tokens(&m.output_sequence_length));
        record.token_source = record.output_tokens.map(|_| match usage {
            Some(_) => TokenSource::Usage,
            None => TokenSource::Tokenizer,
        });
        record.reasoning_tokens = tokens(&m.reasoning_token_count);
        let gaps = m.inter_chunk_latency.as_ref().map_or(&[][..], |g| &g.value);
        let gaps_us = gaps_us(gaps.iter().map(|ms| ms / 1e3));
        record.events = u32::from(record.first_token.is_some()) + gaps_us.len() as u32;
        record.itl_max = longest(&gaps_us);
        Finished::new(record, gaps_us)
    }
}

impl Metadata {
    /// Returns the time its credit was issued, but never later than the send.
    fn due(&self) -> u64 {
        self.credit_issued_ns.map_or(self.request_start_ns, |t| t.min(self.request_start_ns))
    }

    fn end(&self) -> u64 {
        self.request_end_ns.unwrap_or(self.request_start_ns).max(self.request_start_ns)
    }
}

fn number(of: &Option<Measured>) -> Option<f64> {
    of.as_ref()?.value.filter(|x| x.is_finite())
}

fn tokens(of: &Option<Measured>) -> Option<u32> {
    number(of).filter(|x| (0.0..4e9).contains(x)).map(|x| x as u32)
}

/// Passes each row of the profiled phase to `take`; skips warm-ups and blank lines.
fn rows(path: &Path, mut take: impl FnMut(RequestLine) -> Result<()>) -> Result<()> {
    let mut input = open_packed(path)?;
    let (mut line, mut n) = (String::new(), 0_u64);
    loop {
        line.clear();
        n += 1;
        let place = || format!("{}, line {n}", path.display());
        let read = std::io::Read::take(&mut input, LONGEST_ROW as u64 + 1).read_line(&mut line);
        if read.with_context(|| format!("cannot read {}", place()))? == 0 {
            return Ok(());
        }
        if line.len() > LONGEST_ROW {
            bail!("{}: a row of more than {} MiB is no record", place(), LONGEST_ROW >> 20);
        }
        if line.trim().is_empty() {
            continue;
        }
        let row: RequestLine = serde_json::from_str(&line).with_context(|| {
            format!("{} is no record of AIPerf (an object with metadata and metrics)", place())
        })?;
        if row.metadata.benchmark_phase.as_deref().is_none_or(|phase| phase == "profiling") {
            take(row)?;
        }
    }
}
