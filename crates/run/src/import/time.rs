//! Times as tools write them: seconds of some clock, as floating-point numbers.

use std::time::Duration;

/// No run takes longer than this, some three years: a time beyond it is a mistake in the file.
const LONGEST_S: f64 = 1e8;

/// A length of time in seconds; a negative one, which clocks show by a rounding, is none. `None` of what cannot be a time.
pub(super) fn span(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds < LONGEST_S).then(|| Duration::from_secs_f64(seconds.max(0.0)))
}

/// A moment, counted from another of the same clock.
pub(super) fn since(origin: f64, at: f64) -> Option<Duration> {
    span(at - origin)
}

/// Gaps in seconds as records have them: whole microseconds.
pub(super) fn gaps_us(seconds: impl Iterator<Item = f64>) -> Vec<u32> {
    // Out of range ends at the range; what is no number is none.
    seconds.map(|s| (s * 1e6).round() as u32).collect()
}

/// The longest gap.
pub(super) fn longest(gaps_us: &[u32]) -> Option<Duration> {
    gaps_us.iter().max().map(|us| Duration::from_micros(u64::from(*us)))
}
