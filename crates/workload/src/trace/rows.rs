//! The requests of a trace file in order. Bad rows are an error or counted, failed requests are counted.

use super::csv::CsvRows;
use super::format::Layout;
use super::json::JsonRows;
use super::requests::Hashing;
use super::row::{BadRow, Item, UncheckedRow};
use crate::bytes;
use anyhow::{Context, Result, anyhow};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Number of bad rows kept as examples.
const MAX_EXAMPLES: usize = 5;

/// A trace file being read from its start.
pub(super) struct Rows {
    path: PathBuf,
    lines: Lines,
    ready: VecDeque<Item>,
    skip_bad: bool,
    /// Rows skipped so far.
    pub(super) skipped: Skipped,
}

enum Lines {
    Csv(Box<CsvRows>),
    Json(JsonRows),
}

/// Counts of rows that are not replayed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    /// Number of rows that could not be read.
    pub(super) bad: u64,
    /// The first few of them.
    pub(super) examples: Vec<BadRow>,
    /// Number of requests that failed when recorded.
    pub(super) failed: u64,
}

impl Rows {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or lacks a column.
    pub(super) fn open(path: &Path, layout: &Layout, skip_bad: bool) -> Result<Self> {
        let bytes = bytes::open(path)?;
        let lines = if layout.format.is_csv() {
            Lines::Csv(Box::new(CsvRows::new(bytes, layout).with_context(|| path.display().to_string())?))
        } else {
            Lines::Json(JsonRows::new(bytes))
        };
        let (ready, skipped) = (VecDeque::new(), Skipped::default());
        Ok(Self { path: path.to_owned(), lines, ready, skip_bad, skipped })
    }

    /// Returns the next request; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a row is bad and bad rows are not skipped; names file, line and field.
    pub(super) fn next(
        &mut self,
        layout: &Layout,
        hashing: Option<&Hashing>,
    ) -> Result<Option<UncheckedRow>> {
        loop {
            match self.ready.pop_front() {
                Some(Item::Row(row)) => return Ok(Some(row)),
                Some(Item::Failed) => self.skipped.failed += 1,
                Some(Item::Bad(bad)) if self.skip_bad => {
                    self.skipped.bad += 1;
                    if self.skipped.examples.len() < MAX_EXAMPLES {
                        self.skipped.examples.push(bad);
                    }
                }
                Some(Item::Bad(bad)) => {
                    return Err(anyhow!(
                        "{}, {bad}; correct the row, or skip such rows with skip-bad-rows (--skip-bad-rows)",
                        self.path.display()
                    ));
                }
                None => {
                    if !self.fill(layout, hashing).with_context(|| self.path.display().to_string())? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads the next line; returns false at the end of the file.
    fn fill(&mut self, layout: &Layout, hashing: Option<&Hashing>) -> Result<bool> {
        match &mut self.lines {
            Lines::Json(rows) => rows.next(layout, hashing, &mut self.ready),
            Lines::Csv(rows) => {
                let item = rows.next(layout)?;
                let more = item.is_some();
                self.ready.extend(item);
                Ok(more)
            }
        }
    }
}
