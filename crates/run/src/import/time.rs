//! Times as tools write them: seconds of some clock as floating-point numbers.

use std::time::Duration;

/// Longest plausible run in seconds, some three years: a longer time is a mistake in the file.
const LONGEST_S: f64 = 1e8;

/// Converts seconds to a duration; a negative value, which rounding may cause, becomes zero. Returns `None` if the
/// value cannot be a time.
pub(super) fn span(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds < LONGEST_S).then(|| Duration::from_secs_f64(seconds.max(0.0)))
}

/// Returns the time from `origin` to `at` on one clock.
pub(super) fn since(origin: f64, at: f64) -> Option<Duration> {
    span(at - origin)
}

/// Converts gaps in seconds to whole microseconds, as in records.
pub(super) fn gaps_us(seconds: impl Iterator<Item = f64>) -> Vec<u32> {
    // The cast saturates at the range, and turns NaN into zero.
    seconds.map(|s| (s * 1e6).round() as u32).collect()
}

/// Returns the longest gap.
pub(super) fn longest(gaps_us: &[u32]) -> Option<Duration> {
    gaps_us.iter().max().map(|us| Duration::from_micros(u64::from(*us)))
}
