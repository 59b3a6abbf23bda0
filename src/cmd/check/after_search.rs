//! The recovery step and the paired steps of a sensitivity run, which follow the search.

use crate::plan::Plan;
use crate::units::short;

/// Returns the longest duration of the recovery step, in seconds.
pub(super) fn longest_s(plan: &Plan) -> f64 {
    let around = plan.step.settle.0 + plan.step.tail() + plan.step.drain.0;
    plan.recovery.map_or(0.0, |recovery| (recovery.measure() + around).as_secs_f64())
}

/// Describes `[recovery]` and `[sensitivity]`; empty if the plan has neither.
pub(super) fn text(plan: &Plan) -> String {
    let mut out = String::new();
    if let Some(r) = plan.recovery {
        let most = plan
            .search
            .max_rate
            .map_or_else(String::new, |max| format!("; skipped if that is above max-rate ({max})"));
        out += &format!(
            "\n  recovery  the safe rate for {0}, {1} × the safe rate for {2}, the safe rate for {0}{most}",
            r.hold, r.factor, r.surge
        );
    }
    if let Some(s) = &plan.sensitivity {
        let (factors, immovable) = s.factors(plan);
        let names: Vec<String> = factors.iter().map(ToString::to_string).collect();
        out += &format!(
            "\n  factors   {} changed by up to {} %, in paired steps near the goodput, {} in total",
            names.join(", "),
            short(100.0 * s.most.get()),
            s.budget
        );
        for i in immovable {
            out += &format!("\n            not {}: {}", i.factor, i.why);
        }
    }
    out
}
