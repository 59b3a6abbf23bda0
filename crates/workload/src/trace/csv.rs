//! Rows of CSV traces.

use super::format::{Format, Layout};
use super::row::{BadRow, Item, Values, check};
use crate::bytes::Bytes;
use anyhow::{Context, Result, bail};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::borrow::Cow;
use std::io::{self, Read};

/// Longest row in bytes, since an unclosed quote would otherwise read the whole file as one row.
const MAX_ROW_BYTES: usize = 16 << 20;

/// Reader of a CSV trace.
pub(super) struct CsvRows {
    reader: Reader<RowLimit>,
    record: ByteRecord,
    width: usize,
    columns: [Option<usize>; 6],
}

impl CsvRows {
    /// Reads the header and finds the columns.
    ///
    /// # Errors
    ///
    /// A needed column is missing; the message lists those that exist.
    pub(super) fn new(bytes: Bytes, layout: &Layout) -> Result<Self> {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(layout.delimiter).flexible(true).trim(csv::Trim::Headers);
        let mut reader = builder.from_reader(RowLimit { bytes, left: MAX_ROW_BYTES });
        let head = reader.headers().context("line 1: failed to read the header of the CSV")?.clone();
        let find = |name: &str| head.iter().position(|h| h == name);
        let names = &layout.names;
        let optional = |name: &Option<String>| name.as_deref().and_then(find);
        let list: Vec<&str> = head.iter().collect();
        let needs = |name: &str, key: &str| match find(name) {
            Some(at) => Ok(Some(at)),
            None => bail!(
                "line 1: there is no column {name}; the columns are {}{}",
                list.join(", "),
                if layout.format == Format::Csv {
                    format!(": name it with columns.{key} (--column {key}=…)")
                } else {
                    String::new()
                }
            ),
        };
        if layout.named || layout.format != Format::Csv {
            let given = [(&names.output, "output-tokens"), (&names.failed, "failed")];
            let fixed = layout.format != Format::Csv;
            for (name, key) in given {
                let is_named = name.as_deref() != layout.format.names().output.as_deref();
                if let Some(name) = name.as_deref().filter(|_| is_named || fixed) {
                    needs(name, key)?;
                }
            }
        }
        let columns = [
            needs(&names.timestamp, "timestamp")?,
            needs(&names.input, "input-tokens")?,
            optional(&names.output),
            optional(&names.hash_ids),
            optional(&names.session),
            optional(&names.failed),
        ];
        Ok(Self { reader, record: ByteRecord::new(), width: head.len(), columns })
    }

    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn next(&mut self, layout: &Layout) -> Result<Option<Item>> {
        self.reader.get_mut().left = MAX_ROW_BYTES;
        let more = self.reader.read_byte_record(&mut self.record);
        let line = self.record.position().map_or(0, csv::Position::line);
        if !more.with_context(|| format!("line {line}: failed to read a row"))? {
            return Ok(None);
        }
        let bad = |field: &str, reason: String| Item::Bad(BadRow { line, field: field.into(), reason });
        if self.record.len() != self.width {
            let reason = format!("has {} cells, but the header has {}", self.record.len(), self.width);
            return Ok(Some(bad("", reason)));
        }
        let cell = |i: usize| -> Option<Cow<'_, str>> {
            self.columns[i].and_then(|c| self.record.get(c)).map(String::from_utf8_lossy)
        };
        let values = Values {
            timestamp: cell(0),
            input: cell(1),
            output: cell(2),
            hash_ids: cell(3),
            session: cell(4).filter(|s| !s.trim().is_empty()),
            failed: cell(5),
            delay: None,
        };
        Ok(Some(check(&values, layout, line)))
    }
}

/// Reader that fails if one row exceeds its limit in bytes.
struct RowLimit {
    bytes: Bytes,
    left: usize,
}

impl Read for RowLimit {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.read(into)?;
        if n > 0 && self.left == 0 {
            return Err(io::Error::other("a row exceeds 16 MiB: is a quote not closed?"));
        }
        self.left = self.left.saturating_sub(n);
        Ok(n)
    }
}
