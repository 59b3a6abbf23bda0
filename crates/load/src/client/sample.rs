//! The sample of a failed request: the beginning of the response body, made safe to write to a file.

use super::payload::Payload;
use goodput_core::redact::Redactor;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Maximum length of a sample, in bytes.
pub(crate) const SAMPLE: usize = 2048;

/// Returns how many bytes of a body to retain so that a secret that straddles the end of the sample is still found.
pub(crate) fn keep(secrets: &Redactor) -> usize {
    SAMPLE + secrets.longest()
}

/// Returns the first 2 KiB as text: secrets are replaced, control characters escaped, bytes that are not UTF-8
/// replaced. `whole` is true if nothing followed `body`; otherwise its end may be the first part of a secret.
pub(crate) fn sample(body: &[u8], whole: bool, secrets: &Redactor) -> Box<str> {
    let (most, length) = (keep(secrets), body.len());
    let text = String::from_utf8_lossy(&body[..length.min(most)]);
    let text =
        if whole && length <= most { secrets.redact(&text) } else { secrets.redact_truncated(&text).into() };
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

/// Length in bytes of the blocks searched for in the request: any quotation of at least `2 * BLOCK - 1` bytes is found.
const BLOCK: usize = 16;
/// Replacement for a part of the request.
const SENT: &[u8] = b"[as sent]";

/// Maximum number of positions in the request that are remembered for each block.
const PLACES: usize = 8;

/// Removes the quotations of the request from a short text, the beginning of a body: servers that refuse a request
/// quote it, including the prompt. Texts below about thirty bytes do not count as quotations. The request, which may be
/// long, is scanned once.
pub(crate) fn without_echo<'a>(body: &'a [u8], sent: &Payload) -> Cow<'a, [u8]> {
    let blocks = Blocks::of(body);
    let found = [&*sent.head, &*sent.tail].map(|part| (part, blocks.places(part)));
    let mut out: Option<Vec<u8>> = None;
    // The body before `kept` is in `out` already.
    let (mut kept, mut at) = (0, 0);
    while at + BLOCK <= body.len() {
        let places = found.iter().flat_map(|(part, all)| {
            let of = all.get(&body[at..at + BLOCK]).into_iter().flatten();
            of.map(move |place| quoted(body, kept, at, part, *place))
        });
        match places.max_by_key(|(from, to)| to - from).filter(|(from, to)| to - from >= 2 * BLOCK - 1) {
            Some((from, to)) => {
                let out = out.get_or_insert_default();
                out.extend_from_slice(&body[kept..from]);
                out.extend_from_slice(SENT);
                (kept, at) = (to, to.next_multiple_of(BLOCK));
            }
            None => at += BLOCK,
        }
    }
    match out {
        None => Cow::Borrowed(body),
        Some(mut out) => {
            out.extend_from_slice(&body[kept..]);
            Cow::Owned(out)
        }
    }
}

/// The consecutive blocks of a text.
struct Blocks<'a> {
    all: HashSet<&'a [u8]>,
    /// A Bloom filter with one bit per block, at the hash of its bytes: it rejects most blocks of a request at once.
    bits: Vec<u64>,
}

impl<'a> Blocks<'a> {
    fn of(text: &'a [u8]) -> Self {
        let all: HashSet<&[u8]> = text.chunks_exact(BLOCK).collect();
        let mut bits = vec![0; 1 << 10];
        for block in &all {
            let (word, bit) = Self::place(block);
            bits[word] |= bit;
        }
        Self { all, bits }
    }

    /// Returns the word and bit of a block in the filter.
    fn place(block: &[u8]) -> (usize, u64) {
        let (low, high) = block.split_at(BLOCK / 2);
        let number = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
        let mixed = (number(low) ^ number(high).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (usize::try_from(mixed >> 54).unwrap_or(0), 1 << ((mixed >> 48) & 63))
    }

    /// Returns the positions of each block in a part of the request.
    fn places(&self, part: &[u8]) -> HashMap<&'a [u8], Vec<usize>> {
        let mut found: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (at, window) in part.windows(BLOCK).enumerate() {
            let (word, bit) = Self::place(window);
            if self.bits[word] & bit != 0
                && let Some(block) = self.all.get(window)
            {
                let places = found.entry(block).or_default();
                if places.len() < PLACES {
                    places.push(at);
                }
            }
        }
        found
    }
}

