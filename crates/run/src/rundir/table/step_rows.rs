//! The rows that belong to a step, except those of `steps.csv` and `server.csv`. For the meaning of the columns see
//! the fields of each type.

use super::latency::{added, first, inflation, percentiles};
use super::{Cell, CellError, Columns, TableRow};
use crate::rundir::cell::bare;
use crate::rundir::imported::COUNTED;
use crate::rundir::{
    CHECKS, FAILURES, FailureRow, GROUPS, HISTOGRAMS, LIMITS, METRICS, REPLICAS, SUMMARIES, Sample, WORKERS,
};
use goodput_core::slo::Metric;
use goodput_stats::stats::co_misses::CoMisses;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::{CheckRow, LimitRow, MetricRow, Replica, Verdict};
use goodput_stats::stats::workers::StepWorker;
use std::collections::BTreeMap;

/// A row of `limits.csv`: one per step, tier, class and limit.
impl TableRow for LimitRow {
    const FILE: &'static str = LIMITS;

    fn empty() -> Self {
        Self {
            tier: String::new(),
            class: String::new(),
            limit: String::new(),
            limit_ms: None,
            n: 0,
            misses: 0,
            censored: 0,
            clusters: 0,
            cluster_sq: 0,
            co_misses: Vec::new(),
            attainment: None,
            low: None,
            high: None,
            verdict: Verdict::Undecided,
        }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("tier", &mut self.tier)?;
        c.cell("class", &mut self.class)?;
        c.cell("limit", &mut self.limit)?;
        c.cell("limit_ms", &mut self.limit_ms)?;
        c.cell("n", &mut self.n)?;
        c.cell("misses", &mut self.misses)?;
        c.cell("censored", &mut self.censored)?;
        c.cell("clusters", &mut self.clusters)?;
        c.cell("cluster_sq", &mut self.cluster_sq)?;
        c.cell("attainment", &mut self.attainment)?;
        c.cell("low", &mut self.low)?;
        c.cell("high", &mut self.high)?;
        c.cell("verdict", &mut self.verdict)?;
        c.later("co_misses", &mut self.co_misses)
    }
}

/// Co-misses in one cell: `ttft.p99=9/4/310/402/288`, several entries separated by `;`. Each entry has the other
/// limit, requests that missed both, clusters, product, this limit's squares and the other's. Names of classes contain
/// neither separator.
impl Cell for Vec<CoMisses> {
    fn write(&self, to: &mut String) {
        let one = |c: &CoMisses| {
            format!("{}={}/{}/{}/{}/{}", c.limit, c.requests, c.clusters, c.product, c.own_sq, c.other_sq)
        };
        self.iter().map(one).collect::<Vec<_>>().join(";").write(to);
    }

    fn parse(cell: &str) -> Result<Self, CellError> {
        let cell = bare(cell);
        let entries = cell.split(';').filter(|entry| !entry.is_empty());
        let parsed = |entry| co_misses(entry).ok_or_else(|| CellError::new(format_args!("holds {entry:?}")));
        entries.map(parsed).collect()
    }
}

fn co_misses(entry: &str) -> Option<CoMisses> {
    let (limit, counts) = entry.rsplit_once('=')?;
    let counts: Vec<u64> = counts.split('/').map(|n| u64::parse(n).ok()).collect::<Option<_>>()?;
    let [requests, clusters, product, own_sq, other_sq] = counts.try_into().ok()?;
    Some(CoMisses { limit: limit.to_owned(), requests, clusters, product, own_sq, other_sq })
}

/// A row of `groups.csv`: one per step and class of a mix, or per step and turn of conversations.
impl TableRow for Group {
    const FILE: &'static str = GROUPS;

    fn empty() -> Self {
        Self {
            by: GroupBy::Class,
            name: String::new(),
            n: 0,
            failed: 0,
            cut: 0,
            failed_timeout: 0,
            latency: BTreeMap::new(),
            input_tokens_mean: None,
            output_tokens_mean: None,
            achieved_rate: 0.0,
        }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("by", &mut self.by)?;
        c.cell("name", &mut self.name)?;
        c.cell("n", &mut self.n)?;
        c.cell("failed", &mut self.failed)?;
        c.cell("cut", &mut self.cut)?;
        let (requests, gaps) = (first(Metric::is_per_request), first(|m| !m.is_per_request()));
        percentiles(c, &mut self.latency, &requests)?;
        c.cell("input_tokens_mean", &mut self.input_tokens_mean)?;
        c.cell("output_tokens_mean", &mut self.output_tokens_mean)?;
        c.cell("achieved_rate", &mut self.achieved_rate)?;
        percentiles(c, &mut self.latency, &gaps)?;
        inflation(c, &mut self.latency, &requests)?;
        inflation(c, &mut self.latency, &gaps)?;
        c.later("failed_timeout", &mut self.failed_timeout)?;
        added(c, &mut self.latency, |_| true)
    }
}

/// A row of `replicas.csv`: one per step and replica, if the plan names several.
impl TableRow for Replica {
    const FILE: &'static str = REPLICAS;

    fn empty() -> Self {
        Self {
            target: 0,
            url: String::new(),
            n: 0,
            failed: 0,
            cut: 0,
            latency: BTreeMap::new(),
            outlier: None,
            others: None,
        }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("target", &mut self.target)?;
        c.cell("url", &mut self.url)?;
        c.cell("n", &mut self.n)?;
        c.cell("failed", &mut self.failed)?;
        c.cell("cut", &mut self.cut)?;
        percentiles(c, &mut self.latency, &Metric::PRINCIPAL)?;
        c.cell("apart", &mut self.outlier)?;
        c.cell("others", &mut self.others)?;
        inflation(c, &mut self.latency, &Metric::PRINCIPAL)
    }
}

