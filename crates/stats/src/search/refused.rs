//! Requests that the server refused, 429 or 503 with `Retry-After`: a limit of requests, which says nothing of how fast a server is.
//!
//! Under load they are misses as others, since whoever sends that much is refused. That lower levels fail as well, or that the unloaded server
//! does, is not read off them.

use super::reason::Evidence;
use crate::stats::step::{LimitRow, Step};
use crate::stats::summary::ERRORS;
use goodput_core::slo::Metric;

/// Whether a step's failing, by the limit that decides it, is that the server refused requests.
pub(super) fn blames(step: &Step, binding: Option<&str>) -> bool {
    let failures = binding.is_some_and(|b| b == ERRORS || b.ends_with("error-rate"));
    step.mostly_refused() && (failures || step.all_failed())
}

/// Why an answer is open, where refusals are a reason: the first step that they stopped, or in which they were beyond this share.
pub(super) fn because(steps: &[&Step], share: f64) -> Option<Evidence> {
    let step = steps.iter().find(|s| s.refused_beyond(share))?;
    Some(Evidence::Refused { refused: step.refused, due: step.due_n, level: step.level })
}

/// Misses and told requests of a limit in a baseline, by the request, without those that were refused: they were never served. `None` where it
/// is not known how many of the row's misses are refusals: those of a class, which counts its own alone, and of gaps between tokens, of which
/// a request that was refused counts as many as were asked for.
pub(super) fn served(step: &Step, row: &LimitRow, (misses, n): (f64, f64)) -> Option<(f64, f64)> {
    if step.refused == 0 {
        return Some((misses, n));
    }
    if Metric::of_limit(&row.limit) == Some(Metric::Itl) || row.n != step.due_n {
        return None;
    }
    let refused = step.refused as f64;
    Some(((misses - refused).max(0.0), (n - refused).max(0.0)))
}

#[cfg(test)]
mod tests;
