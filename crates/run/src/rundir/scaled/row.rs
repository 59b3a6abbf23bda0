//! A row of `requests.csv` as a record.

use crate::rundir::cell::bare_bytes;
use goodput_core::record::{Failure, Outcome, Phase, Record};
use std::time::Duration;

/// What is needed of a request.
pub(in crate::rundir) const COLUMNS: [&str; 16] = [
    "series",
    "step",
    "phase",
    "outcome",
    "due_ms",
    "sent_ms",
    "end_ms",
    "first_token_ms",
    "first_content_ms",
    "last_token_ms",
    "output_asked",
    "output_tokens",
    "first_event_tokens",
    "id",
    "class",
    "failure",
];

/// A row of `requests.csv` by the places of [`COLUMNS`].
pub(in crate::rundir) struct Cells<'a> {
    /// The row.
    pub(in crate::rundir) row: &'a csv::ByteRecord,
    /// Where the columns are.
    pub(in crate::rundir) columns: &'a [usize],
}

impl Cells<'_> {
    pub(in crate::rundir) fn cell(&self, i: usize) -> &[u8] {
        bare_bytes(self.columns.get(i).and_then(|c| self.row.get(*c)).unwrap_or_default())
    }

    pub(in crate::rundir) fn number<T: std::str::FromStr>(&self, i: usize) -> Option<T> {
        std::str::from_utf8(self.cell(i)).ok()?.parse().ok()
    }

    /// A time in milliseconds, back to the nanosecond that was written.
    pub(in crate::rundir) fn time(&self, i: usize) -> Option<Duration> {
        let ms: f64 = self.number(i).filter(|ms: &f64| ms.is_finite() && *ms >= 0.0)?;
        Some(Duration::from_nanos((ms * 1e6).round() as u64))
    }

    /// The request as far as limits and the client's own faults go by it.
    pub(in crate::rundir) fn record(&self, classes: &[&str]) -> Option<Record> {
        let phase = match self.cell(2) {
            b"warmup" => Phase::Warmup,
            b"settle" => Phase::Settle,
            b"measure" => Phase::Measure,
            b"tail" => Phase::Tail,
            _ => return None,
        };
        let outcome = match self.cell(3) {
            b"ok" => Outcome::Ok,
            b"failed" => Outcome::Failed,
            b"cut" => Outcome::Cut,
            _ => return None,
        };
        let class = classes.iter().position(|c| c.as_bytes() == self.cell(14));
        Some(Record {
            sent: self.time(5),
            end: self.time(6)?,
            first_token: self.time(7),
            first_content: self.time(8),
            last_token: self.time(9),
            output_asked: self.number(10)?,
            output_tokens: self.number(11),
            first_event_tokens: self.number(12),
            class: class.map_or(0, |c| c as u16),
            outcome,
            // Two kinds are the client's own.
            failure: match self.cell(15) {
                b"client-limit" => Some(Failure::ClientLimit),
                b"timeout" => Some(Failure::Timeout),
                _ => None,
            },
            ..Record::due(self.number(13)?, phase, self.time(4)?)
        })
    }
}
