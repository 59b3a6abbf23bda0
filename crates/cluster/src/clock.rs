//! The clock of a worker against that of the leader.
//!
//! The leader asks for the worker's clock and notes when it asked and when the reply came. The worker read its clock in
//! between: at the middle, give or take half of the round trip. The shortest of many round trips bounds the error best
//! (the method of NTP, RFC 5905 §10, with the least delay).

use std::time::Duration;

/// Number of round trips of an estimate.
pub const ROUND_TRIPS: usize = 64;

/// One round trip. Times are nanoseconds, each by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the leader asked.
    pub asked_ns: u64,
    /// When the reply reached the leader.
    pub answered_ns: u64,
    /// The worker's clock in between.
    pub worker_ns: u64,
}

impl RoundTrip {
    const fn length_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.asked_ns)
    }
}

/// The clock of a worker minus that of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offset {
    /// The difference in nanoseconds.
    pub ns: i64,
    /// Largest error, if one way took no time: half of the round trip, in nanoseconds.
    pub error_ns: u64,
}

impl Offset {
    /// Estimates the offset from round trips; `None` without any.
    pub fn estimate(trips: &[RoundTrip]) -> Option<Self> {
        let best = trips.iter().min_by_key(|trip| trip.length_ns())?;
        let middle = best.asked_ns + best.length_ns() / 2;
        let ns = i128::from(best.worker_ns) - i128::from(middle);
        Some(Self { ns: i64::try_from(ns).ok()?, error_ns: best.length_ns().div_ceil(2) })
    }

    /// Returns a time of the leader's clock by that of the worker; 0 before the worker's clock began.
    pub fn to_worker(self, leader: Duration) -> u64 {
        let ns = i128::try_from(leader.as_nanos()).unwrap_or(i128::MAX) + i128::from(self.ns);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }

    /// Returns the change from this offset to a later one, in milliseconds.
    pub fn drift_ms(self, later: Self) -> f64 {
        (later.ns - self.ns) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shortest_round_trip_counts() {
        let trip = |asked_ns, answered_ns, worker_ns| RoundTrip { asked_ns, answered_ns, worker_ns };
        let trips = [trip(0, 1_000, 5_900), trip(10_000, 10_100, 15_050), trip(20_000, 29_000, 21_000)];
        let offset = Offset::estimate(&trips).unwrap();
        assert_eq!(offset, Offset { ns: 5_000, error_ns: 50 });
        assert_eq!(offset.to_worker(Duration::from_micros(1)), 6_000);
        assert_eq!(Offset { ns: -5_000, error_ns: 0 }.to_worker(Duration::from_micros(1)), 0);
        assert_eq!(Offset::estimate(&[]), None);
        assert!((offset.drift_ms(Offset { ns: 2_005_000, error_ns: 0 }) - 2.0).abs() < 1e-12);
    }

    proptest! {
        /// Whatever the two ways take, the error is within its bound.
        #[test]
        fn the_error_is_within_half_of_the_round_trip(
            offset in -1_000_000_000_i64..1_000_000_000,
            ways in proptest::collection::vec((0_u64..5_000_000, 0_u64..5_000_000), 1..64),
        ) {
            let mut now = 2_000_000_000_u64;
            let trips: Vec<RoundTrip> = ways.iter().map(|(there, back)| {
                let trip = RoundTrip {
                    asked_ns: now,
                    worker_ns: (now + there).strict_add_signed(offset),
                    answered_ns: now + there + back,
                };
                now = trip.answered_ns + 1;
                trip
            }).collect();
            let estimate = Offset::estimate(&trips).unwrap();
            prop_assert!((estimate.ns - offset).unsigned_abs() <= estimate.error_ns);
        }
    }
}
