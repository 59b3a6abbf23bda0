//! The CSV files of a run folder. [`TableRow::columns`] of its row type is the schema of a file: it lists the columns
//! once, in order, for writing and for reading.
//!
//! Readers look up columns by name. A missing column reads as `None`, or leaves the value of [`TableRow::empty`] if
//! the column was added later; unknown columns are skipped. Folders of earlier and later versions therefore stay
//! readable, and only a column without which the row is meaningless is required.
//!
//! Floats are written in the shortest form that parses to an equal value, so that a search over rows read from disk
//! decides as it did over the steps in memory.

mod cell;
mod columns;
mod file;
mod latency;
mod repeats;
mod server;
mod step_rows;
mod steps;
mod stream;
#[cfg(test)]
mod tests;
mod variants;

pub(crate) use cell::{Cell, CellError};
#[cfg(test)]
pub(crate) use columns::column_names;
pub(crate) use columns::{Columns, Places};
pub(crate) use file::{RowsWriter, append_rows, append_step_rows, read_rows, write_heads};
pub(crate) use repeats::repeats_table;
pub(crate) use step_rows::{Bucket, OwnTokenCount};
pub(crate) use stream::{RowStream, each_row};
pub use variants::variants_table;

/// Series and number of a step.
pub(crate) type StepKey = (String, u32);

/// A row of a CSV file of the run folder.
pub(crate) trait TableRow {
    /// Name of the file.
    const FILE: &'static str;

    /// Maximum number of rows of a file that is loaded into memory.
    const MOST_ROWS: usize = 200_000;

    /// Returns a row to read into.
    fn empty() -> Self;

    /// Visits every column in order, with the field that holds its value.
    fn columns(&mut self, columns: &mut impl Columns) -> Result<(), CellError>;
}

/// A row that belongs to a step: the columns `series` and `step`, then those of `row`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepRow<T> {
    /// Name of the series.
    pub(crate) series: String,
    /// Number of the step.
    pub(crate) step: u32,
    /// The other columns.
    pub(crate) row: T,
}

impl<T: TableRow> TableRow for StepRow<T> {
    const FILE: &'static str = T::FILE;
    const MOST_ROWS: usize = T::MOST_ROWS;

    fn empty() -> Self {
        Self { series: String::new(), step: 0, row: T::empty() }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("series", &mut self.series)?;
        c.cell("step", &mut self.step)?;
        self.row.columns(c)
    }
}
