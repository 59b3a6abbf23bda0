//! How many requests a server preempted.

use goodput_stats::stats::step::Step;

/// Returns preemptions by request that was finished; above 1 where requests were preempted several times each.
pub(crate) fn preempted(s: &Step) -> Option<f64> {
    let seconds = s.server.seconds.unwrap_or(s.measure_s);
    let finished = s.server.finished.unwrap_or(s.achieved_rate * seconds);
    s.server.preemptions.map(|n| n / finished.max(1.0))
}
