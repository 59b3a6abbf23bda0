//! `requests.csv`: one row per request. Column names and their order are a contract with users.

use super::REQUESTS;
use super::table::{CellError, Columns, TableRow, each_row};
use anyhow::Result;
use goodput_core::record::{Phase, Record};
use goodput_core::slo::ALL;
use std::path::Path;
use std::time::Duration;

/// A row of `requests.csv`; for the meaning of the columns see the fields of [`Record`]. Times are milliseconds from
/// the start of the step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestRow {
    /// Name of the series.
    pub(crate) series: String,
    /// Number of the step.
    pub(crate) step: u32,
    /// Name of the class.
    pub(crate) class: String,
    /// The request. [`Record::class`] is not in the file, which has the name instead.
    pub(crate) record: Record,
}

impl TableRow for RequestRow {
    const FILE: &'static str = REQUESTS;

    fn empty() -> Self {
        let record = Record::due(0, Phase::Measure, Duration::ZERO);
        Self { series: String::new(), step: 0, class: ALL.to_owned(), record }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        let r = &mut self.record;
        c.cell("series", &mut self.series)?;
        c.cell("step", &mut self.step)?;
        c.later("id", &mut r.id)?;
        c.cell("phase", &mut r.phase)?;
        c.later("class", &mut self.class)?;
        c.cell("session", &mut r.session)?;
        c.later("turn", &mut r.turn)?;
        c.later("target", &mut r.target)?;
        c.cell("conn", &mut r.conn)?;
        c.later("attempts", &mut r.attempts)?;
        c.cell("due_ms", &mut r.due)?;
        c.cell("sent_ms", &mut r.sent)?;
        c.cell("headers_ms", &mut r.headers)?;
        c.cell("first_event_ms", &mut r.first_event)?;
        c.cell("first_token_ms", &mut r.first_token)?;
        c.cell("first_content_ms", &mut r.first_content)?;
        c.cell("last_token_ms", &mut r.last_token)?;
        c.cell("end_ms", &mut r.end)?;
        c.later("input_asked", &mut r.input_asked)?;
        c.cell("input_tokens", &mut r.input_tokens)?;
        c.cell("cached_tokens", &mut r.cached_tokens)?;
        c.later("output_asked", &mut r.output_asked)?;
        c.cell("output_tokens", &mut r.output_tokens)?;
        c.cell("reasoning_tokens", &mut r.reasoning_tokens)?;
        c.cell("token_source", &mut r.token_source)?;
        c.cell("first_event_tokens", &mut r.first_event_tokens)?;
        c.later("events", &mut r.events)?;
        c.cell("itl_max_ms", &mut r.itl_max)?;
        c.later("itl_over", &mut r.itl_over)?;
        c.later("output_bytes", &mut r.output_bytes)?;
        c.cell("outcome", &mut r.outcome)?;
        c.cell("failure", &mut r.failure)?;
        c.cell("status", &mut r.status)?;
        c.cell("finish", &mut r.finish)?;
        c.cell("check", &mut r.check)?;
        c.cell("worker", &mut r.worker)?;
        c.later("items", &mut r.items)?;
        c.cell("audio_ms", &mut r.audio)?;
        c.cell("uploaded_ms", &mut r.uploaded)?;
        c.cell("choices", &mut r.choices)?;
        c.cell("decoding_ms", &mut r.decoding)
    }
}

/// Visits every whole row of `requests.csv` as a record, with its series and step. `classes` are the names of the
/// plan's classes, in order.
///
/// # Errors
/// Fails if the file exists but cannot be read.
pub(super) fn each_record(
    dir: &Path,
    classes: &[&str],
    mut each: impl FnMut(&str, u32, &Record),
) -> Result<()> {
    each_row(dir, |row: &mut RequestRow| {
        row.record.class = classes.iter().position(|class| *class == row.class).unwrap_or_default() as u16;
        each(&row.series, row.step, &row.record);
    })
}
