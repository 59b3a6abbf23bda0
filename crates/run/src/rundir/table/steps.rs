//! `steps.csv`: one row per step. A new column is a field of [`StepColumns`]; the compiler then requires both
//! conversions.

use super::TableRow;
use super::bounds::{level, opt_milliseconds, seconds};
use super::latency::{EveryMetric, InflationColumns, LatencyColumns};
use crate::rundir::STEPS;
use goodput_core::level::{Control, Level};
use goodput_stats::stats::step::{Abort, HostLoad, ServerSide, Step, StepKind, TracePart, Verdict};
use serde::{Deserialize, Serialize};

/// The columns of `steps.csv`, in order; for their meaning see the fields of [`Step`]. `None` is an empty cell, or a
/// column that the file does not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepColumns {
    series: String,
    step: u32,
    kind: StepKind,
    control: Control,
    #[serde(deserialize_with = "level")]
    level: f64,
    #[serde(default)]
    started_at: String,
    #[serde(deserialize_with = "seconds")]
    started_s: f64,
    #[serde(deserialize_with = "seconds")]
    ended_s: f64,
    #[serde(deserialize_with = "seconds")]
    settle_s: f64,
    #[serde(deserialize_with = "seconds")]
    measure_s: f64,
    #[serde(deserialize_with = "seconds")]
    tail_s: f64,
    #[serde(deserialize_with = "seconds")]
    drain_s: f64,
    abort: Option<Abort>,
    due_n: u64,
    offered_rate: f64,
    sent_rate: f64,
    achieved_rate: f64,
    good_rate: f64,
    completed: u64,
    failed: u64,
    cut: u64,
    /// 0 if retries were not counted.
    #[serde(default)]
    retried: u64,
    output_tokens_per_s: f64,
    prompt_tokens_per_s: f64,
    input_tokens_mean: Option<f64>,
    output_tokens_mean: Option<f64>,
    #[serde(flatten)]
    latency: LatencyColumns<EveryMetric>,
    joint_attainment: Option<f64>,
    in_flight_mean: f64,
    in_flight_max: u64,
    in_flight_slope: Option<f64>,
    ttft_slope: Option<f64>,
    little_residual: Option<f64>,
    lateness_p50_ms: Option<f64>,
    lateness_p99_ms: Option<f64>,
    #[serde(default, deserialize_with = "opt_milliseconds")]
    receive_lag_p99_ms: Option<f64>,
    /// 0 if connections were not counted.
    #[serde(default)]
    conn_new: u64,
    server_waiting_max: Option<f64>,
    server_kv_max: Option<f64>,
    server_preemptions: Option<f64>,
    server_hit_rate: Option<f64>,
    cost_per_mtok: Option<f64>,
    stable: Option<bool>,
    verdict: Verdict,
    binding: Option<String>,
    #[serde(default)]
    reason: String,
    client_busy: Option<f64>,
    client_waiting: Option<f64>,
    trace_from: Option<u64>,
    trace_n: Option<u64>,
    trace_of: Option<u64>,
    /// 0 if refusals were not distinguished from other failures; likewise the two counts of timeouts below.
    #[serde(default)]
    refused: u64,
    #[serde(flatten)]
    inflation: InflationColumns<EveryMetric>,
    #[serde(default)]
    failed_timeout: u64,
    #[serde(default)]
    cut_timeout: u64,
    host_cores: Option<u32>,
    host_busy: Option<f64>,
    host_server: Option<f64>,
    host_others: Option<f64>,
    host_steal: Option<f64>,
    host_waiting: Option<f64>,
}

impl TableRow for StepColumns {
    const FILE: &'static str = STEPS;
}

