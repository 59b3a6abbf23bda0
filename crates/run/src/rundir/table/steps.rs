//! `steps.csv`: one row per step. The data of a step from other files is not in its row.

use super::latency::{added, first, inflation, percentiles};
use super::{CellError, Columns, TableRow};
use crate::rundir::STEPS;
use goodput_core::level::Level;
use goodput_stats::stats::step::{HostLoad, Step, TracePart};

/// The columns of `steps.csv`; for their meaning see the fields of [`Step`]. A new column follows the others; only the
/// columns of new metrics come after it.
impl TableRow for Step {
    const FILE: &'static str = STEPS;
    // A step with all that belongs to it takes about 70 kB while a report is made.
    const MOST_ROWS: usize = 5_000;

    fn empty() -> Self {
        Self::blank(Level::rate(0.0))
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        /// Seconds, up to about three years.
        fn seconds(s: f64) -> bool {
            (0.0..=1e8).contains(&s)
        }
        c.cell("series", &mut self.series)?;
        c.cell("step", &mut self.step)?;
        c.cell("kind", &mut self.kind)?;
        c.cell("control", &mut self.level.control)?;
        c.within("level", &mut self.level.value, Level::is_sound)?;
        c.later("started_at", &mut self.started_at)?;
        c.within("started_s", &mut self.started_s, seconds)?;
        c.within("ended_s", &mut self.ended_s, seconds)?;
        c.within("settle_s", &mut self.settle_s, seconds)?;
        c.within("measure_s", &mut self.measure_s, seconds)?;
        c.within("tail_s", &mut self.tail_s, seconds)?;
        c.within("drain_s", &mut self.drain_s, seconds)?;
        c.cell("abort", &mut self.abort)?;
        c.cell("due_n", &mut self.due_n)?;
        c.cell("offered_rate", &mut self.offered_rate)?;
        c.cell("sent_rate", &mut self.sent_rate)?;
        c.cell("achieved_rate", &mut self.achieved_rate)?;
        c.cell("good_rate", &mut self.good_rate)?;
        c.cell("completed", &mut self.completed)?;
        c.cell("failed", &mut self.failed)?;
        c.cell("cut", &mut self.cut)?;
        c.later("retried", &mut self.retried)?;
        c.cell("output_tokens_per_s", &mut self.output_tokens_per_s)?;
        c.cell("prompt_tokens_per_s", &mut self.prompt_tokens_per_s)?;
        c.cell("input_tokens_mean", &mut self.input_tokens_mean)?;
        c.cell("output_tokens_mean", &mut self.output_tokens_mean)?;
        percentiles(c, &mut self.latency, &first(|_| true))?;
        c.cell("joint_attainment", &mut self.joint_attainment)?;
        c.cell("in_flight_mean", &mut self.in_flight_mean)?;
        c.cell("in_flight_max", &mut self.in_flight_max)?;
        c.cell("in_flight_slope", &mut self.in_flight_slope)?;
        c.cell("ttft_slope", &mut self.ttft_slope)?;
        c.cell("little_residual", &mut self.little_residual)?;
        c.cell("lateness_p50_ms", &mut self.lateness_p50_ms)?;
        c.cell("lateness_p99_ms", &mut self.lateness_p99_ms)?;
        c.within("receive_lag_p99_ms", &mut self.receive_lag_p99_ms, |ms| seconds(ms / 1e3))?;
        c.later("conn_new", &mut self.conn_new)?;
        // `server.csv` has all counters of the server, and takes precedence.
        c.cell("server_waiting_max", &mut self.server.waiting_max)?;
        c.cell("server_kv_max", &mut self.server.kv_max)?;
        c.cell("server_preemptions", &mut self.server.preemptions)?;
        c.cell("server_hit_rate", &mut self.server.hit_rate)?;
        c.cell("cost_per_mtok", &mut self.cost_per_mtok)?;
        c.cell("stable", &mut self.stable)?;
        c.cell("verdict", &mut self.verdict)?;
        c.cell("binding", &mut self.binding)?;
        c.later("reason", &mut self.reason)?;
        c.cell("client_busy", &mut self.client_busy)?;
        c.cell("client_waiting", &mut self.client_waiting)?;
        trace(c, &mut self.trace)?;
        c.later("refused", &mut self.refused)?;
        inflation(c, &mut self.latency, &first(|_| true))?;
        c.later("failed_timeout", &mut self.failed_timeout)?;
        c.later("cut_timeout", &mut self.cut_timeout)?;
        host(c, &mut self.host)?;
        added(c, &mut self.latency, |_| true)?;
        c.later("unsent", &mut self.unsent)?;
        c.cell("halted_ms", &mut self.halted_ms)?;
        c.later("attempts", &mut self.attempts)?;
        c.later("resets", &mut self.resets)?;
        c.later("items_per_s", &mut self.items_per_s)?;
        c.cell("upload_p50_ms", &mut self.upload_p50_ms)?;
        c.cell("upload_p99_ms", &mut self.upload_p99_ms)
    }
}

/// Visits the part of a trace that was replayed; `None` if the workload is not a trace.
fn trace(c: &mut impl Columns, trace: &mut Option<TracePart>) -> Result<(), CellError> {
    let (mut from, mut n, mut of) = (trace.map(|t| t.from), trace.map(|t| t.n), trace.map(|t| t.of));
    c.cell("trace_from", &mut from)?;
    c.cell("trace_n", &mut n)?;
    c.cell("trace_of", &mut of)?;
    *trace = from.zip(n).zip(of).map(|((from, n), of)| TracePart { from, n, of });
    Ok(())
}

/// Visits the load of this machine's cores; `None` if it was not measured.
fn host(c: &mut impl Columns, host: &mut Option<HostLoad>) -> Result<(), CellError> {
    let (mut cores, mut busy, mut steal) =
        (host.map(|h| h.cores), host.map(|h| h.busy), host.map(|h| h.steal));
    let [mut server, mut others, mut waiting] = host.map_or([None; 3], |h| [h.server, h.others, h.waiting]);
    c.cell("host_cores", &mut cores)?;
    c.cell("host_busy", &mut busy)?;
    c.cell("host_server", &mut server)?;
    c.cell("host_others", &mut others)?;
    c.cell("host_steal", &mut steal)?;
    c.cell("host_waiting", &mut waiting)?;
    let load = |((cores, busy), steal)| HostLoad { cores, busy, server, others, steal, waiting };
    *host = cores.zip(busy).zip(steal).map(load);
    Ok(())
}
