//! Rows of a CSV, by the names in its head.

use super::format::{Format, Reading};
use super::row::{BadRow, Item, Values, check};
use crate::bytes::Bytes;
use anyhow::{Context, Result, bail};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::borrow::Cow;
use std::io::{self, Read};

/// Bytes of one row, at most: a quote that is never closed would swallow the file.
const LONGEST_ROW: usize = 16 << 20;

/// A CSV being read.
pub(super) struct CsvRows {
    reader: Reader<Guarded>,
    record: ByteRecord,
    width: usize,
    columns: [Option<usize>; 6],
}

impl CsvRows {
    /// Reads the head and finds the columns.
    ///
    /// # Errors
    ///
    /// A column that is needed is not there; the message lists those that are.
    pub(super) fn new(bytes: Bytes, how: &Reading) -> Result<Self> {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(how.delimiter).flexible(true).trim(csv::Trim::Headers);
        let mut reader = builder.from_reader(Guarded { bytes, left: LONGEST_ROW });
        let head = reader.headers().context("line 1: failed to read the head of the CSV")?.clone();
        let find = |name: &str| head.iter().position(|h| h == name);
        let names = &how.names;
        let optional = |name: &Option<String>| name.as_deref().and_then(find);
        let list: Vec<&str> = head.iter().collect();
        let needs = |name: &str, key: &str| match find(name) {
            Some(at) => Ok(Some(at)),
            None => bail!(
                "line 1: there is no column {name}; there are {}{}",
                list.join(", "),
                if how.format == Format::Csv {
                    format!(": name it with columns.{key} (--column {key}=…)")
                } else {
                    String::new()
                }
            ),
        };
        if how.named || how.format != Format::Csv {
            let given = [(&names.output, "output-tokens"), (&names.failed, "failed")];
            let fixed = how.format != Format::Csv;
            for (name, key) in given {
                let own = name.as_deref() != how.format.names().output.as_deref();
                if let Some(name) = name.as_deref().filter(|_| own || fixed) {
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

    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read on.
    pub(super) fn next(&mut self, how: &Reading) -> Result<Option<Item>> {
        self.reader.get_mut().left = LONGEST_ROW;
        let more = self.reader.read_byte_record(&mut self.record);
        let line = self.record.position().map_or(0, csv::Position::line);
        if !more.with_context(|| format!("line {line}: failed to read a row"))? {
            return Ok(None);
        }
        let bad = |field: &str, reason: String| Item::Bad(BadRow { line, field: field.into(), reason });
        if self.record.len() != self.width {
            let reason = format!("has {} cells where the head has {}", self.record.len(), self.width);
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
        Ok(Some(check(&values, how, line)))
    }
}

/// Ends in an error where one row takes more than its bytes.
struct Guarded {
    bytes: Bytes,
    left: usize,
}

impl Read for Guarded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.read(into)?;
        if n > 0 && self.left == 0 {
            return Err(io::Error::other("a row of more than 16 MiB: is a quote not closed?"));
        }
        self.left = self.left.saturating_sub(n);
        Ok(n)
    }
}
