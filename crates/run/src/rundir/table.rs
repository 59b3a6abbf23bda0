//! Rows by column name: `steps.csv`, `limits.csv`, `groups.csv` and `replicas.csv` to and from [`Step`].
//!
//! Floats are written in the shortest form that reads back the same, so that a search over rows read from disk decides as
//! it did over the steps in memory.

mod check;
mod co_misses;
mod group;
mod host;
mod replica;
mod server;

use co_misses::{co_miss_cell, read_co_misses};

pub(crate) use check::{check_cells, read_check};
pub(crate) use group::{group_cells, read_group};
pub(crate) use replica::{read_replica, replica_cells};
pub(crate) use server::{metric_cells, read_metric, read_server, server_cells};

use super::cell::bare;
use anyhow::{Context, Result, bail};
use goodput_core::level::{Control, Level};
use goodput_core::slo::Metric;
use goodput_stats::stats::step::{
    Abort, LimitRow, Quantiles, ServerSide, Step, StepKind, TracePart, Verdict,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::str::FromStr;

/// A row while it is made: column names and cells, in order.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    pub(crate) names: Vec<String>,
    pub(crate) cells: Vec<String>,
}

impl Cells {
    /// Those that say which step a row is of.
    fn of(step: &Step) -> Self {
        let mut c = Self::default();
        c.put("series", &step.series);
        c.put("step", step.step);
        c
    }

    fn put(&mut self, name: impl Into<String>, value: impl Display) {
        self.names.push(name.into());
        self.cells.push(value.to_string());
    }

    /// A cell that is empty where nothing is known; what was divided by nothing is not known.
    fn opt(&mut self, name: impl Into<String>, value: Option<impl Display>) {
        let known = |text: &String| !matches!(text.as_str(), "NaN" | "inf" | "-inf");
        self.names.push(name.into());
        self.cells.push(value.map(|v| v.to_string()).filter(known).unwrap_or_default());
    }
}

#[cfg(test)]
impl<'a> Row<'a> {
    /// Cells as they are read back.
    fn back(cells: &'a Cells) -> Self {
        Self(cells.names.iter().map(String::as_str).zip(cells.cells.iter().map(String::as_str)).collect())
    }
}

/// What a cell may hold besides text.
pub(crate) trait Cell: FromStr {
    /// Whether anything that was measured can be so.
    fn is_sound(&self) -> bool {
        true
    }
}

impl Cell for bool {}
impl Cell for u16 {}
impl Cell for u32 {}

impl Cell for u64 {
    /// A count that can be added up, and is a number of [`f64`] as it stands.
    fn is_sound(&self) -> bool {
        *self <= 1 << 53
    }
}

impl Cell for f64 {
    /// A number, and not so large that what is reckoned with it is none.
    fn is_sound(&self) -> bool {
        self.abs() <= 1e30
    }
}

/// A row that was read: cells by column name.
pub(crate) struct Row<'a>(pub(crate) HashMap<&'a str, &'a str>);

impl Row<'_> {
    /// Series and number of the step that it is of.
    fn step(&self) -> Result<(String, u32)> {
        Ok((self.text("series")?.to_owned(), self.get("step")?))
    }

    fn parsed<T: Cell>(&self, name: &str, cell: &str) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let value: T = cell.parse().with_context(|| format!("column {name}"))?;
        if !value.is_sound() {
            bail!("column {name} holds {cell}, which nothing that is measured can be");
        }
        Ok(value)
    }

    /// A number that has to lie within bounds.
    fn within(&self, name: &str, sound: impl Fn(f64) -> bool) -> Result<f64> {
        let value = self.get(name)?;
        if !sound(value) {
            bail!("column {name} holds {value}, which nothing that is measured can be");
        }
        Ok(value)
    }

    /// Seconds: none less than nothing, and three years at most.
    fn seconds(&self, name: &str) -> Result<f64> {
        self.within(name, |s| (0.0..=1e8).contains(&s))
    }

    /// Milliseconds, where there are any, of as long at most.
    fn opt_milliseconds(&self, name: &str) -> Result<Option<f64>> {
        if self.text(name)?.is_empty() {
            return Ok(None);
        }
        self.within(name, |ms| (0.0..=1e11).contains(&ms)).map(Some)
    }

    fn get<T: Cell>(&self, name: &str) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        self.parsed(name, self.text(name)?)
    }

    fn opt<T: Cell>(&self, name: &str) -> Result<Option<T>>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let cell = self.text(name)?;
        if cell.is_empty() { Ok(None) } else { self.parsed(name, cell).map(Some) }
    }

    /// A column that folders of earlier versions do not have.
    fn opt_late<T: Cell>(&self, name: &str) -> Result<Option<T>>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        if self.0.contains_key(name) { self.opt(name) } else { Ok(None) }
    }

    fn text(&self, name: &str) -> Result<&str> {
        self.0.get(name).map(|cell| bare(cell)).with_context(|| format!("column {name} is missing"))
    }

    fn named<T>(&self, name: &str, from: impl Fn(&str) -> Option<T>) -> Result<T> {
        let cell = self.text(name)?;
        from(cell).with_context(|| format!("column {name} holds {cell:?}"))
    }

    fn opt_text(&self, name: &str) -> Result<Option<String>> {
        Ok(Some(self.text(name)?.to_owned()).filter(|s| !s.is_empty()))
    }
}

