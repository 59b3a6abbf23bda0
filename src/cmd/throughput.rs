//! `throughput`: measures the peak throughput of a server, ignoring latency.

use super::offline::{measure, quoted};
use crate::cli::ThroughputArgs;
use crate::units::Span;
use anyhow::Result;
use std::process::ExitCode;

/// Default measured window of each step.
const DEFAULT_WINDOW: Span = Span::secs(30);
/// Default time limit for a burst (`--all`).
const DEFAULT_BURST_LIMIT: Span = Span::secs(600);

/// Measures the peak throughput, with a ladder of concurrencies or one burst, and prints it.
pub(crate) fn throughput(args: &ThroughputArgs) -> Result<ExitCode> {
    let max_in_flight = args.all.unwrap_or(args.max_concurrency).get();
    let mut sets = vec![format!("step.max-in-flight={}", max_in_flight.max(4096))];
    match args.all {
        Some(n) => {
            let limit = args.duration.unwrap_or(DEFAULT_BURST_LIMIT);
            sets.push(format!("search.burst={n}"));
            sets.push(quoted("step.max-duration", &limit.to_string()));
        }
        None => {
            sets.push(format!("search.ladder.max={max_in_flight}"));
            sets.push(quoted("step.measure", &args.duration.unwrap_or(DEFAULT_WINDOW).to_string()));
        }
    }
    measure("throughput", &sets, &args.common)
}
