//! `latency`: measures the latency of single requests and at low concurrency.

use super::offline::{measure, quoted};
use crate::cli::LatencyArgs;
use anyhow::Result;
use std::process::ExitCode;

/// Measured window with `--requests`, which extends it.
const MIN_WINDOW: &str = "5s";
/// Measured window without `--requests` and `--duration`.
const DEFAULT_WINDOW: &str = "30s";

/// Measures a closed loop at each concurrency and prints the latencies.
pub(crate) fn latency(args: &LatencyArgs) -> Result<ExitCode> {
    let mut levels: Vec<u32> = args.concurrency.iter().map(|n| n.get()).collect();
    levels.sort_unstable();
    levels.dedup();
    let default = if args.requests.is_some() { MIN_WINDOW } else { DEFAULT_WINDOW };
    let window = args.duration.map_or_else(|| default.to_owned(), |d| d.to_string());
    let mut sets = vec![
        format!("search.concurrency={levels:?}"),
        quoted("step.measure", &window),
        format!("step.max-in-flight={}", levels.iter().max().copied().unwrap_or(1).max(4096)),
    ];
    if let Some(n) = args.requests {
        sets.push(format!("step.min-requests={n}"));
        // The default max-duration of 10 min would contradict a longer window.
        let longer = args.duration.filter(|d| d.0.as_secs() > 600);
        sets.extend(longer.map(|d| quoted("step.max-duration", &d.to_string())));
    }
    measure("latency", &sets, &args.common)
}
