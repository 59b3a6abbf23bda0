//! Development cases of conversations: levels are sessions per second, and the capacity of a server depends on the
//! contents of its prefix cache.

use super::engines::Gpu;
use super::{Case, Engine, Group, TruthLine};
use goodput::slo::Metric::{Tpot, Ttft};

/// Found by `accuracy truths`: the middle of the bracket of long runs, and half its width.
const TRUTHS: &[TruthLine] = &[
    ("conversation", [13.22557, 0.899, f64::INFINITY, 1.00, 8.739, 0.0000]),
    ("talk-8b", [3.10795, 0.899, f64::INFINITY, 1.00, 3.523, 0.0000]),
];

fn talk(name: &str, engine: Engine, turns: &str) -> Case {
    let case = Case::new(name, engine).group(Group::Talk);
    Case { conversation: Some(turns.into()), ..case }
}

pub(super) fn talks() -> Vec<Case> {
    let small = Gpu { kv_tokens: 60_000, ..Gpu::B8 };
    vec![
        // The shipped plan `conversation`: a small model on an A40, whose cache thrashes before any other limit is
        // reached.
        talk(
            "conversation",
            Engine::Preset("a40-qwen3-0.6b"),
            "turns = { fixed = 5 }\ninput-tokens = { fixed = 60 }\nthink = { exponential = \"4s\" }",
        )
        .tokens("{ fixed = 400 }", "{ fixed = 60 }")
        .limit(Ttft, 150.0),
        talk(
            "talk-8b",
            small.with_cache(true),
            "turns = { uniform = { min = 2, max = 8 } }\ninput-tokens = { fixed = 80 }\nthink = { exponential = \"6s\" }",
        )
        .tokens("{ lognormal = { mean = 600, cv = 0.6, max = 4000 } }", "{ lognormal = { mean = 90, cv = 0.6, max = 500 } }")
        .limit(Ttft, 500.0)
        .limit(Tpot, 40.0),
    ]
    .into_iter()
    .map(|case| case.with(TRUTHS))
    .collect()
}
