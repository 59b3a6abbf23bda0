//! Facts that the search takes from a single step.

use super::reason::StepEvidence;
use crate::stats::step::{Abort, Step, Verdict};
use crate::stats::summary::{ERRORS, blamed, worst};
use goodput_core::level::Control;
use goodput_core::slo::Slo;

/// Returns true if the step was stopped or spoilt for a reason unrelated to its load, and must be measured again.
pub(super) fn interrupted(step: &Step) -> bool {
    step.is_void()
}

/// A server with fewer requests in flight than this counts as empty.
const EMPTY: f64 = 2.0;

/// Returns true if the failure of this step is due to the server itself and not to too much load, so that lower levels
/// would fail as well.
///
/// Open loop: the step ran to its end with a stable backlog, or the server was almost empty (mean in flight below 2)
/// and its backlog is not shown to grow. Closed loop: one request in flight. If every request of a step failed, any
/// level would fail.
pub(super) fn inherent(step: &Step) -> bool {
    let unloaded = match step.level.control {
        // A server that refuses a load refuses it at once, and may accept a lower one: a rate limit before the server.
        _ if step.abort == Some(Abort::Errors) => false,
        Control::Concurrency => step.level.value <= 1.0,
        _ => match step.stable {
            Some(false) => false,
            Some(true) if step.abort.is_none() => true,
            _ => step.in_flight_mean < EMPTY,
        },
    };
    unloaded || step.all_failed()
}

/// Returns the combination of all limits of a tier, as one limit.
pub(super) fn joint(slo: &Slo) -> [(String, f64); 1] {
    [("joint".to_owned(), (1.0 - slo.joint_target()).max(0.0))]
}

/// Returns the verdict on all limits of a tier combined, including stability.
pub(super) fn joint_verdict(step: &Step, tier: &str) -> (Verdict, Option<String>) {
    let of = |limit: &str| step.row(tier, limit);
    let Some(joint) = of("joint") else { return (Verdict::Undecided, None) };
    let stability = of("stability").map_or(Verdict::Undecided, |r| r.verdict);
    let binding = if stability == Verdict::Fails { "stability" } else { "joint" };
    let verdict = worst([joint.verdict, stability].into_iter());
    let binding = (verdict != Verdict::Invalid).then(|| binding.to_owned());
    (verdict, blamed(binding, verdict, &step.limits, tier, |class| step.failed_of(class)))
}

/// Returns the evidence of a step for its verdict on a tier, given the limit that binds.
pub(crate) fn step_evidence(
    step: &Step,
    tier: &str,
    verdict: Verdict,
    binding: Option<&str>,
) -> StepEvidence {
    let row = binding.and_then(|limit| step.row(tier, limit));
    match (verdict, row) {
        (Verdict::Invalid, _) if step.server.restarted => StepEvidence::Restarted,
        (Verdict::Invalid, _) => StepEvidence::ClientLimit,
        _ if step.all_failed() => StepEvidence::AllFailed,
        _ if binding == Some(ERRORS) => StepEvidence::Failed { failed: step.failed, due: step.due_n },
        (Verdict::Fails, Some(row)) if row.limit == "stability" => StepEvidence::Unstable,
        (_, Some(row)) if row.limit == "stability" => StepEvidence::StabilityUnknown,
        (_, Some(row)) => StepEvidence::Misses { limit: row.key(), misses: row.misses, n: row.n },
        (_, None) => StepEvidence::NoCounts,
    }
}
