//! A step's records become one [`Step`]: the row of `steps.csv`, the rows of `limits.csv`, and the verdict.

use super::fault::{lateness_ms, sent_in_window};
use super::groups::{By, Group, groups, timed_out};
use super::itl::ItlTally;
use super::kept::Kept;
pub use super::limits::rejudged;
use super::limits::{Counted, rows};
use super::own::Allowed;
pub use super::reason::{ERRORS, blamed, step_verdict, tier_verdict, worst};
use super::reason::{failures, reason};
use super::steady::{Steady, Window, steady};
use super::step::{Abort, LimitRow, Quantiles, ServerSide, Step, StepKind, Verdict};
use super::tail::{Known, quantiles_by_due};
use super::verdict::INFLATION;
use goodput_core::level::{Control, Level};
use goodput_core::record::{Conn, Outcome, Phase};
use goodput_core::slo::{Metric, Slo};
use goodput_core::units::ms;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a step when it has ended.
#[derive(Debug, Clone)]
pub struct StepInput<'a> {
    /// The curve it belongs to.
    pub series: &'a str,
    /// Number within the sweep, from 1.
    pub step: u32,
    /// What it was measured for.
    pub kind: StepKind,
    /// What was held.
    pub level: Level,
    /// When it started (RFC 3339).
    pub started_at: &'a str,
    /// Seconds from the start of the sweep to its start.
    pub started_s: f64,
    /// Seconds from the start of the sweep to its end, drain included.
    pub ended_s: f64,
    /// Load before the measured window.
    pub settle: Duration,
    /// The measured window, as it was: shorter than planned where the step was aborted.
    pub measure: Duration,
    /// How long the load was kept on afterwards.
    pub tail: Duration,
    /// How long it took until the server was empty.
    pub drain: Duration,
    /// Why it ended early, if it did.
    pub abort: Option<Abort>,
    /// Every record of the step, in any order, with times from its start.
    pub records: &'a [Kept],
    /// The names of the classes of the mix, by index; none where there is one kind of request.
    pub classes: &'a [&'a str],
    /// The gaps of its measured requests.
    pub itl: &'a ItlTally,
    /// The steps of the series before this one: their misses tell how misses cluster.
    pub earlier: &'a [Step],
    /// The tiers of the SLO, resolved; the step's own verdict is that of the first.
    pub tiers: &'a [Slo],
    /// 99th percentile of socket readable → stamp.
    pub receive_lag_p99_ms: Option<f64>,
    /// Share of the window that the busiest sending thread was on a core.
    pub client_busy: Option<f64>,
    /// Largest share of the window in which a sending thread waited for one.
    pub client_waiting: Option<f64>,
    /// Confidence of every verdict, on each side.
    pub confidence: f64,
    /// Whether `max-in-flight` was reached, or descriptors or ports ran out.
    pub client_limit: bool,
    /// The plan's `max-in-flight`, where it was reached.
    pub in_flight_limit: Option<u32>,
    /// How much delay of its own the client may have.
    pub allowed: Allowed,
    /// The share of failed requests above which a step is stopped, where it is.
    pub max_error_share: Option<f64>,
    /// Price of the server per hour.
    pub price_per_hour: Option<f64>,
}

impl StepInput<'_> {
    /// The measured records, in order of `due`.
    fn measured(&self) -> Vec<&Kept> {
        let mut measured: Vec<&Kept> = self.records.iter().filter(|r| r.phase == Phase::Measure).collect();
        measured.sort_unstable_by_key(|r| (r.due, r.id));
        measured
    }

    fn window(&self) -> std::ops::Range<Duration> {
        self.settle..self.settle + self.measure
    }

    /// Answers, of any phase, whose last token came within the measured window.
    fn completed_in_window(&self) -> impl Iterator<Item = &Kept> {
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

/// Why a step has its verdict. `growth` is that of the requests in flight per second.
fn in_words(
    input: &StepInput<'_>,
    measured: &[&Kept],
    counted: &[Counted],
    tier: &str,
    (verdict, binding, growth): (Verdict, Option<&str>, Option<f64>),
) -> String {
    if binding == Some(ERRORS) {
        return failures(measured);
    }
    let error = (1.0 - input.confidence).clamp(1e-9, 0.5);
    broken_off(input.abort, verdict)
        .unwrap_or_else(|| reason(counted, tier, (verdict, error), binding, growth))
}

/// Sums a step up. The server's own counters are left empty: the director fills them in.
pub fn summarize(input: &StepInput<'_>) -> Step {
    let (steady, measured) = (input.steady(), input.measured());
    let counted = rows(input, &steady);
    let tier = input.tiers.first().map_or("main", Slo::tier);
    let limits: Vec<LimitRow> = counted.iter().map(|c| c.row.clone()).collect();
    let count = |outcome| measured.iter().filter(|r| r.outcome == outcome).count() as u64;
    let (verdict, binding) = tier_verdict(&limits, tier);
    let groups = groups(input.records, (input.classes, input.itl), input.window(), input.kind);
    let broken = || measured.iter().filter(|r| r.is_broken()).count() as u64;
    let failed_of = |class: &str| failed_in(&groups, class).unwrap_or_else(broken);
    let binding = blamed(binding, verdict, &limits, tier, failed_of);
    let growth = steady.in_flight_slope;
    let reason = in_words(input, &measured, &counted, tier, (verdict, binding.as_deref(), growth));
    let (output_tokens_per_s, prompt_tokens_per_s) = token_rates(input);
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
        refused: 0,
        retried: measured.iter().filter(|r| r.attempts > 1).count() as u64,
        output_tokens_per_s,
        prompt_tokens_per_s,
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
        cost_per_mtok: cost(input.price_per_hour, output_tokens_per_s),
        stable: told(steady.stable, &counted, tier),
        verdict,
        binding,
        reason,
        client_busy: input.client_busy,
        client_waiting: input.client_waiting,
        host: None,
        limits,
        groups,
        replicas: Vec::new(),
        checks: Vec::new(),
        metrics: Vec::new(),
        trace: None,
    }
}

