//! The goodput that a model of the server foresees, in English.

use crate::words::level_number;
use goodput_core::units::short;
use goodput_stats::diagnosis::{Altered, Change, Expected};

/// Returns the gain that is foreseen for an advice, as a sentence: `A model fitted to this run foresees 5.2 times the goodput
/// (5 → 26.1 req/s).` What was simulated is said where the advice does not name it.
pub(crate) fn expected(of: &Expected, advised: &Change) -> String {
    let what = match Altered::of(advised) {
        Some(
            altered @ (Altered::FasterCompute
            | Altered::FasterMemory
            | Altered::FasterHost
            | Altered::TwiceTheKvCache
            | Altered::HalfThePrompts
            | Altered::HalfTheAnswers),
        ) => format!(" {}", change(altered)),
        Some(
            Altered::FewerSequences(_)
            | Altered::MoreSequences(_)
            | Altered::FewerTokens(_)
            | Altered::MoreTokens(_)
            | Altered::PrefixCache
            | Altered::ChunkedPrefill,
        )
        | None => String::new(),
    };
    format!("A model fitted to this run foresees {}{what}.", gain(of))
}

/// Returns the gain under a change as a clause.
pub(super) fn foreseen(altered: Altered, of: &Expected) -> String {
    format!("a model of the server, fitted to this run, foresees {} {}", gain(of), change(altered))
}

fn gain(of: &Expected) -> String {
    let Expected { present, changed } = *of;
    if present <= 0.0 {
        return format!("a goodput of {} req/s", level_number(changed));
    }
    let factor = changed / present;
    let gain = if factor < 1.95 {
        format!("{:.0} % more goodput", 100.0 * (factor - 1.0))
    } else {
        format!("{} times the goodput", short(factor))
    };
    format!("{gain} (in the model {} → {} req/s)", level_number(present), level_number(changed))
}

fn change(altered: Altered) -> String {
    match altered {
        Altered::FewerSequences(n) | Altered::MoreSequences(n) => format!("with {n} sequences at a time"),
        Altered::FewerTokens(n) | Altered::MoreTokens(n) => format!("with {n} tokens in an iteration"),
        Altered::TwiceTheKvCache => "with twice the KV cache".into(),
        Altered::PrefixCache => "with the prefix cache on".into(),
        Altered::ChunkedPrefill => "with prompts read in chunks".into(),
        Altered::FasterCompute => "with compute twice as fast".into(),
        Altered::FasterMemory => "with memory twice as fast".into(),
        Altered::FasterHost => "with half the host's work per iteration".into(),
        Altered::HalfThePrompts => "with prompts half as long".into(),
        Altered::HalfTheAnswers => "with answers half as long".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::diagnosis::{BatchChange, DeploymentChange};

    #[test]
    fn a_gain_is_told_with_both_rates() {
        let of = Expected { present: 5.0, changed: 26.1 };
        let more = Change::from(BatchChange::AdmitMore);
        assert_eq!(
            expected(&of, &more),
            "A model fitted to this run foresees 5.22 times the goodput (in the model 5 → 26.1 req/s)."
        );
        let of = Expected { changed: 6.5, ..of };
        assert_eq!(
            expected(&of, &more),
            "A model fitted to this run foresees 30 % more goodput (in the model 5 → 6.5 req/s)."
        );
        assert_eq!(
            expected(&of, &DeploymentChange::FasterCompute.into()),
            "A model fitted to this run foresees 30 % more goodput (in the model 5 → 6.5 req/s) with compute twice as fast."
        );
        assert_eq!(
            foreseen(Altered::MoreSequences(64), &Expected { present: 0.0, ..of }),
            "a model of the server, fitted to this run, foresees a goodput of 6.5 req/s with 64 sequences at a time"
        );
    }
}
