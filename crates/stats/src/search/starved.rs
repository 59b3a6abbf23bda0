//! Steps in which no request saw its first token, or none is known to have met a limit.
//!
//! A ramp step is short, and the wait for its requests too. Where the SLO allows a first token to take longer than that, the
//! requests that are cut off with the step have missed nothing yet: by its limits the step shows nothing, however overloaded the
//! server is.

use crate::stats::step::{LimitRow, Step};
use goodput_core::slo::Metric;

/// Least number of requests of such a step: fewer may have come together by chance.
const FEW: u64 = 5;
/// Least number of them that missed a limit, where the others are not known.
const MISSES: u64 = 3;
/// Multiple of an unloaded TTFT for which the requests of a step must have been watched, on average.
const LONG_ENOUGH: f64 = 2.0;

/// Returns true if no request of a step saw its first token, although they were watched for much longer than one request alone
/// takes to it.
pub(super) fn is_starved(baselines: &[&Step], step: &Step) -> bool {
    let unloaded_ms = baselines.iter().rev().find_map(|s| s.quantiles(Metric::Ttft).p50);
    // Requests are due throughout the window, and all of them are watched until its tail ends.
    let watched_ms = 1e3 * (0.5 * step.measure_s + step.tail_s);
    step.due_n >= FEW
        && step.quantiles(Metric::Ttft).n == 0
        && unloaded_ms.is_some_and(|ms| LONG_ENOUGH * ms <= watched_ms)
}

/// Returns true if no request is known to have met a limit, although several are known to have missed it.
pub(super) fn none_met(row: &LimitRow) -> bool {
    let judges_requests = Metric::of_limit(&row.limit).is_some_and(Metric::is_per_request);
    judges_requests && row.n >= FEW && row.misses >= MISSES && row.misses + row.censored >= row.n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::step::Quantiles;
    use goodput_core::level::Level;
    use std::collections::BTreeMap;

    fn step(due_n: u64, first_tokens: u64, p50: Option<f64>, tail_s: f64) -> Step {
        let ttft = Quantiles { n: first_tokens, p50, ..Quantiles::default() };
        Step {
            due_n,
            measure_s: 3.2,
            tail_s,
            latency: BTreeMap::from([(Metric::Ttft, ttft)]),
            ..Step::blank(Level::rate(3.0))
        }
    }

    /// Rows: unloaded median TTFT in milliseconds, requests due, first tokens, tail in seconds, and whether the step is starved.
    #[test]
    fn a_step_without_a_first_token_is_starved_if_it_had_the_time() {
        for (unloaded, due_n, first_tokens, tail_s, starved) in [
            (Some(2_485.0), 7, 0, 4.9, true),
            (Some(2_485.0), 7, 1, 4.9, false),
            (Some(2_485.0), 4, 0, 4.9, false),
            (Some(5_000.0), 7, 0, 4.9, false),
            (Some(2_485.0), 7, 0, 0.0, false),
            (None, 7, 0, 4.9, false),
        ] {
            let baseline = step(3, 3, unloaded, 0.0);
            let loaded = step(due_n, first_tokens, None, tail_s);
            assert_eq!(
                is_starved(&[&baseline], &loaded),
                starved,
                "{unloaded:?} {due_n} {first_tokens} {tail_s}"
            );
        }
    }

    /// Rows: a limit, requests, misses and unknown ones, and whether no request met it.
    #[test]
    fn a_limit_is_met_by_none_if_several_missed_it_and_the_rest_is_unknown() {
        let row = crate::fixture::found()[0].limits[0].clone();
        for (limit, n, misses, censored, none) in [
            ("ttft.p90", 9, 5, 4, true),
            ("ttft.p90", 5, 5, 0, true),
            ("ttft.p90", 9, 5, 3, false),
            ("ttft.p90", 7, 1, 6, false),
            ("ttft.p90", 4, 4, 0, false),
            ("joint", 9, 5, 4, false),
            ("itl.p99", 900, 900, 0, false),
        ] {
            let row = LimitRow { limit: limit.into(), n, misses, censored, ..row.clone() };
            assert_eq!(none_met(&row), none, "{limit}: {misses} and {censored} of {n}");
        }
    }
}
