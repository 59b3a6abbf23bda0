//! External sort of rows by time, through a temporary file and in bounded memory.
//!
//! Runs are sorted in memory and written one after another, then merged while reading.

use super::row::UncheckedRow;
use super::spool::{SpoolRows, write};
use crate::files::temporary;
use anyhow::{Context, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// Memory of one run, in bytes.
const RUN_BYTES: usize = 24 << 20;

/// Accepts rows in any order.
pub(super) struct Sorter {
    run: Vec<UncheckedRow>,
    bytes: usize,
    max_bytes: usize,
    file: File,
    /// Byte offset of the end of each run.
    ends: Vec<u64>,
}

/// Rows in order of time, follow-ups after the row they follow.
pub(super) struct Sorted {
    runs: Vec<SpoolRows>,
    /// The next row of each run, by time and position in the file.
    heads: BinaryHeap<Reverse<(i64, u64, usize)>>,
    rows: Vec<Option<UncheckedRow>>,
}

impl Sorter {
    /// Creates an empty sorter.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be created.
    pub(super) fn new() -> Result<Self> {
        Self::with_runs_of(RUN_BYTES)
    }

    fn with_runs_of(max_bytes: usize) -> Result<Self> {
        let file = temporary().with_context(sort_failed)?;
        Ok(Self { run: Vec::new(), bytes: 0, max_bytes, file, ends: Vec::new() })
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, row: UncheckedRow) -> Result<()> {
        self.bytes += size_of::<UncheckedRow>() + 8 * row.blocks.capacity();
        self.run.push(row);
        if self.bytes >= self.max_bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        // Stable, so that rows of one moment keep their order and conversations stay together.
        self.run.sort_by_key(|r| (r.at, r.conversation_line));
        let mut out = BufWriter::with_capacity(1 << 20, &self.file);
        let mut end = self.ends.last().copied().unwrap_or(0);
        for row in self.run.drain(..) {
            end += write(&mut out, &row).with_context(sort_failed)?;
        }
        out.flush().with_context(sort_failed)?;
        drop(out);
        self.ends.push(end);
        self.bytes = 0;
        Ok(())
    }

    /// Starts the merge.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written or read.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        self.flush()?;
        let file = Arc::new(self.file);
        let mut sorted = Sorted { runs: Vec::new(), heads: BinaryHeap::new(), rows: Vec::new() };
        let mut from = 0;
        for (i, to) in self.ends.into_iter().enumerate() {
            sorted.runs.push(SpoolRows::between(&file, from, to));
            sorted.rows.push(None);
            sorted.advance(i)?;
            from = to;
        }
        Ok(sorted)
    }
}

impl Sorted {
    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<UncheckedRow>> {
        let Some(Reverse((.., run))) = self.heads.pop() else { return Ok(None) };
        let row = self.rows[run].take();
        self.advance(run)?;
        Ok(row)
    }

    fn advance(&mut self, run: usize) -> Result<()> {
        self.rows[run] = self.runs[run].next()?;
        self.heads.extend(self.rows[run].as_ref().map(|r| Reverse((r.at, r.conversation_line, run))));
        Ok(())
    }
}

fn sort_failed() -> String {
    format!(
        "the rows are not in order of time, and could not be sorted through a file in {}: make room there, or set TMPDIR \
         to another directory",
        std::env::temp_dir().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = UncheckedRow> {
        let lengths =
            (any::<i64>(), any::<u32>(), proptest::option::of(0..9u32), proptest::option::of(0..9u32));
        let after = proptest::option::of(0..1_000u64);
        let rest = (proptest::collection::vec(any::<u64>(), 0..5), any::<Option<u64>>(), any::<bool>());
        (lengths, after, 0..5u64, rest).prop_map(
            |((at, input, output, cached), after, conversation_line, (blocks, session, estimated))| {
                UncheckedRow {
                    at: at / 1_000_000_000_000_000_000, // many equal times
                    conversation_line,
                    after,
                    input,
                    output,
                    blocks,
                    session,
                    cached,
                    estimated,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn rows_are_returned_in_order(rows in proptest::collection::vec(row(), 0..60), run in 1..2_000usize) {
            let mut sorter = Sorter::with_runs_of(run).unwrap();
            for row in rows.clone() {
                sorter.push(row).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            let got: Vec<UncheckedRow> = std::iter::from_fn(|| sorted.next().unwrap()).collect();
            let mut want = rows;
            want.sort_by_key(|r| (r.at, r.conversation_line));
            prop_assert_eq!(got, want, "rows of one moment keep their order");
        }
    }
}
