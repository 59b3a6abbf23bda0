//! The pass over a trace file that checks and measures it.

use super::format::{self, Format, Layout};
use super::requests::Hashing;
use super::row::UncheckedRow;
use super::rows::Rows;
use super::sort::{Sorted, Sorter};
use super::source::TraceSource;
use super::spool::{Spool, Spooler};
use super::summary::{Builder, File};
use anyhow::{Result, bail};
use std::time::Duration;

/// A trace file with its layout.
pub(super) struct Input {
    pub(super) source: TraceSource,
    pub(super) layout: Layout,
    pub(super) hashing: Option<Hashing>,
}

/// Result of the pass.
pub(super) struct ScanResult {
    /// Measurements of the window.
    pub(super) builder: Builder,
    /// Rows of the window, if kept.
    pub(super) spool: Option<Spool>,
    pub(super) file: File,
}

/// Consumer of the rows of a pass.
struct Accumulator {
    builder: Builder,
    spooler: Option<Spooler>,
    /// Time of the file's first row, in ns.
    first: Option<i64>,
}

impl Input {
    /// Determines the layout of a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its format is not recognised.
    pub(super) fn new(source: &TraceSource, hashing: Option<Hashing>) -> Result<Self> {
        let mut layout = format::detect(source)?;
        if let Some(hashing) = hashing.as_ref().filter(|_| layout.format == Format::Requests) {
            layout.block_tokens = hashing.block_tokens();
        }
        Ok(Self { source: source.clone(), layout, hashing })
    }

    /// Reads the whole file once, or twice if it must be sorted. With `keep`, writes the window's rows to a temporary
    /// file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, a row is bad, there are no rows, or the temporary file cannot be written.
    pub(super) fn scan(&self, keep: bool) -> Result<ScanResult> {
        let mut file = File { format: self.layout.format.name(), ..File::default() };
        let accumulator = match self.read_ordered(&mut file, self.accumulator(keep)?)? {
            Some(accumulator) => accumulator,
            None => {
                let mut sorted = self.sort(&mut file)?;
                let mut accumulator = self.accumulator(keep)?;
                while let Some(row) = sorted.next()? {
                    self.add(&mut accumulator, &row)?;
                }
                accumulator
            }
        };
        if file.rows == 0 {
            bail!("{} contains no requests{}", self.source.file.display(), skipped(&file));
        }
        let spool = accumulator.spooler.map(Spooler::finish).transpose()?;
        Ok(ScanResult { builder: accumulator.builder, spool, file })
    }

    fn accumulator(&self, keep: bool) -> Result<Accumulator> {
        let spooler = keep.then(Spooler::new).transpose()?;
        Ok(Accumulator { builder: Builder::new(self.layout.block_tokens), spooler, first: None })
    }

    /// Opens the file at its start.
    fn rows(&self) -> Result<Rows> {
        Rows::open(&self.source.file, &self.layout, self.source.skip_bad_rows)
    }

    /// Returns true if a time is inside the window.
    fn in_window(&self, at: i64, first: i64) -> bool {
        let Some(window) = self.source.window else { return true };
        let at = Duration::from_nanos(at.abs_diff(first));
        at >= window.from() && window.to().is_none_or(|to| at < to)
    }

    /// Adds the next row in order of time.
    fn add(&self, into: &mut Accumulator, row: &UncheckedRow) -> Result<()> {
        let first = *into.first.get_or_insert(row.at);
        self.check_span(row.at, first)?;
        if self.in_window(row.at, first) {
            into.builder.push(row);
            into.spooler.as_mut().map_or(Ok(()), |s| s.push(row))?;
        }
        Ok(())
    }

    /// Reads the file in its own order; `None` if the rows are not in order of time.
    fn read_ordered(&self, file: &mut File, mut into: Accumulator) -> Result<Option<Accumulator>> {
        let mut rows = self.rows()?;
        let mut last = (i64::MIN, 0);
        while let Some(row) = rows.next(&self.layout, self.hashing.as_ref())? {
            let position = (row.at, row.conversation_line);
            // A follow-up must come directly after the previous row of its conversation.
            if row.at < last.0 || (row.after.is_some() && position != last) {
                return Ok(None);
            }
            last = position;
            self.add(&mut into, &row)?;
            file.rows += 1;
        }
        file.skipped = rows.skipped;
        Ok(Some(into))
    }

    /// Sorts the file, and counts the rows that are out of order.
    fn sort(&self, file: &mut File) -> Result<Sorted> {
        let mut rows = self.rows()?;
        let mut sorter = Sorter::new()?;
        let (mut latest, mut most) = (i64::MIN, 0);
        file.rows = 0;
        while let Some(row) = rows.next(&self.layout, self.hashing.as_ref())? {
            // A follow-up has no time of its own.
            if row.at < latest && row.after.is_none() {
                file.out_of_order += 1;
                most = most.max(latest.abs_diff(row.at));
            }
            latest = latest.max(row.at);
            file.rows += 1;
            sorter.push(row)?;
        }
        file.out_of_order_s = most as f64 / 1e9;
        file.skipped = rows.skipped;
        sorter.finish()
    }

    /// Rejects a trace of centuries, whose unit must be wrong.
    fn check_span(&self, at: i64, first: i64) -> Result<()> {
        const CENTURY: u64 = 100 * 366 * 86_400 * 1_000_000_000;
        if at.abs_diff(first) > CENTURY {
            bail!(
                "{}: its rows span more than a century: is the unit of its timestamps right? Set it with unit (--unit ms)",
                self.source.file.display()
            );
        }
        Ok(())
    }
}

fn skipped(file: &File) -> String {
    match (file.skipped.bad, file.skipped.failed, file.skipped.examples.first()) {
        (0, 0, _) => String::new(),
        (0, failed, _) => format!(": {failed} had failed when recorded"),
        (bad, _, first) => {
            format!(": {bad} rows are bad{}", first.map(|b| format!(", such as {b}")).unwrap_or_default())
        }
    }
}
