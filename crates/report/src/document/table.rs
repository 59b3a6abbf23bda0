//! Tables of [typed cells](Cell). Columns know how to appear on wide and on narrow screens.

use super::cell::Cell;
use super::text::Text;

/// The media that show a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// In pages and on terminals.
    #[default]
    Everywhere,
    /// In pages only.
    Page,
    /// On terminals only.
    Terminal,
}

/// The columns that a narrow terminal omits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Priority {
    /// Always shown.
    #[default]
    Always,
    /// Shown on terminals of at least this many columns.
    From(u16),
    /// Shown on terminals of fewer columns than this.
    Below(u16),
    /// Omitted if not all columns fit, those of the lowest number first.
    Droppable(u8),
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
    /// Left in pages, whose cells have units; right on terminals.
    Level,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Its head.
    pub(crate) head: Text,
    /// Head for narrow terminals; its line breaks are preserved.
    pub(crate) short: Option<String>,
    /// The media that show it.
    pub(crate) place: Place,
    /// Its priority on a narrow terminal.
    pub(crate) priority: Priority,
    /// Approximate width on a terminal, in characters.
    pub(crate) width: u16,
    /// True if a terminal indents its cells, below a head that is the title of the table.
    pub(crate) is_indented: bool,
    align: Align,
}

impl Column {
    fn new(head: impl Into<Text>, align: Align) -> Self {
        Self {
            head: head.into(),
            short: None,
            place: Place::default(),
            priority: Priority::default(),
            width: 8,
            is_indented: false,
            align,
        }
    }

    /// Returns a column of words.
    pub(crate) fn text(head: impl Into<Text>) -> Self {
        Self::new(head, Align::Left)
    }

    /// Returns a column of numbers.
    pub(crate) fn number(head: impl Into<Text>) -> Self {
        Self::new(head, Align::Right)
    }

    /// Returns a column of levels.
    pub(crate) fn level() -> Self {
        Self::new("level", Align::Level)
    }

    /// Returns a column of quantities with their units: left-aligned in pages, right-aligned on terminals.
    pub(crate) fn quantity(head: impl Into<Text>) -> Self {
        Self::new(head, Align::Level)
    }

    /// Returns a column of the numbers of steps.
    pub(crate) fn step_number() -> Self {
        Self::new("#", Align::Right)
    }

    /// Sets a shorter head for terminals.
    #[must_use]
    pub(crate) fn short(self, head: impl Into<String>) -> Self {
        Self { short: Some(head.into()), ..self }
    }

    /// Shows the column in one medium only.
    #[must_use]
    pub(crate) fn only(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Sets the priority on narrow terminals.
    #[must_use]
    pub(crate) fn with(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sets the approximate width on a terminal, in characters.
    #[must_use]
    pub(crate) fn wide(self, width: u16) -> Self {
        Self { width, ..self }
    }

    /// Indents the cells on a terminal, below a head that is the title of the table.
    #[must_use]
    pub(crate) fn indented(self) -> Self {
        Self { is_indented: true, ..self }
    }

    /// Returns true if pages align the column to the right.
    pub(crate) fn is_right_in_pages(&self) -> bool {
        self.align == Align::Right
    }

    /// Returns true if terminals align the column to the right.
    pub(crate) fn is_right_on_terminals(&self) -> bool {
        self.align != Align::Left
    }
}

/// A column with a function that makes its cells.
pub(crate) struct Field<'a, T> {
    column: Column,
    cell: Box<dyn Fn(&T) -> Cell + 'a>,
}

impl<'a, T> Field<'a, T> {
    /// Returns a column whose cells are made by `cell`.
    pub(crate) fn new(column: Column, cell: impl Fn(&T) -> Cell + 'a) -> Self {
        Self { column, cell: Box::new(cell) }
    }

    /// Shows the column in one medium only.
    #[must_use]
    pub(crate) fn only(self, place: Place) -> Self {
        Self { column: self.column.only(place), ..self }
    }

