//! Text from outside (names, server answers, samples) made harmless for the place where it is shown.

use std::fmt::Write;

/// One line of plain text: control characters (line breaks, ANSI escapes, text direction marks) become visible or vanish,
/// runs of blanks become one.
pub fn plain(text: &str) -> String {
    let visible: String = text
        .chars()
        .map(|c| match c {
            c if c.is_whitespace() => ' ',
            '\u{1b}' => '␛',
            c if c.is_control() || reorders(c) => '\u{fffd}',
            c => c,
        })
        .collect();
    visible.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Characters that change the direction or the visibility of their neighbours.
const fn reorders(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// For a terminal: what it would obey in place of showing it (colours, cursor, text direction) stands as `\u001b`. Line breaks and tabs
/// stay. JSON is still the same JSON.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || reorders(c) => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes everything");
            }
            c => out.push(c),
        }
    }
    out
}

/// Like [`plain`], at most `max` characters long; what is left out is marked by an ellipsis.
pub fn clip(text: &str, max: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= max {
        return text;
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// For running text and table cells of Markdown: nothing in it can start a table cell, a link, emphasis, code or HTML.
pub fn markdown(text: &str) -> String {
    let chars: Vec<char> = plain(text).chars().collect();
    let mut out = String::with_capacity(text.len());
    for (i, c) in chars.iter().enumerate() {
        let word = |j: Option<usize>| j.and_then(|j| chars.get(j)).is_some_and(|c| c.is_alphanumeric());
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Some sites turn bare addresses and @names into links.
            ':' if chars[i..].starts_with(&[':', '/', '/']) => out.push_str("&#58;"),
            '.' if i >= 3 && chars[i - 3..i].iter().all(|c| c.eq_ignore_ascii_case(&'w')) => {
                out.push_str("&#46;")
            }
            '@' => out.push_str("&#64;"),
            // Within a word it emphasises nothing.
            '_' if word(i.checked_sub(1)) && word(Some(i + 1)) => out.push('_'),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(*c);
            }
            c => out.push(*c),
        }
    }
    out
}

/// A fenced block that `text` cannot close: the fence is longer than any run of backticks in it.
///
/// Line breaks stay; other control characters become visible.
pub fn fence(info: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest.max(2) + 1);
    let clean: String = text
        .chars()
        .filter(|c| *c != '\r')
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{1b}' => '␛',
            c if c.is_control() || reorders(c) => '\u{fffd}',
            c => c,
        })
        .collect();
    format!("{ticks}{info}\n{}\n{ticks}\n", clean.trim_end())
}

/// What stands for a character that means something in HTML and XML: one of `&`, `<`, `>`, `"` and `'`.
pub(super) const fn entity(c: char) -> &'static str {
    match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        _ => "&#39;",
    }
}

/// For text and quoted attributes of HTML: nothing in it can start an element or end an attribute. Line breaks stay; other control
/// characters become visible, as in [`plain`].
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' | '\'' => out.push_str(entity(c)),
            '\n' | '\t' => out.push(c),
            '\u{1b}' => out.push('␛'),
            c if c.is_control() || reorders(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_do_not_reach_the_reader() {
        for (from, to) in [
            ("a\nb\r\n c\t", "a b c"),                    // line breaks end no table row
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"), // colours of a server's answer are shown, not obeyed
            ("abc\u{202e}txt.exe", "abc\u{fffd}txt.exe"), // text direction
            ("nul\0", "nul\u{fffd}"),
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

    #[test]
    fn markdown_stays_text() {
        assert_eq!(markdown("a|b `c` <img src=x> [l](u)"), "a\\|b \\`c\\` &lt;img src=x&gt; \\[l\\](u)");
        assert_eq!(markdown("http://x www.y: @z"), "http&#58;//x www&#46;y: &#64;z");
        assert_eq!(markdown("x86_64 _a_ __b__"), "x86_64 \\_a\\_ \\_\\_b\\_\\_");
    }

    #[test]
    fn html_stays_text() {
        let text = html("<script>\"a\" & 'b'\u{1b}[0m\n\u{202e}\0");
        assert_eq!(text, "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;␛[0m\n\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_fence_cannot_be_closed_from_inside() {
        let text = fence("toml", "a = 1\n````\nb = \"\u{1b}\"\r\n");
        assert_eq!(text, "`````toml\na = 1\n````\nb = \"␛\"\n`````\n");
    }

    proptest! {
        #[test]
        fn a_cell_is_one_line_without_a_bare_pipe(s in "\\PC*|[|\\\\`\n\r<>]*") {
            let cell = markdown(&s);
            prop_assert!(!cell.contains('\n') && !cell.contains('<'));
            let mut escaped = false;
            for c in cell.chars() {
                prop_assert!(c != '|' || escaped, "{cell}");
                escaped = c == '\\' && !escaped;
            }
        }
    }
}
