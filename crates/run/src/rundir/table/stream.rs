//! Streams the rows of a CSV file of any length.

use super::TableRow;
use super::columns::Places;
use crate::rundir::files::{self, LimitedRows, ends_torn};
use anyhow::{Context, Result};
use csv::ByteRecord;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A row of a stream.
pub(crate) struct StreamedRow<'a> {
    /// The cells.
    pub(crate) cells: &'a ByteRecord,
    /// Number of the step that the row belongs to.
    pub(crate) step: Option<u32>,
    /// True if the row has as many cells as there are columns, and does not end the file without a newline. A killed
    /// run leaves a torn last row behind.
    pub(crate) is_whole: bool,
    /// True for the last row of the file.
    pub(crate) is_last: bool,
}

/// The rows of a file, one after another.
pub(crate) struct RowStream {
    reader: csv::Reader<LimitedRows<BufReader<File>>>,
    heads: ByteRecord,
    /// Index of the column `step`.
    step_at: Option<usize>,
    row: ByteRecord,
    /// The row after `row`: only the last row may be torn and still have all its cells.
    next: Option<ByteRecord>,
    ends_torn: bool,
    path: PathBuf,
}

impl RowStream {
    /// Opens a file; returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        let failed = || format!("failed to read {}", path.display());
        let Some(mut file) = files::open(path)? else { return Ok(None) };
        let ends_torn = ends_torn(&mut file).with_context(failed)?;
        let file = LimitedRows::new(BufReader::with_capacity(1 << 18, file));
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
        let heads = reader.byte_headers().with_context(failed)?.clone();
        let step_at = heads.iter().position(|head| head == b"step");
        let (row, next) = (ByteRecord::new(), Some(ByteRecord::new()));
        let mut stream = Self { reader, heads, step_at, row, next, ends_torn, path: path.to_owned() };
        stream.read_next()?;
        Ok(Some(stream))
    }

    /// Returns the column names.
    pub(crate) const fn heads(&self) -> &ByteRecord {
        &self.heads
    }

    /// Returns true if the file has at most a header without a newline.
    pub(crate) fn is_torn_header(&self) -> bool {
        self.ends_torn && self.next.is_none()
    }

    /// Reads the row after the current one.
    fn read_next(&mut self) -> Result<()> {
        if let Some(next) = &mut self.next {
            self.reader.get_mut().row_ends();
            let more = self.reader.read_byte_record(next);
            if !more.with_context(|| format!("failed to read {}", self.path.display()))? {
                self.next = None;
            }
        }
        Ok(())
    }

    /// Returns the next row; `None` at the end of the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn next_row(&mut self) -> Result<Option<StreamedRow<'_>>> {
        let Some(next) = &mut self.next else { return Ok(None) };
        std::mem::swap(&mut self.row, next);
        self.read_next()?;
        let is_last = self.next.is_none();
        let is_whole = self.row.len() == self.heads.len() && !(is_last && self.ends_torn);
        let step = self.step_at.and_then(|at| std::str::from_utf8(self.row.get(at)?).ok()?.parse().ok());
        Ok(Some(StreamedRow { cells: &self.row, step, is_whole, is_last }))
    }
}

/// Visits every whole row of a file; none if the file is missing. Skips damaged rows, and a torn last row.
///
/// # Errors
/// Fails if the file exists but cannot be read.
pub(crate) fn each_row<T: TableRow>(dir: &Path, mut each: impl FnMut(&mut T)) -> Result<()> {
    let Some(mut rows) = RowStream::open(&dir.join(T::FILE))? else { return Ok(()) };
    let places = Places::of::<T>(rows.heads());
    let mut row = T::empty();
    while let Some(next) = rows.next_row()? {
        if next.is_whole && places.read(&mut row, next.cells).is_ok() {
            each(&mut row);
        }
    }
    Ok(())
}
