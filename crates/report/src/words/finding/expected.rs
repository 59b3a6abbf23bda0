//! The goodput that a model of the server foresees, in English.

use crate::words::level_number;
use goodput_stats::diagnosis::{Altered, Expected};

/// Returns the gain that is foreseen for an advice, as a sentence: `In a model of this server: 5 → 26.1 req/s.`
pub(crate) fn expected(of: &Expected) -> String {
    format!("In a model of this server: {}.", rates(of))
}

/// Returns the gain under a change as a clause.
pub(super) fn foreseen(altered: Altered, of: &Expected) -> String {
    format!("in a model of this server, fitted to the run, {}: {}", change(altered), rates(of))
}

fn rates(of: &Expected) -> String {
    let rate = |rate: f64| if rate > 0.0 { level_number(rate) } else { "none".to_owned() };
    format!("{} → {} req/s", rate(of.present), rate(of.changed))
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_told_with_both_rates() {
        let of = Expected { present: 5.0, changed: 26.1 };
        assert_eq!(expected(&of), "In a model of this server: 5 → 26.1 req/s.");
        assert_eq!(
            foreseen(Altered::MoreSequences(64), &Expected { present: 0.0, ..of }),
            "in a model of this server, fitted to the run, with 64 sequences at a time: none → 26.1 req/s"
        );
    }
}
