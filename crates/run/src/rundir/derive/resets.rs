//! The caveat on connections that closed or were reset under the measured requests.

use goodput_core::caveat::{AnswersCaveat, Caveat};
use goodput_stats::stats::step::Step;

/// Share of attempts above which resets are noted.
const NOTED: f64 = 0.005;

/// Returns the caveat if connections broke under more than 0.5 % of the attempts of all steps together. Retries may have hidden
/// them from the failures.
pub(super) fn resets(steps: &[Step]) -> Option<Caveat> {
    let sum = |of: fn(&Step) -> u64| steps.iter().map(of).sum::<u64>();
    let (resets, attempts, retried) = (sum(|s| s.resets), sum(|s| s.attempts), sum(|s| s.retried));
    let found = AnswersCaveat::Resets { resets, attempts, retried };
    (resets as f64 > NOTED * attempts as f64).then_some(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;

    /// Rows: resets and attempts of two steps, and whether they are noted. The share is that of both together.
    #[test]
    fn resets_are_noted_above_half_a_per_cent() {
        for (counts, noted) in [
            ([(6, 1_000), (0, 1_000)], false),
            ([(12, 1_000), (0, 1_000)], true),
            ([(5, 1_000), (5, 1_000)], false), // not above it
            ([(0, 1_000), (0, 0)], false),
            ([(0, 0), (0, 0)], false), // a folder of an earlier version
            ([(289, 2_760), (0, 0)], true),
        ] {
            let step =
                |(resets, attempts)| Step { resets, attempts, retried: 3, ..Step::blank(Level::rate(9.0)) };
            let (resets, attempts) = (counts[0].0 + counts[1].0, counts[0].1 + counts[1].1);
            let want = AnswersCaveat::Resets { resets, attempts, retried: 6 };
            assert_eq!(super::resets(&counts.map(step)), noted.then_some(want.into()), "{counts:?}");
        }
    }
}
