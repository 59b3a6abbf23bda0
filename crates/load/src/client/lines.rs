//! Parser of streams with a JSON document in each line (NDJSON), for input in pieces of any size.

use super::sse::{EVENT_MAX, Item, TooLarge};
use memchr::memchr;

/// The parser, with the unfinished line of the last read.
#[derive(Debug, Default)]
pub struct LineParser {
    line: Vec<u8>,
}

impl LineParser {
    /// Parses one read and passes the lines that it completes to `each`. A line within a single read is not copied.
    ///
    /// # Errors
    /// [`TooLarge`], after which the parser must not be used any more.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Item<'_>)) -> Result<(), TooLarge> {
        while let Some(end) = memchr(b'\n', bytes) {
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                each(Item { data: line, error: false });
            } else {
                self.line.extend_from_slice(line);
                each(Item { data: &self.line, error: false });
                // Reusing the buffer lets a stream in small reads allocate once.
                self.line.clear();
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > EVENT_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// Ends the stream: passes a last line without its end to `each`.
    pub fn finish(self, mut each: impl FnMut(Item<'_>)) {
        if !self.line.is_empty() {
            each(Item { data: &self.line, error: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut parser = LineParser::default();
        for piece in bytes.chunks(piece) {
            parser.feed(piece, |item| out.push(item.data.to_vec())).unwrap();
        }
        parser.finish(|item| out.push(item.data.to_vec()));
        out
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_whole(bytes in "[ab\r\n]{0,20}", piece in 1..5_usize) {
            let expected: Vec<Vec<u8>> = bytes
                .split_inclusive('\n')
                .map(|line| line.strip_suffix('\n').unwrap_or(line).as_bytes().to_vec())
                .collect();
            prop_assert_eq!(lines(bytes.as_bytes(), piece), expected);
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut parser = LineParser::default();
        let piece = vec![b'x'; 1 << 20];
        let fed = (0..20).find(|_| parser.feed(&piece, |_| {}).is_err());
        assert_eq!(fed, Some(16));
    }
}
