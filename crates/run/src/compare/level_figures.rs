//! Figures of the steps at one level other than latencies, and their standard errors.

use super::requests::Timed;
use super::{Column, Side};
use goodput_stats::stats::step::{LimitRow, Step};

/// Returns a figure over several steps at a level: the mean weighted by step length, or the sum for counts.
pub(super) fn figure(column: Column, tier: &str, steps: &[&Step]) -> Option<f64> {
    let of = |s: &Step| match column {
        Column::Attainment => s.row(tier, "joint").and_then(|r| r.attainment).or(s.joint_attainment),
        Column::Failures => {
            let (missing, all) = (s.failed + s.cut, s.completed + s.failed + s.cut);
            (all > 0).then(|| missing as f64 / all as f64)
        }
        Column::AchievedRate => Some(s.achieved_rate),
        Column::GoodRate => Some(s.good_rate_of(tier)),
        Column::OutputTokens => Some(s.output_tokens_per_s).filter(|t| *t > 0.0),
        Column::Preemptions => s.server.preemptions,
        Column::HitRate => s.server.hit_rate,
        _ => None,
    };
    let known: Vec<(f64, f64)> = steps.iter().filter_map(|s| Some((of(s)?, s.measure_s))).collect();
    if known.is_empty() {
        return None;
    }
    if column == Column::Preemptions {
        return Some(known.iter().map(|k| k.0).sum());
    }
    let length: f64 = known.iter().map(|k| k.1).sum();
    Some(known.iter().map(|(v, s)| v * s).sum::<f64>() / length)
}

/// Returns the standard error of an attainment: binomial, inflated for the clustering of misses. Two requests, one of
/// them a miss, are added, so that a share of one has an error too.
pub(super) fn attainment_error(tier: &str, steps: &[&Step]) -> Option<f64> {
    let rows: Vec<&LimitRow> = steps.iter().filter_map(|s| s.row(tier, "joint")).collect();
    let sum = |of: fn(&LimitRow) -> u64| rows.iter().map(|r| of(r)).sum::<u64>() as f64;
    let (n, misses, squares) = (sum(|r| r.n), sum(|r| r.misses), sum(|r| r.cluster_sq));
    if n <= 0.0 {
        return None;
    }
    let inflation = if misses > 0.0 { (squares / misses).max(1.0) } else { 1.0 };
    let p = (misses + 1.0) / (n + 2.0);
    Some((inflation * p * (1.0 - p) / n).sqrt())
}

/// Returns the standard error of the share of failed requests: binomial, as in [`attainment_error`] but without
/// clustering. `None` without requests.
pub(super) fn failures_error(steps: &[&Step]) -> Option<f64> {
    let n: f64 = steps.iter().map(|s| (s.completed + s.failed + s.cut) as f64).sum();
    let k: f64 = steps.iter().map(|s| (s.failed + s.cut) as f64).sum();
    let p = (k + 1.0) / (n + 2.0);
    (n > 0.0).then(|| (p * (1.0 - p) / n).sqrt())
}

/// Returns the relative standard error of a rate, from the count of requests and from the amount per request. The
/// count of a renewal process whose gaps have a coefficient of variation cv varies cv² times as much as that of
/// Poisson arrivals (Cox, Renewal Theory, 1962); more even arrivals are taken to vary like Poisson arrivals.
///
/// For the good rate, the count of requests and the share of good ones, with its clustering of misses, both
/// contribute.
pub(super) fn rate_error(column: Column, side: &Side, steps: &[&Step], lists: &[&[Timed]]) -> Option<f64> {
    let tier = &side.tier;
    let n: f64 = steps.iter().map(|s| s.achieved_rate * s.measure_s).sum();
    if n < 1.0 {
        return None;
    }
    let mut square = 1.0;
    if column == Column::OutputTokens {
        let tokens: Vec<f64> =
            lists.iter().copied().flatten().map(|t| t.tokens).filter(|t| *t > 0.0).collect();
        let all = tokens.len() as f64;
        let mean = tokens.iter().sum::<f64>() / all.max(1.0);
        let second = tokens.iter().map(|t| t * t).sum::<f64>() / all.max(1.0);
        square = if mean > 0.0 { second / (mean * mean) } else { 2.0 };
    }
    let dispersion = side.plan.workload.arrivals.crowding().recip();
    let count = ((square - 1.0 + dispersion) / n).sqrt();
    if column != Column::GoodRate {
        return Some(count);
    }
    let attainment = figure(Column::Attainment, tier, steps).filter(|a| *a > 0.0)?;
    Some(count.hypot(attainment_error(tier, steps)? / attainment))
}
