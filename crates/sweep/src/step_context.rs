//! Facts about a step other than its records, and how the two are combined into a row of `steps.csv`.

use super::tally::StepTally;
use goodput_core::record::Phase;
use goodput_core::units::{Fraction, ms};
use goodput_load::load::lag::OwnDelay;
use goodput_plan::Plan;
use goodput_stats::search::Ask;
use goodput_stats::stats::replicas::replicas;
use goodput_stats::stats::step::{Abort, Step};
use goodput_stats::stats::summary::{StepInput, summarize};
use goodput_stats::stats::workers::WorkerReport;
use std::ops::Range;
use std::time::Duration;

/// The early end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlyEnd {
    pub(crate) why: Abort,
    /// Time from the start of the step.
    pub(crate) at: Duration,
}

/// A step that has ended. Times count from the start of the sweep.
#[derive(Debug, Clone)]
pub(crate) struct StepContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) ask: Ask,
    /// The name of its series; `number` is the step's number within the sweep.
    pub(crate) series: &'a str,
    pub(crate) number: u32,
    /// The earlier steps of its series.
    pub(crate) earlier: &'a [Step],
    /// Start time (RFC 3339).
    pub(crate) started_at: String,
    pub(crate) started: Duration,
    /// End time of its last request.
    pub(crate) ended: Duration,
    /// Settling time; `window` is the measured window, including extensions.
    pub(crate) settle: Duration,
    pub(crate) window: Duration,
    /// The early end, if the step did not run to the end of its window.
    pub(crate) abort: Option<EarlyEnd>,
    /// The delay that the client itself added within the window.
    pub(crate) client_delay: OwnDelay,
    /// Stretches in which the whole client stood still, from the start of the step.
    pub(crate) halts: Vec<Range<Duration>>,
    /// The workers' reports; empty if this machine sent.
    pub(crate) workers: Vec<WorkerReport>,
    /// True if the client reached one of its limits.
    pub(crate) client_limit: bool,
}

impl StepContext<'_> {
    /// Returns the input of the statistics. `classes` are the names of the classes of the mix.
    fn input<'b>(&'b self, tally: &'b StepTally, classes: &'b [&'b str]) -> StepInput<'b> {
        let window_end = self.settle + self.window;
        let last_due = tally.kept.last().map_or(window_end, |r| r.due.get());
        let tail = last_due.saturating_sub(window_end);
        let total = self.ended.saturating_sub(self.started);
        StepInput {
            series: self.series,
            step: self.number,
            kind: self.ask.kind,
            level: self.ask.level,
            started_at: &self.started_at,
            started_s: self.started.as_secs_f64(),
            ended_s: self.ended.as_secs_f64(),
            settle: self.settle,
            measure: self.window,
            tail,
            drain: total.saturating_sub(window_end + tail),
            abort: self.abort.map(|end| end.why),
            records: &tally.kept,
            classes,
            itl: &tally.itl,
            earlier: self.earlier,
            tiers: self.plan.slo.as_slice(),
            receive_lag_p99_ms: self.client_delay.lag_p99.map(ms),
            client_busy: self.client_delay.share.map(|s| s.busy),
            client_waiting: self.client_delay.share.and_then(|s| s.waiting),
            halts: &self.halts,
            workers: &self.workers,
            confidence: self.ask.confidence,
            // The first is the client's limit on requests in flight, the second a limit of the operating system: no
            // descriptor or port was left.
            client_limit: self.client_limit || tally.held,
            in_flight_limit: self.client_limit.then_some(self.plan.step.max_in_flight),
            allowed: self.plan.allowed(),
            max_error_share: self.plan.step.max_error_share.map(Fraction::get),
            price_per_hour: self.plan.hardware.total_price_per_hour(),
        }
    }

    /// Returns the part of the step that counts, from its start: the measured time, or everything if the step ended
    /// before its window.
    pub(crate) fn counted(&self) -> Range<Duration> {
        match self.abort {
            Some(EarlyEnd { at, .. }) if at <= self.settle => {
                Duration::ZERO..at.max(Duration::from_millis(1))
            }
            Some(EarlyEnd { at, .. }) => self.settle..at.min(self.settle + self.window),
            None => self.settle..self.settle + self.window,
        }
    }

    /// Summarizes the step after all of its requests have finished.
    pub(crate) fn conclude(mut self, tally: &mut StepTally) -> Step {
        let counted = self.counted();
        let before = self.abort.is_some_and(|end| end.at <= self.settle);
        if before {
            tally.kept.iter_mut().for_each(|r| r.phase = Phase::Measure);
        }
        (self.settle, self.window) = (counted.start, counted.end - counted.start);
        tally.kept.sort_unstable_by_key(|r| (r.due, r.id));
        let urls = self.plan.server.target.urls();
        let classes: Vec<&str> = self.plan.workload.classes().iter().map(|c| c.name.as_str()).collect();
        let refused = tally.refused(before);
        Step {
            refused,
            replicas: replicas(&tally.kept, urls),
            upload_p50_ms: tally.upload_ms(50.0),
            upload_p99_ms: tally.upload_ms(99.0),
            ..summarize(&self.input(tally, &classes))
        }
    }
}
