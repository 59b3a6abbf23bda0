//! Development cases whose requests consist of items: an embedder and a reranker.

use super::{Case, Engine, Group, TruthLine};
use goodput::slo::Metric::E2e;

/// Found by `accuracy truths` with 300,000 requests.
const TRUTHS: &[TruthLine] = &[
    ("embedder", [17.49526, 0.557, 4.246, 4.40, 48.067, 0.0000]),
    ("reranker", [6.92840, 0.496, 6.272, 7.09, 12.897, 0.0000]),
];

pub(super) fn items() -> Vec<Case> {
    let bge = |name: &str, items: &str| Case {
        items: Some(items.into()),
        group: Group::Items,
        ..Case::new(name, Engine::Preset("l4-bge-large"))
    };
    let texts = "input-tokens = { lognormal = { mean = 200, cv = 0.5, max = 500 } }";
    let all = [
        bge("embedder", &format!("{{ {texts}, count = {{ fixed = 8 }} }}")).limit(E2e, 100.0),
        bge("reranker", &format!("{{ {texts}, count = {{ uniform = {{ min = 10, max = 50 }} }} }}"))
            .limit(E2e, 500.0),
    ];
    all.into_iter().map(|case| case.with(TRUTHS)).collect()
}
