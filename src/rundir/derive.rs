//! Caveats that follow from the steps and failures of a run.

use super::FailureRow;
use crate::caveat::Caveat;
use crate::client::config::Target;
use crate::plan::Plan;
use crate::slo::Metric;
use crate::stats::step::{Abort, Step};
use crate::stats::verdict::INFLATION;
use crate::units::ms;

/// Everything that the reader must know and that the files show.
pub(crate) fn caveats(plan: &Plan, steps: &[Step], failures: &[FailureRow]) -> Vec<Caveat> {
    let mut found = vec![Caveat::BracketOnly, Caveat::InflationAssumed { inflation: INFLATION }];
    if matches!(plan.server.target, Target::Simulated(_)) {
        found.push(Caveat::Simulated);
    }
    for step in steps {
        match step.abort {
            Some(Abort::Interrupted) => found.push(Caveat::Interrupted),
            Some(Abort::ServerGone) => found.push(Caveat::ServerGone { step: step.step }),
            Some(Abort::Gross | Abort::AllFailed) | None => {}
        }
    }
    found.extend(failed(steps, failures));
    found.extend(late(plan, steps));
    let short = steps
        .iter()
        .filter(|s| s.quantiles(Metric::Ttft).n > 0 && s.quantiles(Metric::Ttft).p99_high.is_none());
    let short = short.count() as u32;
    if short > 0 {
        found.push(Caveat::FewRequests { steps: short });
    }
    found
}

fn failed(steps: &[Step], failures: &[FailureRow]) -> Option<Caveat> {
    let (requests, of) = steps.iter().fold((0, 0), |(f, n), s| (f + s.failed, n + s.due_n));
    let kind = failures.iter().filter(|f| f.step > 0).max_by_key(|f| f.count)?.kind.clone();
    (requests > 0).then_some(Caveat::Failures { requests, of, kind })
}

fn late(plan: &Plan, steps: &[Step]) -> Vec<Caveat> {
    let tightest = plan
        .slo
        .as_slice()
        .iter()
        .flat_map(|slo| [Metric::Ttft, Metric::Ttfc, Metric::E2e].map(|m| slo.smallest(m)))
        .flatten()
        .min();
    let Some(limit_ms) = tightest.map(ms) else { return Vec::new() };
    steps
        .iter()
        .filter_map(|s| {
            let p99_ms = s.lateness_p99_ms.filter(|late| *late > 0.05 * limit_ms)?;
            Some(Caveat::Late { step: s.step, p99_ms, limit_ms })
        })
        .collect()
}