impl From<&Step> for StepColumns {
    fn from(s: &Step) -> Self {
        Self {
            series: s.series.clone(),
            step: s.step,
            kind: s.kind,
            control: s.level.control,
            level: s.level.value,
            started_at: s.started_at.clone(),
            started_s: s.started_s,
            ended_s: s.ended_s,
            settle_s: s.settle_s,
            measure_s: s.measure_s,
            tail_s: s.tail_s,
            drain_s: s.drain_s,
            abort: s.abort,
            due_n: s.due_n,
            offered_rate: s.offered_rate,
            sent_rate: s.sent_rate,
            achieved_rate: s.achieved_rate,
            good_rate: s.good_rate,
            completed: s.completed,
            failed: s.failed,
            cut: s.cut,
            retried: s.retried,
            output_tokens_per_s: s.output_tokens_per_s,
            prompt_tokens_per_s: s.prompt_tokens_per_s,
            input_tokens_mean: s.input_tokens_mean,
            output_tokens_mean: s.output_tokens_mean,
            latency: LatencyColumns::of(&s.latency),
            joint_attainment: s.joint_attainment,
            in_flight_mean: s.in_flight_mean,
            in_flight_max: s.in_flight_max,
            in_flight_slope: s.in_flight_slope,
            ttft_slope: s.ttft_slope,
            little_residual: s.little_residual,
            lateness_p50_ms: s.lateness_p50_ms,
            lateness_p99_ms: s.lateness_p99_ms,
            receive_lag_p99_ms: s.receive_lag_p99_ms,
            conn_new: s.conn_new,
            server_waiting_max: s.server.waiting_max,
            server_kv_max: s.server.kv_max,
            server_preemptions: s.server.preemptions,
            server_hit_rate: s.server.hit_rate,
            cost_per_mtok: s.cost_per_mtok,
            stable: s.stable,
            verdict: s.verdict,
            binding: s.binding.clone(),
            reason: s.reason.clone(),
            client_busy: s.client_busy,
            client_waiting: s.client_waiting,
            trace_from: s.trace.map(|t| t.from),
            trace_n: s.trace.map(|t| t.n),
            trace_of: s.trace.map(|t| t.of),
            refused: s.refused,
            inflation: InflationColumns::of(&s.latency),
            failed_timeout: s.failed_timeout,
            cut_timeout: s.cut_timeout,
            host_cores: s.host.map(|h| h.cores),
            host_busy: s.host.map(|h| h.busy),
            host_server: s.host.and_then(|h| h.server),
            host_others: s.host.and_then(|h| h.others),
            host_steal: s.host.map(|h| h.steal),
            host_waiting: s.host.and_then(|h| h.waiting),
        }
    }
}

impl StepColumns {
    /// Returns the load of this machine's cores; `None` if it was not measured.
    fn host(&self) -> Option<HostLoad> {
        Some(HostLoad {
            cores: self.host_cores?,
            busy: self.host_busy?,
            server: self.host_server,
            others: self.host_others,
            steal: self.host_steal?,
            waiting: self.host_waiting,
        })
    }

    /// Returns the part of a trace that was replayed; `None` if the workload is not a trace.
    fn trace(&self) -> Option<TracePart> {
        Some(TracePart { from: self.trace_from?, n: self.trace_n?, of: self.trace_of? })
    }

    /// Returns the server's counters from `steps.csv`; `server.csv` has all of them.
    fn server(&self) -> ServerSide {
        ServerSide {
            waiting_max: self.server_waiting_max,
            kv_max: self.server_kv_max,
            preemptions: self.server_preemptions,
            hit_rate: self.server_hit_rate,
            ..ServerSide::default()
        }
    }
}

/// Builds the step of a row; data from other files is empty.
impl From<StepColumns> for Step {
    fn from(c: StepColumns) -> Self {
        Self {
            host: c.host(),
            trace: c.trace(),
            server: c.server(),
            series: c.series,
            step: c.step,
            kind: c.kind,
            level: Level { control: c.control, value: c.level },
            started_at: c.started_at,
            started_s: c.started_s,
            ended_s: c.ended_s,
            settle_s: c.settle_s,
            measure_s: c.measure_s,
            tail_s: c.tail_s,
            drain_s: c.drain_s,
            abort: c.abort,
            due_n: c.due_n,
            offered_rate: c.offered_rate,
            sent_rate: c.sent_rate,
            achieved_rate: c.achieved_rate,
            good_rate: c.good_rate,
            completed: c.completed,
            failed: c.failed,
            cut: c.cut,
            failed_timeout: c.failed_timeout,
            cut_timeout: c.cut_timeout,
            refused: c.refused,
            retried: c.retried,
            output_tokens_per_s: c.output_tokens_per_s,
            prompt_tokens_per_s: c.prompt_tokens_per_s,
            input_tokens_mean: c.input_tokens_mean,
            output_tokens_mean: c.output_tokens_mean,
            latency: c.latency.with(&c.inflation),
            joint_attainment: c.joint_attainment,
            in_flight_mean: c.in_flight_mean,
            in_flight_max: c.in_flight_max,
            in_flight_slope: c.in_flight_slope,
            ttft_slope: c.ttft_slope,
            little_residual: c.little_residual,
            lateness_p50_ms: c.lateness_p50_ms,
            lateness_p99_ms: c.lateness_p99_ms,
            receive_lag_p99_ms: c.receive_lag_p99_ms,
            conn_new: c.conn_new,
            cost_per_mtok: c.cost_per_mtok,
            stable: c.stable,
            verdict: c.verdict,
            binding: c.binding,
            reason: c.reason,
            client_busy: c.client_busy,
            client_waiting: c.client_waiting,
            limits: Vec::new(),
            groups: Vec::new(),
            replicas: Vec::new(),
            checks: Vec::new(),
            metrics: Vec::new(),
        }
    }
}
