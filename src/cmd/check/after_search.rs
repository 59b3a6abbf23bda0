//! The lines on the recovery step and on the paired steps after a search.

use crate::plan::Plan;
use crate::units::short;

/// The longest that the recovery step can take, in seconds.
pub(super) fn longest_s(plan: &Plan) -> f64 {
    let around = plan.step.settle.0 + plan.step.tail() + plan.step.drain.0;
    plan.recovery.map_or(0.0, |recovery| (recovery.measure() + around).as_secs_f64())
}

/// A line each for `[recovery]` and `[sensitivity]`, where the plan has them.
pub(super) fn words(plan: &Plan) -> String {
    let mut out = String::new();
    if let Some(r) = plan.recovery {
        let most = plan
            .search
            .max_rate
            .map_or_else(String::new, |max| format!("; left out where that is above max-rate ({max})"));
        out += &format!(
            "\n  recovery  the safe rate for {0}, {1} × it for {2}, the safe rate for {0}{most}",
            r.hold, r.factor, r.surge
        );
    }
    if let Some(s) = &plan.sensitivity {
        let (factors, immovable) = s.factors(plan);
        let names: Vec<String> = factors.iter().map(ToString::to_string).collect();
        out += &format!(
            "\n  moved     {} by up to {} %, in paired steps near the goodput, {} in all",
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
