//! Terminal output of a running sweep, on standard error: the rate, requests in flight, p99 TTFT against its limit (e2e
//! if answers are not streamed), and the time left in the step.

use goodput_core::level::Level;
use goodput_core::slo::Metric;
use goodput_core::units::{Span, ms, short};
use goodput_plan::Plan;
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// The latency that the progress line shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latency {
    metric: Metric,
    /// The smallest limit on it.
    limit: Option<Duration>,
}

impl Latency {
    /// Chooses TTFT, or e2e if answers are not streamed.
    pub(crate) fn of(plan: &Plan) -> Self {
        let metric = if plan.server.stream { Metric::Ttft } else { Metric::E2e };
        Self { metric, limit: plan.slo.as_slice().first().and_then(|slo| slo.smallest(metric)) }
    }
}

/// The state of a running step, as the progress line shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepProgress {
    pub(crate) level: Level,
    /// Time since the step started.
    pub(crate) elapsed: Duration,
    /// End of the measured window, from the start of the step.
    pub(crate) end: Duration,
    /// Requests in flight.
    pub(crate) in_flight: u64,
    /// p99 of the latency shown, in milliseconds; `None` before the first measured request has finished.
    pub(crate) p99: Option<f64>,
}

/// The progress line, and a row above it for each finished step.
pub(crate) struct Progress {
    bar: ProgressBar,
    latency: Latency,
}

impl Progress {
    /// Makes a progress line on standard error. If that is no terminal, only the rows are written.
    pub(crate) fn new(show: bool, latency: Latency) -> Self {
        let target = if show { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar:.cyan/dim} {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, latency }
    }

    /// Writes a line of text above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| tracing::info!("{text}"));
    }

    /// Redraws the line.
    pub(crate) fn tick(&self, shown: &StepProgress) {
        let StepProgress { level, elapsed, end, in_flight, p99 } = *shown;
        self.bar.set_length(end.as_millis() as u64);
        self.bar.set_position(elapsed.min(end).as_millis() as u64);
        self.bar.set_prefix(level.to_string());
        let metric = self.latency.metric.title();
        let response = match (p99, self.latency.limit) {
            (Some(p99), Some(limit)) => format!("p99 {metric} {} of {} ms", short(p99), short(ms(limit))),
            (Some(p99), None) => format!("p99 {metric} {} ms", short(p99)),
            (None, _) => "settling".into(),
        };
        let left = end.saturating_sub(elapsed).as_secs();
        let left = if left > 0 { format!("{} left", Span::secs(left)) } else { "finishing".into() };
        self.bar.set_message(format!("{in_flight} in flight · {response} · {left}"));
    }

    /// Writes the row of a finished step.
    pub(crate) fn step(&self, step: &Step) {
        let mark = match step.verdict {
            Verdict::Meets => "meets",
            Verdict::Fails => "FAILS",
            Verdict::Undecided => "undecided",
            Verdict::Invalid => "INVALID",
        };
        let unlimited = step.limits.iter().all(|l| matches!(l.limit.as_str(), "joint" | "stability"));
        if unlimited && matches!(step.verdict, Verdict::Meets | Verdict::Undecided) {
            // The step has no limits to meet.
            return self.say(&format!(
                "{:>14}  {} requests/s, {} output tokens/s",
                if step.kind == StepKind::Baseline { "unloaded".into() } else { step.level.to_string() },
                short(step.achieved_rate),
                short(step.output_tokens_per_s)
            ));
        }
        self.say(&format!("{:>14}  {mark:<9}  {}", step.level.to_string(), step.reason));
    }

    /// Removes the progress line.
    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }
}
