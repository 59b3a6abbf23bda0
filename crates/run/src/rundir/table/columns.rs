//! Writing and reading a row by visiting its columns.

use super::TableRow;
use super::cell::{Cell, CellError};
use csv::ByteRecord;
use std::str::from_utf8;

/// A visitor of the columns of a row: one that writes their cells, reads them, or collects their names.
pub(crate) trait Columns {
    /// Visits a column. `required` is true if a file without it cannot be read.
    fn visit<T: Cell>(&mut self, name: &str, value: &mut T, required: bool) -> Result<(), CellError>;

    /// Visits a column that every file has, unless its value is optional.
    fn cell<T: Cell>(&mut self, name: &str, value: &mut T) -> Result<(), CellError> {
        self.visit(name, value, !T::OPTIONAL)
    }

    /// Visits a column that files of earlier versions lack; the value is then unchanged.
    fn later<T: Cell>(&mut self, name: &str, value: &mut T) -> Result<(), CellError> {
        self.visit(name, value, false)
    }

    /// Visits a column like [`Self::cell`]; reading rejects a number that is not within the bounds.
    fn within<T: Cell + Copy + Into<Option<f64>>>(
        &mut self,
        name: &str,
        value: &mut T,
        sound: impl Fn(f64) -> bool,
    ) -> Result<(), CellError> {
        let _ = sound;
        self.cell(name, value)
    }
}

/// Returns the names of the columns of a row type.
pub(crate) fn column_names<T: TableRow>() -> Vec<String> {
    let mut names = Names(Vec::new());
    // Collecting names cannot fail.
    let _ = T::empty().columns(&mut names);
    names.0
}

struct Names(Vec<String>);

impl Columns for Names {
    fn visit<T: Cell>(&mut self, name: &str, _value: &mut T, _required: bool) -> Result<(), CellError> {
        self.0.push(name.to_owned());
        Ok(())
    }
}

/// The cells of one row after another.
#[derive(Debug, Default)]
pub(super) struct RowCells {
    cells: ByteRecord,
    cell: String,
}

impl RowCells {
    /// Returns the cells of a row.
    pub(super) fn of(&mut self, row: &mut impl TableRow) -> Result<&ByteRecord, CellError> {
        self.cells.clear();
        row.columns(self)?;
        Ok(&self.cells)
    }
}

impl Columns for RowCells {
    fn visit<T: Cell>(&mut self, _name: &str, value: &mut T, _required: bool) -> Result<(), CellError> {
        self.cell.clear();
        value.write(&mut self.cell);
        self.cells.push_field(self.cell.as_bytes());
        Ok(())
    }
}

/// The index of each column of a row type in a file; `None` if the file does not have the column.
#[derive(Debug)]
pub(crate) struct Places(Vec<Option<usize>>);

impl Places {
    /// Finds the columns of a row type among those of a file.
    pub(crate) fn of<T: TableRow>(heads: &ByteRecord) -> Self {
        let place = |name: &String| heads.iter().position(|head| head == name.as_bytes());
        Self(column_names::<T>().iter().map(place).collect())
    }

    /// Reads a row in place.
    pub(crate) fn read(&self, row: &mut impl TableRow, cells: &ByteRecord) -> Result<(), CellError> {
        row.columns(&mut RowReader { cells, places: self.0.iter() })
    }
}

/// Reads the fields of a row from the cells of a file, in the order of its columns.
struct RowReader<'a> {
    cells: &'a ByteRecord,
    places: std::slice::Iter<'a, Option<usize>>,
}

impl Columns for RowReader<'_> {
    fn visit<T: Cell>(&mut self, name: &str, value: &mut T, required: bool) -> Result<(), CellError> {
        let place = self.places.next().copied().flatten();
        let result = match place.and_then(|at| self.cells.get(at)) {
            Some(cell) => from_utf8(cell)
                .map_err(|_| CellError::new("is no UTF-8 text"))
                .and_then(|cell| value.read(cell)),
            None if required => Err(CellError::new("is missing")),
            None if T::OPTIONAL => value.read(""),
            None => Ok(()),
        };
        result.map_err(|e| e.in_column(name))
    }

    fn within<T: Cell + Copy + Into<Option<f64>>>(
        &mut self,
        name: &str,
        value: &mut T,
        sound: impl Fn(f64) -> bool,
    ) -> Result<(), CellError> {
        self.cell(name, value)?;
        match (*value).into() {
            Some(number) if !sound(number) => Err(CellError::not_measurable(number).in_column(name)),
            _ => Ok(()),
        }
    }
}
