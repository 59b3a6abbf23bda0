//! `latency`: how fast is a single request, without contention and beside a few others?

use super::offline::{measure, quoted};
use crate::cli::LatencyArgs;
use anyhow::Result;
use std::process::ExitCode;

/// A window that `--requests` extends.
const SHORT: &str = "5s";
/// How long a level is measured where nobody says.
const USUAL: &str = "30s";

/// Measures a closed loop at each of the levels, and prints how fast it was.
pub(crate) fn latency(args: &LatencyArgs) -> Result<ExitCode> {
    let mut levels: Vec<u32> = args.concurrency.iter().map(|n| n.get()).collect();
    levels.sort_unstable();
    levels.dedup();
    let usual = if args.requests.is_some() { SHORT } else { USUAL };
    let window = args.duration.map_or_else(|| usual.to_owned(), |d| d.to_string());
    let mut sets = vec![
        format!("search.concurrency={levels:?}"),
        quoted("step.measure", &window),
        format!("step.max-in-flight={}", levels.iter().max().copied().unwrap_or(1).max(4096)),
    ];
    if let Some(n) = args.requests {
        sets.push(format!("step.min-requests={n}"));
        // A longer window than the most would contradict it.
        let most = args.duration.filter(|d| d.0.as_secs() > 600);
        sets.extend(most.map(|d| quoted("step.max-duration", &d.to_string())));
    }
    measure("latency", &sets, &args.common)
}
