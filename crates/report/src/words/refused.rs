//! An answer that is open because the server refused requests, in words.

use super::names::steps_of;
use super::units::thousands;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{Step, StepKind};

/// Minimum share of refused requests in a step to be mentioned in its answer: the share that plans tolerate by default.
const LEAST_SHARE: f64 = 0.1;

/// Returns the first step of an open answer in which the server refused requests, the unloaded step included: `343 of
/// 643 requests at 30 requests/s`.
pub(super) fn refused(run: &Run, a: &Answer) -> Option<String> {
    let unloaded = run.steps.iter().filter(|s| s.series == a.series && s.kind == StepKind::Baseline);
    let step: &Step = unloaded.chain(steps_of(run, a)).find(|s| s.refused_beyond(LEAST_SHARE))?;
    let (refused, of) = (thousands(step.refused as f64), thousands(step.due_n as f64));
    (a.goodput.status() == Status::Undecided)
        .then(|| format!("the server refused {refused} of {of} requests at {} (429 or 503)", step.level))
}
