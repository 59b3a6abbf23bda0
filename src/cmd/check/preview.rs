//! The steps that a plan would run.

use crate::level::{Control, Level};
use crate::plan::Plan;
use crate::search::config::{Mode, Ramp};
use crate::sweep::longest_step;
use serde::Serialize;

/// Number of levels shown for a ramp without `max-rate`, which has no last level.
const RAMP_SHOWN: usize = 12;

/// The steps that a plan would run.
#[derive(Debug, Serialize)]
pub(super) struct Preview {
    /// The steps, in order.
    pub(super) steps: Vec<PreviewStep>,
    /// Requests expected in all steps; `None` if unknown, as in a closed loop.
    pub(super) requests: Option<u64>,
    /// Longest duration of all steps together, in seconds.
    pub(super) longest_s: f64,
    /// True if the plan may run more steps than shown.
    pub(super) open_ended: bool,
}

/// One step that a plan would run.
#[derive(Debug, Serialize)]
pub(super) struct PreviewStep {
    pub(super) control: Control,
    pub(super) level: f64,
    /// Requests expected while settling and in the measured window; `None` in a closed loop.
    pub(super) requests: Option<u64>,
    /// Measured time, in seconds.
    pub(super) window_s: f64,
    /// Number of windows that the measured time is split into.
    pub(super) windows: u32,
    /// Longest duration, in seconds.
    pub(super) longest_s: f64,
}

/// Returns the steps that a plan would run.
pub(super) fn preview(plan: &Plan) -> Preview {
    if !plan.rows.is_empty() {
        let all: Vec<Preview> = plan.series().iter().map(|row| preview(&row.plan)).collect();
        return Preview {
            requests: all.iter().map(|p| p.requests).sum(),
            // The reference step of a row takes at most as long as the row.
            longest_s: plan
                .rows
                .iter()
                .zip(&all)
                .map(|(r, p)| p.longest_s * if r.unloaded() { 1.0 } else { 2.0 })
                .sum(),
            open_ended: false,
            steps: all.into_iter().flat_map(|p| p.steps).collect(),
        };
    }
    let (levels, open_ended) = levels(plan);
    let steps: Vec<PreviewStep> = levels
        .iter()
        .map(|level| {
            let rate = requests_per_s(plan, *level);
            let window = plan.step.window(level.per_s()).as_secs_f64();
            let listed = matches!(plan.search.mode, Mode::Rates(_) | Mode::Concurrency(_));
            let windows = if listed { plan.step.windows(level.per_s()).0 } else { 1 };
            let settle = plan.step.settle.0 * windows;
            PreviewStep {
                windows,
                control: level.control,
                level: level.value,
                requests: rate.map(|r| (r * (settle.as_secs_f64() + window)).round() as u64),
                window_s: window,
                longest_s: longest_step(plan, *level).as_secs_f64(),
            }
        })
        .collect();
    if let Mode::Adaptive(adaptive) = &plan.search.mode {
        let longest_s = adaptive.budget.0.as_secs_f64();
        return Preview { requests: None, longest_s, open_ended, steps };
    }
    Preview {
        requests: steps.iter().map(|s| s.requests).sum::<Option<u64>>(),
        longest_s: steps.iter().map(|s| s.longest_s).sum(),
        open_ended,
        steps,
    }
}

/// Returns the levels of a plan that are known in advance, and true if there may be more.
pub(super) fn levels(plan: &Plan) -> (Vec<Level>, bool) {
    let max = plan.search.max_rate.map_or(f64::INFINITY, |r| r.get());
    match &plan.search.mode {
        Mode::Rates(rates) => {
            let open = plan.workload.control();
            let levels = rates.iter().map(|r| Level::new(open, r.get()));
            (levels.filter(|l| l.value <= max).collect(), false)
        }
        Mode::Concurrency(list) => (list.iter().map(|c| Level::concurrency(c.get())).collect(), false),
        Mode::Ramp(ramp) => ramp_levels(ramp, max, plan.workload.control()),
        Mode::Ladder(ladder) => {
            let most = ladder.max.get();
            let below = (0..32).map(|i| ladder.level(i)).take_while(|n| *n < most).chain([most]);
            (below.map(Level::concurrency).collect(), false)
        }
        Mode::Burst(n) => (vec![Level::concurrency(n.get())], false),
        // The search chooses its levels while it runs.
        Mode::Adaptive(_) => (Vec::new(), true),
    }
}

fn ramp_levels(ramp: &Ramp, max: f64, open: Control) -> (Vec<Level>, bool) {
    let (mut levels, mut rate) = (Vec::new(), ramp.start.get());
    while rate < max {
        if levels.len() == RAMP_SHOWN && max.is_infinite() {
            return (levels, true);
        }
        levels.push(Level::new(open, rate));
        rate *= ramp.factor.get();
    }
    levels.push(Level::new(open, max));
    (levels, false)
}

/// Returns the requests per second at a level; for conversations, the turns per second in the steady state. `None` in a closed loop.
pub(super) fn requests_per_s(plan: &Plan, level: Level) -> Option<f64> {
    (level.control != Control::Concurrency).then(|| level.value * plan.workload.per_level())
}
