//! Halts: stretches in which the whole client was stopped by a signal, suspended with its machine, or out of its quota of CPU
//! time.
//!
//! The server does not notice and continues. Its output lies unread, and the requests that came due are sent afterwards all at
//! once. So every latency that overlaps a halt includes it, also of requests sent in time, for which the lateness shows nothing.
//!
//! The sending threads notice a halt, since each beats many times a second. It is also detected in the records, with which earlier
//! runs and other tools have to do: a request was due, and for a while the client did nothing at all. If it handled another
//! request meanwhile, the client or one of its threads was slow but not halted. The halt ends with the first thing that the
//! client does afterwards, often reading an answer that is already there.

use super::compact_record::{CompactRecord, Nanos};
use goodput_core::caveat::OwnFault;
use goodput_core::units::ms;
use std::ops::Range;
use std::time::Duration;

/// Shortest halt; anything shorter is lateness like any other.
const MIN_HALT: Duration = Duration::from_millis(100);
/// Multiple of a halt's length after which the server has worked off the burst that followed it. A server loaded to nine tenths
/// takes nine times the length; until then, requests meet a load that the plan does not have.
const WORKED_OFF: u32 = 10;

/// The halts of a step, in order. Each lasts from the first request that came due in it to the next action of the client. (The
/// client may have been halted earlier: while nothing is due, that cannot be known.)
#[derive(Debug, Default)]
pub(super) struct Halts(Vec<Halt>);

#[derive(Debug, Clone, Copy)]
struct Halt {
    from: Duration,
    to: Duration,
}

impl Halt {
    fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// Returns true if the request was due, or in flight, during the halt.
    fn touches(self, r: &CompactRecord) -> bool {
        r.due.get() < self.to && r.end.get() > self.from
    }

    /// Returns the time at which the server has worked off the burst after the halt.
    fn worked_off(self) -> Duration {
        self.to + self.length() * WORKED_OFF
    }
}

impl Halts {
    /// Returns the halts that the sending threads noticed, and those in the records of a step, in any order.
    pub(super) fn of(records: &[CompactRecord], noticed: &[Range<Duration>]) -> Self {
        let mut all = Self::in_records(records).0;
        let noticed = noticed.iter().map(|h| Halt { from: h.start, to: h.end });
        // Before the first request and after the last one, nothing can be wrong.
        all.extend(noticed.filter(|h| h.length() >= MIN_HALT && records.iter().any(|r| h.touches(r))));
        all.sort_unstable_by_key(|h| h.from);
        let mut merged: Vec<Halt> = Vec::with_capacity(all.len());
        for halt in all {
            match merged.last_mut().filter(|last| halt.from <= last.to) {
                Some(last) => last.to = last.to.max(halt.to),
                None => merged.push(halt),
            }
        }
        Self(merged)
    }

    /// Detects the halts in the records of a step, in any order. Finds none in a closed loop, where nothing comes due during a
    /// halt.
    fn in_records(records: &[CompactRecord]) -> Self {
        let late = |r: &CompactRecord| {
            let (due, sent) = (r.due.get(), r.sent?.get());
            (sent.saturating_sub(due) >= MIN_HALT).then_some(due)
        };
        let mut due: Vec<Duration> = records.iter().filter_map(late).collect();
        let Some((first, last)) = due.iter().min().copied().zip(due.iter().max().copied()) else {
            return Self::default();
        };
        due.sort_unstable();
        // Of the later timestamps only the first matters, and it is one of these: the last of the late requests was sent.
        let sent = records.iter().filter_map(|r| Some(r.sent?.get())).filter(|t| *t > last).min();
        let near = first..=sent.unwrap_or(last);
        let mut stamps: Vec<Duration> =
            records.iter().flat_map(stamps).filter(|t| near.contains(t)).collect();
        stamps.sort_unstable();
        let mut halts: Vec<Halt> = Vec::new();
        for from in due {
            if halts.last().is_some_and(|h| from < h.to) {
                continue;
            }
            let next = stamps.partition_point(|t| *t <= from);
            halts
                .extend(stamps.get(next).map(|to| Halt { from, to: *to }).filter(|h| h.length() >= MIN_HALT));
        }
        Self(halts)
    }

    /// Returns how much of the time up to `t` the client was not halted.
    pub(super) fn awake(&self, t: Duration) -> Duration {
        let before = self.0.iter().take_while(|h| h.from < t);
        t - before.map(|h| h.to.min(t) - h.from).sum::<Duration>()
    }

