//! Why a run has no forecast, and what its forecast assumed, in English.

use crate::words::{level_number, list};
use goodput_core::units::{short, thousands};
use goodput_stats::diagnosis::{Assumed, NoForecast};

/// Returns why no gain is foreseen, as a sentence.
pub(crate) fn without_forecast(reason: &NoForecast) -> String {
    format!("No gains are foreseen: {}.", why(reason))
}

fn why(reason: &NoForecast) -> String {
    match *reason {
        NoForecast::ClosedLoop => {
            "the load is a number of requests in flight, and the model of the server takes a rate (search.rates, or search.adaptive)"
                .into()
        }
        NoForecast::Conversations => "the load is conversations, and the model of the server takes single requests".into(),
        NoForecast::TraceSpeed => "the load is the speed of a trace, and the model of the server takes a rate".into(),
        NoForecast::Items => {
            "answers come in one piece, and the model of the server is fitted to first tokens and paces".into()
        }
        NoForecast::Images => "prompts have images, and only the server knows how many tokens these are".into(),
        NoForecast::NothingMissed => "no limit was missed".into(),
        NoForecast::InvalidAnswer => "the client was the limit".into(),
        NoForecast::NoEstimate => "the answer has no estimate of the goodput that a model could be held against".into(),
        NoForecast::Queue => "the simulated server is a queue, which has no settings of an engine".into(),
        NoForecast::RequestsUnknown => "its requests cannot be drawn again without their text".into(),
        NoForecast::KvCacheUnknown { most_used } => format!(
            "the size of the KV cache is not known, and up to {:.0} % of it was in use",
            100.0 * most_used
        ),
        NoForecast::FewUnloaded { requests: 0, .. } => {
            "no step had one request at a time (search.baseline = true)".into()
        }
        NoForecast::FewUnloaded { requests, least } => format!(
            "the longest step with one request at a time had {requests} of at least {least} requests (a larger search.adaptive.budget or step.measure lengthens it)"
        ),
        NoForecast::UnloadedIncomplete => {
            "the step with one request at a time lacks a TTFT, or the tokens of its requests".into()
        }
        NoForecast::Latencies { deviation, allowed } => format!(
            "the latencies of the best model differ from the measured ones by a factor of {} on average, and at most {} is believed",
            short(deviation.exp()),
            short(allowed.exp())
        ),
        NoForecast::Goodput { model, low, high } => format!(
            "the goodput of the model, {} req/s, is not near the measured one ({} to {} req/s)",
            level_number(model),
            level_number(low),
            level_number(high)
        ),
    }
}

/// Returns the settings that a forecast assumed, as a sentence; `None` if all were known.
pub(crate) fn assumed(assumed: &Assumed) -> Option<String> {
    let sequences = assumed.sequences.map(|n| format!("{} sequences at a time", thousands(n.into())));
    let tokens = assumed.tokens.map(|n| format!("{} tokens in an iteration", thousands(n.into())));
    let all: Vec<String> = sequences.into_iter().chain(tokens).collect();
    (!all.is_empty()).then(|| {
        format!(
            "The gains that are foreseen assume {}, vLLM's defaults: the server's own limits are not known.",
            list(&all)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_numbers() {
        for (reason, says) in [
            (
                NoForecast::FewUnloaded { requests: 3, least: 6 },
                "had 3 of at least 6 requests (a larger search.adaptive.budget or step.measure lengthens it).",
            ),
            (NoForecast::Items, "is fitted to first tokens and paces."),
            (NoForecast::Images, "only the server knows how many tokens these are."),
            (NoForecast::FewUnloaded { requests: 0, least: 6 }, "(search.baseline = true)."),
            (
                NoForecast::Latencies { deviation: 0.5, allowed: 0.25 },
                "by a factor of 1.65 on average, and at most 1.28 is believed.",
            ),
            (
                NoForecast::Goodput { model: 0.54, low: 0.9, high: 2.2 },
                "of the model, 0.54 req/s, is not near the measured one (0.9 to 2.2 req/s).",
            ),
            (NoForecast::KvCacheUnknown { most_used: 0.92 }, "up to 92 % of it was in use."),
        ] {
            let said = without_forecast(&reason);
            assert!(said.starts_with("No gains are foreseen: ") && said.ends_with(says), "{said}");
        }
    }

    #[test]
    fn assumed_settings_are_named() {
        let said = |sequences, tokens| assumed(&Assumed { sequences, tokens });
        assert_eq!(said(None, None), None);
        assert_eq!(
            said(Some(256), Some(8192)).unwrap(),
            "The gains that are foreseen assume 256 sequences at a time and 8,192 tokens in an iteration, vLLM's defaults: the server's own limits are not known."
        );
    }
}
