//! Rows of CSV traces.

use super::format::{FIELDS, Field, Format, Layout};
use super::row::{BadRow, Item, check};
use crate::files::Record;
use anyhow::{Result, anyhow, bail};

/// The columns of a CSV trace.
pub(super) struct Columns {
    record: Record,
    width: usize,
    /// Index of the column of each field.
    of_fields: [Option<usize>; FIELDS],
}

impl Columns {
    /// Finds the columns in the header.
    ///
    /// # Errors
    ///
    /// A needed column is missing; the message lists those that exist.
    pub(super) fn new(header: &[u8], layout: &Layout) -> Result<Self> {
        let mut record = Record::new(layout.delimiter);
        record.split(header).map_err(|e| anyhow!("line 1: the header {e}"))?;
        let head: Vec<String> =
            record.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
        let generic = layout.format == Format::Csv;
        let mut of_fields = [None; FIELDS];
        for (column, name) in of_fields.iter_mut().zip(&layout.names) {
            *column = name.as_ref().and_then(|name| head.iter().position(|h| h == name));
        }
        let default_name = |field: Field| layout.format.field_name(Field::Output) == Some(layout.name(field));
        for (field, key) in [
            (Field::Output, "output-tokens"),
            (Field::Failed, "failed"),
            (Field::Timestamp, "timestamp"),
            (Field::Input, "input-tokens"),
        ] {
            let needed = match field {
                Field::Timestamp | Field::Input => true,
                _ if layout.names[field as usize].is_none() => false,
                _ => !generic || (layout.named && !default_name(field)),
            };
            if needed && of_fields[field as usize].is_none() {
                let advice = format!(": name it with columns.{key} (--column {key}=…)");
                bail!(
                    "line 1: there is no column {}; the columns are {}{}",
                    layout.name(field),
                    head.join(", "),
                    if generic { &*advice } else { "" }
                );
            }
        }
        Ok(Self { record, width: head.len(), of_fields })
    }

    /// Parses a row.
    pub(super) fn row(&mut self, bytes: &[u8], line: u64, layout: &Layout) -> Item {
        let bad = |reason: String| Item::Bad(BadRow { line, field: String::new(), reason });
        if let Err(e) = self.record.split(bytes) {
            return bad(e.to_string());
        }
        if self.record.len() != self.width {
            return bad(format!("has {} cells, but the header has {}", self.record.len(), self.width));
        }
        let cell = |column: usize| self.record.get(column).map(String::from_utf8_lossy);
        let mut values = self.of_fields.map(|column| column.and_then(cell));
        let session = &mut values[Field::Session as usize];
        *session = session.take().filter(|name| !name.trim().is_empty());
        check(&values, layout, line)
    }
}
