//! Cuts a file into rows without reading what they say: lines, elements of a JSON array, records of CSV.

use std::io::{self, BufRead, Read};

/// The longest row. A quote or bracket that is never closed would otherwise read the rest of the file into memory.
pub(super) const LONGEST_ROW: usize = 64 << 20;

/// What stands between rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Line ends.
    Lines,
    /// The commas of one JSON array.
    Array,
    /// Line ends outside of quotes; the values are separated by this byte.
    Csv(u8),
}

impl Framing {
    /// An array where the first thing is `[`, else lines.
    pub(super) fn of_json(mut input: impl BufRead) -> io::Result<Self> {
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

/// One row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// Where it begins, in bytes from the beginning of the text.
    pub(super) at: u64,
    /// The line on which it begins, from 1.
    pub(super) line: u64,
    /// Its number in an array, from 1.
    pub(super) element: Option<u64>,
    pub(super) bytes: &'a [u8],
}

/// Why no further row can be had.
#[derive(Debug)]
pub(super) enum Stop {
    Io(io::Error),
    /// The file is not built as it should be.
    Shape {
        line: u64,
        element: Option<u64>,
        reason: String,
    },
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Reads rows one after the other into one buffer.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    input: R,
    framing: Framing,
    at: u64,
    line: u64,
    element: u64,
    inside: Inside,
    row: Vec<u8>,
    /// Place and line of the row's first byte.
    begin: (u64, u64),
}

/// Where in a JSON array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Before,
    Array,
    After,
}

enum Step {
    Skip,
    Keep,
    /// The byte is the last of its row, and no part of it.
    End,
}

impl<R: BufRead> Scanner<R> {
    pub(super) fn new(input: R, framing: Framing) -> Self {
        Self {
            input,
            framing,
            at: 0,
            line: 1,
            element: 0,
            inside: Inside::Before,
            row: Vec::new(),
            begin: (0, 1),
        }
    }