/// The cells of a step's row in `steps.csv`.
pub(crate) fn step_cells(s: &Step) -> Cells {
    let mut c = Cells::default();
    c.put("series", &s.series);
    c.put("step", s.step);
    c.put("kind", s.kind);
    c.put("control", s.level.control.name());
    c.put("level", s.level.value);
    c.put("started_at", &s.started_at);
    for (name, value) in [
        ("started_s", s.started_s),
        ("ended_s", s.ended_s),
        ("settle_s", s.settle_s),
        ("measure_s", s.measure_s),
        ("tail_s", s.tail_s),
        ("drain_s", s.drain_s),
    ] {
        c.put(name, value);
    }
    c.opt("abort", s.abort);
    c.put("due_n", s.due_n);
    c.put("offered_rate", s.offered_rate);
    c.put("sent_rate", s.sent_rate);
    c.put("achieved_rate", s.achieved_rate);
    c.put("good_rate", s.good_rate);
    for (name, n) in
        [("completed", s.completed), ("failed", s.failed), ("cut", s.cut), ("retried", s.retried)]
    {
        c.put(name, n);
    }
    c.put("output_tokens_per_s", s.output_tokens_per_s);
    c.put("prompt_tokens_per_s", s.prompt_tokens_per_s);
    c.opt("input_tokens_mean", s.input_tokens_mean);
    c.opt("output_tokens_mean", s.output_tokens_mean);
    for metric in Metric::ALL {
        quantile_cells(&mut c, metric, &s.quantiles(metric));
    }
    rest_cells(&mut c, s);
    c
}

/// The cells of one latency.
fn quantile_cells(c: &mut Cells, metric: Metric, q: &Quantiles) {
    let m = metric.name();
    c.put(format!("{m}_n_ms"), q.n);
    for (name, value) in [
        ("p50", q.p50),
        ("p90", q.p90),
        ("p95", q.p95),
        ("p99", q.p99),
        ("p99_low", q.p99_low),
        ("p99_high", q.p99_high),
    ] {
        c.opt(format!("{m}_{name}_ms"), value);
    }
}

/// The inflation in the bounds of each p99, behind all other columns.
fn inflation_cells(
    c: &mut Cells,
    metrics: impl IntoIterator<Item = Metric>,
    of: impl Fn(Metric) -> Quantiles,
) {
    for metric in metrics {
        c.opt(format!("{}_inflation", metric.name()), of(metric).inflation);
    }
}

/// Latencies by metric; one of which nothing was measured is left out.
fn read_latency(
    row: &Row<'_>,
    metrics: impl IntoIterator<Item = Metric>,
) -> Result<BTreeMap<Metric, Quantiles>> {
    let mut latency = BTreeMap::new();
    for metric in metrics {
        let cell = |name: &str| row.opt::<f64>(&format!("{}_{name}_ms", metric.name()));
        let n = row.get(&format!("{}_n_ms", metric.name()))?;
        let q = Quantiles {
            n,
            p50: cell("p50")?,
            p90: cell("p90")?,
            p95: cell("p95")?,
            p99: cell("p99")?,
            p99_low: cell("p99_low")?,
            p99_high: cell("p99_high")?,
            inflation: row
                .opt_late(&format!("{}_inflation", metric.name()))?
                .filter(|inflation: &f64| *inflation >= 1.0),
        };
        if n > 0 {
            latency.insert(metric, q);
        }
    }
    Ok(latency)
}

