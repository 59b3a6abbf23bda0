//! A load for tests. The unit tests and the simulation both include this file.

use goodput_core::level::Level;
use goodput_load::client::encoder::Pinning;
use goodput_load::load::spec::{Selection, Spec, StepSpec, Terms};
use goodput_plan::{Plan, Timeout};
use goodput_workload::draw::StepKey;
use goodput_workload::part::StepPart;
use goodput_workload::rate::WordRate;
use std::sync::Arc;
use std::time::Duration;

/// Returns one step of a small plan, with a window of that length.
pub(crate) fn spec(measure: Duration) -> Spec {
    let plan = Plan::from_text(
        "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1]\n\
         [workload]\nprompts.synthetic = { input-tokens.fixed = 9, output-tokens.fixed = 3 }",
    );
    let key = StepKey { seed: 5, series: "main".into(), step: 3 };
    let step = StepSpec {
        prompts: key.clone(),
        arrivals: key,
        in_series: 3,
        selection: Selection::All,
        hurried: false,
        surge: None,
        pace: None,
        phase: None,
        settle: Duration::ZERO,
        measure,
        timeout: Timeout { after: Duration::from_secs(60), is_error: false },
    };
    let terms = Terms {
        model: "m".into(),
        pinning: Pinning::FULL,
        usage: true,
        words: WordRate::UNKNOWN.into(),
        resumed: 0,
        keep_text: false,
    };
    let plan = Arc::new(plan.expect("the plan is one"));
    Spec { plan, terms, step, level: Level::rate(1.0), part: StepPart::WHOLE }
}
