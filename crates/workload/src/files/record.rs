//! The values of a CSV record.

/// A record split into its values; its buffers are reused from record to record.
#[derive(Debug)]
pub(crate) struct Record {
    parser: csv_core::Reader,
    text: Vec<u8>,
    /// End of each value in the text, then unused room.
    ends: Vec<usize>,
    len: usize,
}

/// The error of a record with a carriage return that does not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has carriage returns without line feeds: end lines with either \\n or \\r\\n")]
pub(crate) struct LoneCarriageReturn;

impl Record {
    /// Makes a record whose values are separated by `delimiter`.
    pub(crate) fn new(delimiter: u8) -> Self {
        let parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Self { parser, text: Vec::new(), ends: Vec::new(), len: 0 }
    }

    /// Splits the bytes of one row, as [`super::scan::Scanner`] finds it: values may be quoted, and a quote in a quoted
    /// value is doubled (RFC 4180).
    pub(crate) fn split(&mut self, row: &[u8]) -> Result<(), LoneCarriageReturn> {
        let row = row.strip_suffix(b"\n").unwrap_or(row);
        // The values have no more bytes than the row, and there is at most one more of them than it has delimiters.
        self.text.resize(row.len() + 1, 0);
        self.ends.resize(row.len() + 2, 0);
        // The parser skips empty lines; here they are a record of one empty value.
        if matches!(row, [] | [b'\r']) {
            (self.ends[0], self.len) = (0, 1);
            return Ok(());
        }
        self.parser.reset();
        let (_, read, written, ends) = self.parser.read_record(row, &mut self.text, &mut self.ends);
        // The parser takes a carriage return for the end of a record, and skips those before it.
        if read < row.len() || row[0] == b'\r' {
            return Err(LoneCarriageReturn);
        }
        let (text, room) = (&mut self.text[written..], &mut self.ends[ends..]);
        // Without a carriage return, only the end of the text ends the record.
        let (.., more) = self.parser.read_record(&[], text, room);
        self.len = ends + more;
        Ok(())
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a value by its index.
    pub(crate) fn get(&self, i: usize) -> Option<&[u8]> {
        let ends = &self.ends[..self.len];
        let from = if i == 0 { 0 } else { *ends.get(i - 1)? };
        self.text.get(from..*ends.get(i)?)
    }

    /// Returns the values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The `csv` crate splits every record in the same way.
        #[test]
        fn values_are_those_of_another_reader(row in "[ab,;\" ]{1,24}\r?") {
            let row = row.as_bytes();
            let mut record = Record::new(b',');
            record.split(row).unwrap();
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(row);
            let mut expected = csv::ByteRecord::new();
            reader.read_byte_record(&mut expected).unwrap();
            prop_assert!(record.iter().eq(expected.iter()), "{record:?} {expected:?}");
        }
    }

    #[test]
    fn a_carriage_return_within_a_record_is_an_error() {
        let mut record = Record::new(b',');
        assert_eq!(record.split(b"a,b\rc"), Err(LoneCarriageReturn));
        record.split(b"\"a\rb\",c\r").unwrap();
        assert_eq!(
            (record.get(0), record.get(1), record.get(2)),
            (Some(&b"a\rb"[..]), Some(&b"c"[..]), None)
        );
    }
}
