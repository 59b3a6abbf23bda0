//! The soak after the search: the safe level once more, for as long as the plan asks, with a separate verdict.

use super::answer::Goodput;
use super::ask::{Ask, Ends};
use crate::stats::step::{Step, StepKind};
use goodput_core::level::{Control, Level};
use goodput_core::times::StepTimes;
use goodput_core::units::three_digits;
use std::time::Duration;

/// Returns the soak of an answer, if there is a level to confirm: the safe one, or without a published interval the
/// highest shown to meet.
pub(super) fn soak(
    answer: &Goodput,
    control: Control,
    length: Duration,
    times: &StepTimes,
    confidence: f64,
) -> Option<Ask> {
    let value = answer.safe_or_met()?;
    let level = match control {
        Control::Concurrency => Level::concurrency(value as u32),
        // Rounded down: the confirmed level is never above the safe one.
        open => Level::new(open, three_digits(value, f64::floor)),
    };
    (level.value > 0.0).then(|| Ask {
        level,
        kind: StepKind::Confirm,
        settle: times.settle.0,
        measure: length,
        extend: false,
        tail: times.tail(),
        drain: times.drain.0,
        ends: Ends::WhenFarOver,
        confidence,
    })
}

/// Returns the steps before the soak.
pub(super) fn before<'a>(steps: &[&'a Step]) -> Vec<&'a Step> {
    steps.iter().copied().take_while(|s| s.kind != StepKind::Confirm).collect()
}
