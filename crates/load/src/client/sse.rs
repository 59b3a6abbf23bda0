//! Parser of server-sent events, for input in pieces of any size.
//!
//! Follows the event stream format of the HTML standard (§9.2.6), as far as inference servers use it: `data:` with and
//! without a space, several `data:` lines in one event, comments, `event:` lines; lines end in LF, CR LF or CR.

use memchr::memchr2;

/// Maximum size of an event, and of the bytes between two events (comments, blank lines), in bytes.
pub(crate) const EVENT_MAX: usize = 16 << 20;

/// One event: its payload, and whether it is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// The `data:` lines, joined by LF.
    pub data: &'a [u8],
    /// True if the event has the line `event: error`.
    pub error: bool,
}

/// The error for an event larger than `EVENT_MAX`, or for as many bytes without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than 16 MiB came without the end of an event")]
pub struct TooLarge;

/// The parser, with the unfinished rest of the last read.
#[derive(Debug, Default)]
pub struct Parser {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// The payload so far; used only for an event that spans reads or `data:` lines.
    data: Vec<u8>,
    /// True if the current event has a `data:` line.
    open: bool,
    error: bool,
    /// True if the last read ended in CR: a following LF belongs to it.
    after_cr: bool,
    started: bool,
    /// Bytes since the last event.
    since: usize,
}

