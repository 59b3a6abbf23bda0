//! Requests that the server refused, with 429, or 503 with `Retry-After`. They show a rate limit, not the speed of the
//! server.
//!
//! Under load they are misses like others, since any client that sends that much is refused. They do not show that
//! lower levels fail as well, or that the unloaded server does.

use super::reason::Evidence;
use crate::stats::step::{LimitRow, Step};
use crate::stats::summary::ERRORS;
use goodput_core::slo::Metric;

/// Returns true if a step fails because the server refused requests, judged by the limit that decides it.
pub(super) fn blames(step: &Step, binding: Option<&str>) -> bool {
    let failures = binding.is_some_and(|b| b == ERRORS || b.ends_with("error-rate"));
    step.mostly_refused() && (failures || step.all_failed())
}

/// Returns the first step that refusals stopped, or in which their share was above `share`, as the reason why an answer
/// is undecided.
pub(super) fn because(steps: &[&Step], share: f64) -> Option<Evidence> {
    let step = steps.iter().find(|s| s.refused_beyond(share))?;
    Some(Evidence::Refused { refused: step.refused, due: step.due_n, level: step.level })
}

/// Returns the misses and the counted requests of a limit in a baseline, in requests, without refused requests: they
/// were never served. `None` if the number of refusals among the row's misses is unknown. That is so for a class, which
/// counts only its requests, and for gaps between tokens, of which a refused request counts as many as were asked for.
pub(super) fn served(step: &Step, row: &LimitRow, (misses, n): (f64, f64)) -> Option<(f64, f64)> {
    if step.refused == 0 {
        return Some((misses, n));
    }
    if Metric::of_limit(&row.limit).is_some_and(|m| !m.is_per_request()) || row.n != step.due_n {
        return None;
    }
    let refused = step.refused as f64;
    Some(((misses - refused).max(0.0), (n - refused).max(0.0)))
}

#[cfg(test)]
mod tests;
