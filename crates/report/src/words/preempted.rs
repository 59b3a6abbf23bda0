//! The number of requests that a server preempted.

use goodput_stats::stats::step::Step;

/// Returns preemptions per finished request; above 1 if requests were preempted several times each.
pub(crate) fn preempted(s: &Step) -> Option<f64> {
    let seconds = s.server.seconds.unwrap_or(s.measure_s);
    let finished = s.server.finished.unwrap_or(s.achieved_rate * seconds);
    s.server.preemptions.map(|n| n / finished.max(1.0))
}
