//! Serialises a row struct into the named cells of a CSV file.
//!
//! The serialiser of the `csv` crate does not support flattened maps, which the columns of each metric are, and
//! writes `1` as `1.0`.

use super::error::CellError;
use crate::rundir::cell::guarded;
use serde::ser::{Error, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use std::fmt::Display;

/// Column names and cells of one row, in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedCells {
    pub(crate) names: Vec<String>,
    pub(crate) cells: Vec<String>,
}

impl NamedCells {
    /// Returns the cells of a row. Texts are guarded against being taken for formulas; numbers have the shortest form
    /// that parses to an equal value; `None`, NaN and infinities are empty cells.
    pub(crate) fn of(row: &impl Serialize) -> Result<Self, CellError> {
        row.serialize(Self::default())
    }

    /// Returns the cells for a file with these column names; a cell is empty if the row has no such column.
    pub(crate) fn under<'a>(&'a self, heads: &'a [String]) -> impl Iterator<Item = &'a str> {
        let place = |head: &String| self.names.iter().position(|name| name == head);
        heads.iter().map(move |head| place(head).map_or("", |at| self.cells[at].as_str()))
    }

    fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), CellError> {
        let cell = value.serialize(CellSerializer).map_err(|e| e.in_column(name))?;
        self.names.push(name.to_owned());
        self.cells.push(cell);
        Ok(())
    }
}

/// Generates the methods for the kinds of values that are not allowed in `$what`.
macro_rules! refuse {
    ($what:literal: $($method:ident($($arg:ident: $type:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $($arg: $type),*) -> Result<$ok, CellError> {
            $(let _ = $arg;)*
            Err(CellError::custom(concat!($what, " cannot be made of such a value")))
        })*
    };
}

/// Generates the methods that reject sequences, and variants and structs with contents.
macro_rules! refuse_compound {
    ($what:literal) => {
        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _name: &'static str,
            _index: u32,
            _variant: &'static str,
            _value: &T,
        ) -> Result<Self::Ok, CellError> {
            Err(CellError::custom(concat!($what, " cannot be made of such a value")))
        }

        refuse! { $what:
            serialize_bytes(bytes: &[u8]) -> Self::Ok;
            serialize_unit() -> Self::Ok;
            serialize_unit_struct(name: &'static str) -> Self::Ok;
            serialize_seq(len: Option<usize>) -> Self::SerializeSeq;
            serialize_tuple(len: usize) -> Self::SerializeTuple;
            serialize_tuple_struct(name: &'static str, len: usize) -> Self::SerializeTupleStruct;
            serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
                -> Self::SerializeTupleVariant;
            serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
                -> Self::SerializeStructVariant;
        }
    };
}

impl Serializer for NamedCells {
    type Ok = Self;
    type Error = CellError;
    type SerializeSeq = Impossible<Self, CellError>;
    type SerializeTuple = Impossible<Self, CellError>;
    type SerializeTupleStruct = Impossible<Self, CellError>;
    type SerializeTupleVariant = Impossible<Self, CellError>;
    type SerializeMap = RowMap;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<Self, CellError>;

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Self, CellError> {
        Ok(self)
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<RowMap, CellError> {
        Ok(RowMap { row: self, name: String::new() })
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, CellError> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Self, CellError> {
        value.serialize(self)
    }

    refuse! { "a row":
        serialize_bool(v: bool) -> Self;
        serialize_i8(v: i8) -> Self;
        serialize_i16(v: i16) -> Self;
        serialize_i32(v: i32) -> Self;
        serialize_i64(v: i64) -> Self;
        serialize_u8(v: u8) -> Self;
        serialize_u16(v: u16) -> Self;
        serialize_u32(v: u32) -> Self;
        serialize_u64(v: u64) -> Self;
        serialize_f32(v: f32) -> Self;
        serialize_f64(v: f64) -> Self;
        serialize_char(v: char) -> Self;
        serialize_str(v: &str) -> Self;
        serialize_none() -> Self;
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str) -> Self;
    }
    refuse_compound!("a row");
}

impl SerializeStruct for NamedCells {
    type Ok = Self;
    type Error = CellError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), CellError> {
        self.put(name, value)
    }

    fn end(self) -> Result<Self, CellError> {
        Ok(self)
    }
}

/// A row with flattened columns, which serde passes as a map.
pub(crate) struct RowMap {
    row: NamedCells,
    name: String,
}

impl SerializeMap for RowMap {
    type Ok = NamedCells;
    type Error = CellError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CellError> {
        self.name = key.serialize(CellSerializer)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CellError> {
        self.row.put(&self.name, value)
    }

    fn end(self) -> Result<NamedCells, CellError> {
        Ok(self.row)
    }
}

/// Serializes one value into the text of its cell.
struct CellSerializer;

impl CellSerializer {
    /// Formats a count or a flag.
    fn plain(value: impl Display) -> Result<String, CellError> {
        Ok(value.to_string())
    }
}

impl Serializer for CellSerializer {
    type Ok = String;
    type Error = CellError;
    type SerializeSeq = Impossible<String, CellError>;
    type SerializeTuple = Impossible<String, CellError>;
    type SerializeTupleStruct = Impossible<String, CellError>;
    type SerializeTupleVariant = Impossible<String, CellError>;
    type SerializeMap = Impossible<String, CellError>;
    type SerializeStruct = Impossible<String, CellError>;
    type SerializeStructVariant = Impossible<String, CellError>;

    fn serialize_bool(self, v: bool) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_i8(self, v: i8) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_i16(self, v: i16) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_i32(self, v: i32) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_i64(self, v: i64) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_u8(self, v: u8) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_u16(self, v: u16) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_u32(self, v: u32) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_u64(self, v: u64) -> Result<String, CellError> {
        Self::plain(v)
    }

    fn serialize_f32(self, v: f32) -> Result<String, CellError> {
        self.serialize_f64(v.into())
    }

    fn serialize_f64(self, v: f64) -> Result<String, CellError> {
        // The mean of no values is NaN, which means unknown.
        if v.is_finite() { Self::plain(v) } else { Ok(String::new()) }
    }

    fn serialize_char(self, v: char) -> Result<String, CellError> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<String, CellError> {
        Ok(guarded(v).into_owned())
    }

    fn serialize_none(self) -> Result<String, CellError> {
        Ok(String::new())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, CellError> {
        value.serialize(self)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<String, CellError> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<String, CellError> {
        value.serialize(self)
    }

    refuse! { "a cell":
        serialize_map(len: Option<usize>) -> Self::SerializeMap;
        serialize_struct(name: &'static str, len: usize) -> Self::SerializeStruct;
    }
    refuse_compound!("a cell");
}
