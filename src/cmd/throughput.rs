//! `throughput`: how much does the server complete at the most, however long it takes?

use super::offline::{measure, quoted};
use crate::cli::ThroughputArgs;
use crate::units::Span;
use anyhow::Result;
use std::process::ExitCode;

/// How long a number in flight is measured where nobody says.
const USUAL: Span = Span::secs(30);
/// How long everything at once may take where nobody says.
const LONGEST: Span = Span::secs(600);

/// Measures the ceiling, by a ladder or by everything at once, and prints it.
pub(crate) fn throughput(args: &ThroughputArgs) -> Result<ExitCode> {
    let most = args.all.unwrap_or(args.max_concurrency).get();
    let mut sets = vec![format!("step.max-in-flight={}", most.max(4096))];
    match args.all {
        Some(n) => {
            let longest = args.duration.unwrap_or(LONGEST);
            sets.push(format!("search.burst={n}"));
            sets.push(quoted("step.max-duration", &longest.to_string()));
        }
        None => {
            sets.push(format!("search.ladder.max={most}"));
            sets.push(quoted("step.measure", &args.duration.unwrap_or(USUAL).to_string()));
        }
    }
    measure("throughput", &sets, &args.common)
}