/// Requests that met what a row counts.
fn good(row: &LimitRow) -> u64 {
    row.n.saturating_sub(row.misses + row.censored)
}

/// Requests of a class that failed, those ended by the plan's timeout aside, where the class is told apart.
fn failed_in(groups: &[Group], class: &str) -> Option<u64> {
    groups.iter().find(|g| g.by == By::Class && g.name == class).map(|g| g.failed - g.failed_timeout)
}

/// What is said of a step that ended before it could show anything.
fn broken_off(abort: Option<Abort>, verdict: Verdict) -> Option<String> {
    let why = abort.filter(|a| a.is_broken_off() || *a == Abort::ServerGone)?;
    (verdict == Verdict::Undecided)
        .then(|| format!("broken off ({why}) before it could be shown that the SLO is met"))
}

/// Stability as the step shows it: not known where the backlog was the client's; and one that grew until the client held requests back
/// does not look like growth over the whole window.
fn told(stable: Option<bool>, rows: &[Counted], tier: &str) -> Option<bool> {
    let row = rows.iter().find(|c| c.row.tier == tier && c.row.limit == "stability")?;
    match row.row.verdict {
        Verdict::Fails => Some(false),
        Verdict::Invalid => stable.filter(|stable| *stable),
        Verdict::Meets | Verdict::Undecided => stable,
    }
}

/// Output and prompt tokens per second of the answers completed within the window. Output tokens are all that were generated, by the
/// server's count, hidden reasoning included. Where the server does not tell the prompt's tokens, those that were asked for.
fn token_rates(input: &StepInput<'_>) -> (f64, f64) {
    let (mut output, mut prompt) = (0_u64, 0_u64);
    for r in input.completed_in_window() {
        output += u64::from(r.output_tokens.unwrap_or(0));
        prompt += u64::from(r.input_tokens.unwrap_or(r.input_asked));
    }
    (input.per_s(output as f64), input.per_s(prompt as f64))
}

/// Cost per million output tokens at this many a second.
fn cost(price_per_hour: Option<f64>, tokens_per_s: f64) -> Option<f64> {
    price_per_hour.filter(|_| tokens_per_s > 0.0).map(|price| price / 3600.0 / tokens_per_s * 1e6)
}

/// Percentiles of every metric over the requests that tell it, which come in order of `due`.
fn latencies(measured: &[&Kept], input: &StepInput<'_>) -> BTreeMap<Metric, Quantiles> {
    // One after the other in the same memory.
    let mut room = Vec::with_capacity(measured.len());
    let mut of = |metric: Metric| {
        let answered = measured.iter().filter(|r| r.tells(metric));
        let values = answered.filter_map(|r| metric.of(&r.record())).map(ms);
        quantiles_by_due(values, &mut room, Known::of_kind(input.kind).with(input.earlier, metric))
    };
    let by_request = Metric::ALL.into_iter().filter(|m| *m != Metric::Itl);
    let mut all: BTreeMap<Metric, Quantiles> = by_request.map(|m| (m, of(m))).collect();
    let gaps = input.itl.pooled().quantiles(all[&Metric::Tpot].inflation.unwrap_or(INFLATION));
    all.insert(Metric::Itl, gaps);
    all
}

fn mean(values: impl Iterator<Item = u32>) -> Option<f64> {
    let (n, sum) = values.fold((0_u64, 0_u64), |(n, sum), v| (n + 1, sum + u64::from(v)));
    (n > 0).then(|| sum as f64 / n as f64)
}

#[cfg(test)]
mod client_tests;
#[cfg(test)]
pub(super) mod tests;
