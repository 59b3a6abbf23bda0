//! A text as its reader understands it: with its escapes decoded, and with the place in the text that each byte comes from.

use std::ops::Range;

/// Number of times that a text is decoded: JSON in JSON in a URL is three deep.
const ROUNDS: usize = 4;

/// Entities of HTML that stand for printable ASCII characters, besides numeric ones.
const ENTITIES: [(&str, u8); 32] = [
    ("amp", b'&'),
    ("lt", b'<'),
    ("gt", b'>'),
    ("quot", b'"'),
    ("apos", b'\''),
    ("excl", b'!'),
    ("num", b'#'),
    ("dollar", b'$'),
    ("percnt", b'%'),
    ("lpar", b'('),
    ("rpar", b')'),
    ("ast", b'*'),
    ("plus", b'+'),
    ("comma", b','),
    ("period", b'.'),
    ("sol", b'/'),
    ("colon", b':'),
    ("semi", b';'),
    ("equals", b'='),
    ("quest", b'?'),
    ("commat", b'@'),
    ("lsqb", b'['),
    ("bsol", b'\\'),
    ("rsqb", b']'),
    ("Hat", b'^'),
    ("lowbar", b'_'),
    ("grave", b'`'),
    ("lcub", b'{'),
    ("verbar", b'|'),
    ("rcub", b'}'),
    ("dash", b'-'),
    ("tilde", b'~'),
];

/// A text with its escapes decoded.
#[derive(Clone)]
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// The part of the original text that each byte stands for; `None` if the bytes are the text.
    parts: Option<Vec<(usize, usize)>>,
}

impl View {
    /// Returns the text as it is.
    pub(super) fn of(text: &[u8]) -> Self {
        Self { bytes: text.to_owned(), parts: None }
    }

    /// Returns true if the bytes are the text as it is.
    pub(super) const fn is_raw(&self) -> bool {
        self.parts.is_none()
    }

    /// Returns the parts of the text that a range of the bytes stands for, adjacent ones joined.
    pub(super) fn source(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let Some(parts) = &self.parts else { return vec![range] };
        let mut found: Vec<Range<usize>> = Vec::new();
        for (start, end) in parts[range].iter().copied() {
            match found.last_mut() {
                Some(last) if (last.start..=last.end).contains(&start) => last.end = last.end.max(end),
                _ => found.push(start..end),
            }
        }
        found
    }

    /// Returns this view and each further round of decoding that changes it.
    pub(super) fn decoded(self) -> Vec<Self> {
        let mut all = vec![self];
        while all.len() <= ROUNDS {
            match all.last().and_then(Self::decode) {
                Some(next) => all.push(next),
                None => break,
            }
        }
        all
    }

    /// Decodes every escape once; `None` if there is none.
    fn decode(&self) -> Option<Self> {
        let mut at = first_escape(&self.bytes)?;
        let mut out = Self { bytes: self.bytes[..at].to_owned(), parts: Some(Vec::new()) };
        let parts = out.parts.get_or_insert_default();
        parts.extend((0..at).map(|i| self.part(i..i + 1)));
        let mut any = false;
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            if let Some((byte, length)) = unescaped(rest) {
                any = true;
                let part = self.part(at..at + length);
                for byte in byte.bytes() {
                    out.bytes.push(*byte);
                    parts.push(part);
                }
                at += length;
            } else {
                out.bytes.push(self.bytes[at]);
                parts.push(self.part(at..at + 1));
                at += 1;
            }
        }
        any.then_some(out)
    }

    /// Returns the part of the text from the first to the last byte of a range, which is not empty.
    fn part(&self, range: Range<usize>) -> (usize, usize) {
        match &self.parts {
            None => (range.start, range.end),
            Some(parts) => (parts[range.start].0, parts[range.end - 1].1),
        }
    }

    /// Returns the view of several ranges of the bytes, one after the other.
    pub(super) fn joined(&self, ranges: &[Range<usize>]) -> Self {
        let bytes = ranges.iter().flat_map(|range| self.bytes[range.clone()].iter().copied()).collect();
        let parts = ranges.iter().flat_map(|range| range.clone().map(|i| self.part(i..i + 1))).collect();
        Self { bytes, parts: Some(parts) }
    }
}

/// Returns the index of the first byte that may begin an escape.
fn first_escape(bytes: &[u8]) -> Option<usize> {
    memchr::memchr3(b'%', b'\\', b'&', bytes)
}

/// The bytes that one escape stands for.
enum Unescaped {
    /// A byte of its own, maybe part of a character.
    Byte([u8; 1]),
    /// A character in UTF-8, and its length.
    Char([u8; 4], usize),
}

impl Unescaped {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Byte(byte) => byte,
            Self::Char(bytes, length) => &bytes[..*length],
        }
    }

    fn of(c: char) -> Self {
        let mut bytes = [0; 4];
        let length = c.encode_utf8(&mut bytes).len();
        Self::Char(bytes, length)
    }
}

