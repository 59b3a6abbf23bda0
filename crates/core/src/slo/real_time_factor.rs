//! Limits on real-time factors, which a plan writes as plain numbers: `rtf.p99 = 0.2`.

use crate::units::{Percentile, Positive, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::collections::BTreeMap;
use std::time::Duration;

/// Writes limits, which are times per second of audio, as numbers.
pub(super) fn serialize<S: Serializer>(
    limits: &BTreeMap<Percentile, Span>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let factors: BTreeMap<Percentile, f64> = limits.iter().map(|(p, l)| (*p, l.0.as_secs_f64())).collect();
    factors.serialize(to)
}

/// Reads numbers as times per second of audio.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<Percentile, Span>, D::Error> {
    let factors = BTreeMap::<Percentile, Positive>::deserialize(from)?;
    let limit = |factor: Positive| Duration::try_from_secs_f64(factor.get()).map_err(D::Error::custom);
    factors.into_iter().map(|(p, factor)| Ok((p, Span(limit(factor)?)))).collect()
}
