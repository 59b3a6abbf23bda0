//! Quantities of a data sheet, validated when parsed: `"600 GB/s"`, `"312 TFLOP/s"`, `"8B"`, or plain numbers in the first of
//! their units.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $say:literal, $range:expr, [$(($unit:literal, $factor:expr)),+ $(,)?]) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            const UNITS: &[(&str, f64)] = &[$(($unit, $factor)),+];

            /// Returns the value in the first of its units.
            pub const fn get(self) -> f64 {
                self.0
            }

            fn checked(x: f64) -> Result<Self, String> {
                if ($range).contains(&x) { Ok(Self(x)) } else { Err(format!($say, goodput_core::units::plain_number(x))) }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                parse_with_unit(text, Self::UNITS).ok_or_else(|| format!($say, text)).and_then(Self::checked)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", self.0, first_unit(Self::UNITS))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let description = $say.split(", got").next().unwrap_or_default();
                schemars::json_schema!({ "type": ["string", "number"], "title": "quantity", "description": description })
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Read;
                impl de::Visitor<'_> for Read {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "{}", $say.split(", got").next().unwrap_or_default())
                    }
                    fn visit_str<E: de::Error>(self, v: &str) -> Result<$name, E> {
                        v.parse().map_err(E::custom)
                    }
                    fn visit_f64<E: de::Error>(self, v: f64) -> Result<$name, E> {
                        $name::checked(v).map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, v: i64) -> Result<$name, E> {
                        $name::checked(v as f64).map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, v: u64) -> Result<$name, E> {
                        $name::checked(v as f64).map_err(E::custom)
                    }
                }
                d.deserialize_any(Read)
            }
        }
    };
}

quantity!(
    /// Memory bandwidth of one GPU, in GB/s (1e9 bytes).
    Bandwidth,
    "a memory bandwidth is written \"600 GB/s\" or \"3.35 TB/s\" (a plain number is in GB/s), from 1 to 1000000 GB/s, got {}",
    1.0..=1e6,
    [(" GB/s", 1.0), (" TB/s", 1e3)]
);
quantity!(
    /// Dense compute rate of one GPU in the precision that is served, in TFLOP/s.
    FlopRate,
    "a rate of computing is written \"312 TFLOP/s\" or \"2.25 PFLOP/s\" (a plain number is in TFLOP/s), from 0.1 to 1000000 TFLOP/s, got {}",
    0.1..=1e6,
    [
        (" TFLOP/s", 1.0),
        (" PFLOP/s", 1e3),
        (" TFLOPS", 1.0),
        (" PFLOPS", 1e3),
    ]
);
quantity!(
    /// Number of parameters of a model.
    Parameters,
    "parameters are written \"8B\", \"600M\" or 8e9 (of a mixture of experts, \"30B\" here and \"3B\" as active-parameters), from 1e6 to 1e14, got {}",
    1e6..=1e14,
    [("", 1.0), ("M", 1e6), ("B", 1e9), ("T", 1e12)]
);

/// Parses a number followed by one of the units, and converts it to the first of them; `None` if the text is malformed.
fn parse_with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    // An exponent belongs to the number.
    let (number, unit) = match text.parse::<f64>() {
        Ok(_) => (text, ""),
        Err(_) => text.split_at(digits),
    };
    let unit = unit.trim();
    let factor = units.iter().find(|(name, _)| name.trim().eq_ignore_ascii_case(unit)).map(|(_, f)| f)?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// Returns the unit in which a quantity is formatted.
fn first_unit(units: &[(&'static str, f64)]) -> &'static str {
    units.first().map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_parsed_with_their_units() {
        for (text, want) in [
            ("600 GB/s", Some(600.0)),
            ("3.35 TB/s", Some(3350.0)),
            ("3.35tb/s", Some(3350.0)),
            ("600", None),
            ("600 MB/s", None),
            ("0.5 GB/s", None),
            ("fast", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Bandwidth>().ok().map(Bandwidth::get), want, "{text}");
        }
        for (text, want) in [
            ("8B", Some(8e9)),
            ("0.6B", Some(0.6e9)),
            ("600M", Some(600e6)),
            ("1T", Some(1e12)),
            ("8e9", Some(8e9)),
            ("8", None),
            ("30B-A3B", None),
            ("1e400", None),
        ] {
            assert_eq!(text.parse::<Parameters>().ok().map(Parameters::get), want, "{text}");
        }
        assert_eq!("312 TFLOPS".parse::<FlopRate>().map(FlopRate::get), Ok(312.0));
        assert_eq!("2.25 pflop/s".parse::<FlopRate>().map(FlopRate::get), Ok(2250.0));
    }

    #[test]
    fn plain_numbers_are_in_the_first_unit() {
        #[derive(serde::Deserialize)]
        struct Of {
            bandwidth: Bandwidth,
            flops: FlopRate,
            parameters: Parameters,
        }
        let of: Of = toml::from_str("bandwidth = 600\nflops = 149.7\nparameters = 8e9").unwrap();
        assert_eq!((of.bandwidth.get(), of.flops.get(), of.parameters.get()), (600.0, 149.7, 8e9));
        let wrong = |text: &str| toml::from_str::<Of>(text).err().map(|e| e.to_string()).unwrap_or_default();
        for (text, says) in [
            ("bandwidth = 600e9\nflops = 1\nparameters = 8e9", "\"600 GB/s\""),
            ("bandwidth = 600\nflops = 1\nparameters = 8", "\"8B\""),
            ("bandwidth = 600\nflops = 1\nparameters = \"30B-A3B\"", "active-parameters"),
            ("bandwidth = true\nflops = 1\nparameters = 8e9", "\"600 GB/s\""),
        ] {
            let e = wrong(text);
            assert!(e.contains(says) && e.contains("line "), "{text}: {e}");
        }
    }

    proptest! {
        #[test]
        fn quantities_round_trip(x in 1.0..1e6_f64) {
            let b = Bandwidth::checked(x).unwrap();
            prop_assert_eq!(b.to_string().parse::<Bandwidth>(), Ok(b));
        }

        #[test]
        fn no_text_panics(text in ".{0,12}") {
            let _ = (text.parse::<Bandwidth>(), text.parse::<FlopRate>(), text.parse::<Parameters>());
        }
    }
}
