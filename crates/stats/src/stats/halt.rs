//! Stretches in which the client as a whole stood still: stopped by a signal, suspended with its machine, or without its quota of CPU time.
//!
//! The server knows nothing of that and goes on; what it sends lies unread, and what was due is sent afterwards all at once. So the time
//! counts in every latency that it falls into, of requests that were sent in time as well, of which the lateness tells nothing. It shows in
//! the records: a request was due, and for a while the client did nothing at all, neither that nor anything else. Where it worked on another
//! request meanwhile, it was slow, or one of its threads was, and did not stand still. What it does first when it goes on is whatever comes
//! first, often an answer that lies there, and the stretch ends with that.

use super::kept::{Kept, Nanos};
use goodput_core::caveat::OwnFault;
use goodput_core::units::ms;
use std::time::Duration;

/// Shorter ones are lateness like any other.
const LEAST: Duration = Duration::from_millis(100);
/// What came due while the client stood still is sent at once, and a server that is loaded to nine tenths takes nine times as long to have
/// worked it off: so many times the stretch, what is sent afterwards meets a load that the plan does not have.
const WORKED_OFF: u32 = 10;

/// When the client stood still, in order: from the first request that was due meanwhile to whatever the client did next. (It may have stood
/// still before that as well: of a time in which nothing was due it is not known whether there was anything to do.)
#[derive(Debug, Default)]
pub(super) struct Halts(Vec<Halt>);

#[derive(Debug, Clone, Copy)]
struct Halt {
    from: Duration,
    to: Duration,
}

impl Halt {
    fn length(self) -> Duration {
        self.to - self.from
    }

    /// When the server has worked off what came at once.
    fn worked_off(self) -> Duration {
        self.to + self.length() * WORKED_OFF
    }
}

impl Halts {
    /// Looks for them in the records of a step, in any order. In a closed loop nothing is due while the client stands still, and none is found.
    pub(super) fn of(records: &[Kept]) -> Self {
        let late = |r: &Kept| {
            let (due, sent) = (r.due.get(), r.sent?.get());
            (sent.saturating_sub(due) >= LEAST).then_some(due)
        };
        let mut due: Vec<Duration> = records.iter().filter_map(late).collect();
        let Some((first, last)) = due.iter().min().copied().zip(due.iter().max().copied()) else {
            return Self::default();
        };
        due.sort_unstable();
        // Of later moments only the first matters, which is one of these: the last of the late requests was sent.
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
            halts.extend(stamps.get(next).map(|to| Halt { from, to: *to }).filter(|h| h.length() >= LEAST));
        }
        Self(halts)
    }

    /// So much of the time up to `t` had passed while the client was awake.
    pub(super) fn awake(&self, t: Duration) -> Duration {
        let before = self.0.iter().take_while(|h| h.from < t);
        t - before.map(|h| h.to.min(t) - h.from).sum::<Duration>()
    }

    /// The record in time that the client was awake.
    pub(super) fn without(&self, mut r: Kept) -> Kept {
        if self.0.is_empty() {
            return r;
        }
        let awake = |t: Nanos| Nanos::from(self.awake(t.get()));
        (r.due, r.end) = (awake(r.due), awake(r.end));
        for t in [&mut r.sent, &mut r.first_token, &mut r.first_content, &mut r.last_token] {
            *t = t.map(awake);
        }
        r
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether what is sent at `t` meets the load of the plan: not what came at once after the client had stood still.
    pub(super) fn is_calm(&self, t: Duration) -> bool {
        !self.0.iter().any(|h| h.from <= t && t < h.worked_off())
    }

    /// The longest part of a stretch in which the load was that of the plan.
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

    /// What is to be said of them.
    pub(super) fn fault(&self) -> Option<OwnFault> {
        let total_ms = ms(self.0.iter().map(|h| h.length()).sum());
        (!self.0.is_empty()).then_some(OwnFault::Halted { times: self.0.len() as u64, total_ms })
    }
}

/// Whenever the client did something about a request.
fn stamps(r: &Kept) -> impl Iterator<Item = Duration> {
    [r.sent, r.first_token, r.first_content, r.last_token, Some(r.end)].into_iter().flatten().map(Nanos::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::kept::kept;
    use goodput_core::record::{Outcome, Phase, Record};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A request each 10 ms, of which the first token comes after 50 ms and the last after 400; `see` is when the client comes to something.
    fn records(see: impl Fn(Duration) -> Duration) -> Vec<Kept> {
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
        kept(&records)
    }

    #[test]
    fn a_halt_is_found_and_taken_out() {
        // Stopped from 3 s to 5 s, and again from 7 s to 7.2 s.
        let stopped = |t: Duration| match t.as_millis() {
            3000..5000 => ms(5000),
            7000..7200 => ms(7200),
            _ => t,
        };
        let all = records(stopped);
        let halts = Halts::of(&all);
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

    #[test]
    fn a_halt_ends_with_whatever_is_done_first() {
        // An answer that lies there is read a fraction of a millisecond before the first request is sent again.
        let mut all = records(|t| if (3000..4500).contains(&t.as_millis()) { ms(4500) } else { t });
        for r in &mut all {
            if r.sent == Some(Nanos::from(ms(4500))) {
                r.sent = Some(Nanos::from(Duration::from_micros(4_500_400)));
            }
        }
        let halts = Halts::of(&all);
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

    /// Rows of what is no halt: the client did something else meanwhile.
    #[test]
    fn a_slow_client_does_not_stand_still() {
        // Before its first request nothing is known of it, and after that it does something all the time.
        let behind = Halts::of(&records(|t| t + ms(300)));
        assert!(behind.awake(ms(10_000)) >= ms(9_700), "late by as much all the time: {behind:?}");
        let growing = |t: Duration| t.mul_f64(1.5);
        assert!(Halts::of(&records(growing)).fault().is_none(), "later and later");
        let mut one_thread = records(|t| t);
        for r in one_thread.iter_mut().filter(|r| r.id % 2 == 0 && (300..500).contains(&r.id)) {
            r.sent = Some(Nanos::from(ms(5000)));
        }
        assert!(Halts::of(&one_thread).fault().is_none(), "another thread went on");
        assert!(Halts::of(&records(|t| t)).fault().is_none() && Halts::of(&[]).fault().is_none());
        let mut met = records(|t| if (3000..3150).contains(&t.as_millis()) { ms(3150) } else { t });
        assert!(Halts::of(&met).fault().is_some());
        met[250].end = Nanos::from(ms(3080));
        assert!(Halts::of(&met).fault().is_none(), "it came to an answer in the middle");
        let short = |t: Duration| if (3000..3090).contains(&t.as_millis()) { ms(3090) } else { t };
        assert!(Halts::of(&records(short)).fault().is_none(), "not for long");
    }
}
