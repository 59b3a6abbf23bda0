//! Terminal output of a running sweep, on standard error. A line about the step that runs: the rate, requests in flight, p99 TTFT against
//! its limit (e2e if answers are not streamed), and the time left in the step. Below it a line about the sweep: the budget left, and the
//! goodput as it is known so far.

use goodput_core::level::Level;
use goodput_core::slo::Metric;
use goodput_core::units::{Span, ms, short};
use goodput_load::load::spec::Status as LoadStatus;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::Run;
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::search::config::Mode;
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
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
        let metric = if plan.server.streams() { Metric::Ttft } else { Metric::E2e };
        Self { metric, limit: plan.slo.as_slice().first().and_then(|slo| slo.smallest(metric)) }
    }
}

/// The state of a running step, as the progress line shows it.
#[derive(Debug, Clone)]
pub(crate) struct StepProgress {
    pub(crate) level: Level,
    /// Time since the step started.
    pub(crate) elapsed: Duration,
    /// End of the measured window, from the start of the step.
    pub(crate) end: Duration,
    /// Requests in flight.
    pub(crate) in_flight: u64,
    /// The state of each worker's part, with its name; empty if this machine sends.
    pub(crate) workers: Vec<(String, LoadStatus)>,
    /// p99 of the latency shown, in milliseconds; `None` before the first measured request has finished.
    pub(crate) p99: Option<f64>,
}

/// Time that is left of a budget.
#[derive(Debug, Clone, Default)]
struct BudgetClock {
    /// The budget of all series together, if they share one.
    shared: Option<Duration>,
    /// The series that runs, and the time that the sweep had spent when it began.
    series: Option<(String, Duration)>,
    /// The budget and what was left of it when the step began.
    at_step: Option<(Duration, Duration)>,
}

impl BudgetClock {
    /// Notes the start of a step of a series, at `spent` of the sweep.
    fn begin(&mut self, series: &Series, step: u32, spent: Duration) {
        if self.series.as_ref().is_none_or(|(name, _)| *name != series.name) {
            let began = if step == 1 { Duration::ZERO } else { spent };
            self.series = Some((series.name.clone(), began));
        }
        let began = self.series.as_ref().map_or(Duration::ZERO, |(_, began)| *began);
        self.at_step = match (self.shared, &series.plan.search.mode) {
            (Some(total), _) => Some((total, total.saturating_sub(spent))),
            (None, Mode::Adaptive(adaptive)) => {
                let total = adaptive.budget.0;
                Some((total, total.saturating_sub(spent.saturating_sub(began))))
            }
            (None, _) => None,
        };
    }

    /// Returns what is left in words, `elapsed` after the step began: `38m of 1h left`.
    fn words(&self, elapsed: Duration) -> Option<String> {
        let (total, left) = self.at_step?;
        let whole = |d: Duration| match d.as_secs() {
            s if s >= 600 => Span::secs(s - s % 60),
            s => Span::secs(s),
        };
        Some(format!("{} of {} left", whole(left.saturating_sub(elapsed)), Span(total)))
    }
}

/// Returns an answer as it is known so far, in a few words; `None` before anything is known.
fn so_far(a: &Answer) -> Option<String> {
    let (g, unit) = (&a.goodput, a.control.unit());
    let known = match (g.status(), g.rate(), g.interval90(), g.bracket.met, g.bracket.failed) {
        (Status::Found, Some(rate), Some([low, high]), ..) => {
            format!("{} ({} – {}){unit}", short(rate), short(low), short(high))
        }
        (Status::None, ..) => "no level meets the SLO".into(),
        (_, _, _, Some(met), Some(failed)) => format!("{} – {}{unit}", short(met), short(failed)),
        (_, _, _, Some(met), None) => format!("at least {}{unit}", short(met)),
        (_, Some(rate), Some([_, high]), None, _) => {
            format!("about {}, at most {}{unit}", short(rate), short(high))
        }
        (_, _, _, None, Some(failed)) => format!("less than {}{unit}", short(failed)),
        _ => return None,
    };
    Some(format!("goodput so far {known}"))
}

/// The two lines, and a row above them for each finished step.
pub(crate) struct Progress {
    lines: MultiProgress,
    bar: ProgressBar,
    sweep: ProgressBar,
    latency: Latency,
    budget: BudgetClock,
    /// The goodput as it is known so far.
    so_far: Option<String>,
}

impl Progress {
    /// Makes the lines on standard error. If that is no terminal, only the rows are written. `budget` is that of all series together.
    pub(crate) fn new(show: bool, latency: Latency, budget: Option<Span>) -> Self {
        let target = if show { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
        let lines = MultiProgress::with_draw_target(target);
        let (bar, sweep) = (lines.add(ProgressBar::new(1)), lines.add(ProgressBar::new(1)));
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar:.cyan/dim} {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        if let Ok(style) = ProgressStyle::with_template("{wide_msg:.dim}") {
            sweep.set_style(style);
        }
        let budget = BudgetClock { shared: budget.map(|b| b.0), ..BudgetClock::default() };
        Self { lines, bar, sweep, latency, budget, so_far: None }
    }

    /// Notes the start of a step, at `spent` of the sweep.
    pub(crate) fn begin(&mut self, series: &Series, step: u32, spent: Duration) {
        if self.budget.series.as_ref().is_some_and(|(name, _)| *name != series.name) {
            self.so_far = None;
        }
        self.budget.begin(series, step, spent);
    }

    /// Notes the answer of the series that runs as it is known so far: that of the first tier.
    pub(crate) fn answers(&mut self, run: &Run) {
        let series = self.budget.series.as_ref().map(|(name, _)| name.as_str());
        self.so_far = run.answers.iter().find(|a| Some(a.series.as_str()) == series).and_then(so_far);
    }

    /// Writes a line of text above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.lines.suspend(|| tracing::info!("{text}"));
    }

