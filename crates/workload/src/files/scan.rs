//! Splits a file into rows without parsing them: lines, elements of a JSON array, records of CSV.

use std::io::{self, BufRead, Read};

/// Longest row in bytes. An unclosed quote or bracket would otherwise read the rest of the file into memory.
pub(crate) const MAX_ROW_BYTES: usize = 64 << 20;

/// Separation of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One row per line.
    Lines,
    /// Elements of one JSON array.
    Array,
    /// CSV records with this delimiter; quoted values may contain line ends.
    Csv(u8),
}

impl Framing {
    /// Detects an array by its leading `[`; otherwise lines.
    pub(crate) fn detect_json(mut input: impl BufRead) -> io::Result<Self> {
        loop {
            let buf = input.fill_buf()?;
            match buf.iter().find(|b| !b.is_ascii_whitespace()) {
                Some(b'[') => return Ok(Self::Array),
                None if !buf.is_empty() => {
                    let n = buf.len();
                    input.consume(n);
                }
                _ => return Ok(Self::Lines),
            }
        }
    }
}

/// The bytes of one row, with its position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowBytes<'a> {
    /// Byte offset in the text.
    pub(crate) at: u64,
    /// Line of its first byte, from 1.
    pub(crate) line: u64,
    /// Index in the array, from 1.
    pub(crate) element: Option<u64>,
    pub(crate) bytes: &'a [u8],
}

/// Error that ends the scan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is malformed.
    #[error("line {line}: {reason}")]
    Malformed {
        /// Line of the file, from 1.
        line: u64,
        /// Index in the array, from 1.
        element: Option<u64>,
        reason: String,
    },
}

/// Iterator over rows, which share one buffer.
#[derive(Debug)]
pub(crate) struct Scanner<R> {
    input: R,
    framing: Framing,
    at: u64,
    line: u64,
    element: u64,
    inside: Inside,
    malformed: bool,
    row: Vec<u8>,
    /// Byte offset and line of the row's first byte.
    begin: (u64, u64),
}

/// Position relative to a JSON array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Before,
    Array,
    After,
}

enum ByteAction {
    Skip,
    Keep,
    /// Ends the row without keeping the byte.
    End,
}

impl<R: BufRead> Scanner<R> {
    pub(crate) fn new(input: R, framing: Framing) -> Self {
        Self {
            input,
            framing,
            at: 0,
            line: 1,
            element: 0,
            inside: Inside::Before,
            malformed: false,
            row: Vec::new(),
            begin: (0, 1),
        }
    }

    /// Returns the line that the next byte is on, from 1.
    pub(crate) fn line_number(&self) -> u64 {
        self.line
    }

