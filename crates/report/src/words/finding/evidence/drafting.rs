//! Speculative decoding in English.

use super::{percent, place, time};
use goodput_core::units::short;
use goodput_stats::diagnosis::DraftingFact;

/// Returns a fact about speculative decoding, as a clause without a full stop.
pub(super) fn drafting(fact: &DraftingFact) -> String {
    match fact {
        DraftingFact::Accepted { drafted, accepted, at } => format!(
            "of {} tokens that are drafted at a time {} are accepted ({}) {}",
            short(*drafted),
            short(*accepted),
            percent(accepted / drafted),
            place(at)
        ),
        DraftingFact::BreakEven { written, least } => format!(
            "an iteration writes {} tokens, and drafting is worth its time from about {} on",
            short(*written),
            short(*least)
        ),
        DraftingFact::Checking { added_ms, tpot_ms } => format!(
            "computing the drafted tokens adds {} to an iteration at the least, at a TPOT of {}",
            time(*added_ms),
            time(*tpot_ms)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;
    use goodput_stats::diagnosis::Place;

    #[test]
    fn drafts_are_told() {
        let at = Place { step: 4, level: Some(Level::rate(20.0)) };
        for (fact, says) in [
            (
                DraftingFact::Accepted { drafted: 5.0, accepted: 0.1, at },
                "of 5 tokens that are drafted at a time 0.1 are accepted (2 %) at 20 req/s (step 4)",
            ),
            (
                DraftingFact::BreakEven { written: 1.1, least: 1.25 },
                "an iteration writes 1.1 tokens, and drafting is worth its time from about 1.25 on",
            ),
            (
                DraftingFact::Checking { added_ms: 4.0, tpot_ms: 12.0 },
                "computing the drafted tokens adds 4 ms to an iteration at the least, at a TPOT of 12 ms",
            ),
        ] {
            assert_eq!(drafting(&fact), says);
        }
    }
}
