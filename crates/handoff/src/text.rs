//! Texts and numbers for configuration files.

use goodput_core::bidi::is_deceptive;
use goodput_core::units::short;
use std::fmt::{self, Display};

/// A text as a quoted scalar of YAML, and a string of JSON: the latter is a subset of the former.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quoted(pub(crate) String);

impl Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Writing a string as JSON cannot fail.
        f.write_str(&serde_json::to_string(&line(&self.0)).unwrap_or_default())
    }
}

/// Returns a text in one line, without control characters and marks of text direction: for comments.
pub(crate) fn line(text: &str) -> String {
    let hidden = |c: char| c.is_control() || is_deceptive(c) || matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().map(|c| if hidden(c) { ' ' } else { c }).collect()
}

/// Returns a text for a cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

/// Returns a name made of lower-case letters, digits and hyphens, as Kubernetes wants it: at most 50 characters.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(50) {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ if !out.ends_with('-') && !out.is_empty() => out.push('-'),
            _ => {}
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "goodput".into() } else { out.into() }
}

/// Returns a number with three significant figures, or a dash if it is not known.
pub(crate) fn known(x: Option<f64>) -> String {
    x.map_or_else(|| "–".into(), short)
}

/// Returns a number rounded down to three significant figures: a limit must not be larger than what was measured.
pub(crate) fn floor3(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return x;
    }
    let scale = 10_f64.powi(2 - x.log10().floor() as i32);
    (x * scale * (1.0 + 1e-12)).floor() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_outside_break_no_file() {
        assert_eq!(Quoted("a \"b\"\n\u{202e}c".into()).to_string(), r#""a \"b\"  c""#);
        assert_eq!((slug("My Plan: 8×A40!"), slug("…")), ("my-plan-8-a40".into(), "goodput".into()));
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }

    #[test]
    fn limits_are_rounded_down() {
        for (x, rounded) in
            [(5.179, 5.17), (704.6, 704.0), (0.012_39, 0.0123), (5.0, 5.0), (0.0, 0.0), (1234.0, 1230.0)]
        {
            assert!((floor3(x) - rounded).abs() < 1e-9, "{x}");
        }
        assert_eq!(known(None), "–");
    }
}
