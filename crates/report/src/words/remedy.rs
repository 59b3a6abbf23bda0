//! Advice on how to decide an open answer, in words.

use super::answer::{fails_at_the_lowest, gone, restarted};
use super::levels::step_level;
use super::names::steps_of;
use super::refused::refused;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{adaptive, interval, usable_safe_rate};
use goodput_stats::search::answer::{Answer, Basis, Status};
use goodput_stats::stats::reason::would_decide;
use goodput_stats::stats::step::{Step, Verdict};

/// Returns what would decide an open answer.
pub(crate) fn remedy(run: &Run, a: &Answer) -> Option<String> {
    let text = advice(run, a)?;
    let enough = enough(run, a).filter(|_| text.contains("step.min-requests"));
    Some(enough.map_or(text.to_owned(), |(level, many)| format!("{text}: at {level} {many}")))
}

/// Returns an undecided level and how many more requests would decide it: the level with the most requests, which needs
/// the fewest more.
fn enough(run: &Run, a: &Answer) -> Option<(String, String)> {
    let error = run.terms.map_or(0.05, |t| 1.0 - t.confidence);
    let open = steps_of(run, a).into_iter().filter(|s| run.judged(a, s).0 == Verdict::Undecided);
    let step = open.max_by_key(|s| s.due_n)?;
    let binding = run.judged(a, step).1?;
    let many = would_decide(step.row(&a.tier, &binding)?, &run.steps, error)?;
    Some((step_level(step), many))
}

fn advice(run: &Run, a: &Answer) -> Option<&'static str> {
    let interrupted = run.steps.iter().any(Step::broken_off);
    let g = &a.goodput;
    let text = match g.status() {
        Status::None => return None,
        Status::NotReached if usable_safe_rate(g).is_some() && g.basis == Basis::Search => {
            "a higher search.max-rate would tell how much more"
        }
        Status::Found if interval(g).is_some() => return None,
        // Levels within the bracket whose steps were too short: the reason names them.
        Status::Found if !adaptive(&run.steps) && open_levels(run, a) => {
            "longer steps at the undecided levels would narrow it (step.measure, step.min-requests)"
        }
        Status::Found => return None,
        Status::NotReached => "higher levels would tell how much more",
        Status::Invalid if restarted(run, a).is_some() => "the server's log may tell why it was started anew",
        Status::Invalid => {
            "a client on an idle machine with more cores, or a higher step.max-in-flight, would tell"
        }
        Status::Undecided if gone(run, a) => "the server's log may tell why it stopped",
        Status::Undecided if interrupted => "the rest of the sweep would tell",
        Status::Undecided if refused(run, a).is_some() => {
            "a higher limit of requests at the server, or a load below it (search.max-rate), would decide it"
        }
        Status::Undecided if fails_at_the_lowest(run, a).is_some() => "lower levels would decide it",
        Status::Undecided if adaptive(&run.steps) && g.halve_s().is_some() && interval(g).is_some() => {
            return None;
        }
        Status::Undecided if adaptive(&run.steps) => "more time (--budget) would decide it",
        Status::Undecided if open_levels(run, a) => {
            "longer steps at the undecided levels would decide it (step.measure, step.min-requests)"
        }
        Status::Undecided => "longer steps would decide it (step.measure, step.min-requests)",
    };
    Some(text)
}

/// Returns true if there are undecided levels between the one that meets and the one that fails.
fn open_levels(run: &Run, a: &Answer) -> bool {
    let g = &a.goodput;
    steps_of(run, a).into_iter().any(|s| {
        run.judged(a, s).0 == Verdict::Undecided
            && g.bracket.met.is_none_or(|m| s.level.value > m)
            && g.bracket.failed.is_none_or(|f| s.level.value < f)
    })
}
