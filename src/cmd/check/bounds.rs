//! When the sweep is ended at the latest, and how much it writes.

use crate::plan::Plan;
use crate::sweep::{deadline, written};
use crate::units::{Span, bytes};
use serde::Serialize;
use std::time::Duration;

/// The bounds of a sweep.
#[derive(Debug, Serialize)]
pub(super) struct Bounds {
    /// Seconds after its start, or after it was resumed, when it is ended.
    deadline_s: f64,
    /// Bytes that its requests will take on disk, where they are known.
    written_bytes: Option<u64>,
}

pub(super) fn of(plan: &Plan) -> Bounds {
    Bounds { deadline_s: deadline(plan, None).after.as_secs_f64(), written_bytes: written(plan) }
}

/// The lines on them, behind all others.
pub(super) fn words(plan: &Plan) -> String {
    let deadline = deadline(plan, None);
    let whole = Span(Duration::from_secs(deadline.after.as_secs()));
    let from = if deadline.named { "search.deadline" } else { "reckoned from the above" };
    let writes = written(plan).map_or_else(String::new, |n| format!("\n  writes    about {}", bytes(n)));
    format!("\n  deadline  {whole} after the start, whatever the server does ({from}){writes}")
}
