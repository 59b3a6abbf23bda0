//! Escapes of characters that set the direction of text, in TOML that this program writes.

use goodput_core::bidi::is_control;
use std::fmt::Write;

/// The delimiters of strings in TOML, the longer ones first; `false` for those without escapes.
const DELIMITERS: [(&str, bool); 4] = [("\"\"\"", true), ("'''", false), ("\"", true), ("'", false)];

/// Returns TOML with the same values, in which each character that sets the direction of text is an escape such as `\u202E`. A string without
/// escapes becomes one with escapes for that. The TOML has no comments.
pub(super) fn neutral(toml: String) -> String {
    if !toml.contains(is_control) {
        return toml;
    }
    let (mut out, mut rest) = (String::with_capacity(toml.len() + 64), toml.as_str());
    while let Some(start) = rest.find(['"', '\'']) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some((delimiter, escapes)) = DELIMITERS.iter().find(|(d, _)| rest.starts_with(d)) else { break };
        // An empty string has no second delimiter of three.
        let inside = &rest[delimiter.len()..];
        let Some(end) = end_of(inside, delimiter, *escapes) else { break };
        let whole = &rest[..delimiter.len() + end + delimiter.len()];
        rest = &rest[whole.len()..];
        let inside = &inside[..end];
        match (inside.contains(is_control), escapes) {
            (false, _) => out.push_str(whole),
            (true, true) => {
                out.push_str(delimiter);
                inside.chars().for_each(|c| push(&mut out, c));
                out.push_str(delimiter);
            }
            (true, false) => {
                out.push('"');
                // A line break right after the delimiter is not part of the text.
                let inside =
                    if delimiter.len() == 3 { inside.strip_prefix('\n').unwrap_or(inside) } else { inside };
                inside.chars().for_each(|c| match c {
                    '"' | '\\' => out.extend(['\\', c]),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    c => push(&mut out, c),
                });
                out.push('"');
            }
        }
    }
    out + rest
}

/// Returns the index of the closing delimiter.
fn end_of(inside: &str, delimiter: &str, escapes: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let next = inside[at..].find(|c| c == '\\' || delimiter.starts_with(c))? + at;
        if escapes && inside[next..].starts_with('\\') {
            at = next + 1 + inside[next + 1..].chars().next()?.len_utf8();
        } else if inside[next..].starts_with(delimiter) {
            // Up to two quotes may stand before the closing three.
            let quotes = inside[next..].chars().take_while(|c| delimiter.starts_with(*c)).count();
            return Some(next + if delimiter.len() == 3 { quotes.min(5) - 3 } else { 0 });
        } else {
            at = next + 1;
        }
    }
}

/// Appends a character, or its escape if it sets the direction of text.
fn push(out: &mut String, c: char) {
    if is_control(c) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\u{:04X}", u32::from(c));
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_direction_is_escaped_in_every_kind_of_string() {
        for (toml, want) in [
            ("a = \"x\u{202e}y\"", "a = \"x\\u202Ey\""),
            ("a = 'x\u{202e}\"\\y'", "a = \"x\\u202E\\\"\\\\y\""),
            ("a = '''\nx\u{2066}\n'y''''", "a = \"x\\u2066\\n'y'\""),
            ("a = \"\"\"x\u{61c}\n\"\"y\"\"\"", "a = \"\"\"x\\u061C\n\"\"y\"\"\""),
            ("a = \"\\\"\u{200f}\"\nb = ''", "a = \"\\\"\\u200F\"\nb = ''"),
            ("\"k\u{200e}\" = \"\"", "\"k\\u200E\" = \"\""),
            ("a = 'plain'", "a = 'plain'"),
        ] {
            let got = neutral(toml.to_owned());
            assert_eq!(got, want, "{toml}");
            let read = |text: &str| text.parse::<toml::Table>().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(read(&got), read(toml), "{toml}");
        }
    }

    proptest! {
        #[test]
        fn values_are_kept(values in prop::collection::vec("[\u{202e}\u{2069}a\"'\\\\\n\r\t é]{0,12}", 0..6)) {
            let table: toml::Table = values.iter().enumerate().map(|(i, v)| (format!("k{i}"), v.clone().into())).collect();
            let text = neutral(toml::to_string(&table).unwrap());
            prop_assert!(!text.contains(is_control));
            prop_assert_eq!(text.parse::<toml::Table>().unwrap(), table);
        }
    }
}
