//! The columns of latencies: eight for each metric.

use super::decode::{OtherCells, known};
use goodput_core::slo::Metric;
use goodput_stats::stats::groups::Group;
use goodput_stats::stats::step::{Quantiles, Replica};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The metrics with columns in a file.
pub(super) trait MetricList {
    /// The metrics, in the order of the columns.
    const METRICS: &'static [Metric];
}

/// Every metric, as in `steps.csv`: a new metric gets its columns automatically.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EveryMetric;

impl MetricList for EveryMetric {
    const METRICS: &'static [Metric] = &Metric::ALL;
}

/// The metrics of the groups of a step, except ITL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GroupMetrics;

impl MetricList for GroupMetrics {
    const METRICS: &'static [Metric] = &Group::METRICS;
}

/// ITL alone, whose columns follow the other columns of groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OnlyItl;

impl MetricList for OnlyItl {
    const METRICS: &'static [Metric] = &[Metric::Itl];
}

/// The metrics of the replicas of a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReplicaMetrics;

impl MetricList for ReplicaMetrics {
    const METRICS: &'static [Metric] = &Replica::METRICS;
}

/// Percentiles by metric: the columns `ttft_n_ms`, `ttft_p50_ms` and so on. A metric without values has an `n` of 0
/// and is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LatencyColumns<M> {
    by_metric: BTreeMap<Metric, Quantiles>,
    metrics: PhantomData<M>,
}

/// Inflation in the bounds of each p99: the columns `ttft_inflation` and so on. Files of earlier versions lack them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InflationColumns<M> {
    by_metric: BTreeMap<Metric, f64>,
    metrics: PhantomData<M>,
}

impl<M: MetricList> LatencyColumns<M> {
    pub(super) fn of(all: &BTreeMap<Metric, Quantiles>) -> Self {
        let bare = |q: &Quantiles| Quantiles { inflation: None, ..*q };
        let of = |metric: &Metric| Some((*metric, bare(all.get(metric).filter(|q| q.n > 0)?)));
        Self { by_metric: M::METRICS.iter().filter_map(of).collect(), metrics: PhantomData }
    }

    /// Returns the percentiles with their inflation.
    pub(super) fn with<I>(self, inflation: &InflationColumns<I>) -> BTreeMap<Metric, Quantiles> {
        let of =
            |(metric, q)| (metric, Quantiles { inflation: inflation.by_metric.get(&metric).copied(), ..q });
        self.by_metric.into_iter().map(of).collect()
    }
}

impl<M: MetricList> InflationColumns<M> {
    pub(super) fn of(all: &BTreeMap<Metric, Quantiles>) -> Self {
        let of = |metric: &Metric| Some((*metric, all.get(metric)?.inflation?));
        Self { by_metric: M::METRICS.iter().filter_map(of).collect(), metrics: PhantomData }
    }
}

/// Returns the percentiles of one metric with the middle part of their column names.
fn percentiles(q: &mut Quantiles) -> [(&'static str, &mut Option<f64>); 6] {
    let Quantiles { n: _, p50, p90, p95, p99, p99_low, p99_high, inflation: _ } = q;
    [("p50", p50), ("p90", p90), ("p95", p95), ("p99", p99), ("p99_low", p99_low), ("p99_high", p99_high)]
}

impl<M: MetricList> Serialize for LatencyColumns<M> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut columns = to.serialize_map(None)?;
        for metric in M::METRICS {
            let mut q = self.by_metric.get(metric).copied().unwrap_or_default();
            let name = metric.name();
            columns.serialize_entry(&format!("{name}_n_ms"), &q.n)?;
            for (percentile, value) in percentiles(&mut q) {
                columns.serialize_entry(&format!("{name}_{percentile}_ms"), value)?;
            }
        }
        columns.end()
    }
}

impl<M: MetricList> Serialize for InflationColumns<M> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let of = |metric: &Metric| (format!("{}_inflation", metric.name()), self.by_metric.get(metric));
        to.collect_map(M::METRICS.iter().map(of))
    }
}

impl<'de, M: MetricList> Deserialize<'de> for LatencyColumns<M> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let cells = OtherCells::deserialize(from)?;
        let mut by_metric = BTreeMap::new();
        for metric in M::METRICS {
            let name = metric.name();
            let n = known(&cells, &format!("{name}_n_ms"))?.unwrap_or_default();
            let mut q = Quantiles { n, ..Quantiles::default() };
            for (percentile, value) in percentiles(&mut q) {
                *value = known(&cells, &format!("{name}_{percentile}_ms"))?;
            }
            if n > 0 {
                by_metric.insert(*metric, q);
            }
        }
        Ok(Self { by_metric, metrics: PhantomData })
    }
}

impl<'de, M: MetricList> Deserialize<'de> for InflationColumns<M> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let cells = OtherCells::deserialize(from)?;
        let mut by_metric = BTreeMap::new();
        for metric in M::METRICS {
            let inflation = known(&cells, &format!("{}_inflation", metric.name()))?;
            // An inflation below 1 is impossible: no request counts for more than one independent request.
            by_metric.extend(inflation.filter(|inflation: &f64| *inflation >= 1.0).map(|x| (*metric, x)));
        }
        Ok(Self { by_metric, metrics: PhantomData })
    }
}
