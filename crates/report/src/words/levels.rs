//! Levels with their units, for people.

use super::units::level_number;
use goodput_core::level::Control;
use goodput_core::units::short;
use goodput_stats::stats::step::{Step, StepKind};

/// Returns a level with its full unit: `33 requests/s`, `64 requests in flight`.
pub(crate) fn level(control: Control, value: f64) -> String {
    let n = level_number(value);
    match control {
        Control::Rate => format!("{n} requests/s"),
        Control::Concurrency if n == "1" => "1 request in flight".into(),
        Control::Concurrency => format!("{n} requests in flight"),
        Control::Sessions => format!("{n} sessions/s"),
        Control::TraceScale => format!("{n} × the trace's speed"),
    }
}

/// Returns the name of the quantity of a level.
pub(crate) const fn noun(control: Control) -> &'static str {
    match control {
        Control::Rate => "rate",
        Control::Concurrency => "concurrency",
        Control::Sessions => "rate of sessions",
        Control::TraceScale => "speed of the trace",
    }
}

/// Returns the level of a step with its unit. Steps outside the search's levels have names instead: `unloaded` for one
/// request at a time, and one for the saturated server.
pub(crate) fn step_level(s: &Step) -> String {
    match s.kind {
        StepKind::Baseline => "unloaded".into(),
        StepKind::Recovery => format!("{} with a surge", level(s.level.control, s.level.value)),
        StepKind::Peak => format!("saturated ({} in flight)", level_number(s.level.value)),
        StepKind::Profile => {
            format!("{}{}, under the profiler", level_number(s.level.value), s.level.control.unit())
        }
        _ => format!("{}{}", level_number(s.level.value), s.level.control.unit()),
    }
}

/// Returns true if a level takes a plural verb: `16 requests in flight fail`, but `16 requests/s fails`.
pub(crate) fn many(control: Control, value: f64) -> bool {
    control == Control::Concurrency && short(value) != "1"
}