    /// Returns the cell of a row.
    pub(crate) fn cell(&self, of: &T) -> Cell {
        (self.cell)(of)
    }

    /// Returns the column for rows of another type; `part` extracts the row of this type.
    pub(crate) fn within<U>(self, part: impl Fn(&U) -> T + 'a) -> Field<'a, U>
    where
        T: 'a,
    {
        Field::new(self.column, move |one: &U| (self.cell)(&part(one)))
    }
}

/// The layout of a table on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Setting {
    /// Fitted into the width, with less space between columns if necessary.
    #[default]
    Fitted,
    /// Fitted into the width, with little space between columns.
    Tight,
    /// Natural width: no cell is broken.
    Whole,
    /// Natural width, without lines: a few figures below a sentence.
    Bare,
}

/// Maximum number of rows of a table, so that the size of a report is bounded.
const MOST_ROWS: usize = 1_000;

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The columns.
    pub(crate) columns: Vec<Column>,
    /// The rows, each with a cell for every column.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Number of further rows, which are not shown.
    omitted: usize,
    /// Accessible caption, for screen readers; the title of the section if empty.
    pub(crate) caption: String,
    /// True if the order of the rows carries no meaning: a page lets its reader sort them.
    pub(crate) sorts: bool,
    /// Index of the column that names a row.
    pub(crate) row_head: usize,
    /// Layout on a terminal.
    pub(crate) setting: Setting,
}

impl Table {
    /// Returns a table of these columns and rows; of more than 1,000 rows only those.
    pub(crate) fn new(columns: Vec<Column>, mut rows: Vec<Vec<Cell>>) -> Self {
        let omitted = rows.len().saturating_sub(MOST_ROWS);
        rows.truncate(MOST_ROWS);
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()), "a row has a cell for every column");
        Self {
            columns,
            rows,
            omitted,
            caption: String::new(),
            sorts: false,
            row_head: 0,
            setting: Setting::default(),
        }
    }

    /// Returns a table with one row for each item of `of`, up to 1,000.
    pub(crate) fn of<'t, T: 't>(fields: Vec<Field<'_, T>>, of: impl IntoIterator<Item = &'t T>) -> Self {
        let mut of = of.into_iter();
        let rows =
            of.by_ref().take(MOST_ROWS).map(|one| fields.iter().map(|f| (f.cell)(one)).collect()).collect();
        let omitted = of.count();
        Self { omitted, ..Self::new(fields.into_iter().map(|f| f.column).collect(), rows) }
    }

    /// Returns the note on rows that are not shown, if there are any.
    pub(crate) fn omission(&self) -> Option<String> {
        (self.omitted > 0).then(|| {
            format!(
                "{} more rows are not shown; the CSV files of the run folder have them all.",
                self.omitted
            )
        })
    }

    /// Returns the indices of the columns that pages show.
    pub(crate) fn in_pages(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|i| self.columns[*i].place != Place::Terminal)
    }

    /// Lets readers sort the rows; the column `row_head` names each.
    #[must_use]
    pub(crate) fn sorted_by_readers(self, row_head: usize) -> Self {
        Self { sorts: true, row_head, ..self }
    }

    /// Sets the accessible caption.
    #[must_use]
    pub(crate) fn captioned(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// Sets the layout on terminals.
    #[must_use]
    pub(crate) fn set(self, setting: Setting) -> Self {
        Self { setting, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_at_most_a_thousand_rows() {
        let numbers: Vec<u32> = (0..1_500).collect();
        let fields = || vec![Field::new(Column::number("n"), |n: &u32| Cell::text(n.to_string()))];
        let table = Table::of(fields(), &numbers);
        assert_eq!(
            (table.rows.len(), table.omission().is_some_and(|said| said.starts_with("500 more"))),
            (1_000, true)
        );
        assert_eq!(Table::of(fields(), &numbers[..1_000]).omission(), None);
        let rows = numbers.iter().map(|_| vec![Cell::Empty]).collect();
        assert_eq!(Table::new(vec![Column::number("n")], rows).rows.len(), 1_000);
    }
}