impl Parser {
    /// Makes a parser for the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses one read and passes the events that it completes to `each`. A payload within a single read is not copied.
    ///
    /// # Errors
    /// [`TooLarge`], after which the parser must not be used any more.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Item<'_>)) -> Result<(), TooLarge> {
        let mut direct = None;
        self.since += bytes.len();
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = if bytes[end] == b'\r' {
                self.after_cr = rest.is_empty();
                rest.strip_prefix(b"\n").unwrap_or(rest)
            } else {
                rest
            };
            if self.line.is_empty() {
                self.whole_line(line, &mut direct, &mut each);
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                let mut piece = None;
                self.whole_line(&whole, &mut piece, &mut each);
                if let Some(piece) = piece {
                    self.data.extend_from_slice(piece);
                }
                // Reusing the buffer lets a stream in small reads allocate once.
                whole.clear();
                self.line = whole;
            }
        }
        if let Some(piece) = direct {
            self.data.extend_from_slice(piece);
        }
        self.line.extend_from_slice(bytes);
        // Bytes of an incomplete event that came in the same read as a complete one still count.
        self.since = self.since.max(self.line.len() + self.data.len());
        if self.since > EVENT_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// Ends the stream: passes the event that its last line left open to `each`.
    ///
    /// The standard drops such an event, but servers that end in `data: [DONE]` without a blank line intend it.
    pub fn finish(mut self, mut each: impl FnMut(Item<'_>)) {
        let line = std::mem::take(&mut self.line);
        let mut direct = None;
        if !line.is_empty() {
            self.whole_line(&line, &mut direct, &mut each);
        }
        self.whole_line(b"", &mut direct, &mut each);
    }

    /// Parses one line without its end. `direct` is the payload so far, if it is a single piece that need not be
    /// copied.
    fn whole_line<'a>(
        &mut self,
        line: &'a [u8],
        direct: &mut Option<&'a [u8]>,
        each: &mut impl FnMut(Item<'_>),
    ) {
        let line = if self.started { line } else { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            if std::mem::take(&mut self.open) {
                self.since = 0;
                each(Item { data: direct.take().unwrap_or(&self.data), error: self.error });
            }
            self.data.clear();
            self.error = false;
            return;
        }
        let (name, value) = match line.iter().position(|&b| b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" if !self.open => {
                self.open = true;
                *direct = Some(value);
            }
            b"data" => {
                if let Some(first) = direct.take() {
                    self.data.extend_from_slice(first);
                }
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
            b"event" => self.error = value == b"error",
            // Comments have an empty name; `id` and `retry` are irrelevant here.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut out = Vec::new();
        let mut each = |i: Item<'_>| out.push((String::from_utf8_lossy(i.data).into_owned(), i.error));
        let mut parser = Parser::new();
        for piece in pieces {
            parser.feed(piece, &mut each).unwrap();
        }
        parser.finish(&mut each);
        out
    }

    #[test]
    fn lines_become_events() {
        for (text, expected, why) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"], "LF"),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"], "CR LF"),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"], "CR"),
            ("data:a\n\ndata:  b\n\n", vec!["a", " b"], "no space; only one space is taken off"),
            ("data: a\ndata: b\ndata:c\n\n", vec!["a\nb\nc"], "several lines, joined by LF"),
            (": ping\n\ndata: a\n\n: keep-alive\ndata: b\n: x\n\n:\n\n", vec!["a", "b"], "comments anywhere"),
            (
                "id: 1\nretry: 5\nevent: message\ndata: a\n\nevent: ping\n\n",
                vec!["a"],
                "other fields; no data",
            ),
            ("data\n\ndata:\n\n", vec!["", ""], "empty payloads"),
            ("\u{feff}data: a\n\n", vec!["a"], "byte order mark"),
            ("data: a\n\ndata: [DONE]", vec!["a", "[DONE]"], "no blank line at the end"),
            ("data: a\n\ndata: [DONE]\n", vec!["a", "[DONE]"], "one newline at the end"),
            ("\n\n\n", vec![], "blank lines"),
            ("", vec![], "nothing"),
        ] {
            let got: Vec<String> = events(&[text.as_bytes()]).into_iter().map(|(s, _)| s).collect();
            assert_eq!(got, expected, "{why}");
        }
    }

    #[test]
    fn only_its_own_event_is_an_error() {
        let got = events(&[b"event: error\ndata: a\n\ndata: b\n\nevent:error\n\ndata: c\n\n"]);
        assert_eq!(got, [("a".into(), true), ("b".into(), false), ("c".into(), false)]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::new();
        let piece = vec![b'x'; 1 << 20];
        let fed = (0..=16).map(|_| parser.feed(&piece, |_| ())).collect::<Vec<_>>();
        assert!(fed[..16].iter().all(Result::is_ok) && fed[16] == Err(TooLarge));
        let mut parser = Parser::new();
        let fed = (0..=16).find_map(|_| {
            parser.feed(b"data: ", |_| ()).and_then(|()| parser.feed(&piece, |_| ())).ok()?;
            parser.feed(b"\n", |_| ()).err()
        });
        assert!(fed.is_none() || fed == Some(TooLarge), "many lines in one event are bounded too");
    }

    #[test]
    fn a_stream_of_nothing_is_refused() {
        let piece = [": keep-alive\n\n", "\n\n\n\n", "id: 7\nretry: 5\n"].concat().repeat(1000).into_bytes();
        let most = EVENT_MAX / piece.len();
        let mut parser = Parser::new();
        let fed = (0..=most).map(|_| parser.feed(&piece, |_| panic!("no event"))).collect::<Vec<_>>();
        assert!(fed[..most].iter().all(Result::is_ok) && fed[most] == Err(TooLarge));
        let mut parser = Parser::new();
        for _ in 0..3 * most {
            parser.feed(&piece, |_| ()).unwrap();
            parser.feed(b"data: x\n\n", |_| ()).unwrap();
        }
    }

    const PARTS: [&str; 12] = [
        "data: {\"a\":\"é…😀\"}",
        "data:x",
        "data: [DONE]",
        ": ping",
        "event: error",
        "event: x",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        "data",
        "\u{feff}",
    ];

    proptest! {
        #[test]
        fn splitting_anywhere_gives_the_same_events(
            parts in prop::collection::vec(0..PARTS.len(), 0..24),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let text: String = parts.iter().map(|&i| PARTS[i]).collect();
            let bytes = text.as_bytes();
            let whole = events(&[bytes]);
            let each_byte: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&events(&each_byte), &whole);
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for to in at.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(&events(&pieces), &whole);
        }
    }
}
