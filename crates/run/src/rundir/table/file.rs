//! Reads and writes whole files of rows.

use super::TableRow;
use super::decode::NamedRow;
use super::encode::NamedCells;
use crate::rundir::files::{self, is_empty, open_to_append};
use anyhow::{Context, Result, bail};
use csv::StringRecord;
use goodput_core::caveat::{Caveat, SweepCaveat};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
    let heads = reader.headers().with_context(|| format!("failed to read {}", path.display()))?.clone();
    let mut rows = Vec::new();
    let mut record = StringRecord::new();
    loop {
        let line = reader.position().line();
        let row = match reader.read_record(&mut record) {
            Ok(false) => return Ok(rows),
            Ok(true) => row(&heads, &record),
            Err(e) => Err(e.into()),
        };
        if torn && reader.position().byte() >= bytes.len() as u64 {
            caveats.push(SweepCaveat::TornRow { file: T::FILE.into() }.into());
            return Ok(rows);
        }
        rows.push(row.with_context(|| format!("failed to read line {line} of {}", path.display()))?);
    }
}

/// Parses the row of a line.
pub(super) fn row<T: DeserializeOwned>(heads: &StringRecord, record: &StringRecord) -> Result<T> {
    if record.len() != heads.len() {
        bail!("{} cells instead of {}", record.len(), heads.len());
    }
    Ok(T::deserialize(NamedRow::new(heads, record))?)
}

/// Appends rows in one write, with the column names before the first row. A file that another version started keeps
/// its columns: only their cells are written.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn append_rows<T: TableRow>(dir: &Path, rows: impl IntoIterator<Item = T>) -> Result<()> {
    let path = dir.join(T::FILE);
    let rows = rows.into_iter().map(|row| NamedCells::of(&row)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = rows.first() else { return Ok(()) };
    let mut text = csv::Writer::from_writer(Vec::new());
    let heads = if is_empty(&path) {
        text.write_record(&first.names)?;
        first.names.clone()
    } else {
        heads_of(&path)?
    };
    for row in &rows {
        text.write_record(row.under(&heads))?;
    }
    let bytes = text.into_inner().context("the rows are in memory")?;
    let mut file = open_to_append(&path)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_data())
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Writes the column names of a file that is empty or missing.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn write_heads<T: TableRow + Default>(dir: &Path) -> Result<()> {
    let path = dir.join(T::FILE);
    if !is_empty(&path) {
        return Ok(());
    }
    let heads = NamedCells::of(&T::default())?.names.join(",");
    writeln!(open_to_append(&path)?, "{heads}").with_context(|| format!("failed to write {}", path.display()))
}

/// A file of rows that stays open for appending.
pub(crate) struct RowsWriter<T> {
    to: csv::Writer<BufWriter<File>>,
    path: PathBuf,
    heads: Vec<String>,
    row: PhantomData<T>,
}

impl<T: TableRow + Default> RowsWriter<T> {
    /// Opens the file of a run folder for appending; writes the column names if it is empty.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        write_heads::<T>(dir)?;
        let path = dir.join(T::FILE);
        let heads = heads_of(&path)?;
        let file = BufWriter::with_capacity(1 << 14, open_to_append(&path)?);
        let to = csv::WriterBuilder::new().has_headers(false).from_writer(file);
        Ok(Self { to, path, heads, row: PhantomData })
    }

    /// Adds a row with the columns of the file; it is on disk after the next [`Self::flush`].
    pub(crate) fn add(&mut self, row: &T) -> Result<()> {
        let row = NamedCells::of(row)?;
        self.to
            .write_record(row.under(&self.heads))
            .with_context(|| format!("failed to write {}", self.path.display()))
    }

    /// Flushes the added rows to disk.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.to.flush().with_context(|| format!("failed to write {}", self.path.display()))
    }
}

/// Reads the column names of a file.
pub(crate) fn heads_of(path: &Path) -> Result<Vec<String>> {
    let mut begun =
        csv::Reader::from_path(path).with_context(|| format!("failed to open {}", path.display()))?;
    let heads = begun.headers().with_context(|| format!("failed to read {}", path.display()))?;
    Ok(heads.iter().map(str::to_owned).collect())
}

/// Returns the text of a complete table, with column names even if it has no rows.
///
/// # Errors
/// Fails if a row cannot be serialised.
pub(crate) fn whole_table<T: Serialize + Default>(rows: &[T]) -> Result<Vec<u8>> {
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(NamedCells::of(&T::default())?.names)?;
    for row in rows {
        text.write_record(NamedCells::of(row)?.cells)?;
    }
    text.into_inner().context("the rows are in memory")
}
