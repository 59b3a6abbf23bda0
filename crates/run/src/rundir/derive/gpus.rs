//! Caveats on the metrics of GPUs.

use goodput_core::caveat::{Caveat, ServerCaveat};
use goodput_stats::stats::gpu::stale_sources;
use goodput_stats::stats::step::Step;
use std::collections::BTreeMap;

/// Returns a caveat for each page of GPU metrics that was not renewed during some steps.
pub(super) fn stale(steps: &[Step]) -> Vec<Caveat> {
    let mut by_source: BTreeMap<&str, u32> = BTreeMap::new();
    for source in steps.iter().flat_map(|s| stale_sources(&s.metrics)) {
        *by_source.entry(source).or_default() += 1;
    }
    let caveat = |(source, steps): (&str, u32)| {
        Caveat::Server(ServerCaveat::MetricsStale { source: source.to_owned(), steps })
    };
    by_source.into_iter().map(caveat).collect()
}
