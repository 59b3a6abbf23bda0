//! Escaping of text from outside (names, server answers, samples) for display.

use goodput_core::bidi::is_deceptive;
use std::fmt::Write;

/// Returns one line of plain text: control characters (line breaks, ANSI escapes, text direction marks) become visible
/// or are removed, runs of blanks become one, and the ends are trimmed.
pub(crate) fn plain(text: &str) -> String {
    visible(text).trim().to_owned()
}

/// Returns the text like [`plain`], but keeps a blank at either end: for a part of a line.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_whitespace() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            '\u{1b}' => out.push('␛'),
            c if c.is_control() || is_deceptive(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Returns lines of text: line breaks and tabs are kept, other control characters become visible as in [`plain`].
pub(crate) fn lines(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        '\u{1b}' => '␛',
        c if c.is_control() || is_deceptive(c) => '\u{fffd}',
        c => c,
    };
    text.chars().filter(|c| *c != '\r').map(shown).collect()
}

/// Returns text for a terminal: characters that it would interpret instead of show (colours, cursor, text direction)
/// become `\u001b` and so on. Line breaks and tabs are kept. JSON stays equivalent JSON.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_deceptive(c) => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes everything");
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns the text like [`plain`], at most `max` characters long; an ellipsis marks an omission.
pub(crate) fn clip(text: &str, max: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= max {
        return text;
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns the entity of a character with a meaning in HTML and XML: one of `&`, `<`, `>`, `"` and `'`.
pub(super) const fn entity(c: char) -> &'static str {
    match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        _ => "&#39;",
    }
}

/// Returns an argument quoted for a shell.
pub fn argument(text: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || "/._-=:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(simple) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_do_not_reach_the_reader() {
        for (from, to) in [
            ("a\nb\r\n c\t", "a b c"),                    // line breaks end no table row
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"), // colours of a server's answer are shown, not obeyed
            ("abc\u{202e}txt.exe", "abc\u{fffd}txt.exe"), // text direction
            ("nul\0", "nul\u{fffd}"),
            ("none\u{ffff}", "none\u{fffd}"), // no character, and not allowed in XML
        ] {
            assert_eq!(plain(from), to);
        }
        assert_eq!(clip("a very long model name", 10), "a very lo…");
        assert_eq!(clip("short", 10), "short");
    }

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        assert_eq!(
            shown("a\tb\n\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r"),
            "a\tb\n\\u001b]0;title\\u0007\\u009b31m\\u202e\\u000d"
        );
        let value = serde_json::json!({"a": "\u{9b}\u{202e}\u{7f}\n\u{1b}"});
        let text = shown(&value.to_string());
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
