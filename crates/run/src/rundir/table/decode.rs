//! Deserialises a row struct from the cells of a CSV file, by column name.
//!
//! Unlike the deserialiser of the `csv` crate, it names the faulty column, removes the formula guard from texts, and
//! rejects numbers outside any measurable range.

use super::error::CellError;
use crate::rundir::cell::bare;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::collections::HashMap;
use std::str::FromStr;

/// A type that a cell may contain besides text.
pub(crate) trait CellValue: FromStr {
    /// Returns true if the value is in the range of possible measurements.
    fn is_sound(&self) -> bool {
        true
    }
}

impl CellValue for bool {}
impl CellValue for u8 {}
impl CellValue for u16 {}
impl CellValue for u32 {}

impl CellValue for u64 {
    /// The bound keeps counts exact as [`f64`], and their sums free of overflow.
    fn is_sound(&self) -> bool {
        *self <= 1 << 53
    }
}

impl CellValue for f64 {
    /// The bound keeps products finite; also excludes NaN.
    fn is_sound(&self) -> bool {
        self.abs() <= 1e30
    }
}

/// Parses the text of a cell.
pub(super) fn parse<T: CellValue>(cell: &str) -> Result<T, CellError> {
    if cell.is_empty() {
        return Err(CellError::custom("is empty"));
    }
    let value: T = cell
        .parse()
        .map_err(|_| CellError::custom(format_args!("holds {cell:?}, which is no {}", kind::<T>())))?;
    if value.is_sound() { Ok(value) } else { Err(not_measurable(cell)) }
}

/// Returns the error of a number that is out of bounds.
pub(super) fn not_measurable<E: Error>(value: impl std::fmt::Display) -> E {
    E::custom(format_args!("holds {value}, which nothing that is measured can be"))
}

fn kind<T>() -> &'static str {
    match std::any::type_name::<T>() {
        "bool" => "true or false",
        "f64" => "number",
        _ => "count",
    }
}

/// The cells not consumed by a field of the row, by column.
pub(super) type OtherCells<'de> = HashMap<&'de str, &'de str>;

/// Parses one of the other cells; `None` if it is empty or its column is missing.
pub(super) fn known<T: CellValue, E: Error>(cells: &OtherCells<'_>, column: &str) -> Result<Option<T>, E> {
    let cell = cells.get(column).filter(|cell| !cell.is_empty());
    cell.map(|cell| parse(cell).map_err(|e| E::custom(e.in_column(column)))).transpose()
}

/// One row: column names and cells, read in parallel.
pub(crate) struct NamedRow<'de, H, C> {
    heads: H,
    cells: C,
    current: Option<(&'de str, &'de str)>,
}

impl<'de, H, C> NamedRow<'de, H, C>
where
    H: Iterator<Item = &'de str>,
    C: Iterator<Item = &'de str>,
{
    pub(crate) fn new(
        heads: impl IntoIterator<IntoIter = H>,
        cells: impl IntoIterator<IntoIter = C>,
    ) -> Self {
        Self { heads: heads.into_iter(), cells: cells.into_iter(), current: None }
    }
}

impl<'de, H, C> Deserializer<'de> for NamedRow<'de, H, C>
where
    H: Iterator<Item = &'de str>,
    C: Iterator<Item = &'de str>,
{
    type Error = CellError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, H, C> MapAccess<'de> for NamedRow<'de, H, C>
where
    H: Iterator<Item = &'de str>,
    C: Iterator<Item = &'de str>,
{
    type Error = CellError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, CellError> {
        self.current = self.heads.next().zip(self.cells.next());
        self.current.map(|(head, _)| seed.deserialize(BorrowedStrDeserializer::new(head))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, CellError> {
        let (head, cell) = self.current.ok_or_else(|| CellError::custom("a value without a column"))?;
        seed.deserialize(CellDeserializer(bare(cell))).map_err(|e| e.in_column(head))
    }
}

/// The text of one cell.
struct CellDeserializer<'de>(&'de str);

/// Generates the methods that parse the cell.
macro_rules! parsed {
    ($($method:ident => $visit:ident: $type:ty;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
            visitor.$visit(parse::<$type>(self.0)?)
        })*
    };
}

impl<'de> Deserializer<'de> for CellDeserializer<'de> {
    type Error = CellError;

    /// Numbers are parsed only on request, so that a class named `7` stays a name.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        if self.0.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CellError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, CellError> {
        visitor.visit_newtype_struct(self)
    }

    parsed! {
        deserialize_bool => visit_bool: bool;
        deserialize_u8 => visit_u8: u8;
        deserialize_u16 => visit_u16: u16;
        deserialize_u32 => visit_u32: u32;
        deserialize_u64 => visit_u64: u64;
        deserialize_f64 => visit_f64: f64;
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}
