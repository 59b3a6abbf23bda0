//! Summarises the records of a step as one [`Step`]: its row of `steps.csv`, its rows of `limits.csv`, and the verdict.

use super::client::ClientTolerance;
use super::client_faults::{is_unsent, lateness_ms, sent_in_window};
use super::compact_record::{CompactRecord, Tokens};
use super::groups::{Group, GroupBy, groups, timed_out};
use super::itl::ItlTally;
pub use super::limits::rejudged;
use super::limits::{JudgedRow, rows};
pub use super::reason::{ERRORS, blamed, step_verdict, tier_verdict, worst};
use super::reason::{failures, reason};
use super::steady::{Steady, Window, steady};
use super::step::{Abort, LimitRow, Quantiles, ServerSide, Step, StepKind, Verdict};
use super::tail::{ClusterPrior, quantiles_by_due};
use super::verdict::INFLATION;
use super::workers::{WorkerReport, step_workers};
use goodput_core::level::{Control, Level};
use goodput_core::record::{Conn, Outcome, Phase};
use goodput_core::slo::{Metric, Slo};
use goodput_core::units::ms;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Everything known about a step when it has ended.
#[derive(Debug, Clone)]
pub struct StepInput<'a> {
    /// Name of the series the step belongs to.
    pub series: &'a str,
    /// Number within the sweep, from 1.
    pub step: u32,
    /// Purpose of the step.
    pub kind: StepKind,
    /// The load that was offered.
    pub level: Level,
    /// When it started (RFC 3339).
    pub started_at: &'a str,
    /// Seconds from the start of the sweep to its start.
    pub started_s: f64,
    /// Seconds from the start of the sweep to its end, drain included.
    pub ended_s: f64,
    /// Length of the settling phase, before the measured window.
    pub settle: Duration,
    /// Length of the measured window; shorter than planned if the step was aborted.
    pub measure: Duration,
    /// Length of the tail: load that continues after the measured window.
    pub tail: Duration,
    /// Time until the server was empty after the load stopped.
    pub drain: Duration,
    /// Why the step ended early; `None` if it ran its full time.
    pub abort: Option<Abort>,
    /// Every record of the step, in any order, with times since its start.
    pub records: &'a [CompactRecord],
    /// Names of the classes of the mix, by index; empty if the workload has one kind of request.
    pub classes: &'a [&'a str],
    /// The gaps between tokens of the measured requests.
    pub itl: &'a ItlTally,
    /// Earlier steps of the same series; their misses show how misses cluster.
    pub earlier: &'a [Step],
    /// The tiers of the SLO, resolved. The step's own verdict is that of the first.
    pub tiers: &'a [Slo],
    /// 99th percentile of the delay between "socket readable" and the timestamp, in milliseconds.
    pub receive_lag_p99_ms: Option<f64>,
    /// Share of the window that the busiest sending thread spent on a core.
    pub client_busy: Option<f64>,
    /// Largest share of the window in which a sending thread was runnable but had no core.
    pub client_waiting: Option<f64>,
    /// Stretches in which the sending threads noticed that the whole client stood still, from the start of the step.
    pub halts: &'a [Range<Duration>],
    /// The reports of the workers; empty with a single load machine.
    pub workers: &'a [WorkerReport],
    /// Confidence of every verdict (one-sided).
    pub confidence: f64,
    /// True if `max-in-flight` was reached, or the client ran out of file descriptors or ports.
    pub client_limit: bool,
    /// The plan's `max-in-flight`, if it was reached.
    pub in_flight_limit: Option<u32>,
    /// How much delay the client may add before a verdict is checked without it.
    pub allowed: ClientTolerance,
    /// Share of failed requests above which a step is stopped; `None` if the plan sets no such limit.
    pub max_error_share: Option<f64>,
    /// Price of the server per hour, in the plan's currency.
    pub price_per_hour: Option<f64>,
}

impl StepInput<'_> {
    /// Returns the measured records in order of `due`.
    fn measured(&self) -> Vec<&CompactRecord> {
        let mut measured: Vec<&CompactRecord> =
            self.records.iter().filter(|r| r.phase == Phase::Measure).collect();
        measured.sort_unstable_by_key(|r| (r.due, r.id));
        measured
    }

    fn window(&self) -> std::ops::Range<Duration> {
        self.settle..self.settle + self.measure
    }

    /// Iterates over complete answers, of any phase, whose last token came within the measured window.
    fn completed_in_window(&self) -> impl Iterator<Item = &CompactRecord> {
        let window = self.window();
        let loaded = self.records.iter().filter(|r| r.phase != Phase::Warmup && r.ok());
        loaded.filter(move |r| window.contains(&r.last_token.unwrap_or(r.end).get()))
    }

    fn steady(&self) -> Steady {
        let closed = self.level.control == Control::Concurrency;
        steady(self.records.iter().copied(), Window::new(self.settle, self.measure), closed)
    }

    fn per_s(&self, n: f64) -> f64 {
        let s = self.measure.as_secs_f64();
        if s > 0.0 { n / s } else { 0.0 }
    }
}

