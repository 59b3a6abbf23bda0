//! Reads and writes whole files of rows.

use super::columns::{Places, RowCells, column_names};
use super::{Cell, StepRow, TableRow};
use crate::rundir::files::{self, is_empty, open_to_append};
use anyhow::{Context, Result, bail};
use csv::ByteRecord;
use goodput_core::caveat::{Caveat, SweepCaveat};
use goodput_stats::stats::step::Step;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Reads all rows of a file of a run folder; none if there is no such file. Drops a torn last row, which a killed run
/// leaves behind, and adds a caveat.
///
/// # Errors
/// Fails if the file cannot be read, or if a row other than a torn last one is damaged; the message names the file,
/// the line and the column.
pub(crate) fn read_rows<T: TableRow>(dir: &Path, caveats: &mut Vec<Caveat>) -> Result<Vec<T>> {
    let path = dir.join(T::FILE);
    let Some(bytes) = files::whole(&path)?.filter(|bytes| !bytes.is_empty()) else { return Ok(Vec::new()) };
    let torn = bytes.last() != Some(&b'\n');
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes.as_slice());
    let heads = reader.byte_headers().with_context(|| format!("failed to read {}", path.display()))?.clone();
    let places = Places::of::<T>(&heads);
    let mut rows = Vec::new();
    let mut cells = ByteRecord::new();
    loop {
        let line = reader.position().line();
        let row = match reader.read_byte_record(&mut cells) {
            Ok(false) => return Ok(rows),
            Ok(true) => row(&places, &heads, &cells),
            Err(e) => Err(e.into()),
        };
        if torn && reader.position().byte() >= bytes.len() as u64 {
            caveats.push(SweepCaveat::TornRow { file: T::FILE.into() }.into());
            return Ok(rows);
        }
        if rows.len() == T::MOST_ROWS {
            bail!("{} has more than {} rows, which no sweep writes", path.display(), T::MOST_ROWS);
        }
        rows.push(row.with_context(|| format!("failed to read line {line} of {}", path.display()))?);
    }
}

/// Parses the row of a line.
fn row<T: TableRow>(places: &Places, heads: &ByteRecord, cells: &ByteRecord) -> Result<T> {
    if cells.len() != heads.len() {
        bail!("{} cells instead of {}", cells.len(), heads.len());
    }
    let mut row = T::empty();
    places.read(&mut row, cells)?;
    Ok(row)
}

/// Appends rows in one write, with the column names before the first row.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn append_rows<T: TableRow>(dir: &Path, rows: impl IntoIterator<Item = T>) -> Result<()> {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let path = dir.join(T::FILE);
    let mut table = Table::to(Vec::new(), &path)?;
    rows.try_for_each(|mut row| table.add(&mut row))?;
    let bytes = table.to.into_inner().context("the rows are in memory")?;
    let mut file = open_to_append(&path)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_data())
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Appends rows of a step.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn append_step_rows<T: TableRow>(
    dir: &Path,
    step: &Step,
    rows: impl IntoIterator<Item = T>,
) -> Result<()> {
    let of_step = |row| StepRow { series: step.series.clone(), step: step.step, row };
    append_rows(dir, rows.into_iter().map(of_step))
}

/// Writes the column names of a file that is empty or missing.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn write_heads<T: TableRow>(dir: &Path) -> Result<()> {
    let mut rows = RowsWriter::<T>::open(dir)?;
    rows.table.begin()?;
    rows.flush()
}

/// A table of rows that is written to `W`, with the column names before the first row. A file that another version
/// started keeps its columns: only their cells are written.
struct Table<T, W: Write> {
    to: csv::Writer<W>,
    /// The column names, until they are written.
    heads: Option<Vec<String>>,
    /// For each column of the file its index among those of the row type; `None` if they are the same.
    places: Option<Vec<Option<usize>>>,
    cells: RowCells,
    row: PhantomData<T>,
}

impl<T: TableRow, W: Write> Table<T, W> {
    /// Makes a table that continues the file at `path`.
    fn to(to: W, path: &Path) -> Result<Self> {
        let names = column_names::<T>();
        let (mut heads, mut places) = (None, None);
        if is_empty(path) {
            heads = Some(names);
        } else {
            let begun = heads_of(path)?;
            let place = |head: &String| names.iter().position(|name| name == head);
            places = (begun != names).then(|| begun.iter().map(place).collect());
        }
        let to = csv::Writer::from_writer(to);
        Ok(Self { to, heads, places, cells: RowCells::default(), row: PhantomData })
    }

    /// Writes the column names if the file does not have them yet.
    fn begin(&mut self) -> Result<()> {
        match self.heads.take() {
            Some(heads) => Ok(self.to.write_record(heads)?),
            None => Ok(()),
        }
    }

    fn add(&mut self, row: &mut T) -> Result<()> {
        self.begin()?;
        let cells = self.cells.of(row)?;
        match &self.places {
            None => self.to.write_byte_record(cells)?,
            Some(places) => {
                let cell = |place: &Option<usize>| place.and_then(|at| cells.get(at)).unwrap_or_default();
                self.to.write_record(places.iter().map(cell))?;
            }
        }
        Ok(())
    }
}

/// A file of rows that stays open for appending.
pub(crate) struct RowsWriter<T> {
    table: Table<T, BufWriter<File>>,
    path: PathBuf,
}

impl<T: TableRow> RowsWriter<T> {
    /// Opens the file of a run folder for appending.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(T::FILE);
        let file = BufWriter::with_capacity(1 << 16, open_to_append(&path)?);
        Ok(Self { table: Table::to(file, &path)?, path })
    }

    /// Adds a row; it is on disk after the next [`Self::flush`].
    pub(crate) fn add(&mut self, row: &mut T) -> Result<()> {
        self.table.add(row).with_context(|| format!("failed to write {}", self.path.display()))
    }

    /// Flushes the added rows to disk.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.table.to.flush().with_context(|| format!("failed to write {}", self.path.display()))
    }

    /// Returns the open file.
    pub(crate) fn file(&self) -> &File {
        self.table.to.get_ref().get_ref()
    }
}

/// Reads the column names of a file.
fn heads_of(path: &Path) -> Result<Vec<String>> {
    let mut begun =
        csv::Reader::from_path(path).with_context(|| format!("failed to open {}", path.display()))?;
    let heads = begun.headers().with_context(|| format!("failed to read {}", path.display()))?;
    Ok(heads.iter().map(str::to_owned).collect())
}

/// A column of a table that is only written: its name, and the text of its cell in a row.
pub(super) type Column<R> = (&'static str, fn(&R) -> String);

/// Returns the text of a cell.
pub(super) fn text(value: impl Cell) -> String {
    let mut text = String::new();
    value.write(&mut text);
    text
}

/// Returns the text of a table that is only written, with column names even if it has no rows.
///
/// # Errors
/// Fails if a row cannot be written.
pub(super) fn table_text<R>(columns: &[Column<R>], rows: impl Iterator<Item = R>) -> Result<Vec<u8>> {
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(columns.iter().map(|(name, _)| name))?;
    for row in rows {
        text.write_record(columns.iter().map(|(_, cell)| cell(&row)))?;
    }
    text.into_inner().context("the rows are in memory")
}
