//! How many more requests would decide an undecided limit.

use super::step::Verdict;
use super::verdict::{Counts, expected_verdict};

/// Upper end of the search, in requests. A larger answer is no advice: the observed share of misses equals the allowed one.
const MAX_REQUESTS: f64 = 1e8;

/// How many more requests would decide an undecided limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needed {
    /// Further requests that would show that the limit is met if none of them missed it; `None` if the limit allows no miss, or
    /// all.
    pub without_a_miss: Option<u64>,
    /// Further requests that would decide the limit if the share of misses stayed as it is, with the verdict they would give;
    /// `None` if that share is too close to the allowed one, or if nothing has missed.
    pub at_this_share: Option<(u64, Verdict)>,
}

/// Returns how many more requests would decide counts that [`super::verdict::judge`] leaves undecided: the least n for which
/// P(Bin(n/inflation, p0) ≤ k/inflation) ≤ `error`, or for which P(Bin ≥ k) < `error`, by bisection.
///
/// As in the verdict, requests that were cut off count as misses where the limit may be met, and as hits where it may fail.
pub fn needed(counts: Counts, p0: f64, error: f64, inflation: f64) -> Needed {
    if counts.n == 0 || p0 <= 0.0 || p0 >= 1.0 {
        return Needed::default();
    }
    let inflation = inflation.max(1.0);
    let n = counts.n as f64;
    let possible = (counts.misses + counts.censored).min(counts.n) as f64;
    let shows = |misses: f64, of: f64| expected_verdict(misses, of, p0, error, inflation);
    let more = |to: f64| (to - n).ceil().max(1.0) as u64;
    let without = least_satisfying(n, |of| shows(possible, of) == Verdict::Meets).map(more);
    let share = |misses: f64| misses / n;
    let (sure, most) = (share(counts.misses as f64), share(possible));
    let at_this_share = match () {
        () if possible <= 0.0 => None,
        () if most < p0 => least_satisfying(n, |of| shows(most * of, of) == Verdict::Meets)
            .map(|to| (more(to), Verdict::Meets)),
        () if sure > p0 => least_satisfying(n, |of| shows(sure * of, of) == Verdict::Fails)
            .map(|to| (more(to), Verdict::Fails)),
        () => None,
    };
    Needed { without_a_miss: without, at_this_share }
}

/// Returns the least number from `n` on that satisfies a monotone predicate; `None` if it exceeds [`MAX_REQUESTS`].
fn least_satisfying(n: f64, satisfied: impl Fn(f64) -> bool) -> Option<f64> {
    let mut high = n;
    while !satisfied(high) {
        if high > MAX_REQUESTS {
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
        if satisfied(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::verdict::judge;

    /// Rows: misses, requests, cut off, allowed share, inflation; further requests without a miss, and at the observed share.
    #[test]
    fn needed_requests_are_the_least_that_decide_the_verdict() {
        use Verdict::{Fails, Meets};
        for (misses, n, censored, p0, inflation, without, at_share) in [
            // ln .05 / ln .99: 299 independent requests without a miss, 473 with one.
            (0, 1, 0, 0.01, 1.0, Some(298), None),
            (0, 150, 0, 0.01, 1.0, Some(149), None),
            (1, 299, 0, 0.01, 1.0, Some(174), Some((358, Meets))),
            // One request cut off counts as one miss.
            (0, 299, 1, 0.01, 1.0, Some(174), Some((358, Meets))),
            // 16 requests count as one independent request: 4,770.
            (0, 1335, 0, 0.01, 16.0, Some(3435), None),
            (1, 1335, 0, 0.01, 16.0, Some(3626), Some((4210, Meets))),
            (12, 1000, 0, 0.01, 1.0, Some(941), Some((6444, Fails))),
            // Exactly the allowed share: no number of requests decides it.
            (10, 1000, 0, 0.01, 1.0, Some(693), None),
            (1, 30, 0, 0.01, 1.0, Some(443), Some((71, Fails))),
            (0, 10, 0, 0.0, 1.0, None, None),
            (0, 0, 0, 0.01, 1.0, None, None),
        ] {
            let counts = Counts { n, misses, censored };
            let got = needed(counts, p0, 0.05, inflation);
            let want = Needed { without_a_miss: without, at_this_share: at_share };
            assert_eq!(got, want, "{misses} + {censored} of {n} at {p0}, inflation {inflation}");
            // With that many more the verdict is there; with one less it is not.
            if let Some(more) = without {
                let with = |more: u64| judge(Counts { n: n + more, ..counts }, p0, 0.05, inflation).verdict;
                assert_eq!((with(more), with(more - 1)), (Meets, Verdict::Undecided), "{counts:?}");
            }
        }
    }
}