    /// Returns the next row that is not blank; nothing after the file was found to be malformed.
    pub(crate) fn next(&mut self) -> Result<Option<RowBytes<'_>>, ScanError> {
        let found = loop {
            self.row.clear();
            let found = match self.framing {
                _ if self.malformed => Ok(false),
                Framing::Lines => self.line(),
                Framing::Array => self.element(),
                Framing::Csv(delimiter) => self.record(delimiter),
            };
            self.malformed |= matches!(found, Err(ScanError::Malformed { .. }));
            let found = found?;
            if !found || !self.row.iter().all(u8::is_ascii_whitespace) {
                break found;
            }
        };
        let element = (self.framing == Framing::Array).then_some(self.element);
        let (at, line) = self.begin;
        Ok(found.then_some(RowBytes { at, line, element, bytes: &self.row }))
    }

    fn line(&mut self) -> Result<bool, ScanError> {
        self.begin = (self.at, self.line);
        let n = self.input.by_ref().take(MAX_ROW_BYTES as u64).read_until(b'\n', &mut self.row)?;
        if n == MAX_ROW_BYTES {
            return Err(self.too_long());
        }
        self.at += n as u64;
        self.line += 1;
        Ok(n > 0)
    }

    fn record(&mut self, delimiter: u8) -> Result<bool, ScanError> {
        #[derive(PartialEq)]
        enum At {
            Start,
            Plain,
            Quoted,
            Quote,
        }
        let mut state = At::Start;
        let mut opened = self.line;
        let mut line = self.line;
        let ended = self.run(|b| {
            line += u64::from(b == b'\n');
            state = match (&state, b) {
                (At::Start, b'"') => {
                    opened = line;
                    At::Quoted
                }
                (At::Quote, b'"') => At::Quoted,
                (At::Quoted, b'"') => At::Quote,
                (At::Quoted, _) => At::Quoted,
                (_, b'\n') => return ByteAction::End,
                (_, b) if b == delimiter => At::Start,
                _ => At::Plain,
            };
            ByteAction::Keep
        })?;
        if !ended && state == At::Quoted {
            let reason = "a quoted value begins on this line and is never closed".into();
            return Err(ScanError::Malformed { line: opened, element: None, reason });
        }
        Ok(ended || !self.row.is_empty())
    }

    fn element(&mut self) -> Result<bool, ScanError> {
        if self.inside == Inside::Before {
            self.run(|b| if b == b'[' { ByteAction::End } else { ByteAction::Skip })?;
            self.inside = Inside::Array;
        }
        if self.inside == Inside::After {
            return Ok(false);
        }
        let (mut depth, mut string, mut escaped, mut last) = (0u32, false, false, false);
        self.element += 1;
        let ended = self.run(|b| {
            if string {
                string = escaped || b != b'"';
                escaped = !escaped && b == b'\\';
                return ByteAction::Keep;
            }
            match b {
                b'"' => string = true,
                b'[' | b'{' => depth += 1,
                b']' if depth == 0 => {
                    last = true;
                    return ByteAction::End;
                }
                b',' if depth == 0 => return ByteAction::End,
                b']' | b'}' => depth = depth.saturating_sub(1),
                b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return ByteAction::Skip,
                _ => {}
            }
            ByteAction::Keep
        })?;
        let element = Some(self.element);
        if !ended {
            let (line, reason) = if self.row.is_empty() {
                (self.line, "the file ends inside the array: `]` is missing")
            } else {
                (self.begin.1, "the file ends inside the element that begins on this line")
            };
            self.inside = Inside::After;
            return Err(ScanError::Malformed { line, element, reason: reason.into() });
        }
        if last {
            self.inside = Inside::After;
            self.expect_end()?;
        } else if self.row.is_empty() {
            let reason = "a comma without an element before it".into();
            return Err(ScanError::Malformed { line: self.line, element, reason });
        }
        Ok(!self.row.is_empty())
    }

    /// Checks that only white space follows the array.
    fn expect_end(&mut self) -> Result<(), ScanError> {
        if self.run(|b| if b.is_ascii_whitespace() { ByteAction::Skip } else { ByteAction::End })? {
            let reason = "there is more text after the end of the array".into();
            return Err(ScanError::Malformed { line: self.line, element: None, reason });
        }
        Ok(())
    }

    /// Feeds bytes to `action` until it ends the row; returns false at the end of the file.
    fn run(&mut self, mut action: impl FnMut(u8) -> ByteAction) -> Result<bool, ScanError> {
        loop {
            let buf = self.input.fill_buf()?;
            if buf.is_empty() {
                return Ok(false);
            }
            let mut used = 0;
            let mut ended = false;
            for &b in buf {
                used += 1;
                match action(b) {
                    ByteAction::Skip => {}
                    ByteAction::End => ended = true,
                    ByteAction::Keep => {
                        if self.row.is_empty() {
                            self.begin = (self.at + used as u64 - 1, self.line);
                        }
                        self.row.push(b);
                    }
                }
                self.line += u64::from(b == b'\n');
                if ended {
                    break;
                }
            }
            self.input.consume(used);
            self.at += used as u64;
            if ended {
                return Ok(true);
            }
            if self.row.len() >= MAX_ROW_BYTES {
                return Err(self.too_long());
            }
        }
    }

    fn too_long(&self) -> ScanError {
        let element = (self.framing == Framing::Array).then_some(self.element);
        let mib = MAX_ROW_BYTES >> 20;
        let reason =
            format!("the row that begins on this line exceeds {mib} MiB: is a quote or bracket not closed?");
        ScanError::Malformed { line: self.begin.1, element, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// Returns all rows as `line:text` and the error that ended the scan; checks positions.
    fn rows(text: &str, framing: Framing) -> (Vec<String>, Option<String>) {
        // A tiny buffer, so that rows cross its boundary.
        let mut scanner = Scanner::new(BufReader::with_capacity(3, text.as_bytes()), framing);
        let mut all = Vec::new();
        loop {
            match scanner.next() {
                Ok(Some(row)) => {
                    let at = row.at as usize;
                    assert_eq!(&text.as_bytes()[at..at + row.bytes.len()], row.bytes);
                    all.push(format!("{}:{}", row.line, String::from_utf8_lossy(row.bytes).trim_end()));
                }
                Ok(None) => return (all, None),
                Err(ScanError::Malformed { line, reason, .. }) => {
                    return (all, Some(format!("{line}: {reason}")));
                }
                Err(ScanError::Io(e)) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn lines_are_rows() {
        for (text, expected) in [
            ("a\nb\n", vec!["1:a", "2:b"]),
            ("a\r\n\r\n  \nb", vec!["1:a", "4:b"]),
            ("", vec![]),
            ("\n\n", vec![]),
        ] {
            assert_eq!(rows(text, Framing::Lines), (expected.iter().map(|s| s.to_string()).collect(), None));
        }
    }

    #[test]
    fn array_elements_are_rows() {
        for (text, expected, error) in [
            ("[]", vec![], None),
            (
                " [ 1 , {\"a\": [1,2]},\n\"x,]\\\"\" ]\n",
                vec!["1:1", "1:{\"a\": [1,2]}", "2:\"x,]\\\"\""],
                None,
            ),
            ("[{\n\"a\": 1}\n,\n{}]", vec!["1:{\n\"a\": 1}", "4:{}"], None),
            ("[\"\\\\\",2]", vec!["1:\"\\\\\"", "1:2"], None),
            ("[1,\n{\"a\": \"b", vec!["1:1"], Some("2: the file ends inside the element")),
            ("[1,2", vec!["1:1"], Some("1: the file ends inside the element")),
            ("[1,\n", vec!["1:1"], Some("2: the file ends inside the array")),
            ("[1,,2]", vec!["1:1"], Some("1: a comma without an element")),
            ("[1]\n[2]", vec![], Some("2: there is more text")),
        ] {
            let (got, stopped) = rows(text, Framing::Array);
            assert_eq!(got, expected, "{text}");
            assert_eq!(stopped.is_some(), error.is_some(), "{text}: {stopped:?}");
            assert!(stopped.unwrap_or_default().starts_with(error.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn csv_records_are_rows() {
        for (text, expected, error) in [
            ("a,b\r\n1,2\r\n", vec!["1:a,b", "2:1,2"], None),
            ("a\n\"x\ny\"\"\n\",2\n\nz", vec!["1:a", "2:\"x\ny\"\"\n\",2", "6:z"], None),
            ("5\" pipe\nnext", vec!["1:5\" pipe", "2:next"], None),
            ("\"a\"b\nc", vec!["1:\"a\"b", "2:c"], None),
            ("a\nb,\"c\nd", vec!["1:a"], Some("2: a quoted value begins on this line")),
        ] {
            let (got, stopped) = rows(text, Framing::Csv(b','));
            assert_eq!(got, expected, "{text}");
            assert!(stopped.unwrap_or_default().starts_with(error.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn arrays_are_detected_by_their_bracket() {
        for (text, framing) in [
            ("\n\n    [1]", Framing::Array),
            ("{}", Framing::Lines),
            ("", Framing::Lines),
            ("     ", Framing::Lines),
        ] {
            assert_eq!(
                Framing::detect_json(BufReader::with_capacity(2, text.as_bytes())).unwrap(),
                framing,
                "{text:?}"
            );
        }
    }
}
