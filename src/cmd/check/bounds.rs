//! The deadline of a sweep and the disk space it needs.

use crate::plan::Plan;
use crate::sweep::{deadline, written};
use crate::units::{Span, bytes};
use serde::Serialize;
use std::time::Duration;

/// Bounds on the time and the disk space of a sweep.
#[derive(Debug, Serialize)]
pub(super) struct Bounds {
    /// Seconds from the start, or from a resume, until the sweep is stopped.
    deadline_s: f64,
    /// Bytes that the requests will take on disk; `None` if unknown.
    written_bytes: Option<u64>,
}

/// Returns the bounds of a plan.
pub(super) fn of(plan: &Plan) -> Bounds {
    Bounds { deadline_s: deadline(plan, None).after.as_secs_f64(), written_bytes: written(plan) }
}

/// Describes the bounds, as the last lines of `check`.
pub(super) fn text(plan: &Plan) -> String {
    let deadline = deadline(plan, None);
    let whole = Span(Duration::from_secs(deadline.after.as_secs()));
    let basis = if deadline.named { "search.deadline" } else { "calculated from the times above" };
    let disk = written(plan).map_or_else(String::new, |n| format!("\n  disk      about {}", bytes(n)));
    format!("\n  deadline  {whole} after the start, whatever the server does ({basis}){disk}")
}