/// Extends a match of the block at `at` in the body and `place` in a part of the request in both directions, back to
/// `from` at most. Returns its bounds in the body.
fn quoted(body: &[u8], from: usize, at: usize, part: &[u8], place: usize) -> (usize, usize) {
    let before = body[from..at].iter().rev().zip(part[..place].iter().rev());
    let after = body[at..].iter().zip(&part[place..]);
    let back = before.take_while(|(a, b)| a == b).count();
    (at - back, at + after.take_while(|(a, b)| a == b).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_escaped_and_length_is_bounded() {
        let none = Redactor::default();
        assert_eq!(&*sample(b"a\nb\t\x1b[31m\"\xff", true, &none), "a\\nb\\t\\u{1b}[31m\"\u{fffd}");
        assert_eq!(sample(&vec![b'x'; 10_000], true, &none).len(), SAMPLE);
        // A three-byte character across the limit is omitted, not split.
        let mut body = vec![b'x'; SAMPLE - 1];
        body.extend("…".as_bytes());
        assert_eq!(sample(&body, true, &none).len(), SAMPLE - 1);
    }

    fn payload(head: &str, tail: &str) -> Payload {
        Payload::new(head.to_owned().into(), tail.to_owned().into(), None, None)
    }

    /// Rows: the server's response, and the sample of it.
    #[test]
    fn a_prompt_that_is_sent_back_is_not_written() {
        let sent = payload(
            r#"{"model":"m","messages":[{"role":"system","content":"You are the assistant of Example Inc."},"#,
            r#"{"role":"user","content":"What did the doctor say about my knee yesterday?"}],"max_tokens":4}"#,
        );
        let whole = format!(
            "{}{}",
            std::str::from_utf8(&sent.head).unwrap(),
            std::str::from_utf8(&sent.tail).unwrap()
        );
        for (body, want) in [
            (
                format!("{{\"detail\":\"bad\",\"input\":{whole}}}"),
                "{\"detail\":\"bad\",\"input\":[as sent][as sent]}",
            ),
            (
                "no: What did the doctor say about my knee yesterday? And so on".into(),
                "no: [as sent] And so on",
            ),
            (
                r#"{"error":"ignore_eos is not permitted","role":"user"}"#.into(),
                r#"{"error":"ignore_eos is not permitted","role":"user"}"#,
            ),
            ("max_tokens of 4".into(), "max_tokens of 4"),
            (String::new(), ""),
        ] {
            let shown = without_echo(body.as_bytes(), &sent);
            assert_eq!(String::from_utf8_lossy(&shown), want);
        }
    }

    proptest! {
        /// The position of the quotation does not matter.
        #[test]
        fn nothing_longer_than_two_blocks_is_left(before in "[a-z ]{0,40}", after in "[a-z ]{0,40}", prompt in "[A-Z]{31,80}") {
            let body = format!("{before}{prompt}{after}");
            let shown = without_echo(body.as_bytes(), &payload("", &prompt)).into_owned();
            let shown = String::from_utf8(shown).unwrap();
            prop_assert_eq!(shown, format!("{before}[as sent]{after}"));
        }
    }

    #[test]
    fn a_secret_across_the_end_of_a_sample_is_left_out() {
        let secrets = Redactor::new([("sk-abcdefgh", "[API key]")]);
        for before in SAMPLE - 12..SAMPLE {
            let mut body = vec![b'.'; before];
            body.extend(b"sk-abcdefgh and more");
            assert!(!sample(&body, true, &secrets).contains("sk-a"), "{before}");
            // All that was retained of a longer body.
            let most = keep(&secrets).min(body.len());
            assert!(!sample(&body[..most], false, &secrets).contains("sk-a"), "{before}");
        }
    }

    #[test]
    fn what_is_whole_ends_as_it_ends() {
        let secrets = Redactor::new([("token-abc123", "[API key]")]);
        assert_eq!(&*sample(b"no such token", true, &secrets), "no such token");
        assert_eq!(&*sample(b"no such token-abc123", true, &secrets), "no such [API key]");
        assert_eq!(&*sample(b"no such token", false, &secrets), "no such [API key]", "it broke off");
    }

    /// The longest match of several similar positions is used.
    #[test]
    fn of_a_request_that_repeats_itself_the_longest_quotation_is_found() {
        let often = "one and the same beginning of all: ";
        let prompt = format!("{often}short. {often}What did the doctor say about my knee yesterday?");
        let body = format!("no: {often}What did the doctor say about my knee");
        let shown = without_echo(body.as_bytes(), &payload("", &prompt)).into_owned();
        assert_eq!(String::from_utf8(shown).unwrap(), "no:[as sent]");
    }
}
