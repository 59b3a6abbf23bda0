//! `requests.csv`: one row per request. Column names and their order are a contract with users.

use super::files::{self, ends_torn, is_empty, open_to_append};
use super::table::{NamedCells, heads_of};
use super::{REQUESTS, cell};
use anyhow::{Context, Result};
use goodput_core::record::{Conn, Failure, Outcome, Phase, Record, TokenSource};
use goodput_core::slo::ALL;
use goodput_core::units::ms;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The columns of `requests.csv`, in order; for their meaning see the fields of [`Record`]. Times are milliseconds
/// from the start of the step. `None` is an empty cell, or a column that the file does not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestRow<'a> {
    #[serde(serialize_with = "cell::text", deserialize_with = "cell::bare_text", borrow)]
    pub(crate) series: &'a str,
    pub(crate) step: u32,
    #[serde(default)]
    pub(crate) id: u64,
    pub(crate) phase: Phase,
    #[serde(default = "all", serialize_with = "cell::text", deserialize_with = "cell::bare_text", borrow)]
    pub(crate) class: &'a str,
    pub(crate) session: Option<u64>,
    #[serde(default)]
    pub(crate) turn: u16,
    #[serde(default)]
    pub(crate) target: u16,
    pub(crate) conn: Option<Conn>,
    #[serde(default)]
    pub(crate) attempts: u8,
    #[serde(deserialize_with = "time")]
    pub(crate) due_ms: f64,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) sent_ms: Option<f64>,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) headers_ms: Option<f64>,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) first_event_ms: Option<f64>,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) first_token_ms: Option<f64>,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) first_content_ms: Option<f64>,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) last_token_ms: Option<f64>,
    #[serde(deserialize_with = "time")]
    pub(crate) end_ms: f64,
    #[serde(default)]
    pub(crate) input_asked: u32,
    pub(crate) input_tokens: Option<u32>,
    pub(crate) cached_tokens: Option<u32>,
    #[serde(default)]
    pub(crate) output_asked: u32,
    pub(crate) output_tokens: Option<u32>,
    pub(crate) reasoning_tokens: Option<u32>,
    pub(crate) token_source: Option<TokenSource>,
    pub(crate) first_event_tokens: Option<u32>,
    #[serde(default)]
    pub(crate) events: u32,
    #[serde(default, deserialize_with = "opt_time")]
    pub(crate) itl_max_ms: Option<f64>,
    #[serde(default)]
    pub(crate) itl_over: u32,
    #[serde(default)]
    pub(crate) output_bytes: u64,
    pub(crate) outcome: Outcome,
    pub(crate) failure: Option<Failure>,
    pub(crate) status: Option<u16>,
    #[serde(default, serialize_with = "cell::opt_text", deserialize_with = "cell::opt_bare_text", borrow)]
    pub(crate) finish: Option<&'a str>,
    pub(crate) check: Option<bool>,
}

/// Returns the default class, for files without this column.
const fn all() -> &'static str {
    ALL
}

/// Reads a time in milliseconds.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let ms = f64::deserialize(from)?;
    if ms.is_finite() && ms >= 0.0 { Ok(ms) } else { Err(D::Error::custom(format_args!("{ms} is no time"))) }
}

/// Reads an optional time in milliseconds.
fn opt_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let value: Option<f64> = Option::deserialize(from)?;
    let is_time = |ms: &f64| ms.is_finite() && *ms >= 0.0;
    match value {
        Some(ms) if !is_time(&ms) => Err(D::Error::custom(format_args!("{ms} is no time"))),
        known => Ok(known),
    }
}

impl<'a> RequestRow<'a> {
    /// Makes the row of a record.
    pub(crate) fn new(series: &'a str, step: u32, class: &'a str, r: &'a Record) -> Self {
        let opt = |d: Option<Duration>| d.map(ms);
        Self {
            series,
            step,
            id: r.id,
            phase: r.phase,
            class,
            session: r.session,
            turn: r.turn,
            target: r.target,
            conn: r.conn,
            attempts: r.attempts,
            due_ms: ms(r.due),
            sent_ms: opt(r.sent),
            headers_ms: opt(r.headers),
            first_event_ms: opt(r.first_event),
            first_token_ms: opt(r.first_token),
            first_content_ms: opt(r.first_content),
            last_token_ms: opt(r.last_token),
            end_ms: ms(r.end),
            input_asked: r.input_asked,
            input_tokens: r.input_tokens,
            cached_tokens: r.cached_tokens,
            output_asked: r.output_asked,
            output_tokens: r.output_tokens,
            reasoning_tokens: r.reasoning_tokens,
            token_source: r.token_source,
            first_event_tokens: r.first_event_tokens,
            events: r.events,
            itl_max_ms: opt(r.itl_max),
            itl_over: r.itl_over,
            output_bytes: r.output_bytes,
            outcome: r.outcome,
            failure: r.failure,
            status: r.status,
            finish: r.finish.as_deref(),
            check: r.check,
        }
    }

    /// Returns the names of the columns.
    pub(super) fn columns() -> Vec<String> {
        let row = Record::due(0, Phase::Measure, Duration::ZERO);
        NamedCells::of(&RequestRow::new("", 0, "", &row)).map(|row| row.names).unwrap_or_default()
    }

