//! The steps so far, sorted by purpose.

use super::adaptive::Policy;
use super::change::{Change, last_change, since};
use crate::stats::step::{Step, StepKind};
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use std::time::Duration;

/// The steps so far, sorted by purpose.
#[derive(Debug)]
pub(super) struct StepsByPurpose<'a> {
    pub(super) all: Vec<&'a Step>,
    pub(super) baselines: Vec<&'a Step>,
    pub(super) ramp: Vec<&'a Step>,
    /// Ramp and refinement: all steps under load.
    pub(super) loaded: Vec<&'a Step>,
    /// End of the last baseline, in seconds of the sweep.
    pub(super) baseline_s: f64,
    /// The last change of the server that the steps show.
    pub(super) change: Option<Change>,
    /// Number of steps under load since the ramp and since the last change of the server.
    pub(super) refined: usize,
    /// Part of the budget spent, in seconds.
    pub(super) spent_s: f64,
    /// End-to-end time of an unloaded request, in seconds.
    pub(super) e2e_s: f64,
    /// Start of the series, in seconds of the sweep.
    pub(super) origin_s: f64,
    /// Duration of a conversation beyond one request, in seconds.
    pub(super) talk_s: f64,
    control: Control,
    per_level: f64,
    longest_tail_s: f64,
}

impl<'a> StepsByPurpose<'a> {
    pub(super) fn of(policy: &Policy, steps: &[&'a Step]) -> Self {
        let (first, last) = (steps.first(), steps.last());
        let ended_s = last.map_or(0.0, |s| s.ended_s);
        let steps = &super::retry::confirmed(steps)[..];
        let change = last_change(steps);
        let since = since(change);
        let kind = |kind| steps.iter().copied().filter(|s| s.kind == kind).collect::<Vec<&Step>>();
        let baselines = kind(StepKind::Baseline);
        let e2e_s = unloaded_e2e(&baselines);
        let further =
            if policy.control == Control::Sessions { (policy.per_level - 1.0).max(0.0) } else { 0.0 };
        // The budget of the first series includes its warm-up; a later series begins where the one before ended.
        let origin_s = first.filter(|s| s.step > 1).map_or(0.0, |s| s.started_s);
        Self {
            e2e_s,
            baseline_s: baselines.last().map_or(origin_s, |s| s.ended_s),
            talk_s: policy.think_s + further * e2e_s,
            origin_s,
            ramp: kind(StepKind::Ramp),
            loaded: steps.iter().copied().filter(|s| s.kind != StepKind::Baseline).collect(),
            refined: steps
                .iter()
                .rev()
                .take_while(|s| s.kind != StepKind::Ramp && s.started_s >= since)
                .filter(|s| s.kind != StepKind::Baseline)
                .count(),
            spent_s: if last.is_some() { ended_s - origin_s } else { 0.0 },
            control: policy.control,
            per_level: policy.per_level,
            longest_tail_s: (0.1 * policy.budget_s).max(30.0),
            all: steps.to_vec(),
            baselines,
            change,
        }
    }

    /// Returns how long load continues while requests finish: twice the time of a request under load, at least 3 s, and
    /// at most 30 s or a tenth of the budget, whichever is longer.
    pub(super) fn tail(&self) -> Duration {
        let slowest =
            self.loaded.iter().filter(|s| !s.overloaded()).filter_map(|s| s.quantiles(Metric::E2e).p99);
        let e2e = slowest.map(|ms| ms / 1e3).fold(self.e2e_s, f64::max);
        Duration::from_secs_f64((2.0 * e2e).clamp(3.0, self.longest_tail_s))
    }

    /// Returns the requests per second at a level. For a closed loop, the throughput of the nearest measured level, and
    /// never more per request in flight than it had there.
    pub(super) fn per_s(&self, level: f64) -> f64 {
        if self.control != Control::Concurrency {
            return level * self.per_level;
        }
        let near = |s: &&&Step| (s.level.value / level).ln().abs();
        let made = self.all.iter().filter(|s| s.achieved_rate > 0.0);
        let nearest = made.min_by(|a, b| near(a).total_cmp(&near(b)));
        nearest.map_or(1.0 / self.e2e_s.max(1e-3), |s| {
            if level < s.level.value { s.achieved_rate * level / s.level.value } else { s.achieved_rate }
        })
    }
}

/// Returns the end-to-end time of an unloaded request, in seconds: the median of the last baseline in which a request
/// finished. If none did, a request takes at least as long as the client waited.
pub(super) fn unloaded_e2e(baselines: &[&Step]) -> f64 {
    let e2e = |s: &&Step| s.quantiles(Metric::E2e).p50.map(|ms| ms / 1e3);
    let waited = baselines.last().map_or(1.0, |s| s.measure_s + s.tail_s + s.drain_s);
    baselines.iter().filter_map(e2e).next_back().unwrap_or(waited)
}