    /// Returns the record with all times counted without the halts.
    pub(super) fn without(&self, mut r: CompactRecord) -> CompactRecord {
        if self.0.is_empty() {
            return r;
        }
        let awake = |t: Nanos| Nanos::from(self.awake(t.get()));
        (r.due, r.end) = (awake(r.due), awake(r.end));
        // The same share of the time of every choice, as if all of them had been decoding throughout.
        if let (Some(decoding), Some(first), Some(last)) = (r.decoding, r.first_token, r.last_token) {
            let stretch = |first: Nanos, last: Nanos| last.get().saturating_sub(first.get()).as_secs_f64();
            let share = stretch(awake(first), awake(last)) / stretch(first, last).max(f64::MIN_POSITIVE);
            r.decoding = Some(decoding.get().mul_f64(share.min(1.0)).into());
        }
        for t in [&mut r.sent, &mut r.first_token, &mut r.first_content, &mut r.last_token] {
            *t = t.map(awake);
        }
        r
    }

    /// Returns true without halts.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a request sent at `t` meets the load of the plan, and not the burst after a halt.
    pub(super) fn is_calm(&self, t: Duration) -> bool {
        !self.0.iter().any(|h| h.from <= t && t < h.worked_off())
    }

    /// Returns true if the request met the load of the plan, and no halt while it was in flight: what came of it is the server's.
    pub(super) fn spared(&self, r: &CompactRecord) -> bool {
        self.is_calm(r.due.get()) && !self.0.iter().any(|h| h.touches(r))
    }

    /// Returns the longest stretch between `from` and `to` in which the load was that of the plan.
    pub(super) fn calm(&self, from: Duration, to: Duration) -> (Duration, Duration) {
        let mut best = (from, from);
        let mut begin = from;
        let ends = self.0.iter().map(|h| (h.from, h.worked_off())).chain([(to, to)]);
        for (halt, again) in ends {
            let end = halt.clamp(from, to);
            if end.saturating_sub(begin) > best.1 - best.0 {
                best = (begin, end);
            }
            begin = begin.max(again);
        }
        best
    }

    /// Returns the fault to report; `None` without halts.
    pub(super) fn fault(&self) -> Option<OwnFault> {
        let total_ms = ms(self.0.iter().map(|h| h.length()).sum());
        (!self.0.is_empty()).then_some(OwnFault::Halted { times: self.0.len() as u64, total_ms })
    }
}