/// Returns the meaning of the escape at the beginning of `rest`, and its length.
fn unescaped(rest: &[u8]) -> Option<(Unescaped, usize)> {
    match rest {
        [b'%', high, low, ..] => Some((Unescaped::Byte([hex(&[*high, *low])? as u8]), 3)),
        [b'\\', b'u', b'{', digits @ ..] => {
            let length = digits.iter().position(|b| *b == b'}').filter(|n| (1..=6).contains(n))?;
            Some((Unescaped::of(char::from_u32(hex(&digits[..length])?)?), length + 4))
        }
        [b'\\', b'u', ..] => utf16(rest),
        [b'\\', b'x', high, low, ..] => Some((Unescaped::Byte([hex(&[*high, *low])? as u8]), 4)),
        [b'\\', c @ (b'"' | b'\'' | b'\\' | b'/'), ..] => Some((Unescaped::Byte([*c]), 2)),
        [b'&', b'#', digits @ ..] => numeric(digits),
        [b'&', name @ ..] => {
            let length = name.iter().take(8).position(|b| *b == b';')?;
            let known = ENTITIES.iter().find(|(known, _)| known.as_bytes() == &name[..length])?;
            Some((Unescaped::Byte([known.1]), length + 2))
        }
        _ => None,
    }
}

/// Parses hexadecimal digits, up to eight of them.
fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |n: u32, b| Some((n << 4) | char::from(*b).to_digit(16)?))
}

/// Parses `\uXXXX`, or two of them that stand for one character.
fn utf16(rest: &[u8]) -> Option<(Unescaped, usize)> {
    let unit = |at: usize| -> Option<u16> {
        let escape = rest.get(at..at + 6)?;
        if !escape.starts_with(b"\\u") {
            return None;
        }
        u16::try_from(hex(&escape[2..])?).ok()
    };
    let first = unit(0)?;
    if let Some(c) = char::from_u32(first.into()) {
        return Some((Unescaped::of(c), 6));
    }
    let c = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
    Some((Unescaped::of(c), 12))
}

/// Parses a numeric entity after its `&#`: decimal or hexadecimal, with or without a semicolon.
fn numeric(digits: &[u8]) -> Option<(Unescaped, usize)> {
    let (radix, before) = if matches!(digits, [b'x' | b'X', ..]) { (16, 1) } else { (10, 0) };
    let digits = &digits[before..];
    let length = digits.iter().take(10).take_while(|b| char::from(**b).is_digit(radix)).count();
    let number =
        std::str::from_utf8(&digits[..length]).ok().and_then(|n| u32::from_str_radix(n, radix).ok())?;
    let end = usize::from(digits.get(length) == Some(&b';'));
    Some((Unescaped::of(char::from_u32(number)?), 2 + before + length + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str) -> View {
        View::of(text.as_bytes()).decoded().pop().unwrap()
    }

    /// Rows: a text, and what it stands for.
    #[test]
    fn escapes_are_decoded() {
        for (text, want) in [
            ("plain", "plain"),
            ("%41%6a", "Aj"),
            ("%2541", "A"), // twice
            ("100 % of %zz and %4", "100 % of %zz and %4"),
            (r"\u0041\u006A\/\x41\u{41}", "Aj/AA"),
            (r"\ud83d\ude00", "😀"),
            (r"\ud83d lone", r"\ud83d lone"),
            (r"{\\\u0022k\\\u0022}", "{\"k\"}"),
            ("&#65;&#x41;&#x0041&#0000065;&amp;lt;&lowbar;", "AAAA<_"),
            ("&#xffffffff; &unknown; &", "&#xffffffff; &unknown; &"),
            ("%5Cu0041", "A"), // one in another
        ] {
            assert_eq!(String::from_utf8_lossy(&last(text).bytes), want, "{text}");
        }
        assert_eq!(View::of(b"no escape").decoded().len(), 1);
        let deep = (0..9).fold("%41".to_owned(), |text, _| text.replace('%', "%25"));
        assert_eq!(View::of(deep.as_bytes()).decoded().len(), ROUNDS + 1, "it ends");
    }

    #[test]
    fn every_byte_has_its_place() {
        let view = last("a%2541 b&#65;c");
        assert_eq!(String::from_utf8_lossy(&view.bytes), "aA bAc");
        for (range, want) in
            [(0..1, 0..1), (1..2, 1..6), (2..4, 6..8), (4..5, 8..13), (0..6, 0..14), (5..6, 13..14)]
        {
            assert_eq!(view.source(range.clone()), vec![want], "{range:?}");
        }
        let joined = view.joined(&[0..1, 4..6]);
        assert_eq!(joined.bytes, b"aAc");
        assert_eq!(joined.source(0..3), vec![0..1, 8..14]);
        assert_eq!(View::of(b"abc").source(1..3), vec![1..3]);
    }
}
