//! The last fifth of the budget: one step at the safe rate, whose verdict is part of the answer. Slow growth, such as a
//! thrashing cache, memory, or conversations that pile up, shows only after a long time at one level.

use super::adaptive::Policy;
use super::estimate::safe_level;
use super::posterior::Posterior;
use super::steps_by_purpose::StepsByPurpose;
use crate::stats::step::{Step, StepKind, Verdict};
use crate::stats::summary::tier_verdict;
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use goodput_core::units::three_digits;

/// Share of the budget reserved for the step.
pub(super) const SHARE: f64 = 0.2;
/// Factor above the level held so far from which a higher safe rate is held again.
const HIGHER: f64 = 1.1;

/// Returns the level to hold: the safe rate of the first tier that has one, unless a step has held about as much.
pub(super) fn due(policy: &Policy, seen: &StepsByPurpose<'_>, tiers: &[(&Slo, Posterior)]) -> Option<f64> {
    let safe = tiers.iter().find_map(|(slo, posterior)| safe_level(policy, slo, &seen.all, posterior))?;
    let level = match policy.control {
        Control::Concurrency => safe.floor(),
        // Rounded down: no level above the safe rate is held.
        _ => three_digits(safe, f64::floor),
    };
    (level > 0.0 && held(policy, seen).is_none_or(|held| level > HIGHER * held)).then_some(level)
}

/// Returns the level of the last step that was held without failing, if no later one failed.
fn held(policy: &Policy, seen: &StepsByPurpose<'_>) -> Option<f64> {
    let last = seen.loaded.iter().rfind(|s| s.kind == StepKind::Hold)?;
    (!failed(policy, last)).then_some(last.level.value)
}

/// Returns the last step that held the safe rate, if it is about this tier, whose safe level is `safe`. One step holds the safe
/// rate of one tier, the first that has one: it tells nothing about a looser tier, whose safe level is far above.
pub(super) fn step_of<'a>(
    policy: &Policy,
    slo: &Slo,
    steps: &[&'a Step],
    safe: Option<f64>,
) -> Option<&'a Step> {
    let step = steps.iter().rfind(|s| s.kind == StepKind::Hold)?;
    let is_first = policy.tiers.first().is_some_and(|first| first.tier() == slo.tier());
    let is_near = safe.is_none_or(|safe| safe <= HIGHER * step.level.value);
    (is_first || is_near).then_some(*step)
}

fn failed(policy: &Policy, step: &Step) -> bool {
    let fails = |tier: &str| tier_verdict(&step.limits, tier).0 == Verdict::Fails;
    step.too_much() || policy.tiers.iter().any(|slo| fails(slo.tier()))
}
