//! Text in cells of CSV files, escaped so that no spreadsheet takes it for a formula, and that it cannot reorder what is shown beside it.

use goodput_core::bidi::is_control;
use std::borrow::Cow;
use std::fmt::Write;

/// Returns true if a spreadsheet would take the cell, without leading apostrophes, for a formula: it starts with `=`,
/// `+`, `-`, `@` (or their wide forms), a tab or a line break, and is not a number.
fn is_formula(cell: &str) -> bool {
    let begins = cell
        .trim_start_matches('\'')
        .starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n']);
    begins && cell.parse::<f64>().is_err()
}

/// Returns the cell with an apostrophe in front of a formula, and with `\u202e` and the like in place of characters that set the direction of text. Numbers
/// are never changed.
pub(super) fn guarded(cell: &str) -> Cow<'_, str> {
    let cell = escaped(cell);
    if is_formula(&cell) { format!("'{cell}").into() } else { cell }
}

/// Reverses [`guarded`].
pub(crate) fn bare(cell: &str) -> Cow<'_, str> {
    unescaped(cell.strip_prefix('\'').filter(|rest| is_formula(rest)).unwrap_or(cell))
}

fn escaped(cell: &str) -> Cow<'_, str> {
    if !cell.contains(is_control) {
        return cell.into();
    }
    let mut out = String::with_capacity(cell.len() + 8);
    for c in cell.chars() {
        if is_control(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out.into()
}

fn unescaped(cell: &str) -> Cow<'_, str> {
    const ESCAPE: &str = "\\u";
    let control =
        |rest: &str| char::from_u32(u32::from_str_radix(rest.get(..4)?, 16).ok()?).filter(|c| is_control(*c));
    if !cell.match_indices(ESCAPE).any(|(at, _)| control(&cell[at + 2..]).is_some()) {
        return cell.into();
    }
    let (mut out, mut rest) = (String::with_capacity(cell.len()), cell);
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        out.push_str(before);
        rest = match control(after) {
            Some(c) => {
                out.push(c);
                &after[4..]
            }
            None => {
                out.push_str(ESCAPE);
                after
            }
        };
    }
    (out + rest).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formulas_are_texts_and_numbers_are_numbers() {
        for (cell, written) in [
            ("=1+1", "'=1+1"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+SUM(A1)", "'+SUM(A1)"),
            ("-2+3", "'-2+3"),
            ("@now", "'@now"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("＝1", "'＝1"),
            ("'=1", "''=1"),
            ("'quoted'", "'quoted'"),
            ("a=1", "a=1"),
            ("abc\u{202e}txt.exe", "abc\\u202etxt.exe"),
            ("\u{2066}=1", "\\u2066=1"),
            ("=\u{61c}1", "'=\\u061c1"),
            (r"\u0041 and \u", r"\u0041 and \u"),
            ("-0.5", "-0.5"),
            ("+1e3", "+1e3"),
            ("-inf", "-inf"),
            ("", ""),
        ] {
            assert_eq!(guarded(cell), written, "{cell}");
            assert_eq!(bare(written), cell, "{cell}");
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_comes_back(cell in "['=+@\t\r\n-]{0,4}(\\PC{0,6}|[\u{202e}\u{2066}\\\\ua=1]{0,6}|[0-9.e]{0,4})") {
            let written = guarded(&cell);
            prop_assert_eq!(bare(&written), cell.as_str());
            prop_assert!(!written.contains(is_control));
            let first = written.chars().next();
            prop_assert!(written.parse::<f64>().is_ok() || !first.is_some_and(|c| "=+-@\t\r\n".contains(c)), "{}", written);
        }
    }
}
