//! The values of a CSV record.

/// A record split into its values; its buffers are reused from record to record.
#[derive(Debug, Default)]
pub(crate) struct Record {
    text: Vec<u8>,
    /// End of each value in the text.
    ends: Vec<usize>,
}

/// The error of a record with a carriage return that does not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has carriage returns without line feeds: end lines with either \\n or \\r\\n")]
pub(crate) struct LoneCarriageReturn;

impl Record {
    /// Splits the bytes of one row, as [`super::scan::Scanner`] finds it: values may be quoted, and a quote in a quoted
    /// value is doubled (RFC 4180).
    pub(crate) fn split(&mut self, row: &[u8], delimiter: u8) -> Result<(), LoneCarriageReturn> {
        #[derive(Clone, Copy)]
        enum At {
            Start,
            Plain,
            Quoted,
            Quote,
        }
        self.text.clear();
        self.ends.clear();
        let mut at = At::Start;
        let row = row.strip_suffix(b"\n").unwrap_or(row);
        for (i, &b) in row.iter().enumerate() {
            at = match (at, b) {
                (At::Start, b'"') => At::Quoted,
                (At::Quoted, b'"') => At::Quote,
                (At::Quoted, _) | (At::Quote, b'"') => {
                    self.text.push(b);
                    At::Quoted
                }
                (At::Start | At::Plain | At::Quote, b'\r') if i + 1 == row.len() => break,
                (At::Start | At::Plain | At::Quote, b'\r') => return Err(LoneCarriageReturn),
                (At::Start | At::Plain | At::Quote, b) if b == delimiter => {
                    self.ends.push(self.text.len());
                    At::Start
                }
                (At::Start | At::Plain | At::Quote, _) => {
                    self.text.push(b);
                    At::Plain
                }
            };
        }
        self.ends.push(self.text.len());
        Ok(())
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns a value by its index.
    pub(crate) fn get(&self, i: usize) -> Option<&[u8]> {
        let from = if i == 0 { 0 } else { *self.ends.get(i - 1)? };
        self.text.get(from..*self.ends.get(i)?)
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
            let mut record = Record::default();
            record.split(row, b',').unwrap();
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(row);
            let mut expected = csv::ByteRecord::new();
            reader.read_byte_record(&mut expected).unwrap();
            prop_assert!(record.iter().eq(expected.iter()), "{record:?} {expected:?}");
        }
    }

    #[test]
    fn a_carriage_return_within_a_record_is_an_error() {
        let mut record = Record::default();
        assert_eq!(record.split(b"a,b\rc", b','), Err(LoneCarriageReturn));
        record.split(b"\"a\rb\",c\r", b',').unwrap();
        assert_eq!(
            (record.get(0), record.get(1), record.get(2)),
            (Some(&b"a\rb"[..]), Some(&b"c"[..]), None)
        );
    }
}
