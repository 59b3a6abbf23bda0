//! Quantities of the plan, validated on construction.
//!
//! Each type parses through `try_from`, so that the TOML reader can point at the characters that are wrong.

use jiff::fmt::friendly::{FractionalUnit, SpanPrinter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{
    borrow::Cow,
    fmt,
    ops::{Deref, DerefMut},
    str::FromStr,
    time::Duration,
};

macro_rules! checked {
    ($(#[$doc:meta])* $name:ident, $message:literal, $range:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// Returns the number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = String;
            fn try_from(x: f64) -> Result<Self, String> {
                if ($range).contains(&x) { Ok(Self(x)) } else { Err(format!($message, plain_number(x))) }
            }
        }

        impl From<$name> for f64 {
            fn from(x: $name) -> f64 {
                x.0
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let range: std::ops::RangeInclusive<f64> = $range;
                json_schema!({ "type": "number", "minimum": range.start(), "maximum": range.end() })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

checked!(
    /// Requests per second, from 10⁻⁶ (one in twelve days) to 10⁶.
    Rate,
    "a rate must be positive and finite, from 0.000001 to 1000000 a second, got {}",
    1e-6..=1e6
);
checked!(
    /// A share from 0 to 1, both included.
    Fraction,
    "a share must lie between 0 and 1, got {}",
    0.0..=1.0
);
checked!(
    /// A positive number from 10⁻⁶ to 10⁹: a mean, a price, a coefficient of variation.
    Positive,
    "a positive number is needed, from 0.000001 to 1000000000, got {}",
    1e-6..=1e9
);

/// A duration, written `"200ms"`, `"15m"` or `"1h 30m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")] pub Duration,
);

impl Span {
    /// Creates a duration of whole seconds.
    pub const fn secs(s: u64) -> Self {
        Self(Duration::from_secs(s))
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        jiff::fmt::friendly::SpanParser::new()
            .parse_unsigned_duration(s)
            .map(Self)
            .map_err(|_| format!("a duration is written \"200ms\", \"90s\" or \"15m\", got {s}"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration_printer(self.0).unsigned_duration_to_string(&self.0))
    }
}

/// Returns the printer of a duration for people: `200ms`, `1.5s`, `1h 30m`. Only parts of a second are a fraction, and
/// only beside whole seconds.
pub(crate) fn duration_printer(duration: Duration) -> SpanPrinter {
    let fraction = (duration >= Duration::from_secs(1)).then_some(FractionalUnit::Second);
    SpanPrinter::new().fractional(fraction)
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": "duration", "examples": ["200ms", "90s", "15m", "1h 30m"] })
    }
}

/// A percentile: `p50`, `p99`, `"p99.9"` (quoted in TOML) or `p99_9`; stored in thousandths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u32);

impl Percentile {
    /// The 99th percentile.
    pub const P99: Self = Self(99_000);

    /// Returns the share of values at or below this percentile: 0.99 for p99.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 100_000.0
    }

    /// Returns the share of values that may lie above it: 0.01 for p99. Computed from the integer, hence exact to the
    /// last bit.
    pub fn miss_share(self) -> f64 {
        f64::from(100_000 - self.0) / 100_000.0
    }
}

impl FromStr for Percentile {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let bad = || format!("a percentile is written p50 … p99 or \"p99.9\", got {s}");
        let digits = s.strip_prefix('p').ok_or_else(bad)?.replace('_', ".");
        if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(bad());
        }
        let percent: f64 = digits.parse().map_err(|_| bad())?;
        let thousandths = (percent * 1000.0).round();
        if (1.0..=99_999.0).contains(&thousandths) { Ok(Self(thousandths as u32)) } else { Err(bad()) }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", f64::from(self.0) / 1000.0)
    }
}

impl Serialize for Percentile {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percentile {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Percentile {
    fn schema_name() -> Cow<'static, str> {
        "Percentile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^p\d{1,2}([._]\d{1,3})?$" })
    }
}

/// A list with at least one entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct NonEmpty<T>(Vec<T>);

impl<T> TryFrom<Vec<T>> for NonEmpty<T> {
    type Error = String;
    fn try_from(v: Vec<T>) -> Result<Self, String> {
        if v.is_empty() { Err("the list is empty: it needs at least one entry".into()) } else { Ok(Self(v)) }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NonEmpty<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Vec::deserialize(d)?.try_into().map_err(de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for NonEmpty<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NonEmpty_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "minItems": 1, "items": generator.subschema_for::<T>() })
    }
}

