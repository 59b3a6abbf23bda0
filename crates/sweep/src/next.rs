//! The decisions of the director as pure functions of the plan and of the steps measured so far.

use goodput_core::level::{Control, Level};
use goodput_plan::{Plan, Series};
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Ask, Next};
use goodput_stats::stats::step::{Abort, Step, StepKind};
use goodput_workload::draw::Surge;
use std::borrow::Cow;

/// Number of connections to open before a step if no earlier step of the series gives an estimate.
const CONNECTIONS: f64 = 4.0;
/// Ratio of the connections opened before a step to the mean number of requests expected in flight.
const SPARE: f64 = 1.5;

/// The consequence of a step for the series that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The series continues.
    Continue,
    /// The server is gone, which ends the series.
    ServerGone,
    /// The sweep is over.
    Stop,
}

/// Returns the consequence of the last step that was measured.
pub(super) fn after(steps: &[Step]) -> After {
    // It was measured again and again in vain.
    if steps.last().is_some_and(Step::is_worker_fault) {
        return After::Stop;
    }
    match steps.last().and_then(|step| step.abort) {
        Some(why) if why.is_broken_off() => After::Stop,
        Some(Abort::ServerGone) => After::ServerGone,
        Some(_) | None => After::Continue,
    }
}

/// Returns true if the search of a series is done.
pub(super) fn is_measured(series: &Series, steps: &[Step]) -> bool {
    series.plan.searcher().is_ok_and(|search| search.next(&series.name, steps) == Next::Done)
}

/// Returns the series in the order in which to measure them: those already begun first, so that the steps of each are
/// adjacent.
pub(super) fn in_order<'a>(series: &'a [Series], steps: &[Step]) -> Vec<&'a Series> {
    let mut all: Vec<&Series> = series.iter().collect();
    all.sort_by_key(|one| one.variant.is_some() && !steps.iter().any(|s| s.series == one.name));
    all
}

/// Returns the steps of the current series. The steps of alternating variants are interleaved; otherwise, the steps of
/// the current series are the last ones.
pub(super) fn series_steps<'a>(plan: &Plan, steps: &'a [Step], series: &str) -> Cow<'a, [Step]> {
    if plan.alternate.is_some() {
        return steps.iter().filter(|s| s.series == series).cloned().collect();
    }
    let first = steps.iter().rposition(|s| s.series != series).map_or(0, |i| i + 1);
    Cow::Borrowed(&steps[first..])
}

/// Returns the highest level in the plan, if it names any.
pub(super) fn highest(plan: &Plan) -> Option<Level> {
    let open = |rate: f64| Level::new(plan.workload.control(), rate);
    let max = plan.search.max_rate.map(|r| open(r.get()));
    match &plan.search.mode {
        Mode::Rates(rates) => rates.iter().map(|r| r.get()).reduce(f64::max).map(open),
        Mode::Concurrency(slots) => slots.iter().max().map(|n| Level::concurrency(n.get())),
        Mode::Ladder(ladder) => Some(Level::concurrency(ladder.max.get())),
        Mode::Burst(n) => Some(Level::concurrency(n.get())),
        Mode::Ramp(_) | Mode::Adaptive(_) => max,
    }
}

/// Returns the surge of a recovery step; `None` for any other step.
pub(super) fn surge(plan: &Plan, ask: &Ask) -> Option<Surge> {
    let recovery = plan.recovery.filter(|_| ask.kind == StepKind::Recovery)?;
    let from = ask.settle + recovery.hold.0;
    Some(Surge { from, length: recovery.surge.0, factor: recovery.factor.get() })
}

/// Estimates the number of connections that a step at `level` needs, from the earlier steps of its series.
pub(super) fn likely_connections(plan: &Plan, level: Level, earlier: &[Step]) -> usize {
    let like = earlier.iter().rfind(|s| s.level.control == level.control);
    let unloaded = earlier.iter().rfind(|s| s.level.control == Control::Concurrency);
    let likely = match (level.control, like, unloaded) {
        (Control::Concurrency, ..) => level.value,
        (_, Some(last), _) => last.in_flight_mean * level.value / last.level.value * SPARE,
        // The rate of one request at a time is the inverse of its duration; Little's law gives the requests in flight.
        (_, None, Some(one)) => level.value * plan.workload.per_level() / one.achieved_rate.max(1e-3) * SPARE,
        (_, None, None) => CONNECTIONS,
    };
    let most = f64::from(plan.step.max_in_flight).max(2.0);
    likely.clamp(2.0, most).ceil() as usize
}
