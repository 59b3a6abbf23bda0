//! The words of caveats on one of several replicas.

use super::CaveatWords;
use goodput_core::caveat::ReplicasCaveat;
use goodput_core::units::short;

/// Advice if one replica is worse than the others.
const WORST_REPLICA: &str = "Requests are dealt in turn, so the service can take no more than its worst replica: look at that one, or measure it alone (server.url).";

pub(super) fn words(caveat: &ReplicasCaveat) -> CaveatWords {
    match caveat {
        ReplicasCaveat::SlowReplica { url, metric, p99_ms, others_ms, step, steps, of } => CaveatWords::new(
            format!(
                "Replica {url} is slower than the others: in step {step} its p99 {} was {} ms, theirs {} ms{}.",
                metric.name(),
                short(*p99_ms),
                short(*others_ms),
                among(*steps, *of)
            ),
            WORST_REPLICA,
        ),
        ReplicasCaveat::FailingReplica { url, share, others, step, steps, of } => CaveatWords::new(
            format!(
                "Replica {url} fails more than the others: in step {step} {} % of its requests failed, of theirs {} %{}.",
                short(share * 100.0),
                short(others * 100.0),
                among(*steps, *of)
            ),
            WORST_REPLICA,
        ),
    }
}

/// Returns the number of steps in which a replica was worse; empty if there is only one step.
fn among(steps: u32, of: u32) -> String {
    if of > 1 { format!(" (as in {steps} of {of} steps)") } else { String::new() }
}
