//! How many requests would decide what too few left open.

use super::step::Verdict;
use super::verdict::{Counts, foreseen};

/// More requests than this are no advice: the share of misses is as good as the one that is allowed.
const MOST: f64 = 1e8;

/// How many more requests would decide an undecided limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needed {
    /// Further requests that would show that the limit is met, if none of them missed it; `None` where it allows no miss, or all.
    pub without_a_miss: Option<u64>,
    /// Further requests that would decide it, if as large a share of them missed it as so far, with what they would show; `None` where that
    /// share is too near the allowed one, and without a miss.
    pub at_this_share: Option<(u64, Verdict)>,
}

/// Reckons how many more requests would decide counts that [`super::verdict::judge`] leaves undecided: the least n for which
/// P(Bin(n/inflation, p0) ≤ k/inflation) ≤ `error`, or for which P(Bin ≥ k) < `error`, by bisection. Requests that were cut off count as
/// misses where the limit may be met, and as hits where it may fail, as they do in the verdict.
pub fn needed(counts: Counts, p0: f64, error: f64, inflation: f64) -> Needed {
    if counts.n == 0 || p0 <= 0.0 || p0 >= 1.0 {
        return Needed::default();
    }
    let inflation = inflation.max(1.0);
    let n = counts.n as f64;
    let possible = (counts.misses + counts.censored).min(counts.n) as f64;
    let shows = |misses: f64, of: f64| foreseen(misses, of, p0, error, inflation);
    let more = |to: f64| (to - n).ceil().max(1.0) as u64;
    let without = least(n, |of| shows(possible, of) == Verdict::Meets).map(more);
    let share = |misses: f64| misses / n;
    let (sure, most) = (share(counts.misses as f64), share(possible));
    let at_this_share = match () {
        () if possible <= 0.0 => None,
        () if most < p0 => {
            least(n, |of| shows(most * of, of) == Verdict::Meets).map(|to| (more(to), Verdict::Meets))
        }
        () if sure > p0 => {
            least(n, |of| shows(sure * of, of) == Verdict::Fails).map(|to| (more(to), Verdict::Fails))
        }
        () => None,
    };
    Needed { without_a_miss: without, at_this_share }
}

/// The least number from `n` on for which something holds that holds for all larger ones; `None` where it takes more than [`MOST`].
fn least(n: f64, holds: impl Fn(f64) -> bool) -> Option<f64> {
    let mut high = n;
    while !holds(high) {
        if high > MOST {
            return None;
        }
        high *= 2.0;
    }
    let mut low = 0.5 * high;
    if high <= n {
        return Some(n);
    }
    while high - low > 0.5 {
        let middle = 0.5 * (low + high);
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::verdict::judge;

    /// Rows: misses, requests, cut off, what is allowed, inflation; further requests without a miss, and at this share.
    #[test]
    fn what_would_do_is_what_the_verdict_asks_for() {
        use Verdict::{Fails, Meets};
        for (misses, n, censored, p0, inflation, without, at_share) in [
            // ln .05 / ln .99: 299 independent requests without a miss, 473 with one.
            (0, 1, 0, 0.01, 1.0, Some(298), None),
            (0, 150, 0, 0.01, 1.0, Some(149), None),
            (1, 299, 0, 0.01, 1.0, Some(174), Some((358, Meets))),
            // One cut off is one miss.
            (0, 299, 1, 0.01, 1.0, Some(174), Some((358, Meets))),
            // 16 requests are worth one: 4,770.
            (0, 1335, 0, 0.01, 16.0, Some(3435), None),
            (1, 1335, 0, 0.01, 16.0, Some(3626), Some((4210, Meets))),
            (12, 1000, 0, 0.01, 1.0, Some(941), Some((6444, Fails))),
            // Just what is allowed: no number decides it.
            (10, 1000, 0, 0.01, 1.0, Some(693), None),
            (1, 30, 0, 0.01, 1.0, Some(443), Some((71, Fails))),
            (0, 10, 0, 0.0, 1.0, None, None),
            (0, 0, 0, 0.01, 1.0, None, None),
        ] {
            let counts = Counts { n, misses, censored };
            let got = needed(counts, p0, 0.05, inflation);
            let want = Needed { without_a_miss: without, at_this_share: at_share };
            assert_eq!(got, want, "{misses} + {censored} of {n} at {p0}, inflation {inflation}");
            // With so many more the verdict is there; with one less it is not.
            if let Some(more) = without {
                let with = |more: u64| judge(Counts { n: n + more, ..counts }, p0, 0.05, inflation).verdict;
                assert_eq!((with(more), with(more - 1)), (Meets, Verdict::Undecided), "{counts:?}");
            }
        }
    }
}
