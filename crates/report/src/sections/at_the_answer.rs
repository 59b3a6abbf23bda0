//! The step that represents an answer.

use goodput_run::rundir::Run;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_stats::stats::step::{Step, Verdict};

/// Returns the step at the answer for which `tells` is true; if there is none, the highest such step that was not
/// overloaded, else the last.
pub(super) fn at_the_answer(run: &Run, tells: impl Fn(&Step) -> bool) -> Option<&Step> {
    let told = |s: &&Step| tells(s);
    let answer = run.answers.first();
    let at_answer = answer.and_then(|a| {
        let g = &a.goodput;
        let estimate = usable_safe_rate(g).and_then(|safe| run.nearest(a, g.rate().unwrap_or(safe)));
        estimate.or_else(|| run.step_at(a, g.bracket.met?, Verdict::Meets))
    });
    let calm = |s: &&Step| !s.kind.is_outside_search() && !s.overloaded();
    let highest = || {
        let calm = run.steps.iter().filter(told).filter(calm);
        calm.max_by(|a, b| a.level.value.total_cmp(&b.level.value))
    };
    at_answer.filter(told).or_else(highest).or_else(|| run.steps.iter().rfind(told))
}