    /// Returns the request as a record. `class` is the index of its class in the plan.
    pub(crate) fn record(&self, class: u16) -> Record {
        // Rounds to the nanosecond, to restore the exact value that was written.
        let time = |ms: f64| Duration::from_nanos((ms * 1e6).round() as u64);
        let opt = |ms: Option<f64>| ms.map(time);
        Record {
            id: self.id,
            phase: self.phase,
            class,
            session: self.session,
            turn: self.turn,
            target: self.target,
            conn: self.conn,
            attempts: self.attempts,
            due: time(self.due_ms),
            sent: opt(self.sent_ms),
            headers: opt(self.headers_ms),
            first_event: opt(self.first_event_ms),
            first_token: opt(self.first_token_ms),
            first_content: opt(self.first_content_ms),
            last_token: opt(self.last_token_ms),
            end: time(self.end_ms),
            input_asked: self.input_asked,
            input_tokens: self.input_tokens,
            cached_tokens: self.cached_tokens,
            output_asked: self.output_asked,
            output_tokens: self.output_tokens,
            reasoning_tokens: self.reasoning_tokens,
            token_source: self.token_source,
            first_event_tokens: self.first_event_tokens,
            events: self.events,
            itl_max: opt(self.itl_max_ms),
            itl_over: self.itl_over,
            output_bytes: self.output_bytes,
            outcome: self.outcome,
            failure: self.failure,
            status: self.status,
            finish: self.finish.map(Into::into),
            check: self.check,
        }
    }
}

/// The writer of `requests.csv` during a sweep.
pub(super) struct RequestsWriter {
    to: csv::Writer<BufWriter<File>>,
    path: PathBuf,
    /// For each column of a file that another version started, its index among the columns of this version; `None` if
    /// they are equal.
    places: Option<Vec<Option<usize>>>,
}

impl RequestsWriter {
    /// Opens the file of a run folder for appending.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(REQUESTS);
        let is_new = is_empty(&path);
        let names = RequestRow::columns();
        let heads = if is_new { names.clone() } else { heads_of(&path)? };
        let place = |head: &String| names.iter().position(|name| name == head);
        let places = (heads != names).then(|| heads.iter().map(place).collect());
        let file = BufWriter::with_capacity(1 << 16, open_to_append(&path)?);
        let to = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
        Ok(Self { to, path, places })
    }

    /// Adds a row; it is on disk after the next [`Self::flush`].
    pub(super) fn add(&mut self, row: &RequestRow<'_>) -> Result<()> {
        let written = match &self.places {
            None => self.to.serialize(row).map_err(anyhow::Error::from),
            Some(places) => add_under(&mut self.to, places, row),
        };
        written.with_context(|| format!("failed to write {}", self.path.display()))
    }

    /// Flushes the added rows to disk.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.to.flush().with_context(|| format!("failed to write {}", self.path.display()))
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> &File {
        self.to.get_ref().get_ref()
    }
}

/// Writes a row with the columns of the file.
fn add_under(
    to: &mut csv::Writer<BufWriter<File>>,
    places: &[Option<usize>],
    row: &RequestRow<'_>,
) -> Result<()> {
    let mut whole = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    whole.serialize(row)?;
    let text = whole.into_inner().context("the row is in memory")?;
    let mut cells = csv::StringRecord::new();
    csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_slice()).read_record(&mut cells)?;
    let cell = |place: &Option<usize>| place.and_then(|at| cells.get(at)).unwrap_or_default();
    Ok(to.write_record(places.iter().map(cell))?)
}

/// Visits every complete row of `requests.csv`; none if the file is missing. Skips damaged rows, and a torn last row,
/// which a killed run leaves behind.
///
/// # Errors
/// Fails if the file exists but cannot be read.
pub(crate) fn each_request(dir: &Path, mut each: impl FnMut(&RequestRow<'_>)) -> Result<()> {
    let path = dir.join(REQUESTS);
    let failed = || format!("failed to read {}", path.display());
    let Some(mut file) = files::open(&path)? else { return Ok(()) };
    let torn = ends_torn(&mut file).with_context(failed)?;
    let file = BufReader::with_capacity(1 << 18, file);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let heads = reader.byte_headers().with_context(failed)?.clone();
    // Reads one row ahead, because only the last row may be torn and still have all its cells.
    let (mut row, mut next) = (csv::ByteRecord::new(), csv::ByteRecord::new());
    let mut more = reader.read_byte_record(&mut row).with_context(failed)?;
    while more {
        more = reader.read_byte_record(&mut next).with_context(failed)?;
        if row.len() == heads.len()
            && (more || !torn)
            && let Ok(request) = row.deserialize(Some(&heads))
        {
            each(&request);
        }
        std::mem::swap(&mut row, &mut next);
    }
    Ok(())
}

/// Visits every complete row of `requests.csv` as a record, with its series and step. `classes` are the names of the
/// plan's classes, in order.
///
/// # Errors
/// Fails if the file exists but cannot be read.
pub(super) fn each_record(
    dir: &Path,
    classes: &[&str],
    mut each: impl FnMut(&str, u32, &Record),
) -> Result<()> {
    each_request(dir, |row| {
        let class = classes.iter().position(|class| *class == row.class).unwrap_or_default();
        each(row.series, row.step, &row.record(class as u16));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_guarded_and_quoted() {
        let mut w = csv::Writer::from_writer(vec![]);
        let mut record = Record::due(7, Phase::Measure, Duration::from_micros(1_234_567));
        record.failure = Some(Failure::RateLimited);
        record.outcome = Outcome::Failed;
        record.finish = Some("a,\"b\"\n".into());
        w.serialize(RequestRow::new("main", 3, "all", &record)).unwrap();
        let text = String::from_utf8(w.into_inner().unwrap()).unwrap();
        let (head, row) = text.split_once('\n').unwrap();
        assert_eq!(head, RequestRow::columns().join(","));
        assert!(row.starts_with("main,3,7,measure,all,,0,0,,0,1234.567,,"), "{row}");
        assert!(row.contains("failed,rate-limited,,\"a,\"\"b\"\"\n\""), "{row}");
    }
}
