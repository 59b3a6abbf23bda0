//! Timestamps of traces: numbers in some unit, or dates.

use super::row::{shown, truncated};
use super::source::Unit;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Parses a timestamp to nanoseconds, from the trace's own origin for numbers and from 1970 for dates.
///
/// Decimal digits are parsed exactly: an f64 would lose the microseconds of a time since 1970.
pub(super) fn parse(text: &str, unit: Unit) -> Result<i64, String> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let numeric = |b: &u8| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
    let signs = bytes.iter().skip(1).filter(|b| **b == b'-').count();
    if bytes.is_empty() {
        return Err("is empty".into());
    }
    if bytes.iter().all(numeric) && signs < 2 { number(text, unit) } else { date(text) }
}

fn number(text: &str, unit: Unit) -> Result<i64, String> {
    let bad = || format!("{} is not a time", shown(text));
    let far = || format!("{} is centuries away: is the unit right?", truncated(text));
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(part) || (whole.is_empty() && part.is_empty()) || whole.len() > 25 {
        let x: f64 = text.parse().map_err(|_| bad())?;
        let ns = x * unit.ns() as f64;
        return if ns.abs() < 9e18 { Ok(ns.round() as i64) } else { Err(far()) };
    }
    let mut ns =
        if whole.is_empty() { 0 } else { whole.parse::<i128>().map_err(|_| bad())? } * i128::from(unit.ns());
    let mut scale = i128::from(unit.ns());
    for digit in part.bytes() {
        scale /= 10;
        ns += i128::from(digit - b'0') * scale;
    }
    let signed = if digits.len() < text.len() { -ns } else { ns };
    i64::try_from(signed).map_err(|_| far())
}

/// Parses a date with an offset, or without one as UTC.
fn date(text: &str) -> Result<i64, String> {
    let bad = || {
        format!(
            "{} is not a time: write a number, or a date such as 2023-11-16 18:15:46.6805900",
            shown(text)
        )
    };
    let tail = text.get(10..).unwrap_or_default();
    let stamp = if tail.contains(['Z', 'z', '+', '-']) {
        text.parse::<Timestamp>().map_err(|_| bad())?
    } else {
        let local: DateTime = text.parse().map_err(|_| bad())?;
        Offset::UTC.to_timestamp(local).map_err(|_| bad())?
    };
    i64::try_from(stamp.as_nanosecond()).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_dates_are_parsed_exactly() {
        for (text, unit, ns) in [
            ("0", Unit::Ms, 0),
            ("27482", Unit::Ms, 27_482_000_000),
            ("5", Unit::S, 5_000_000_000),
            ("1.25", Unit::S, 1_250_000_000),
            (" 1747033200.123456789 ", Unit::S, 1_747_033_200_123_456_789),
            ("1747033200123456789", Unit::Ns, 1_747_033_200_123_456_789),
            ("-0.5", Unit::Ms, -500_000),
            (".5", Unit::Us, 500),
            ("1.5e3", Unit::Ms, 1_500_000_000),
            ("1970-01-01 00:00:01.6805900", Unit::S, 1_680_590_000),
            ("1970-01-01T00:00:01Z", Unit::S, 1_000_000_000),
            ("1970-01-01 01:00:00.000001+01:00", Unit::S, 1_000),
        ] {
            assert_eq!(parse(text, unit), Ok(ns), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_rejected_with_a_reason() {
        for (text, message) in [
            ("", "is empty"),
            ("soon", "is not a time"),
            ("2023-13-01 00:00:00", "is not a time"),
            ("1.2.3", "is not a time"),
            ("-", "is not a time"),
            ("1747033200123", "unit"),
            ("1e30", "unit"),
        ] {
            let error = parse(text, Unit::S).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,30}") {
            let _ = parse(&text, Unit::Ms);
        }

        #[test]
        fn nanoseconds_are_exact(ns in 0..4_000_000_000_000_000_000i64) {
            let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            prop_assert_eq!(parse(&text, Unit::S), Ok(ns));
            let date = Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string();
            prop_assert_eq!(parse(&date, Unit::S), Ok(ns));
        }
    }
}
