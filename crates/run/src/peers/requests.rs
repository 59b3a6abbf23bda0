//! The measured requests of each step, and the gaps between their tokens, from the files of a run folder.

use crate::rundir::cell::bare;
use crate::rundir::imported::COUNTED;
use crate::rundir::{HISTOGRAMS, REQUESTS};
use anyhow::{Context, Result, bail};
use csv::StringRecord;
use goodput_core::slo::ALL;
use goodput_stats::stats::step::Step;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A row of `requests.csv`, as far as other tools' figures need it; times in ms from the start of the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Request {
    pub(super) outcome: Ended,
    pub(super) sent: Option<f64>,
    pub(super) first_event: Option<f64>,
    pub(super) first_token: Option<f64>,
    pub(super) first_content: Option<f64>,
    pub(super) last_token: Option<f64>,
    pub(super) end: f64,
    pub(super) input: Option<u32>,
    /// Output tokens; by the tool's own count where it measured them and counted otherwise.
    pub(super) output: Option<u32>,
    pub(super) first_event_tokens: Option<u32>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Answered.
    Ok,
    /// Failed.
    Failed,
    /// Cut off.
    Cut,
}

impl Request {
    pub(super) fn ok(&self) -> bool {
        self.outcome == Ended::Ok
    }

    pub(super) fn failed(&self) -> bool {
        self.outcome == Ended::Failed
    }

    /// Time from the sending to a moment of it.
    pub(super) fn since_sent(&self, at: Option<f64>) -> Option<f64> {
        Some(at? - self.sent?)
    }

    /// Output tokens, where there are any.
    pub(super) fn tokens(&self) -> Option<f64> {
        self.output.filter(|n| *n > 0).map(f64::from)
    }
}

/// Gaps between events with tokens, pooled over a step: middle of a bucket in ms, and how many gaps it holds, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Gaps(pub(super) Vec<(f64, u64)>);

/// Rows of a file by column name; `None` where it is not there.
fn reader(dir: &Path, name: &str) -> Result<Option<csv::Reader<BufReader<File>>>> {
    let path = dir.join(name);
    match File::open(&path) {
        Ok(file) => Ok(Some(
            csv::ReaderBuilder::new().flexible(true).from_reader(BufReader::with_capacity(1 << 18, file)),
        )),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("failed to read {}", path.display())),
    }
}

/// Where the columns of these names stand.
fn columns<const N: usize>(heads: &StringRecord, names: [&str; N], file: &str) -> Result<[usize; N]> {
    let mut at = [0; N];
    for (at, name) in at.iter_mut().zip(names) {
        *at = heads.iter().position(|h| h == name).with_context(|| format!("{file} has no column {name}"))?;
    }
    Ok(at)
}

/// The measured requests of each of the steps, in their order. `counted`: with the tool's own counts of tokens, where it had others.
pub(super) fn read(dir: &Path, steps: &[Step], counted: bool) -> Result<Vec<Vec<Request>>> {
    let Some(mut reader) = reader(dir, REQUESTS)? else {
        bail!("{} has no {REQUESTS}, from which these figures are made", dir.display());
    };
    let place: HashMap<(&str, u32), usize> =
        steps.iter().enumerate().map(|(i, s)| ((s.series.as_str(), s.step), i)).collect();
    let own = if counted { own_counts(dir)? } else { HashMap::new() };
    let failed = || format!("failed to read {}", dir.join(REQUESTS).display());
    let heads = reader.headers().with_context(failed)?.clone();
    let [series, step, id, phase, outcome] =
        columns(&heads, ["series", "step", "id", "phase", "outcome"], REQUESTS)?;
    let times = columns(
        &heads,
        ["sent_ms", "first_event_ms", "first_token_ms", "first_content_ms", "last_token_ms", "end_ms"],
        REQUESTS,
    )?;
    let counts = columns(&heads, ["input_tokens", "output_tokens", "first_event_tokens"], REQUESTS)?;
    let mut found = vec![Vec::new(); steps.len()];
    let mut row = StringRecord::new();
    // A torn last row, which a killed sweep leaves, is short of cells.
    while reader.read_record(&mut row).with_context(failed)? {
        let number = row.get(step).and_then(|s| s.parse::<u32>().ok());
        let at = number.and_then(|n| place.get(&(bare(row.get(series)?), n)).copied());
        let (Some(at), Some(number), Some("measure")) = (at, number, row.get(phase)) else { continue };
        if row.len() != heads.len() {
            continue;
        }
        let outcome = match row.get(outcome) {
            Some("ok") => Ended::Ok,
            Some("failed") => Ended::Failed,
            Some("cut") => Ended::Cut,
            _ => continue,
        };
        let [sent, first_event, first_token, first_content, last_token, end] =
            times.map(|c| row.get(c).and_then(|s| s.parse::<f64>().ok()).filter(|v| v.is_finite()));
        let [input, output, first_event_tokens] =
            counts.map(|c| row.get(c).and_then(|s| s.parse::<u32>().ok()));
        let own =
            row.get(id).and_then(|id| id.parse::<u64>().ok()).and_then(|id| own.get(&(number, id)).copied());
        found[at].push(Request {
            outcome,
            sent,
            first_event,
            first_token,
            first_content,
            last_token,
            end: end.unwrap_or_default(),
            input,
            output: own.or(output),
            first_event_tokens,
        });
    }
    Ok(found)
}

/// Output tokens as the tool counted them that measured the run, by step and id.
fn own_counts(dir: &Path) -> Result<HashMap<(u32, u64), u32>> {
    let Some(reader) = reader(dir, COUNTED)? else { return Ok(HashMap::new()) };
    let rows = reader.into_deserialize::<(u32, u64, u32)>();
    rows.map(|row| row.map(|(step, id, tokens)| ((step, id), tokens)))
        .collect::<Result<_, _>>()
        .with_context(|| format!("failed to read {}", dir.join(COUNTED).display()))
}

/// The gaps of each of the steps, in their order.
pub(super) fn gaps(dir: &Path, steps: &[Step]) -> Result<Vec<Gaps>> {
    let mut found = vec![Gaps::default(); steps.len()];
    let Some(mut reader) = reader(dir, HISTOGRAMS)? else { return Ok(found) };
    let failed = || format!("failed to read {}", dir.join(HISTOGRAMS).display());
    let heads = reader.headers().with_context(failed)?.clone();
    let [series, step, class, metric, low, high, count] =
        columns(&heads, ["series", "step", "class", "metric", "low_us", "high_us", "count"], HISTOGRAMS)?;
    for row in reader.records() {
        let row = row.with_context(failed)?;
        if (row.get(class), row.get(metric)) != (Some(ALL), Some("itl")) {
            continue;
        }
        let at = steps.iter().position(|s| {
            row.get(series).map(bare) == Some(&s.series) && row.get(step) == Some(&s.step.to_string())
        });
        let number = |c: usize| row.get(c).and_then(|s| s.parse::<f64>().ok());
        if let (Some(at), Some(low), Some(high), Some(count)) = (at, number(low), number(high), number(count))
        {
            found[at].0.push(((low + high) / 2e3, count as u64));
        }
    }
    for gaps in &mut found {
        gaps.0.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(found)
}