impl<T> DerefMut for NonEmpty<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> Deref for NonEmpty<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Converts to milliseconds, the unit of every latency in files and reports.
///
/// Divides whole nanoseconds once, so that 0.1234567 s prints as 123.4567.
pub fn ms(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e6
}

/// Rounds a positive number to three significant figures with `round`: [`f64::round`], or [`f64::floor`] where the
/// result must not exceed `x`.
pub fn three_digits(x: f64, round: impl Fn(f64) -> f64) -> f64 {
    let scale = 10_f64.powi(2 - x.log10().floor() as i32);
    round(x * scale) / scale
}

/// Formats a number without decimals, its digits in groups of three: `1,234,567`.
pub fn thousands(x: f64) -> String {
    let whole = format!("{x:.0}");
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return whole;
    }
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    format!("{sign}{}", groups.join(","))
}

/// Formats a number to three significant figures, without trailing zeros and with integers in full (`0.333`, `12.5`,
/// `1280`).
pub fn short(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let decimals = (2 - x.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a number exactly, and very large and very small ones in powers of ten: `1e300` instead of 300 digits.
pub fn plain_number(x: f64) -> String {
    let plain = x == 0.0 || !x.is_finite() || (1e-6..1e16).contains(&x.abs());
    if plain { format!("{x}") } else { format!("{x:e}") }
}

/// Formats a number of bytes: `512 B`, `60 MiB`, `1.5 GiB`.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = (0..units.len()).rev().find(|i| n >> (10 * i) > 0).unwrap_or(0);
    format!("{} {}", short(n as f64 / f64::powi(1024.0, at as i32)), units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_hundreds_of_digits() {
        for (x, text) in [
            (0.0, "0"),
            (12.5, "12.5"),
            (1e15, "1000000000000000"),
            (1e300, "1e300"),
            (-2.5e-300, "-2.5e-300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(plain_number(x), text);
        }
    }

    #[test]
    fn bytes_are_shown_in_the_largest_fitting_unit() {
        for (n, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (60 << 20, "60 MiB"), (3 << 29, "1.5 GiB")]
        {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn percentiles_parse_and_print() {
        for (text, share, shown) in
            [("p99", 0.99, "p99"), ("p99.9", 0.999, "p99.9"), ("p99_9", 0.999, "p99.9"), ("p50", 0.5, "p50")]
        {
            let p: Percentile = text.parse().unwrap();
            assert!((p.share() - share).abs() < 1e-12, "{text}");
            assert!((p.share() + p.miss_share() - 1.0).abs() < 1e-12, "{text}");
            assert_eq!(p.to_string(), shown);
        }
        for text in ["p199", "p100", "p0", "99", "p", "pp9", "p-5", "p1e1", ""] {
            assert!(text.parse::<Percentile>().is_err(), "{text} is no percentile");
        }
    }

    #[test]
    fn rates_and_shares_are_checked() {
        assert!(Rate::try_from(0.01).is_ok());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Rate::try_from(bad).is_err(), "{bad}");
        }
        assert!(Fraction::try_from(1.0).is_ok() && Fraction::try_from(1.01).is_err());
        assert!(NonEmpty::<u32>::try_from(vec![]).is_err());
    }

    #[test]
    fn spans_are_friendly() {
        assert_eq!("15m".parse::<Span>().unwrap(), Span::secs(900));
        for (given, shown) in [
            ("200ms", "200ms"),
            ("1ms 500us", "1ms 500µs"),
            ("1s", "1s"),
            ("1s 500ms", "1.5s"),
            ("1.25s", "1.25s"),
            ("90s", "1m 30s"),
            ("61s 50ms", "1m 1.05s"),
            ("1h 30m", "1h 30m"),
        ] {
            let span = given.parse::<Span>().unwrap();
            assert_eq!(span.to_string(), shown);
            assert_eq!(shown.parse::<Span>(), Ok(span), "it reads back");
        }
        assert!("ten".parse::<Span>().is_err() && "-5s".parse::<Span>().is_err());
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        for (x, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.5, "1,000"),
            (-1234.0, "-1,234"),
            (-123.0, "-123"),
            (1_234_567.0, "1,234,567"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(thousands(x), text);
        }
    }

    #[test]
    fn short_numbers() {
        for (x, text) in
            [(0.0, "0"), (0.3333, "0.333"), (12.5, "12.5"), (9.2576, "9.26"), (1280.4, "1280"), (8.0, "8")]
        {
            assert_eq!(short(x), text);
        }
    }
}