fn rest_cells(c: &mut Cells, s: &Step) {
    c.opt("joint_attainment", s.joint_attainment);
    c.put("in_flight_mean", s.in_flight_mean);
    c.put("in_flight_max", s.in_flight_max);
    for (name, value) in [
        ("in_flight_slope", s.in_flight_slope),
        ("ttft_slope", s.ttft_slope),
        ("little_residual", s.little_residual),
        ("lateness_p50_ms", s.lateness_p50_ms),
        ("lateness_p99_ms", s.lateness_p99_ms),
        ("receive_lag_p99_ms", s.receive_lag_p99_ms),
    ] {
        c.opt(name, value);
    }
    c.put("conn_new", s.conn_new);
    for (name, value) in [
        ("server_waiting_max", s.server.waiting_max),
        ("server_kv_max", s.server.kv_max),
        ("server_preemptions", s.server.preemptions),
        ("server_hit_rate", s.server.hit_rate),
        ("cost_per_mtok", s.cost_per_mtok),
    ] {
        c.opt(name, value);
    }
    c.opt("stable", s.stable);
    c.put("verdict", s.verdict);
    c.opt("binding", s.binding.as_deref());
    c.put("reason", &s.reason);
    c.opt("client_busy", s.client_busy);
    c.opt("client_waiting", s.client_waiting);
    c.opt("trace_from", s.trace.map(|t| t.from));
    c.opt("trace_n", s.trace.map(|t| t.n));
    c.opt("trace_of", s.trace.map(|t| t.of));
    c.put("refused", s.refused);
    inflation_cells(c, Metric::ALL, |m| s.quantiles(m));
    c.put("failed_timeout", s.failed_timeout);
    c.put("cut_timeout", s.cut_timeout);
    host::host_cells(c, s.host.as_ref());
}

/// Which part of a trace a step replayed; folders of earlier versions do not tell.
fn trace_part(row: &Row<'_>) -> Result<Option<TracePart>> {
    let cells = [row.opt_late("trace_from")?, row.opt_late("trace_n")?, row.opt_late("trace_of")?];
    let [Some(from), Some(n), Some(of)] = cells else { return Ok(None) };
    Ok(Some(TracePart { from, n, of }))
}

/// The step of a row of `steps.csv`; its limits, groups, replicas, checks, metrics and the rest of the server's side are filled in from
/// their own files.
pub(crate) fn read_step(row: &Row<'_>) -> Result<Step> {
    Ok(Step {
        series: row.text("series")?.to_owned(),
        step: row.get("step")?,
        kind: row.named("kind", StepKind::from_name)?,
        level: Level {
            control: row.named("control", Control::from_name)?,
            value: row.within("level", Level::is_sound)?,
        },
        started_at: row.text("started_at")?.to_owned(),
        started_s: row.seconds("started_s")?,
        ended_s: row.seconds("ended_s")?,
        settle_s: row.seconds("settle_s")?,
        measure_s: row.seconds("measure_s")?,
        tail_s: row.seconds("tail_s")?,
        drain_s: row.seconds("drain_s")?,
        abort: row.opt_text("abort")?.map(|_| row.named("abort", Abort::from_name)).transpose()?,
        due_n: row.get("due_n")?,
        offered_rate: row.get("offered_rate")?,
        sent_rate: row.get("sent_rate")?,
        achieved_rate: row.get("achieved_rate")?,
        good_rate: row.get("good_rate")?,
        completed: row.get("completed")?,
        failed: row.get("failed")?,
        cut: row.get("cut")?,
        failed_timeout: row.opt_late("failed_timeout")?.unwrap_or_default(),
        cut_timeout: row.opt_late("cut_timeout")?.unwrap_or_default(),
        refused: row.opt_late("refused")?.unwrap_or_default(),
        retried: row.get("retried")?,
        output_tokens_per_s: row.get("output_tokens_per_s")?,
        prompt_tokens_per_s: row.get("prompt_tokens_per_s")?,
        input_tokens_mean: row.opt("input_tokens_mean")?,
        output_tokens_mean: row.opt("output_tokens_mean")?,
        latency: read_latency(row, Metric::ALL)?,
        joint_attainment: row.opt("joint_attainment")?,
        in_flight_mean: row.get("in_flight_mean")?,
        in_flight_max: row.get("in_flight_max")?,
        in_flight_slope: row.opt("in_flight_slope")?,
        ttft_slope: row.opt("ttft_slope")?,
        little_residual: row.opt("little_residual")?,
        lateness_p50_ms: row.opt("lateness_p50_ms")?,
        lateness_p99_ms: row.opt("lateness_p99_ms")?,
        receive_lag_p99_ms: row.opt_milliseconds("receive_lag_p99_ms")?,
        conn_new: row.get("conn_new")?,
        server: ServerSide {
            waiting_max: row.opt("server_waiting_max")?,
            kv_max: row.opt("server_kv_max")?,
            preemptions: row.opt("server_preemptions")?,
            hit_rate: row.opt("server_hit_rate")?,
            ..ServerSide::default()
        },
        cost_per_mtok: row.opt("cost_per_mtok")?,
        stable: row.opt("stable")?,
        verdict: row.named("verdict", Verdict::from_name)?,
        binding: row.opt_text("binding")?,
        reason: row.text("reason")?.to_owned(),
        client_busy: row.opt_late("client_busy")?,
        client_waiting: row.opt_late("client_waiting")?,
        host: host::read_host(row)?,
        limits: Vec::new(),
        groups: Vec::new(),
        replicas: Vec::new(),
        checks: Vec::new(),
        metrics: Vec::new(),
        trace: trace_part(row)?,
    })
}