/// Explains the verdict of a step. `growth` is the growth of the requests in flight, per second.
fn explain(
    input: &StepInput<'_>,
    measured: &[&CompactRecord],
    counted: &[JudgedRow],
    tier: &str,
    verdict: Verdict,
    binding: Option<&str>,
    growth: Option<f64>,
) -> String {
    if binding == Some(ERRORS) {
        return failures(measured);
    }
    let error = (1.0 - input.confidence).clamp(1e-9, 0.5);
    broken_off(input.abort, verdict).unwrap_or_else(|| reason(counted, tier, verdict, error, binding, growth))
}

/// Summarises a step. Leaves the server's own counters empty; the director fills them in.
pub fn summarize(input: &StepInput<'_>) -> Step {
    let mut step = Step { workers: step_workers(input.records, input.workers), ..of_records(input) };
    step.judge_workers(input);
    step
}

/// Summarises the records of a step, whoever sent them.
fn of_records(input: &StepInput<'_>) -> Step {
    let (steady, measured) = (input.steady(), input.measured());
    let (counted, halted_ms) = rows(input, &steady);
    let tier = input.tiers.first().map_or("main", Slo::tier);
    let limits: Vec<LimitRow> = counted.iter().map(|c| c.row.clone()).collect();
    let count = |outcome| measured.iter().filter(|r| r.outcome == outcome).count() as u64;
    let (verdict, binding) = tier_verdict(&limits, tier);
    let groups = groups(input.records, input.classes, input.itl, input.window(), input.kind);
    let binding = blamed(binding, verdict, &limits, tier, |class| failed_of(class, &groups, &measured));
    let (growth, rates) = (steady.in_flight_slope, Throughput::of(input));
    let reason = explain(input, &measured, &counted, tier, verdict, binding.as_deref(), growth);
    let joint = limits.iter().find(|r| r.tier == tier && r.limit == "joint");
    Step {
        series: input.series.to_owned(),
        step: input.step,
        kind: input.kind,
        level: input.level,
        started_at: input.started_at.to_owned(),
        started_s: input.started_s,
        ended_s: input.ended_s,
        settle_s: input.settle.as_secs_f64(),
        measure_s: input.measure.as_secs_f64(),
        tail_s: input.tail.as_secs_f64(),
        drain_s: input.drain.as_secs_f64(),
        abort: input.abort,
        due_n: measured.len() as u64,
        offered_rate: input.per_s(measured.len() as f64),
        sent_rate: input.per_s(sent_in_window(input) as f64),
        achieved_rate: input.per_s(input.completed_in_window().count() as f64),
        good_rate: input.per_s(joint.map_or(0, good) as f64),
        completed: count(Outcome::Ok),
        failed: count(Outcome::Failed),
        cut: count(Outcome::Cut),
        failed_timeout: timed_out(&measured, Outcome::Failed),
        cut_timeout: timed_out(&measured, Outcome::Cut),
        unsent: unsent(&measured),
        halted_ms,
        refused: 0,
        retried: measured.iter().filter(|r| r.attempts > 1).count() as u64,
        attempts: measured.iter().map(|r| u64::from(r.attempts)).sum(),
        resets: measured.iter().map(|r| r.resets()).sum(),
        output_tokens_per_s: rates.output,
        prompt_tokens_per_s: rates.prompt,
        items_per_s: rates.items,
        input_tokens_mean: mean(measured.iter().filter(|r| r.ok()).filter_map(|r| r.input_tokens)),
        output_tokens_mean: mean(measured.iter().filter(|r| r.ok()).filter_map(|r| r.output_tokens)),
        latency: latencies(&measured, input),
        joint_attainment: joint.and_then(|r| r.attainment),
        in_flight_mean: steady.in_flight_mean,
        in_flight_max: steady.in_flight_max,
        in_flight_slope: steady.in_flight_slope,
        ttft_slope: steady.ttft_slope,
        little_residual: steady.little_residual,
        lateness_p50_ms: lateness_ms(&measured, 500),
        lateness_p99_ms: lateness_ms(&measured, 990),
        receive_lag_p99_ms: input.receive_lag_p99_ms,
        conn_new: measured.iter().filter(|r| r.conn == Some(Conn::New)).count() as u64,
        server: ServerSide::default(),
        cost_per_mtok: cost(input.price_per_hour, rates.output),
        stable: stability_shown(steady.stable, &counted, tier),
        verdict,
        binding,
        reason,
        client_busy: input.client_busy,
        client_waiting: input.client_waiting,
        limits,
        groups,
        // Filled in by the director.
        ..Step::default()
    }
}

