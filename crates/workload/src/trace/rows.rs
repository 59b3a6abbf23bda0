//! The requests of a file, one after the other: bad rows are an error or counted, failed ones counted.

use super::csv::CsvRows;
use super::format::Reading;
use super::json::JsonRows;
use super::requests::Hashing;
use super::row::{BadRow, Item, RawRow};
use crate::bytes;
use anyhow::{Context, Result, anyhow};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// So many bad rows are kept to be shown.
const KEPT: usize = 5;

/// A file being read from its start.
pub(super) struct Rows {
    path: PathBuf,
    lines: Lines,
    ready: VecDeque<Item>,
    skip_bad: bool,
    /// What was left out so far.
    pub(super) left_out: LeftOut,
}

enum Lines {
    Csv(Box<CsvRows>),
    Json(JsonRows),
}

/// Rows that are no requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Rows that could not be read.
    pub(super) bad: u64,
    /// The first few of them.
    pub(super) first: Vec<BadRow>,
    /// Requests that failed where they were recorded.
    pub(super) failed: u64,
}

impl Rows {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a column is not there.
    pub(super) fn open(path: &Path, how: &Reading, skip_bad: bool) -> Result<Self> {
        let bytes = bytes::open(path)?;
        let lines = if how.format.is_csv() {
            Lines::Csv(Box::new(CsvRows::new(bytes, how).with_context(|| path.display().to_string())?))
        } else {
            Lines::Json(JsonRows::new(bytes))
        };
        let (ready, left_out) = (VecDeque::new(), LeftOut::default());
        Ok(Self { path: path.to_owned(), lines, ready, skip_bad, left_out })
    }

    /// The next request; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read on, or a row is bad and they are not skipped: file, line, field and reason.
    pub(super) fn next(&mut self, how: &Reading, hashing: Option<&Hashing>) -> Result<Option<RawRow>> {
        loop {
            match self.ready.pop_front() {
                Some(Item::Row(row)) => return Ok(Some(row)),
                Some(Item::Failed) => self.left_out.failed += 1,
                Some(Item::Bad(bad)) if self.skip_bad => {
                    self.left_out.bad += 1;
                    if self.left_out.first.len() < KEPT {
                        self.left_out.first.push(bad);
                    }
                }
                Some(Item::Bad(bad)) => {
                    return Err(anyhow!(
                        "{}, {bad}; mend the row, or leave such rows out with skip-bad-rows (--skip-bad-rows)",
                        self.path.display()
                    ));
                }
                None => {
                    if !self.fill(how, hashing).with_context(|| self.path.display().to_string())? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads on; `false` at the end of the file.
    fn fill(&mut self, how: &Reading, hashing: Option<&Hashing>) -> Result<bool> {
        match &mut self.lines {
            Lines::Json(rows) => rows.next(how, hashing, &mut self.ready),
            Lines::Csv(rows) => {
                let item = rows.next(how)?;
                let more = item.is_some();
                self.ready.extend(item);
                Ok(more)
            }
        }
    }
}
