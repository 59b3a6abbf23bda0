//! The requests of a trace file in order. Bad rows are an error or counted, failed requests are counted.

use super::copilot;
use super::csv::Columns;
use super::format::{Field, Format, Layout};
use super::json::{Conversations, flat_row};
use super::requests::{self, Hashing};
use super::row::{BadRow, Item, UncheckedRow};
use crate::files::open::{Bytes, open};
use crate::files::{Framing, MAX_EXAMPLES, RowBytes, ScanError, Scanner};
use anyhow::{Context, Result, anyhow};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// A trace file being read from its start.
pub(super) struct Rows {
    path: PathBuf,
    scanner: Scanner<Bytes>,
    /// The columns of CSV.
    columns: Option<Columns>,
    conversations: Conversations,
    ready: VecDeque<Item>,
    skip_bad: bool,
    /// Rows skipped so far.
    pub(super) skipped: Skipped,
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
        let csv = layout.format.properties().csv;
        let framing = if csv { Framing::Csv(layout.delimiter) } else { Framing::Lines };
        let mut scanner = Scanner::new(open(path)?, framing);
        let mut header = || {
            let row = scanner.next()?;
            Columns::new(row.map_or(&[], |row| row.bytes), layout)
        };
        let columns = csv.then(|| header().with_context(|| path.display().to_string())).transpose()?;
        Ok(Self {
            path: path.to_owned(),
            scanner,
            columns,
            conversations: Conversations::default(),
            ready: VecDeque::new(),
            skip_bad,
            skipped: Skipped::default(),
        })
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

    /// Reads the next row of the file; returns false at its end.
    fn fill(&mut self, layout: &Layout, hashing: Option<&Hashing>) -> Result<bool> {
        let line = self.scanner.line_number();
        let row = match self.scanner.next() {
            Ok(row) => row,
            Err(ScanError::Io(e)) => return Err(e).with_context(|| format!("line {line}: failed to read")),
            Err(ScanError::Malformed { line, reason, .. }) => {
                self.ready.push_back(Item::Bad(BadRow { line, field: String::new(), reason }));
                return Ok(true);
            }
        };
        let Some(RowBytes { line, bytes, .. }) = row else { return Ok(false) };
        let bytes = if self.columns.is_some() { bytes } else { bytes.trim_ascii() };
        let item = match (layout.format, &mut self.columns) {
            (Format::Copilot, _) => {
                copilot::calls(bytes, line, layout, &mut self.ready);
                return Ok(true);
            }
            (Format::Requests, _) => requests::request(bytes, line, layout, hashing),
            (_, Some(columns)) => columns.row(bytes, line, layout),
            (_, None) if layout.names[Field::Delay as usize].is_some() => {
                self.conversations.place(flat_row(bytes, line, layout), line, layout)
            }
            (_, None) => flat_row(bytes, line, layout),
        };
        self.ready.push_back(item);
        Ok(true)
    }
}
