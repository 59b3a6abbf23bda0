//! Text in cells of CSV files, escaped so that no spreadsheet takes it for a formula.

use std::borrow::Cow;

/// Returns true if a spreadsheet would take the cell, without leading apostrophes, for a formula: it starts with `=`,
/// `+`, `-`, `@` (or their wide forms), a tab or a line break, and is not a number.
fn is_formula(cell: &str) -> bool {
    let begins = cell
        .trim_start_matches('\'')
        .starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n']);
    begins && cell.parse::<f64>().is_err()
}

/// Returns the cell with an apostrophe in front of a formula. Numbers are never changed.
pub(super) fn guarded(cell: &str) -> Cow<'_, str> {
    if is_formula(cell) { format!("'{cell}").into() } else { cell.into() }
}

/// Reverses [`guarded`].
pub(crate) fn bare(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|rest| is_formula(rest)).unwrap_or(cell)
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
        fn whatever_it_is_comes_back(cell in "['=+@\t\r\n-]{0,4}(\\PC{0,6}|[0-9.e]{0,4})") {
            let written = guarded(&cell);
            prop_assert_eq!(bare(&written), &cell);
            let first = written.chars().next();
            prop_assert!(written.parse::<f64>().is_ok() || !first.is_some_and(|c| "=+-@\t\r\n".contains(c)), "{}", written);
        }
    }
}
