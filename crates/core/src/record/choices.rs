//! Requests that ask for several choices (`n` in the body): several answers to one prompt, which the server generates at the same
//! time.

use super::Record;
use std::num::NonZeroU8;
use std::time::Duration;

/// Largest number of choices that a request may ask for.
pub const MOST_CHOICES: u8 = 32;

/// Unit of [`Record::decoding`]. In this unit, 32 bits hold 11 hours.
pub const DECODING_UNIT: Duration = Duration::from_micros(10);

impl Record {
    /// Returns the number of choices asked for; at least one.
    pub fn choice_count(&self) -> u32 {
        self.choices.map_or(1, |n| n.get().into())
    }

    /// Sets the number of choices asked for, where `output_asked` is the length of one of them so far. Changes nothing for one
    /// choice.
    pub fn ask_for_choices(&mut self, n: NonZeroU8) {
        if n > NonZeroU8::MIN {
            self.choices = Some(n);
            self.output_asked = self.output_asked.saturating_mul(n.get().into());
        }
    }

    /// Returns the time spent decoding, which TPOT spreads over the tokens: from the first token to the last one, summed over the
    /// choices.
    pub(super) fn decoding_time(&self) -> Option<Duration> {
        let (first, last) = (self.first_token?, self.last_token?);
        Some(self.decoding.unwrap_or_else(|| last.saturating_sub(first)))
    }
}

/// The events with tokens of one choice so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChoiceSpan(
    /// Times of the first and the last one; `None` without any.
    Option<[Duration; 2]>,
);

impl ChoiceSpan {
    /// Adds an event. Returns the time since the one before it; `None` for the first.
    pub fn add(&mut self, at: Duration) -> Option<Duration> {
        match &mut self.0 {
            Some([_, last]) => Some(at.saturating_sub(std::mem::replace(last, at))),
            None => {
                self.0 = Some([at, at]);
                None
            }
        }
    }

    /// Returns true if there was an event.
    pub const fn has_begun(self) -> bool {
        self.0.is_some()
    }

    /// Returns the time spent decoding: from the first event to the last one, or to the `end` of an answer that was ended before the choice.
    /// Zero without any event.
    pub fn decoding(self, end: Option<Duration>) -> Duration {
        self.0.map_or(Duration::ZERO, |[first, last]| end.unwrap_or(last).saturating_sub(first))
    }
}

/// Returns the number of [`DECODING_UNIT`]s in a time, rounded to the nearest; at most the largest number of 32 bits less one.
pub fn decoding_units(time: Duration) -> u32 {
    let unit = DECODING_UNIT.as_nanos();
    u32::try_from((time.as_nanos() + unit / 2) / unit).unwrap_or(u32::MAX).min(u32::MAX - 1)
}

/// Rounds a time spent decoding to a multiple of [`DECODING_UNIT`].
pub fn in_decoding_units(time: Duration) -> Duration {
    DECODING_UNIT.saturating_mul(decoding_units(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, Phase};
    use crate::slo::{Judged, Limit, Metric};
    use crate::units::Percentile;

    const MS: Duration = Duration::from_millis(1);

    /// Four choices of 11 tokens: each decodes for 200 ms, at the same time or one after the other.
    #[test]
    fn tpot_is_that_of_one_choice_however_they_overlap() {
        for (first, last) in [(100, 300), (100, 900)] {
            let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
            (r.first_token, r.last_token, r.outcome) = (Some(first * MS), Some(last * MS), Outcome::Ok);
            (r.output_tokens, r.first_event_tokens) = (Some(44), Some(4));
            r.decoding = Some(800 * MS);
            assert_eq!((r.ttft(), r.tpot(), r.e2e()), (Some(100 * MS), Some(20 * MS), Some(last * MS)));
        }
    }

    /// Cases: time that the choices have decoded in ms, and the judgement by 5 ms of an answer that was cut off, with 40 tokens
    /// after the first of each choice.
    #[test]
    fn a_pace_that_is_cut_off_counts_the_time_of_every_choice() {
        for (decoding, want) in [(199, Judged::Unknown), (200, Judged::Missed), (360, Judged::Missed)] {
            let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
            r.output_asked = 11;
            r.ask_for_choices(NonZeroU8::new(4).unwrap());
            (r.first_token, r.first_event_tokens, r.end) = (Some(10 * MS), Some(4), 100 * MS);
            r.decoding = Some(decoding * MS);
            let limit = Limit { metric: Metric::Tpot, percentile: Percentile::P99, limit: 5 * MS };
            assert_eq!(limit.judge(&r), want, "{decoding} ms");
        }
    }

    #[test]
    fn the_length_asked_for_is_that_of_all_choices() {
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        r.output_asked = 30;
        r.ask_for_choices(NonZeroU8::MIN);
        assert_eq!((r.choices, r.output_asked, r.choice_count()), (None, 30, 1));
        r.ask_for_choices(NonZeroU8::new(4).unwrap());
        assert_eq!((r.output_asked, r.choice_count()), (120, 4));
    }

    #[test]
    fn a_choice_decodes_from_its_first_event_to_its_last_or_to_the_end() {
        let mut span = ChoiceSpan::default();
        assert_eq!((span.has_begun(), span.decoding(Some(9 * MS))), (false, Duration::ZERO));
        assert_eq!([10, 30, 35].map(|at| span.add(at * MS)), [None, Some(20 * MS), Some(5 * MS)]);
        assert_eq!((span.decoding(None), span.decoding(Some(40 * MS))), (25 * MS, 30 * MS));
        assert!(span.has_begun());
    }

    #[test]
    fn decoding_is_rounded_to_its_unit() {
        let us = Duration::from_micros;
        for (time, want) in [(us(0), us(0)), (us(4), us(0)), (us(5), us(10)), (us(123_456), us(123_460))] {
            assert_eq!(in_decoding_units(time), want);
        }
        assert_eq!(in_decoding_units(Duration::MAX), DECODING_UNIT * (u32::MAX - 1));
    }
}
