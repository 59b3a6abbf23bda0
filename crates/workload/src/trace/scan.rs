//! The pass over a file that checks and measures it.

use super::format::{self, Format, Reading};
use super::requests::Hashing;
use super::row::RawRow;
use super::rows::Rows;
use super::sort::{Sorted, Sorter};
use super::source::TraceSource;
use super::spool::{Spool, Spooler};
use super::summary::{Builder, File};
use anyhow::{Result, bail};
use std::time::Duration;

/// A file and how it is read.
pub(super) struct Input {
    pub(super) source: TraceSource,
    pub(super) how: Reading,
    pub(super) hashing: Option<Hashing>,
}

/// What a pass found.
pub(super) struct Scanned {
    /// What the window holds.
    pub(super) builder: Builder,
    /// Its rows, where they are kept.
    pub(super) spool: Option<Spool>,
    pub(super) file: File,
}

/// What becomes of the rows of a pass.
struct Taken {
    builder: Builder,
    spooler: Option<Spooler>,
    /// Time of the file's first row.
    first: Option<i64>,
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
        Ok(Self { source: source.clone(), how, hashing })
    }

    /// Reads the whole file once, twice where it must be sorted. Where they are to be `kept`, the window's rows are written down.
    ///
    /// # Errors
    ///
    /// It cannot be read on, a row is bad, or there is none; or there is no room for what is kept.
    pub(super) fn scan(&self, keep: bool) -> Result<Scanned> {
        let mut file = File { format: self.how.format.name(), ..File::default() };
        let taken = match self.pass(&mut file, self.taken(keep)?)? {
            Some(taken) => taken,
            None => {
                let mut sorted = self.sort(&mut file)?;
                let mut taken = self.taken(keep)?;
                while let Some(row) = sorted.next()? {
                    self.take(&mut taken, &row)?;
                }
                taken
            }
        };
        if file.rows == 0 {
            bail!("{} holds no requests{}", self.source.file.display(), left_out(&file));
        }
        let spool = taken.spooler.map(Spooler::finish).transpose()?;
        Ok(Scanned { builder: taken.builder, spool, file })
    }

    fn taken(&self, keep: bool) -> Result<Taken> {
        let spooler = keep.then(Spooler::new).transpose()?;
        Ok(Taken { builder: Builder::new(self.how.block_tokens), spooler, first: None })
    }

    /// The file from its start.
    fn rows(&self) -> Result<Rows> {
        Rows::open(&self.source.file, &self.how, self.source.skip_bad_rows)
    }

    /// Whether a time lies in the window.
    fn inside(&self, at: i64, first: i64) -> bool {
        let Some(window) = self.source.window else { return true };
        let at = Duration::from_nanos(at.abs_diff(first));
        at >= window.from() && window.to().is_none_or(|to| at < to)
    }

    /// Takes the next row in the order of time.
    fn take(&self, into: &mut Taken, row: &RawRow) -> Result<()> {
        let first = *into.first.get_or_insert(row.at);
        self.fits(row.at, first)?;
        if self.inside(row.at, first) {
            into.builder.push(row);
            into.spooler.as_mut().map_or(Ok(()), |s| s.push(row))?;
        }
        Ok(())
    }

    /// Reads the file as it stands; `None` where a row lies before one that stands before it.
    fn pass(&self, file: &mut File, mut into: Taken) -> Result<Option<Taken>> {
        let mut rows = self.rows()?;
        let mut last = (i64::MIN, 0);
        while let Some(row) = rows.next(&self.how, self.hashing.as_ref())? {
            let place = (row.at, row.place);
            // A row that follows another must stand behind it, with none between that belongs to another conversation.
            if row.at < last.0 || (row.after.is_some() && place != last) {
                return Ok(None);
            }
            last = place;
            self.take(&mut into, &row)?;
            file.rows += 1;
        }
        file.leave_out(&rows);
        Ok(Some(into))
    }

    /// Sorts the file, and counts what stood in the wrong place.
    fn sort(&self, file: &mut File) -> Result<Sorted> {
        let mut rows = self.rows()?;
        let mut sorter = Sorter::new()?;
        let (mut latest, mut most) = (i64::MIN, 0);
        file.rows = 0;
        while let Some(row) = rows.next(&self.how, self.hashing.as_ref())? {
            // What follows another has no time of its own.
            if row.at < latest && row.after.is_none() {
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