/// Iterates over the times at which the client did something about a request.
fn stamps(r: &CompactRecord) -> impl Iterator<Item = Duration> {
    [r.sent, r.first_token, r.first_content, r.last_token, Some(r.end)].into_iter().flatten().map(Nanos::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::compact_record::compact;
    use goodput_core::record::{Outcome, Phase, Record};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Builds a request every 10 ms, whose first token comes after 50 ms and the last after 400; `see` maps a time to when the
    /// client acts.
    fn records(see: impl Fn(Duration) -> Duration) -> Vec<CompactRecord> {
        let records: Vec<Record> = (0..1000)
            .map(|id| {
                let due = ms(10 * id);
                let mut r = Record::due(id, Phase::Measure, due);
                let sent = see(due);
                (r.sent, r.outcome) = (Some(sent), Outcome::Ok);
                (r.first_token, r.last_token) = (Some(see(sent + ms(50))), Some(see(sent + ms(400))));
                r.end = see(sent + ms(400));
                r
            })
            .collect();
        compact(&records)
    }

    #[test]
    fn a_halt_is_detected_and_removed() {
        // Stopped from 3 s to 5 s, and again from 7 s to 7.2 s.
        let stopped = |t: Duration| match t.as_millis() {
            3000..5000 => ms(5000),
            7000..7200 => ms(7200),
            _ => t,
        };
        let all = records(stopped);
        let halts = Halts::of(&all, &[]);
        assert_eq!(halts.fault(), Some(OwnFault::Halted { times: 2, total_ms: 2200.0 }));
        for (t, awake) in
            [(0, 0), (3000, 3000), (4000, 3000), (5000, 3000), (6000, 4000), (7200, 5000), (9000, 6800)]
        {
            assert_eq!(halts.awake(ms(t)), ms(awake), "{t}");
        }
        for r in &all {
            let mut r = *r;
            r.due = r.sent.unwrap();
            let seen = halts.without(r).record();
            assert!(seen.ttft().unwrap() <= ms(50) && seen.e2e().unwrap() <= ms(400), "{seen:?}");
        }
    }

    /// Rows: first and last token in ms, and the decoding time of four choices before and without a halt from 3 s to 5 s.
    #[test]
    fn the_choices_of_an_answer_are_all_halted() {
        let halts = Halts(vec![Halt { from: ms(3000), to: ms(5000) }]);
        for (first, last, decoding, without) in [
            (2500, 5500, 12_000, 4_000), // all of them all the time
            (2500, 5500, 6_000, 2_000),  // half of them on average
            (1000, 2000, 4_000, 4_000),
            (5000, 5000, 0, 0),
        ] {
            let mut r = Record::due(0, Phase::Measure, ms(900));
            (r.first_token, r.last_token, r.end) = (Some(ms(first)), Some(ms(last)), ms(last));
            r.decoding = Some(ms(decoding));
            let seen = halts.without(CompactRecord::from(&r)).record();
            assert_eq!(seen.decoding, Some(ms(without)), "{first} to {last}");
        }
    }

    /// In a closed loop nothing is due during a halt, so that only the threads notice it.
    #[test]
    fn noticed_halts_join_those_of_the_records() {
        let stopped = |t: Duration| if (3000..5000).contains(&t.as_millis()) { ms(5000) } else { t };
        let all = records(stopped);
        let fault = |noticed: &[Range<Duration>]| Halts::of(&all, noticed).fault();
        let halted = |times, total_ms| Some(OwnFault::Halted { times, total_ms });
        assert_eq!(fault(&[ms(2990)..ms(5001)]), halted(1, 2011.0), "the same halt");
        assert_eq!(fault(&[ms(7000)..ms(7200)]), halted(2, 2200.0), "another one");
        assert_eq!(fault(&[ms(7000)..ms(7090)]), halted(1, 2000.0), "too short");
        assert_eq!(fault(&[ms(20_000)..ms(30_000)]), halted(1, 2000.0), "after the last request");
        let halts = Halts::of(&all, &[]);
        let spared = |id: usize| halts.spared(&all[id]);
        assert!(
            spared(250) && !spared(270) && !spared(320) && !spared(510),
            "in flight, due, and in the burst after it"
        );
    }

    #[test]
    fn a_halt_ends_with_the_first_action() {
        // An answer that is already there is read a fraction of a millisecond before the first request is sent again.
        let mut all = records(|t| if (3000..4500).contains(&t.as_millis()) { ms(4500) } else { t });
        for r in &mut all {
            if r.sent == Some(Nanos::from(ms(4500))) {
                r.sent = Some(Nanos::from(Duration::from_micros(4_500_400)));
            }
        }
        let halts = Halts::of(&all, &[]);
        assert_eq!(halts.fault(), Some(OwnFault::Halted { times: 1, total_ms: 1500.0 }));
        for (t, calm) in [(2_999, true), (3_000, false), (4_500, false), (19_499, false), (19_500, true)] {
            assert_eq!(halts.is_calm(ms(t)), calm, "{t}");
        }
        for (from, to, calm) in [
            (0, 10_000, (0, 3_000)),
            (1_000, 30_000, (19_500, 30_000)),
            (3_500, 10_000, (3_500, 3_500)),
            (20_000, 30_000, (20_000, 30_000)),
        ] {
            assert_eq!(halts.calm(ms(from), ms(to)), (ms(calm.0), ms(calm.1)), "{from} to {to}");
        }
        assert_eq!(Halts::default().calm(ms(5), ms(9)), (ms(5), ms(9)));
    }

    /// Rows of cases without a halt: the client did something else meanwhile.
    #[test]
    fn a_slow_client_is_not_halted() {
        // Before its first request nothing is known of the client, and after that it does something all the time.
        let behind = Halts::of(&records(|t| t + ms(300)), &[]);
        assert!(behind.awake(ms(10_000)) >= ms(9_700), "late by as much all the time: {behind:?}");
        let growing = |t: Duration| t.mul_f64(1.5);
        assert!(Halts::of(&records(growing), &[]).fault().is_none(), "later and later");
        let mut one_thread = records(|t| t);
        for r in one_thread.iter_mut().filter(|r| r.id % 2 == 0 && (300..500).contains(&r.id)) {
            r.sent = Some(Nanos::from(ms(5000)));
        }
        assert!(Halts::of(&one_thread, &[]).fault().is_none(), "another thread went on");
        assert!(Halts::of(&records(|t| t), &[]).fault().is_none() && Halts::of(&[], &[]).fault().is_none());
        let mut met = records(|t| if (3000..3150).contains(&t.as_millis()) { ms(3150) } else { t });
        assert!(Halts::of(&met, &[]).fault().is_some());
        met[250].end = Nanos::from(ms(3080));
        assert!(Halts::of(&met, &[]).fault().is_none(), "it came to an answer in the middle");
        let short = |t: Duration| if (3000..3090).contains(&t.as_millis()) { ms(3090) } else { t };
        assert!(Halts::of(&records(short), &[]).fault().is_none(), "not for long");
    }
}
