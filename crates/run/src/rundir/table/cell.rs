//! The text of single cells.

use crate::rundir::cell::{bare, guarded};
use goodput_core::level::Control;
use goodput_core::record::{Conn, Failure, Outcome, Phase, TokenSource};
use goodput_stats::stats::groups::GroupBy;
use goodput_stats::stats::step::{Abort, OutlierMetric, StepKind, Verdict};
use goodput_stats::stats::workers::WorkerFault;
use serde::de::value::BorrowedStrDeserializer;
use serde::{Deserialize, Serialize, de};
use std::fmt::{self, Display, Write};
use std::num::NonZeroU8;
use std::str::FromStr;
use std::time::Duration;

/// A type that a cell may contain.
pub(crate) trait Cell: Sized {
    /// True if an empty cell or a missing column is a value.
    const OPTIONAL: bool = false;

    /// Appends the text of the cell.
    fn write(&self, to: &mut String);

    /// Parses a cell.
    fn parse(cell: &str) -> Result<Self, CellError>;

    /// Replaces the value by that of a cell.
    fn read(&mut self, cell: &str) -> Result<(), CellError> {
        *self = Self::parse(cell)?;
        Ok(())
    }
}

/// An error in a cell, with its column if known.
#[derive(Debug)]
pub(crate) struct CellError {
    column: Option<String>,
    problem: String,
}

impl CellError {
    pub(super) fn new(problem: impl Display) -> Self {
        Self { column: None, problem: problem.to_string() }
    }

    /// Makes the error of a number that is out of bounds.
    pub(super) fn not_measurable(value: impl Display) -> Self {
        Self::new(format_args!("holds {value}, which nothing that is measured can be"))
    }

    pub(super) fn in_column(self, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..self }
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

impl de::Error for CellError {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(problem)
    }

    fn unknown_variant(variant: &str, _expected: &'static [&'static str]) -> Self {
        Self::new(format_args!("holds {variant:?}"))
    }
}

/// Writes a value by its `Display`; writing to a string cannot fail.
fn display(to: &mut String, value: impl Display) {
    let _ = write!(to, "{value}");
}

fn number<T: FromStr>(cell: &str, kind: &str) -> Result<T, CellError> {
    if cell.is_empty() {
        return Err(CellError::new("is empty"));
    }
    cell.parse().map_err(|_| CellError::new(format_args!("holds {cell:?}, which is no {kind}")))
}

/// Implements [`Cell`] for types with `Display` and `FromStr`; values for which `$sound` is false are rejected.
macro_rules! parsed {
    ($($type:ty: $kind:literal, $sound:expr;)*) => {
        $(impl Cell for $type {
            fn write(&self, to: &mut String) {
                display(to, self);
            }

            fn parse(cell: &str) -> Result<Self, CellError> {
                let value: Self = number(cell, $kind)?;
                let sound: fn(&Self) -> bool = $sound;
                if sound(&value) { Ok(value) } else { Err(CellError::not_measurable(cell)) }
            }
        })*
    };
}

parsed! {
    bool: "true or false", |_| true;
    u8: "count", |_| true;
    NonZeroU8: "count of one or more", |_| true;
    u16: "count", |_| true;
    u32: "count", |_| true;
    // The bound keeps counts exact as `f64`, and their sums free of overflow.
    u64: "count", |n| *n <= 1 << 53;
}

impl Cell for f64 {
    /// NaN and infinities are empty cells: the mean of no values is NaN, which means unknown.
    fn write(&self, to: &mut String) {
        if self.is_finite() {
            display(to, self);
        }
    }

    /// The bound keeps products finite; it also excludes NaN.
    fn parse(cell: &str) -> Result<Self, CellError> {
        let value: Self = number(cell, "number")?;
        if value.abs() <= 1e30 { Ok(value) } else { Err(CellError::not_measurable(cell)) }
    }
}

/// Texts are guarded against being taken for formulas.
impl Cell for String {
    fn write(&self, to: &mut String) {
        to.push_str(&guarded(self));
    }

    fn parse(cell: &str) -> Result<Self, CellError> {
        Ok(bare(cell).into_owned())
    }

    /// Keeps the allocation: a million requests have the same series.
    fn read(&mut self, cell: &str) -> Result<(), CellError> {
        self.clear();
        self.push_str(&bare(cell));
        Ok(())
    }
}

impl Cell for Box<str> {
    fn write(&self, to: &mut String) {
        to.push_str(&guarded(self));
    }

    fn parse(cell: &str) -> Result<Self, CellError> {
        Ok(bare(cell).into())
    }
}

/// Milliseconds, always with a decimal point.
impl Cell for Duration {
    fn write(&self, to: &mut String) {
        /// From here on a float has fewer digits than nanoseconds need.
        const EXACT: u128 = 1_000_000_000_000_000;
        match self.as_nanos() {
            ns @ 1..10 => display(to, format_args!("{ns}e-6")),
            // The shortest float that is equal is the decimal fraction itself.
            ns if ns < EXACT => {
                let (ms, mut rest, mut digits) = (ns / 1_000_000, ns % 1_000_000, 6);
                while digits > 1 && rest.is_multiple_of(10) {
                    (rest, digits) = (rest / 10, digits - 1);
                }
                display(to, format_args!("{ms}.{rest:0digits$}"));
            }
            _ => display(to, format_args!("{:?}", goodput_core::units::ms(*self))),
        }
    }

    fn parse(cell: &str) -> Result<Self, CellError> {
        let ms: f64 = number(cell, "number")?;
        if !ms.is_finite() || ms < 0.0 {
            return Err(CellError::new(format_args!("{ms} is no time")));
        }
        // Rounds to the nanosecond, to restore the exact value that was written.
        Ok(Self::from_nanos((ms * 1e6).round() as u64))
    }
}

/// `None` is an empty cell.
impl<T: Cell> Cell for Option<T> {
    const OPTIONAL: bool = true;

    fn write(&self, to: &mut String) {
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn parse(cell: &str) -> Result<Self, CellError> {
        if cell.is_empty() { Ok(None) } else { T::parse(cell).map(Some) }
    }
}

/// A value that is written by the name serde gives it.
struct Named<'a, T>(&'a T);

impl<T: Serialize> Display for Named<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}

/// Implements [`Cell`] for enums.
macro_rules! named {
    ($($type:ty),*) => {
        $(impl Cell for $type {
            fn write(&self, to: &mut String) {
                display(to, Named(self));
            }

            fn parse(cell: &str) -> Result<Self, CellError> {
                Self::deserialize(BorrowedStrDeserializer::new(cell))
            }
        })*
    };
}

named!(
    StepKind,
    Verdict,
    Abort,
    OutlierMetric,
    WorkerFault,
    GroupBy,
    Control,
    Phase,
    Outcome,
    Conn,
    Failure,
    TokenSource
);
