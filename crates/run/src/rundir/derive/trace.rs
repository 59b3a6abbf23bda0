//! Coverage of a trace by the steps: a few requests sent repeatedly are no evidence for the whole trace.

use goodput_core::caveat::{Caveat, TraceCaveat};
use goodput_stats::stats::step::{Step, StepKind, TracePart};

/// Share of the trace's requests below which the answer covers only parts of it.
const LEAST: f64 = 0.5;
/// Number of repetitions of the trace in one step above which the same requests count too often.
const MOST: f64 = 2.0;

/// The part of a trace that the loaded steps of one series have sent, in requests with their own arrival time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// Number of distinct requests sent.
    pub sent: u64,
    /// Number of requests in the trace.
    pub of: u64,
    /// Number of requests sent, including repetitions.
    pub in_all: u64,
    /// Step that sent the most requests, and their number.
    most: (u32, u64),
}

/// Returns the coverage of one series; `None` if no trace was replayed, or if its length changed.
pub fn coverage<'a>(steps: impl Iterator<Item = &'a Step>) -> Option<Coverage> {
    let loaded = steps.filter(|s| s.kind != StepKind::Baseline);
    let parts: Vec<(u32, TracePart)> = loaded.filter_map(|s| Some((s.step, s.trace?))).collect();
    let of = parts.first()?.1.of;
    let (step, most) = parts.iter().max_by_key(|(_, p)| p.n)?;
    let alike = of > 0 && parts.iter().all(|(_, p)| p.of == of);
    alike.then(|| Coverage {
        sent: distinct(parts.iter().map(|(_, p)| *p), of),
        of,
        in_all: parts.iter().map(|(_, p)| p.n).sum(),
        most: (*step, most.n),
    })
}

/// Returns the number of distinct requests in parts of a trace; a part may wrap around to the beginning.
fn distinct(parts: impl Iterator<Item = TracePart>, of: u64) -> u64 {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for p in parts {
        let (from, to) = (p.from.min(of), p.from.min(of) + p.n.min(of));
        pieces.extend([(from, to.min(of)), (0, to.saturating_sub(of))]);
    }
    pieces.sort_unstable();
    let (mut sent, mut end) = (0, 0);
    for (from, to) in pieces {
        sent += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    sent
}

/// Returns the caveats on the coverage.
pub(super) fn replayed(steps: &[Step]) -> Vec<Caveat> {
    let Some(c) = coverage(steps.iter()) else { return Vec::new() };
    let part = (c.sent as f64) < LEAST * c.of as f64;
    let times = c.most.1 as f64 / c.of as f64;
    let part = part.then_some(Caveat::Trace(TraceCaveat::TracePart { sent: c.sent, of: c.of }));
    let again = (times > MOST).then_some(Caveat::Trace(TraceCaveat::TraceRepeated {
        step: c.most.0,
        times,
        of: c.of,
    }));
    part.into_iter().chain(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Rows: parts of a trace of 100 requests (first, number), distinct requests sent, and the caveats.
    #[test]
    fn requests_sent_again_are_not_counted_again() {
        let part = Caveat::Trace(TraceCaveat::TracePart { sent: 40, of: 100 });
        let again = |step, times| Caveat::Trace(TraceCaveat::TraceRepeated { step, times, of: 100 });
        type Row<'a> = (&'a [(u64, u64)], u64, Vec<Caveat>);
        let rows: [Row<'_>; 6] = [
            (&[(0, 40), (0, 40), (0, 40)], 40, vec![part.clone()]), // every step at the beginning
            (&[(0, 20), (90, 20), (10, 20)], 40, vec![part]),       // one runs on at the beginning
            (&[(0, 40), (60, 40)], 80, vec![]),
            (&[(70, 100)], 100, vec![]),
            (&[(70, 150), (3, 250)], 100, vec![again(2, 2.5)]),
            (&[(5, 0)], 0, vec![Caveat::Trace(TraceCaveat::TracePart { sent: 0, of: 100 })]),
        ];
        for (parts, sent, said) in rows {
            let mut steps = fixture::found().steps;
            steps.truncate(parts.len());
            for (step, (from, n)) in steps.iter_mut().zip(parts) {
                step.trace = Some(TracePart { from: *from, n: *n, of: 100 });
            }
            let c = coverage(steps.iter()).unwrap();
            assert_eq!((c.sent, c.in_all), (sent, parts.iter().map(|p| p.1).sum()), "{parts:?}");
            assert_eq!(replayed(&steps), said, "{parts:?}");
            steps[0].kind = StepKind::Baseline;
            assert_eq!(
                coverage(steps.iter()).is_none(),
                parts.len() == 1,
                "one request at a time is no load"
            );
        }
        assert_eq!(replayed(&fixture::found().steps), []);
    }
}