/// A row of `workers.csv`: one per step and worker, if several load machines sent.
impl TableRow for StepWorker {
    const FILE: &'static str = WORKERS;

    fn empty() -> Self {
        Self {
            worker: 0,
            id: String::new(),
            n: 0,
            failed: 0,
            start_late_ms: 0.0,
            lateness_p99_ms: None,
            clock_offset_ms: 0.0,
            clock_drift_ms: 0.0,
            ttft_p50_ms: None,
            ttft_p99_ms: None,
            fault: None,
            apart_p: None,
        }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("worker", &mut self.worker)?;
        c.cell("id", &mut self.id)?;
        c.cell("n", &mut self.n)?;
        c.cell("failed", &mut self.failed)?;
        c.cell("start_late_ms", &mut self.start_late_ms)?;
        c.cell("lateness_p99_ms", &mut self.lateness_p99_ms)?;
        c.cell("clock_offset_ms", &mut self.clock_offset_ms)?;
        c.cell("clock_drift_ms", &mut self.clock_drift_ms)?;
        c.cell("ttft_p50_ms", &mut self.ttft_p50_ms)?;
        c.cell("ttft_p99_ms", &mut self.ttft_p99_ms)?;
        c.cell("fault", &mut self.fault)?;
        c.cell("apart_p", &mut self.apart_p)
    }
}

/// A row of `checks.csv`: one per step, class and check of the plan.
impl TableRow for CheckRow {
    const FILE: &'static str = CHECKS;

    fn empty() -> Self {
        Self { class: String::new(), check: String::new(), n: 0, failed: 0, sample: String::new() }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("class", &mut self.class)?;
        c.cell("check", &mut self.check)?;
        c.cell("n", &mut self.n)?;
        c.cell("failed", &mut self.failed)?;
        c.later("sample", &mut self.sample)
    }
}

/// A row of `metrics.csv`: one per step and series of `[[metrics]]`.
impl TableRow for MetricRow {
    const FILE: &'static str = SUMMARIES;

    fn empty() -> Self {
        Self {
            source: String::new(),
            name: String::new(),
            labels: String::new(),
            n: 0,
            min: None,
            mean: None,
            max: None,
            per_s: None,
        }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("source", &mut self.source)?;
        c.cell("name", &mut self.name)?;
        c.later("labels", &mut self.labels)?;
        c.cell("n", &mut self.n)?;
        c.cell("min", &mut self.min)?;
        c.cell("mean", &mut self.mean)?;
        c.cell("max", &mut self.max)?;
        c.cell("per_s", &mut self.per_s)
    }
}

/// A row of `server-metrics.csv`: one sample of the server's own counters, or of a series of `[[metrics]]`.
impl TableRow for Sample {
    const FILE: &'static str = METRICS;

    fn empty() -> Self {
        Self { time_s: 0.0, name: String::new(), value: 0.0, source: String::new() }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("time_s", &mut self.time_s)?;
        c.cell("name", &mut self.name)?;
        c.cell("value", &mut self.value)?;
        c.later("source", &mut self.source)
    }
}

/// A row of `failures.csv`.
impl TableRow for FailureRow {
    const FILE: &'static str = FAILURES;

    fn empty() -> Self {
        Self::default()
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("series", &mut self.series)?;
        c.cell("step", &mut self.step)?;
        c.cell("class", &mut self.class)?;
        c.cell("kind", &mut self.kind)?;
        c.cell("status", &mut self.status)?;
        c.cell("count", &mut self.count)?;
        c.later("sample", &mut self.sample)
    }
}

/// A row of `histograms.csv`: one bucket of a pooled distribution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bucket {
    /// Class of requests; `all` if there is only one.
    pub(crate) class: String,
    /// Name of the latency: `itl`.
    pub(crate) metric: String,
    /// Lower end of the bucket, in microseconds.
    pub(crate) low_us: u64,
    /// Upper end of the bucket, in microseconds.
    pub(crate) high_us: u64,
    /// Number of values in the bucket.
    pub(crate) count: u64,
}

impl TableRow for Bucket {
    const FILE: &'static str = HISTOGRAMS;
    // Hundreds for each step.
    const MOST_ROWS: usize = 2_000_000;

    fn empty() -> Self {
        Self::default()
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("class", &mut self.class)?;
        c.cell("metric", &mut self.metric)?;
        c.cell("low_us", &mut self.low_us)?;
        c.cell("high_us", &mut self.high_us)?;
        c.cell("count", &mut self.count)
    }
}

/// A row of `imported.csv`: a request whose output tokens another tool counted differently from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OwnTokenCount {
    /// Number of the step.
    pub(crate) step: u32,
    /// Number of the request within the step.
    pub(crate) id: u64,
    /// Output tokens by the tool's own count.
    pub(crate) output_tokens: u32,
}

impl TableRow for OwnTokenCount {
    const FILE: &'static str = COUNTED;
    // One for each request.
    const MOST_ROWS: usize = 5_000_000;

    fn empty() -> Self {
        Self::default()
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("step", &mut self.step)?;
        c.cell("id", &mut self.id)?;
        c.cell("output_tokens", &mut self.output_tokens)
    }
}