    /// Redraws the lines.
    pub(crate) fn tick(&self, shown: &StepProgress) {
        let StepProgress { level, elapsed, end, in_flight, p99, workers } = shown;
        self.bar.set_length(end.as_millis() as u64);
        self.bar.set_position(elapsed.min(end).as_millis() as u64);
        let by = match workers.len() {
            0 => String::new(),
            n => format!(" by {n} workers"),
        };
        self.bar.set_prefix(level.to_string());
        let metric = self.latency.metric.title();
        let response = match (p99, self.latency.limit) {
            (Some(p99), Some(limit)) => format!("p99 {metric} {} of {} ms", short(*p99), short(ms(limit))),
            (Some(p99), None) => format!("p99 {metric} {} ms", short(*p99)),
            (None, _) => "settling".into(),
        };
        let left = end.saturating_sub(*elapsed).as_secs();
        let left = if left > 0 { format!("{} left", Span::secs(left)) } else { "finishing".into() };
        self.bar.set_message(format!("{in_flight} in flight{by} · {response} · {left}"));
        let about = [self.budget.words(*elapsed), self.so_far.clone()];
        let about: Vec<String> = about.into_iter().flatten().collect();
        self.sweep.set_message(if about.is_empty() {
            String::new()
        } else {
            format!("sweep: {}", about.join(" · "))
        });
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

    /// Removes the lines.
    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
        self.sweep.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::{Bracket, Conclusion};

    #[test]
    fn the_goodput_is_told_as_it_is_known() {
        let mut answer = fixture::found().answers.swap_remove(0);
        let found = conclusion(Status::Found, Some(16.87), Some([15.46, 18.34]), Some(15.2));
        let below = conclusion(Status::Undecided, Some(12.0), Some([0.0, 21.0]), None);
        let bracket = |met, failed| Bracket { met, failed };
        for (conclusion, bracket, words) in [
            (found, bracket(Some(15.2), Some(24.4)), Some("goodput so far 16.9 (15.5 – 18.3) req/s")),
            (below, bracket(None, Some(24.4)), Some("goodput so far about 12, at most 21 req/s")),
            (Conclusion::OPEN, bracket(Some(14.0), Some(24.4)), Some("goodput so far 14 – 24.4 req/s")),
            (Conclusion::OPEN, bracket(Some(14.0), None), Some("goodput so far at least 14 req/s")),
            (Conclusion::OPEN, bracket(None, Some(24.4)), Some("goodput so far less than 24.4 req/s")),
            (Conclusion::None, bracket(None, Some(1.0)), Some("goodput so far no level meets the SLO")),
            (Conclusion::OPEN, bracket(None, None), None),
        ] {
            (answer.goodput.conclusion, answer.goodput.bracket) = (conclusion, bracket);
            assert_eq!(so_far(&answer).as_deref(), words);
        }
    }

    /// Rows: the series, the step's number, the time spent by the sweep and by the step, and what is left; each series has ten minutes.
    #[test]
    fn the_budget_is_that_of_the_series_or_of_all() {
        let plan = Plan::from_text(
            "name = \"x\"\n[server]\nurl = \"http://127.0.0.1:1\"\n[slo]\nttft.p99 = \"1s\"\n[workload.prompts.synthetic]\n\
             input-tokens = { fixed = 9 }\noutput-tokens = { fixed = 9 }\n[search]\nadaptive = { budget = \"10m\" }",
        )
        .unwrap();
        let mut clock = BudgetClock::default();
        for (name, step, spent, elapsed, left) in [
            ("cold", 1, 5, 10, "9m 45s of 10m left"),
            ("cold", 2, 300, 0, "5m of 10m left"),
            ("warm", 9, 700, 30, "9m 30s of 10m left"),
            ("warm", 10, 1_400, 0, "0s of 10m left"),
        ] {
            let series = Series { name: name.into(), variant: None, plan: plan.clone() };
            clock.begin(&series, step, Duration::from_secs(spent));
            assert_eq!(clock.words(Duration::from_secs(elapsed)).as_deref(), Some(left), "{name} {step}");
        }
        let mut all = BudgetClock { shared: Some(Duration::from_secs(3_600)), ..BudgetClock::default() };
        let series = Series { name: "warm".into(), variant: None, plan };
        all.begin(&series, 9, Duration::from_secs(700));
        assert_eq!(all.words(Duration::ZERO).as_deref(), Some("48m of 1h left"));
    }
}
