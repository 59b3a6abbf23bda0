//! Development cases whose requests have items or files: an embedder, a reranker, a vision model, and a transcriber.

use super::{Case, Engine, Group, TruthLine};
use goodput::slo::Metric::{E2e, Tpot, Ttft};

/// Found by `accuracy truths` with 300,000 requests.
const TRUTHS: &[TruthLine] = &[
    ("embedder", [17.49526, 0.557, 4.246, 4.40, 48.067, 0.0000]),
    ("reranker", [6.92840, 0.496, 6.272, 7.09, 12.897, 0.0000]),
    ("vision", [27.97069, 0.266, 26.511, 38.79, 39.834, 0.0000]),
    ("transcriber", [8.34917, 0.196, 15.158, 7.78, 11.369, 0.0000]),
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
    let vision = Case {
        group: Group::Items,
        images: Some("{ count = { uniform = { min = 1, max = 2 } }, width = { fixed = 448 }, height = { uniform = { min = 224, max = 672 } } }".into()),
        ..Case::new("vision", Engine::Preset("a40-qwen3-0.6b"))
    };
    let vision = vision
        .tokens(
            "{ lognormal = { mean = 60, cv = 0.5, max = 300 } }",
            "{ lognormal = { mean = 60, cv = 0.5, max = 300 } }",
        )
        .limit(Ttft, 200.0)
        .limit(Tpot, 30.0);
    let transcriber = Case {
        group: Group::Items,
        audio: Some("{ seconds = { lognormal = { mean = 12, cv = 0.6, max = 30 } } }".into()),
        ..Case::new("transcriber", Engine::Preset("l4-whisper-large-v3"))
    };
    let transcriber = transcriber.limit(E2e, 4000.0);
    all.into_iter().chain([vision, transcriber]).map(|case| case.with(TRUTHS)).collect()
}
