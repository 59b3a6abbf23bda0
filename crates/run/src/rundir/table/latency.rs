//! The columns of latencies: eight for each metric, of which the inflation was added later.
//!
//! The metrics of [`FIRST`] have theirs in the middle of a row. Those of a metric that was added since come after all
//! other columns, with [`added`], so that no published column moves.

use super::cell::CellError;
use super::columns::Columns;
use goodput_core::slo::Metric;
use goodput_stats::stats::step::Quantiles;
use std::collections::BTreeMap;

/// The metrics of the first published files. A new metric does not belong here.
const FIRST: [Metric; 5] = [Metric::Ttft, Metric::Ttfc, Metric::Tpot, Metric::Itl, Metric::E2e];

/// Returns the metrics of [`FIRST`] that fulfil a condition.
pub(super) fn first(is: impl Fn(Metric) -> bool) -> Vec<Metric> {
    FIRST.into_iter().filter(|m| is(*m)).collect()
}

/// Visits all columns of the metrics that were added since [`FIRST`] and fulfil a condition. To be called last.
pub(super) fn added(
    c: &mut impl Columns,
    latency: &mut BTreeMap<Metric, Quantiles>,
    is: impl Fn(Metric) -> bool,
) -> Result<(), CellError> {
    let later: Vec<Metric> = Metric::ALL.into_iter().filter(|m| !FIRST.contains(m) && is(*m)).collect();
    percentiles(c, latency, &later)?;
    inflation(c, latency, &later)
}

/// Visits the percentiles of some metrics: the columns `ttft_n_ms`, `ttft_p50_ms` and so on. A metric without values
/// has an `n` of 0 and is left out.
pub(super) fn percentiles(
    c: &mut impl Columns,
    latency: &mut BTreeMap<Metric, Quantiles>,
    metrics: &[Metric],
) -> Result<(), CellError> {
    for metric in metrics {
        let name = metric.name();
        let mut all = latency.remove(metric).filter(|q| q.n > 0).unwrap_or_default();
        let Quantiles { n, p50, p90, p95, p99, p99_low, p99_high, inflation: _ } = &mut all;
        c.later(&format!("{name}_n_ms"), n)?;
        for (percentile, value) in [
            ("p50", p50),
            ("p90", p90),
            ("p95", p95),
            ("p99", p99),
            ("p99_low", p99_low),
            ("p99_high", p99_high),
        ] {
            c.cell(&format!("{name}_{percentile}_ms"), value)?;
        }
        if all.n > 0 {
            latency.insert(*metric, all);
        }
    }
    Ok(())
}

/// Visits the inflation in the bounds of each p99: the columns `ttft_inflation` and so on. Files of earlier versions
/// lack them. To be called after [`percentiles`].
pub(super) fn inflation(
    c: &mut impl Columns,
    latency: &mut BTreeMap<Metric, Quantiles>,
    metrics: &[Metric],
) -> Result<(), CellError> {
    for metric in metrics {
        let mut inflation = latency.get(metric).and_then(|q| q.inflation);
        c.cell(&format!("{}_inflation", metric.name()), &mut inflation)?;
        if let Some(q) = latency.get_mut(metric) {
            // An inflation below 1 is impossible: no request counts for more than one independent request.
            q.inflation = inflation.filter(|inflation| *inflation >= 1.0);
        }
    }
    Ok(())
}
