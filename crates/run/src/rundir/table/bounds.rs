//! Range checks for numbers in cells, for `deserialize_with`.

use super::decode::not_measurable;
use goodput_core::level::Level;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads seconds, from 0 to about three years.
pub(super) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    within(f64::deserialize(from)?, |s| (0.0..=1e8).contains(&s))
}

/// Reads optional milliseconds, from 0 to about three years.
pub(super) fn opt_milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let value: Option<f64> = Option::deserialize(from)?;
    value.map(|ms| within(ms, |ms| (0.0..=1e11).contains(&ms))).transpose()
}

/// Reads the value of a level of load.
pub(super) fn level<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    within(f64::deserialize(from)?, Level::is_sound)
}

fn within<E: Error>(value: f64, sound: impl Fn(f64) -> bool) -> Result<f64, E> {
    if sound(value) { Ok(value) } else { Err(not_measurable(value)) }
}
