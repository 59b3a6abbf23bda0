//! The pass over a file that checks and measures it.

use super::format::{self, Format, Reading};
use super::requests::Hashing;
use super::rows::Rows;
use super::sort::{Sorted, Sorter};
use super::source::TraceSource;
use super::summary::{Builder, File};
use anyhow::{Result, bail};
use std::time::Duration;

/// A file and how it is read.
pub(super) struct Input {
    pub(super) source: TraceSource,
    pub(super) how: Reading,
    pub(super) hashing: Option<Hashing>,
    /// The rows in order, where the file does not have them so.
    pub(super) sorted: Option<Sorted>,
}

/// What a pass found.
pub(super) struct Scanned {
    /// What the window holds.
    pub(super) builder: Builder,
    /// Time of the file's first row.
    pub(super) first: i64,
    pub(super) sorted: Option<Sorted>,
    pub(super) file: File,
}

impl Input {
    /// Settles how a file is read.
    ///
    /// # Errors
    ///
    /// It cannot be read, or its format cannot be told.
    pub(super) fn new(source: &TraceSource, hashing: Option<Hashing>) -> Result<Self> {
        let mut how = format::settle(source)?;
        if let Some(hashing) = hashing.as_ref().filter(|_| how.format == Format::Requests) {
            how.block_tokens = hashing.block_tokens();
        }
        Ok(Self { source: source.clone(), how, hashing, sorted: None })
    }

    /// Reads the whole file once, twice where it must be sorted.
    ///
    /// # Errors
    ///
    /// It cannot be read on, a row is bad, or there is none.
    pub(super) fn scan(&self) -> Result<Scanned> {
        let mut file = File { format: self.how.format.name(), ..File::default() };
        let scanned = match self.pass(&mut file)? {
            Some((builder, first)) => Scanned { builder, first, sorted: None, file },
            None => {
                let sorted = self.sort(&mut file)?;
                let (builder, first) = self.pass_sorted(&sorted)?;
                Scanned { builder, first, sorted: Some(sorted), file }
            }
        };
        if scanned.file.rows == 0 {
            bail!("{} holds no requests{}", self.source.file.display(), left_out(&scanned.file));
        }
        Ok(scanned)
    }

    /// The file from its start.
    pub(super) fn rows(&self) -> Result<Rows> {
        Rows::open(&self.source.file, &self.how, self.source.skip_bad_rows)
    }

    /// Whether a time lies in the window, and whether it lies behind it.
    pub(super) fn place(&self, at: i64, first: i64) -> (bool, bool) {
        let Some(window) = self.source.window else { return (true, false) };
        let at = Duration::from_nanos(at.abs_diff(first));
        let behind = window.to().is_some_and(|to| at >= to);
        (at >= window.from() && !behind, behind)
    }

    /// Reads the file as it stands; `None` where a row lies before one that stands before it.
    fn pass(&self, file: &mut File) -> Result<Option<(Builder, i64)>> {
        let mut rows = self.rows()?;
        let mut builder = Builder::new(self.how.block_tokens);
        let (mut first, mut last) = (None, i64::MIN);
        while let Some(row) = rows.next(&self.how, self.hashing.as_ref())? {
            if row.at < last {
                return Ok(None);
            }
            last = row.at;
            let first = *first.get_or_insert(row.at);
            self.fits(row.at, first)?;
            if self.place(row.at, first).0 {
                builder.push(&row);
            }
            file.rows += 1;
        }
        file.leave_out(&rows);
        Ok(Some((builder, first.unwrap_or(0))))
    }

    /// Sorts the file, and counts what stood in the wrong place.
    fn sort(&self, file: &mut File) -> Result<Sorted> {
        let mut rows = self.rows()?;
        let mut sorter = Sorter::new()?;
        let (mut latest, mut most) = (i64::MIN, 0);
        file.rows = 0;
        while let Some(row) = rows.next(&self.how, self.hashing.as_ref())? {
            if row.at < latest {
                file.out_of_order += 1;
                most = most.max(latest.abs_diff(row.at));
            }
            latest = latest.max(row.at);
            file.rows += 1;
            sorter.push(row)?;
        }
        file.out_of_order_s = most as f64 / 1e9;
        file.leave_out(&rows);
        sorter.finish()
    }

    fn pass_sorted(&self, sorted: &Sorted) -> Result<(Builder, i64)> {
        let mut builder = Builder::new(self.how.block_tokens);
        let mut first = None;
        let mut rows = sorted.rows();
        while let Some(row) = rows.next()? {
            let first = *first.get_or_insert(row.at);
            self.fits(row.at, first)?;
            if self.place(row.at, first).0 {
                builder.push(&row);
            }
        }
        Ok((builder, first.unwrap_or(0)))
    }

    /// A trace of centuries is one whose unit was mistaken.
    fn fits(&self, at: i64, first: i64) -> Result<()> {
        const CENTURY: u64 = 100 * 366 * 86_400 * 1_000_000_000;
        if at.abs_diff(first) > CENTURY {
            bail!(
                "{}: its rows lie more than a century apart: is the unit of its timestamps right? Set it with unit (--unit ms)",
                self.source.file.display()
            );
        }
        Ok(())
    }
}

impl File {
    fn leave_out(&mut self, rows: &Rows) {
        self.bad = rows.left_out.bad;
        self.first_bad.clone_from(&rows.left_out.first);
        self.failures = rows.left_out.failed;
    }
}

fn left_out(file: &File) -> String {
    match (file.bad, file.failures, file.first_bad.first()) {
        (0, 0, _) => String::new(),
        (0, failed, _) => format!(": {failed} failed where they were recorded"),
        (bad, _, first) => {
            format!(": {bad} rows are bad{}", first.map(|b| format!(", such as {b}")).unwrap_or_default())
        }
    }
}
