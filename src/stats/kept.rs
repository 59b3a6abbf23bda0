//! What the statistics keep of a request: a [`Record`] without what only its row in `requests.csv` needs, and without a heap.

use crate::record::{Conn, Failure, Outcome, Phase, Record};
use crate::slo::Metric;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::time::Duration;

/// A time or a length of time in whole nanoseconds, up to 584 years; half as large as an optional [`Duration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(
    /// One more than the nanoseconds, so that `None` needs no room of its own.
    NonZeroU64,
);

impl Nanos {
    /// The same as a duration, exactly.
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        let nanos = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }
}

/// One request as the statistics need it, 96 bytes. Fields mean what those of the same names mean in [`Record`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// Number within the step, in order of `due`.
    pub id: u64,
    /// When the plan says it is sent.
    pub due: Nanos,
    /// When it was handed to the connection.
    pub sent: Option<Nanos>,
    /// First event that carries a token on any channel.
    pub first_token: Option<Nanos>,
    /// First event that carries a content token.
    pub first_content: Option<Nanos>,
    /// Last event that carries a token.
    pub last_token: Option<Nanos>,
    /// When it was over, whatever the outcome.
    pub end: Nanos,
    /// Input tokens asked for.
    pub input_asked: u32,
    /// Input tokens by the server's usage.
    pub input_tokens: Option<u32>,
    /// Output tokens asked for.
    pub output_asked: u32,
    /// Output tokens.
    pub output_tokens: Option<u32>,
    /// Tokens in the first event that carried any, where known.
    pub first_event_tokens: Option<NonZeroU32>,
    /// Index of its class in the mix.
    pub class: u16,
    /// Turn of its conversation, from 1; 0 where it is of none.
    pub turn: u16,
    /// HTTP status.
    pub status: Option<NonZeroU16>,
    /// The part of the step it was due in.
    pub phase: Phase,
    /// Whether its connection was new.
    pub conn: Option<Conn>,
    /// How often it was sent.
    pub attempts: u8,
    /// How it ended.
    pub outcome: Outcome,
    /// Kind of failure.
    pub failure: Option<Failure>,
    /// Its server, as [`Record::target`]; 255 stands for every one from there on.
    pub target: u8,
}

impl From<&Record> for Kept {
    fn from(r: &Record) -> Self {
        let opt = |t: Option<Duration>| t.map(Nanos::from);
        Self {
            id: r.id,
            due: r.due.into(),
            sent: opt(r.sent),
            first_token: opt(r.first_token),
            first_content: opt(r.first_content),
            last_token: opt(r.last_token),
            end: r.end.into(),
            input_asked: r.input_asked,
            input_tokens: r.input_tokens,
            output_asked: r.output_asked,
            output_tokens: r.output_tokens,
            first_event_tokens: r.first_event_tokens.and_then(NonZeroU32::new),
            class: r.class,
            turn: r.turn,
            status: r.status.and_then(NonZeroU16::new),
            phase: r.phase,
            conn: r.conn,
            attempts: r.attempts,
            outcome: r.outcome,
            failure: r.failure,
            target: u8::try_from(r.target).unwrap_or(u8::MAX),
        }
    }
}

impl Kept {
    /// The record again, as far as it was kept: limits and metrics have one definition, and it is about records.
    pub fn record(&self) -> Record {
        let opt = |t: Option<Nanos>| t.map(Nanos::get);
        Record {
            sent: opt(self.sent),
            first_token: opt(self.first_token),
            first_content: opt(self.first_content),
            last_token: opt(self.last_token),
            end: self.end.get(),
            input_asked: self.input_asked,
            input_tokens: self.input_tokens,
            output_asked: self.output_asked,
            output_tokens: self.output_tokens,
            first_event_tokens: self.first_event_tokens.map(NonZeroU32::get),
            class: self.class,
            turn: self.turn,
            status: self.status.map(NonZeroU16::get),
            conn: self.conn,
            attempts: self.attempts,
            outcome: self.outcome,
            failure: self.failure,
            target: u16::from(self.target),
            ..Record::due(self.id, self.phase, self.due.get())
        }
    }

    /// Room for `n` of them, whatever it holds now: empties it, and lets it hold so many without asking the system for memory.
    ///
    /// The memory is written to, not only reserved: a system gives it out when it is first touched.
    pub fn room(kept: &mut Vec<Self>, n: usize) {
        kept.clear();
        if kept.capacity() < n {
            // The old room first goes, so that there are never two.
            *kept = Vec::new();
            kept.reserve_exact(n);
        }
        kept.resize(n, Self::from(&Record::due(0, Phase::Settle, Duration::ZERO)));
        kept.clear();
    }

    /// Whether it is in the percentiles of a metric: whole answers are, and in those of TTFT and TTFC also requests that were cut off after
    /// it was known, since to leave them out would leave out the slowest.
    pub fn tells(&self, metric: Metric) -> bool {
        match metric {
            Metric::Ttft | Metric::Ttfc => self.outcome != Outcome::Failed,
            _ => self.ok(),
        }
    }

    /// Whether a whole answer came.
    pub fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }
}

/// Those of many records, in their order.
#[cfg(test)]
pub(super) fn kept(records: &[Record]) -> Vec<Kept> {
    records.iter().map(Kept::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_million_are_kept_in_a_third_of_what_a_sweep_may_take() {
        assert_eq!(size_of::<Option<Nanos>>(), 8, "what did not happen takes no room of its own");
        assert!(
            size_of::<Kept>() <= 96,
            "{} bytes; a sweep of a million stays below 300 MiB",
            size_of::<Kept>()
        );
    }

    #[test]
    fn times_are_exact_to_their_ends() {
        for nanos in [0, 1, 999_999_999, 1_000_000_000, u64::MAX - 1] {
            let d = Duration::from_nanos(nanos);
            assert_eq!(Nanos::from(d).get(), d);
        }
        assert_eq!(Nanos::from(Duration::MAX).get(), Duration::from_nanos(u64::MAX - 1), "the most there is");
    }

    proptest! {
        /// Every latency of what is kept is that of the record, to the last bit.
        #[test]
        fn latencies_are_those_of_the_record(
            at in any::<[Option<u32>; 5]>(),
            (due, end, asked) in any::<(u32, u32, u32)>(),
            (input, output, class, turn) in any::<(Option<u32>, Option<u32>, u16, u16)>(),
            first in proptest::option::of(1_u32..),
            status in proptest::option::of(100_u16..600),
            target in 0_u16..256,
        ) {
            let at = |i: usize| at[i].map(|us: u32| Duration::new(u64::from(us) / 1000, us));
            let mut r = Record::due(7, Phase::Tail, Duration::from_micros(u64::from(due)));
            (r.sent, r.first_token, r.first_content, r.last_token) = (at(0), at(1), at(2), at(3));
            (r.end, r.input_asked, r.output_asked) = (Duration::from_micros(u64::from(end)), asked, asked / 2);
            (r.input_tokens, r.output_tokens, r.first_event_tokens, r.status) = (input, output, first, status);
            (r.outcome, r.failure, r.conn, r.attempts) = (Outcome::Failed, Some(Failure::Reset), Some(Conn::New), 2);
            (r.target, r.class, r.turn) = (target, class, turn);
            let k = Kept::from(&r);
            let again = k.record();
            prop_assert_eq!(&again, &r);
            prop_assert_eq!(Kept::from(&again), k);
            prop_assert_eq!(Metric::ALL.map(|m| m.of(&again)), Metric::ALL.map(|m| m.of(&r)));
        }
    }
}