/// The cells of a row of `limits.csv`.
pub(crate) fn limit_cells(step: &Step, l: &LimitRow) -> Cells {
    let mut c = Cells::of(step);
    c.put("tier", &l.tier);
    c.put("class", &l.class);
    c.put("limit", &l.limit);
    c.opt("limit_ms", l.limit_ms);
    for (name, n) in [
        ("n", l.n),
        ("misses", l.misses),
        ("censored", l.censored),
        ("clusters", l.clusters),
        ("cluster_sq", l.cluster_sq),
    ] {
        c.put(name, n);
    }
    c.opt("attainment", l.attainment);
    c.opt("low", l.low);
    c.opt("high", l.high);
    c.put("verdict", l.verdict);
    c.put("co_misses", co_miss_cell(&l.co_misses));
    c
}

/// The step that a row of `limits.csv` belongs to (series, number), and the row.
pub(crate) fn read_limit(row: &Row<'_>) -> Result<((String, u32), LimitRow)> {
    let limit = LimitRow {
        tier: row.text("tier")?.to_owned(),
        class: row.text("class")?.to_owned(),
        limit: row.text("limit")?.to_owned(),
        limit_ms: row.opt("limit_ms")?,
        n: row.get("n")?,
        misses: row.get("misses")?,
        censored: row.get("censored")?,
        clusters: row.get("clusters")?,
        cluster_sq: row.get("cluster_sq")?,
        co_misses: read_co_misses(row)?,
        attainment: row.opt("attainment")?,
        low: row.opt("low")?,
        high: row.opt("high")?,
        verdict: row.named("verdict", Verdict::from_name)?,
    };
    Ok((row.step()?, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the floats are that can be measured, every bit of them comes back.
        #[test]
        fn steps_read_back_the_same(x in any::<[f64; 8]>()) {
            let x = x.map(|x| if x.is_finite() { x % 1e30 } else { 0.1 + 0.2 });
            let seconds = x.map(|x| x.abs() % 1e8);
            let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
            let mut step = run.steps[0].clone();
            (step.started_s, step.ended_s, step.in_flight_mean) = (seconds[0], seconds[1], x[3]);
            step.level.value = seconds[2].max(f64::MIN_POSITIVE);
            (step.ttft_slope, step.joint_attainment) = (Some(x[4]), Some(x[5]));
            (step.client_busy, step.client_waiting) = (Some(x[1]), None);
            (step.refused, step.failed_timeout, step.cut_timeout) = (7, 3, 2);
            step.trace = (x[2] > 0.0).then_some(TracePart { from: 3, n: 7, of: 40 });
            step.latency.insert(Metric::Ttft, Quantiles { n: 7, p99: Some(x[6]), inflation: Some(1.0 + x[7].abs()), ..Quantiles::default() });
            let mut limit = step.limits[0].clone();
            (limit.low, limit.limit_ms) = (Some(x[7]), Some(x[0]));
            let cells = limit_cells(&step, &limit);
            let ((series, number), read) = read_limit(&Row::back(&cells)).unwrap();
            prop_assert_eq!((&series, number, &read), (&step.series, step.step, &limit));
            let cells = step_cells(&step);
            step.limits.clear();
            prop_assert_eq!(read_step(&Row::back(&cells)).unwrap(), step);
        }
    }

    #[test]
    fn folders_without_inflation_assume_independent_requests() {
        let step = fixture::found().steps.swap_remove(0);
        let cells = step_cells(&step);
        let mut old = Row::back(&cells);
        assert_eq!(read_step(&old).unwrap().quantiles(Metric::Ttft), step.quantiles(Metric::Ttft));
        old.0.retain(|name, _| !name.ends_with("_inflation"));
        let q = read_step(&old).unwrap().quantiles(Metric::Ttft);
        assert_eq!(q, Quantiles { inflation: None, ..step.quantiles(Metric::Ttft) });
        assert_eq!(q.effective(), None);
        old.0.insert("ttft_inflation", "0");
        assert_eq!(
            read_step(&old).unwrap().quantiles(Metric::Ttft).inflation,
            None,
            "no request is worth two"
        );
    }

    /// Row: column, what stands in it, and whether that is taken.
    #[test]
    fn what_cannot_be_measured_is_refused() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let cells = step_cells(&run.steps[0]);
        for (column, cell, taken) in [
            ("level", "0", false),
            ("level", "-1", false),
            ("level", "2e9", false),
            ("level", "0.001", true),
            ("measure_s", "1e308", false),
            ("settle_s", "-1", false),
            ("tail_s", "inf", false),
            ("drain_s", "NaN", false),
            ("ended_s", "1e8", true),
            ("good_rate", "inf", false),
            ("receive_lag_p99_ms", "1e29", false),
            ("receive_lag_p99_ms", "-1", false),
            ("ttft_p99_ms", "nan", false),
            ("ttft_slope", "-1e308", false),
            ("ttft_slope", "-1e29", true),
        ] {
            let mut row = Row::back(&cells);
            row.0.insert(column, cell);
            match read_step(&row) {
                Ok(_) => assert!(taken, "{column} = {cell}"),
                Err(e) => {
                    assert!(!taken && format!("{e:#}").contains(&format!("column {column}")), "{cell}: {e:#}")
                }
            }
        }
    }

    #[test]
    fn the_load_of_this_machine_reads_back_the_same() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let whole = goodput_stats::stats::step::HostLoad {
            cores: 2,
            busy: 0.97,
            server: Some(0.3),
            others: Some(0.6),
            steal: 0.01,
            waiting: Some(0.8),
        };
        let unknown =
            goodput_stats::stats::step::HostLoad { server: None, others: None, waiting: None, ..whole };
        for host in [None, Some(whole), Some(unknown)] {
            let step = Step { host, ..run.steps[0].clone() };
            assert_eq!(read_step(&Row::back(&step_cells(&step))).unwrap().host, host);
        }
    }

    #[test]
    fn a_folder_of_an_earlier_version_does_not_know_of_threads() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let step =
            Step { client_busy: Some(0.2), client_waiting: Some(0.1), refused: 3, ..run.steps[0].clone() };
        let cells = step_cells(&step);
        let last = [
            "reason",
            "client_busy",
            "client_waiting",
            "trace_from",
            "trace_n",
            "trace_of",
            "refused",
            "ttft_inflation",
            "ttfc_inflation",
            "tpot_inflation",
            "itl_inflation",
            "e2e_inflation",
            "failed_timeout",
            "cut_timeout",
            "host_cores",
            "host_busy",
            "host_server",
            "host_others",
            "host_steal",
            "host_waiting",
        ];
        assert!(cells.names.ends_with(&last.map(String::from)), "{:?}", cells.names);
        let mut row = Row::back(&cells);
        row.0.retain(|name, _| {
            let late = ["client_", "trace_", "refused", "failed_timeout", "cut_timeout", "host_"];
            !late.iter().any(|late| name.starts_with(late))
        });
        let read = read_step(&row).unwrap();
        assert_eq!((read.client_busy, read.client_waiting, read.trace), (None, None, None));
        assert_eq!(read.refused, 0, "none were counted");
    }
}
