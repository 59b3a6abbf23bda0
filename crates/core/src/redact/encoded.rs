//! Base64 within a text: its digits, and the bytes that they stand for.

use std::ops::Range;

/// Minimum number of digits that are decoded: those of the shortest secret that is searched for in encoded text.
const LEAST: usize = 11;

/// Returns the value of a digit, of the alphabet of URLs or of the other one.
const fn digit(b: u8) -> Option<u8> {
    match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// Returns the places of all sequences of digits that are long enough.
pub(super) fn runs(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text.get(at..)?.iter().position(|b| digit(*b).is_some())?;
            let length = text[start..].iter().take_while(|b| digit(**b).is_some()).count();
            at = start + length;
            if length >= LEAST {
                return Some(start..at);
            }
        }
    })
}

/// Decodes digits from the first one on; bits that are left over are dropped.
pub(super) fn decoded(digits: &[u8]) -> Vec<u8> {
    let (mut bits, mut n) = (0_u32, 0);
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for value in digits.iter().filter_map(|b| digit(*b)) {
        bits = (bits << 6) | u32::from(value);
        n += 6;
        if n >= 8 {
            n -= 8;
            out.push((bits >> n) as u8);
            bits &= (1 << n) - 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    #[test]
    fn runs_are_found_and_decoded() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for text in [STANDARD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let text = format!("a short one, \"{text}\" and more");
            let found: Vec<_> = runs(text.as_bytes()).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(decoded(&text.as_bytes()[found[0].clone()]), bytes);
        }
        assert_eq!(runs(b"").count() + runs(b"no run at all").count(), 0);
    }
}
