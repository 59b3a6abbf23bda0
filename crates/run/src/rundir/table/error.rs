//! The error of a cell that cannot be read or written.

use serde::{de, ser};
use std::fmt::{self, Display};

/// An error in a cell, with its column if known.
#[derive(Debug)]
pub(crate) struct CellError {
    column: Option<String>,
    problem: String,
}

impl CellError {
    /// Adds the name of the column, unless an inner error has already named it.
    pub(super) fn in_column(self, column: &str) -> Self {
        Self { column: self.column.or_else(|| Some(column.to_owned())), ..self }
    }
}

impl Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(column) => write!(f, "column {column} {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for CellError {}

impl ser::Error for CellError {
    fn custom<T: Display>(problem: T) -> Self {
        Self { column: None, problem: problem.to_string() }
    }
}

impl de::Error for CellError {
    fn custom<T: Display>(problem: T) -> Self {
        Self { column: None, problem: problem.to_string() }
    }

    fn missing_field(column: &'static str) -> Self {
        Self { column: Some(column.to_owned()), problem: "is missing".into() }
    }

    fn duplicate_field(column: &'static str) -> Self {
        Self { column: Some(column.to_owned()), problem: "is there twice".into() }
    }

    fn unknown_variant(variant: &str, _expected: &'static [&'static str]) -> Self {
        <Self as de::Error>::custom(format!("holds {variant:?}"))
    }
}
