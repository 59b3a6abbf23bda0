//! Deserialization of positive counts, with errors that name the range.

use serde::{
    Deserializer,
    de::{self, Visitor},
};
use std::{fmt, num::NonZeroU32};

/// Deserializes a count of an optional field.
pub(super) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<Option<NonZeroU32>, D::Error> {
    d.deserialize_any(Count).map(Some)
}

struct Count;

impl Count {
    fn within<E: de::Error>(n: impl TryInto<u32> + fmt::Display + Copy) -> Result<NonZeroU32, E> {
        let count = n.try_into().ok().and_then(NonZeroU32::new);
        count.ok_or_else(|| E::custom(format_args!("a whole number from 1 to {}, got {n}", u32::MAX)))
    }
}

impl Visitor<'_> for Count {
    type Value = NonZeroU32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", u32::MAX)
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<NonZeroU32, E> {
        Self::within(n)
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<NonZeroU32, E> {
        Self::within(n)
    }
}