    /// The next row; blank ones are skipped.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, Stop> {
        let found = loop {
            self.row.clear();
            let found = match self.framing {
                Framing::Lines => self.line()?,
                Framing::Array => self.element()?,
                Framing::Csv(delimiter) => self.record(delimiter)?,
            };
            if !found || !self.row.iter().all(u8::is_ascii_whitespace) {
                break found;
            }
        };
        let element = (self.framing == Framing::Array).then_some(self.element);
        let (at, line) = self.begin;
        Ok(found.then_some(Row { at, line, element, bytes: &self.row }))
    }

    fn line(&mut self) -> Result<bool, Stop> {
        self.begin = (self.at, self.line);
        let n = self.input.by_ref().take(LONGEST_ROW as u64).read_until(b'\n', &mut self.row)?;
        if n == LONGEST_ROW {
            return Err(self.too_long());
        }
        self.at += n as u64;
        self.line += 1;
        Ok(n > 0)
    }

    fn record(&mut self, delimiter: u8) -> Result<bool, Stop> {
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
                (_, b'\n') => return Step::End,
                (_, b) if b == delimiter => At::Start,
                _ => At::Plain,
            };
            Step::Keep
        })?;
        if !ended && state == At::Quoted {
            let reason = "a quoted value begins on this line and is never closed".into();
            return Err(Stop::Shape { line: opened, element: None, reason });
        }
        Ok(ended || !self.row.is_empty())
    }

    fn element(&mut self) -> Result<bool, Stop> {
        if self.inside == Inside::Before {
            self.run(|b| if b == b'[' { Step::End } else { Step::Skip })?;
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
                return Step::Keep;
            }
            match b {
                b'"' => string = true,
                b'[' | b'{' => depth += 1,
                b']' if depth == 0 => {
                    last = true;
                    return Step::End;
                }
                b',' if depth == 0 => return Step::End,
                b']' | b'}' => depth = depth.saturating_sub(1),
                b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return Step::Skip,
                _ => {}
            }
            Step::Keep
        })?;
        let element = Some(self.element);
        if !ended {
            let (line, reason) = if self.row.is_empty() {
                (self.line, "the file ends before the array does: no `]`")
            } else {
                (self.begin.1, "the file ends within the element that begins on this line")
            };
            self.inside = Inside::After;
            return Err(Stop::Shape { line, element, reason: reason.into() });
        }
        if last {
            self.inside = Inside::After;
            self.nothing_more()?;
        } else if self.row.is_empty() {
            let reason = "a comma without an element before it".into();
            return Err(Stop::Shape { line: self.line, element, reason });
        }
        Ok(!self.row.is_empty())
    }

    fn nothing_more(&mut self) -> Result<(), Stop> {
        if self.run(|b| if b.is_ascii_whitespace() { Step::Skip } else { Step::End })? {
            let reason = "there is more text after the end of the array".into();
            return Err(Stop::Shape { line: self.line, element: None, reason });
        }
        Ok(())
    }

    /// Feeds bytes to `step` until it ends the row; false at the end of the file.
    fn run(&mut self, mut step: impl FnMut(u8) -> Step) -> Result<bool, Stop> {
        loop {
            let buf = self.input.fill_buf()?;
            if buf.is_empty() {
                return Ok(false);
            }
            let mut used = 0;
            let mut ended = false;
            for &b in buf {
                used += 1;
                match step(b) {
                    Step::Skip => {}
                    Step::End => ended = true,
                    Step::Keep => {
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
            if self.row.len() >= LONGEST_ROW {
                return Err(self.too_long());
            }
        }
    }

    fn too_long(&self) -> Stop {
        let element = (self.framing == Framing::Array).then_some(self.element);
        let mib = LONGEST_ROW >> 20;
        let reason = format!(
            "the row that begins on this line is longer than {mib} MiB: a quote or bracket is not closed?"
        );
        Stop::Shape { line: self.begin.1, element, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// All rows as `line:text`, with the place checked; then what stopped.
    fn rows(text: &str, framing: Framing) -> (Vec<String>, Option<String>) {
        // A tiny buffer, so that every boundary is crossed somewhere.
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
                Err(Stop::Shape { line, reason, .. }) => return (all, Some(format!("{line}: {reason}"))),
                Err(Stop::Io(e)) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn lines() {
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
    fn elements_of_an_array() {
        for (text, expected, stop) in [
            ("[]", vec![], None),
            (
                " [ 1 , {\"a\": [1,2]},\n\"x,]\\\"\" ]\n",
                vec!["1:1", "1:{\"a\": [1,2]}", "2:\"x,]\\\"\""],
                None,
            ),
            ("[{\n\"a\": 1}\n,\n{}]", vec!["1:{\n\"a\": 1}", "4:{}"], None),
            ("[\"\\\\\",2]", vec!["1:\"\\\\\"", "1:2"], None),
            ("[1,\n{\"a\": \"b", vec!["1:1"], Some("2: the file ends within the element")),
            ("[1,2", vec!["1:1"], Some("1: the file ends within the element")),
            ("[1,\n", vec!["1:1"], Some("2: the file ends before the array does")),
            ("[1,,2]", vec!["1:1"], Some("1: a comma without an element")),
            ("[1]\n[2]", vec![], Some("2: there is more text")),
        ] {
            let (got, stopped) = rows(text, Framing::Array);
            assert_eq!(got, expected, "{text}");
            assert_eq!(stopped.is_some(), stop.is_some(), "{text}: {stopped:?}");
            assert!(stopped.unwrap_or_default().starts_with(stop.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn records_of_csv() {
        for (text, expected, stop) in [
            ("a,b\r\n1,2\r\n", vec!["1:a,b", "2:1,2"], None),
            ("a\n\"x\ny\"\"\n\",2\n\nz", vec!["1:a", "2:\"x\ny\"\"\n\",2", "6:z"], None),
            ("5\" pipe\nnext", vec!["1:5\" pipe", "2:next"], None),
            ("\"a\"b\nc", vec!["1:\"a\"b", "2:c"], None),
            ("a\nb,\"c\nd", vec!["1:a"], Some("2: a quoted value begins on this line")),
        ] {
            let (got, stopped) = rows(text, Framing::Csv(b','));
            assert_eq!(got, expected, "{text}");
            assert!(stopped.unwrap_or_default().starts_with(stop.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn an_array_is_known_by_its_bracket() {
        for (text, framing) in [
            ("\n\n    [1]", Framing::Array),
            ("{}", Framing::Lines),
            ("", Framing::Lines),
            ("     ", Framing::Lines),
        ] {
            assert_eq!(
                Framing::of_json(BufReader::with_capacity(2, text.as_bytes())).unwrap(),
                framing,
                "{text:?}"
            );
        }
    }
}