/// Returns the number of requests that were due, and that the client never sent.
fn unsent(measured: &[&CompactRecord]) -> u64 {
    measured.iter().filter(|r| is_unsent(r)).count() as u64
}

/// Returns the number of requests that met the limit of a row.
fn good(row: &LimitRow) -> u64 {
    row.n.saturating_sub(row.misses + row.censored)
}

/// Returns the number of failed requests of a class, or of all if it has no group, without those ended by the plan's timeout.
fn failed_of(class: &str, groups: &[Group], measured: &[&CompactRecord]) -> u64 {
    let own = groups.iter().find(|g| g.by == GroupBy::Class && g.name == class);
    let broken = || measured.iter().filter(|r| r.is_broken()).count() as u64;
    own.map_or_else(broken, |g| g.failed - g.failed_timeout)
}

/// Explains a step that ended before it could show anything.
fn broken_off(abort: Option<Abort>, verdict: Verdict) -> Option<String> {
    let why = abort.filter(|a| a.is_broken_off() || *a == Abort::ServerGone)?;
    (verdict == Verdict::Undecided)
        .then(|| format!("broken off ({why}) before it could be shown that the SLO is met"))
}

/// Returns the stability of a step as its `stability` row shows it. Unknown if the backlog was the client's own. A backlog that
/// grew until the client held requests back does not look like growth over the whole window, so a failed row overrides `stable`.
fn stability_shown(stable: Option<bool>, rows: &[JudgedRow], tier: &str) -> Option<bool> {
    let row = rows.iter().find(|c| c.row.tier == tier && c.row.limit == "stability")?;
    match row.row.verdict {
        Verdict::Fails => Some(false),
        Verdict::Invalid => stable.filter(|stable| *stable),
        Verdict::Meets | Verdict::Undecided => stable,
    }
}

/// Tokens and items per second of the answers completed within the window.
struct Throughput {
    output: f64,
    prompt: f64,
    items: f64,
}

impl Throughput {
    /// Adds up the answers.
    ///
    /// Output tokens are all generated tokens by the server's count, hidden reasoning included. Prompt tokens are those asked for if
    /// the server does not report them.
    fn of(input: &StepInput<'_>) -> Self {
        let (mut output, mut prompt, mut items, mut audio_ms) = (0_u64, 0_u64, 0_u64, 0_u64);
        for r in input.completed_in_window() {
            output += u64::from(r.output_tokens.map_or(0, Tokens::get));
            prompt += u64::from(r.input_tokens.map_or(r.input_asked, Tokens::get));
            items += u64::from(r.items);
            audio_ms += r.audio_ms.map_or(0, |ms| ms.get().into());
        }
        // A second of audio is an item.
        let items = items as f64 + audio_ms as f64 / 1e3;
        let [output, prompt, items] = [output as f64, prompt as f64, items].map(|n| input.per_s(n));
        Self { output, prompt, items }
    }
}

/// Returns the cost per million output tokens at a throughput of `tokens_per_s`.
fn cost(price_per_hour: Option<f64>, tokens_per_s: f64) -> Option<f64> {
    price_per_hour.filter(|_| tokens_per_s > 0.0).map(|price| price / 3600.0 / tokens_per_s * 1e6)
}

/// Returns the percentiles of every metric over the requests that count for it; `measured` is in order of `due`.
fn latencies(measured: &[&CompactRecord], input: &StepInput<'_>) -> BTreeMap<Metric, Quantiles> {
    // One buffer, reused for every metric.
    let mut room = Vec::with_capacity(measured.len());
    let mut of = |metric: Metric| {
        let answered = measured.iter().filter(|r| r.counts_for(metric));
        let values = answered.filter_map(|r| metric.of(&r.record())).map(ms);
        quantiles_by_due(values, &mut room, ClusterPrior::of_kind(input.kind).with(input.earlier, metric))
    };
    let mut all: BTreeMap<Metric, Quantiles> = Metric::per_request().map(|m| (m, of(m))).collect();
    let gaps = input.itl.pooled().quantiles(all[&Metric::Tpot].inflation.unwrap_or(INFLATION));
    all.insert(Metric::Itl, gaps);
    all
}

fn mean(values: impl Iterator<Item = Tokens>) -> Option<f64> {
    let (n, sum) = values.fold((0_u64, 0_u64), |(n, sum), v| (n + 1, sum + u64::from(v.get())));
    (n > 0).then(|| sum as f64 / n as f64)
}

#[cfg(test)]
mod client_tests;
#[cfg(test)]
pub(super) mod tests;
