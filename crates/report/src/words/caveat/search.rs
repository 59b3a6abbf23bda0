//! The words of caveats on the search and on how sure its answer is.

use super::{CaveatWords, Context};
use crate::words::binding;
use goodput_core::caveat::SearchCaveat;
use goodput_core::level::Control;
use goodput_core::units::{Percentile, short};

pub(super) fn words(caveat: &SearchCaveat, context: Context) -> CaveatWords {
    // The adaptive search is controlled by a budget, a list by its levels and step durations.
    let advice = |adaptive, listed| if context.adaptive { adaptive } else { listed };
    match caveat {
        SearchCaveat::InflationAssumed { inflation, limit, pooled } => CaveatWords::new(
            inflated(*inflation, limit, *pooled),
            advice(
                "More time (--budget) decides more levels; the assumption is cautious.",
                "Longer steps (step.measure, step.min-requests) decide more levels; the assumption is cautious.",
            ),
        ),
        SearchCaveat::BracketOnly => CaveatWords::new(
            "The answer is a bracket between two measured levels, without a confidence interval and without a safe rate.",
            advice(
                "More time narrows it (--budget), down to search.adaptive.width where that is set.",
                "More levels between its two ends narrow it (search.rates, search.concurrency).",
            ),
        ),
        SearchCaveat::WideBracket { tier, control, factor } => CaveatWords::new(
            wide(tier.as_deref(), *control, *factor),
            advice(
                "Give it more time (--budget).",
                "Measure levels between its two ends (search.rates, search.concurrency), or let the search choose them (search.adaptive, --budget).",
            ),
        ),
        SearchCaveat::FewRequests { steps, refine, percentile, least } => CaveatWords::new(
            few(*steps, *refine, *percentile, *least),
            advice("Give it more time (--budget).", "Use longer steps (step.measure, step.min-requests)."),
        ),
        SearchCaveat::ClosedLoop => CaveatWords::new(
            "A closed loop hides the queue that independent arrivals build: on ordinary servers its answer is 1.1–2.4 times the rate that the server takes from Poisson arrivals.",
            "Before promising a rate to independent users, measure it: search.rates or search.ramp.",
        ),
    }
}

fn inflated(assumed: f64, limit: &str, pooled: f64) -> String {
    let assumed = short(assumed);
    if short(pooled.round()) == assumed {
        return format!(
            "Misses cluster, so {assumed} requests count as one independent request (an assumption: the sweep saw too few misses to measure it)."
        );
    }
    format!(
        "Misses cluster, so several requests count as one independent request: {assumed} was assumed at first, and {} was measured for {}.",
        short(pooled),
        binding(limit)
    )
}

fn wide(tier: Option<&str>, control: Control, factor: f64) -> String {
    let what = match control {
        Control::Rate | Control::Sessions => "rate",
        Control::Concurrency => "number in flight",
        Control::TraceScale => "speed",
    };
    format!(
        "The bracket{} is wide: the level that fails is {} times the {what} that meets, and nothing between them is decided.",
        tier.map(|t| format!(" of {t}")).unwrap_or_default(),
        short(factor)
    )
}

fn few(steps: u32, refine: Option<u32>, percentile: Percentile, least: u64) -> String {
    let of = match (refine, steps) {
        (Some(all), 1) => format!("1 of {all} refinement steps has"),
        (Some(all), n) => format!("{n} of {all} refinement steps have"),
        (None, 1) => "1 step has".into(),
        (None, n) => format!("{n} steps have"),
    };
    format!(
        "{of} too few requests for an upper bound of the {percentile} (fewer than {least} independent requests)."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assumption_says_what_it_came_to() {
        let text = |pooled| inflated(16.0, "ttft.p99.9", pooled);
        assert!(text(15.8).contains("so 16 requests count as one independent request (an assumption"));
        assert!(text(6.93).ends_with("16 was assumed at first, and 6.93 was measured for p99.9 TTFT."));
    }

    #[test]
    fn advice_names_keys_that_the_search_uses() {
        let all = [
            SearchCaveat::BracketOnly,
            SearchCaveat::WideBracket { tier: None, control: Control::Rate, factor: 3.6 },
            SearchCaveat::FewRequests { steps: 1, refine: Some(5), percentile: Percentile::P99, least: 368 },
            SearchCaveat::InflationAssumed { inflation: 16.0, limit: "e2e.p95".into(), pooled: 4.0 },
        ];
        for c in all {
            let advice = |adaptive| words(&c, Context { adaptive, imported: false }).advice;
            let (chosen, listed) = (advice(true), advice(false));
            assert!(chosen.contains("--budget") && !chosen.contains("step."), "{chosen}");
            assert!(listed.contains("step.") || listed.contains("search.rates"), "{listed}");
        }
    }
}
