//! Text that a stream of JSON objects cuts into pieces: the values that the same field has in one object after another.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of fields whose values are joined.
const MOST: usize = 64;

/// Returns for each field that occurs several times the places of its values, in order. A field is a string with a colon and another string behind it.
pub(super) fn values(text: &[u8]) -> Vec<Vec<Range<usize>>> {
    let mut fields: BTreeMap<&[u8], Vec<Range<usize>>> = BTreeMap::new();
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &text[at..]).map(|i| at + i) {
        let name = match string(text, quote) {
            Ok(name) => name,
            Err(line) => {
                at = line;
                continue;
            }
        };
        at = name.end + 1;
        let Some(colon) = blanks(text, at).filter(|i| text[*i] == b':') else { continue };
        let Some(quote) = blanks(text, colon + 1).filter(|i| text[*i] == b'"') else { continue };
        let Ok(value) = string(text, quote) else { continue };
        at = value.end + 1;
        let name = &text[name];
        if fields.len() < MOST || fields.contains_key(name) {
            fields.entry(name).or_default().push(value);
        }
    }
    fields.into_values().filter(|values| values.len() > 1).collect()
}

/// Returns the index of the first byte from `at` on that is not a blank.
fn blanks(text: &[u8], at: usize) -> Option<usize> {
    let blanks = text.get(at..)?.iter().take_while(|b| b.is_ascii_whitespace()).count();
    Some(at + blanks).filter(|i| *i < text.len())
}

/// Returns the inside of the string that begins with the quote at an index, without its quotes.
///
/// # Errors
/// The string has no end on its line. The error is the index of the next line, or of the end of the text.
fn string(text: &[u8], quote: usize) -> Result<Range<usize>, usize> {
    let start = quote + 1;
    let mut end = start;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        match memchr::memchr3(b'"', b'\\', b'\n', rest).map(|i| end + i) {
            Some(at) if text[at] == b'"' => return Ok(start..at),
            Some(at) if text[at] == b'\\' => end = at + 2,
            Some(at) => return Err(at + 1),
            None => return Err(text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: a text, and the joined values of the fields that occur several times.
    #[test]
    fn values_of_one_field_are_found() {
        for (text, want) in [
            (r#"data: {"content":"a"} data: {"content": "b"}"#, &["ab"][..]),
            (r#"{"x":"a","y":"1","x":"b","y":"2"}"#, &["ab", "12"]),
            (r#"{"x":"say \"hi\" ","x":"b"}"#, &[r#"say \"hi\" b"#]),
            (r#"{"x":{"x":"a"},"z":["x","y"],"x":3,"x":"b"}"#, &["ab"]),
            (r#"{"x":"a","y":"b"}"#, &[]),
            (r#"{"x":"a"} {"x":"torn"#, &[]),
            ("{\"x\":\"torn\n{\"x\":\"a\"}\n{\"x\":\"b\"}", &["ab"]),
            (r#""x": "#, &[]),
            ("\"\\", &[]),
            ("", &[]),
        ] {
            let found = values(text.as_bytes());
            let joined: Vec<String> =
                found.iter().map(|all| all.iter().map(|range| &text[range.clone()]).collect()).collect();
            assert_eq!(joined, want, "{text}");
        }
    }
}
