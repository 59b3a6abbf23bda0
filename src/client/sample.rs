//! The beginning of a failed request's body, fit to be written to a file.

use super::key::ApiKey;
use std::fmt::Write;

/// How much of a body a sample shows, in bytes.
pub(crate) const SAMPLE: usize = 2048;

/// How much of a body must be kept so that a key that straddles the end of the sample is still found.
pub(crate) fn keep(key: Option<&ApiKey>) -> usize {
    SAMPLE + key.map_or(0, ApiKey::len)
}

/// The first 2 KiB as text: the key redacted, control characters escaped, bytes that are no UTF-8 replaced.
pub(crate) fn sample(body: &[u8], key: Option<&ApiKey>) -> Box<str> {
    let body = &body[..body.len().min(keep(key))];
    let text = String::from_utf8_lossy(body);
    let text = key.map_or_else(|| text.clone().into_owned(), |k| k.redact(&text));
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if at + c.len_utf8() > SAMPLE {
            break;
        }
        if c.is_control() {
            write!(out, "{}", c.escape_default()).expect("writing to a string cannot fail");
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_length_is_bounded() {
        assert_eq!(&*sample(b"a\nb\t\x1b[31m\"\xff", None), "a\\nb\\t\\u{1b}[31m\"\u{fffd}");
        assert_eq!(sample(&vec![b'x'; 10_000], None).len(), SAMPLE);
        // A character of three bytes across the limit is left out, not split.
        let mut body = vec![b'x'; SAMPLE - 1];
        body.extend("…".as_bytes());
        assert_eq!(sample(&body, None).len(), SAMPLE - 1);
    }
}
