//! Levels with their units, for people.

use super::units::level_number;
use goodput_core::level::Control;
use goodput_core::units::short;
use goodput_stats::stats::step::{Step, StepKind};

/// A level with its unit in full: `33 requests/s`, `64 requests in flight`.
pub fn level(control: Control, value: f64) -> String {
    let n = level_number(value);
    match control {
        Control::Rate => format!("{n} requests/s"),
        Control::Concurrency if n == "1" => "1 request in flight".into(),
        Control::Concurrency => format!("{n} requests in flight"),
        Control::Sessions => format!("{n} sessions/s"),
        Control::TraceScale => format!("{n} × the trace's speed"),
    }
}

/// What a level is called.
pub const fn noun(control: Control) -> &'static str {
    match control {
        Control::Rate => "rate",
        Control::Concurrency => "concurrency",
        Control::Sessions => "rate of sessions",
        Control::TraceScale => "speed of the trace",
    }
}

/// The level of a step with its unit; one request at a time, before any load, is no level: `unloaded`. The saturated server is at none
/// of the search's either.
pub fn step_level(s: &Step) -> String {
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

/// Whether several of it are spoken of: `16 requests in flight fail`, but `16 requests/s fails`.
pub fn many(control: Control, value: f64) -> bool {
    control == Control::Concurrency && short(value) != "1"
}
