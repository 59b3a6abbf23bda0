//! Why the search stopped.

use crate::document::{Block, Text};
use crate::words::{self, capital};
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::interval;
use goodput_stats::search::answer::{Answer, Status};

/// Returns why the search stopped, what it had used by then, and the benefit of more time; for each answer.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let several = run.answers.len() > 1;
    let one = |a: &Answer| -> Text {
        let whose = if several { format!("{}: ", words::whose(run, a)) } else { String::new() };
        format!("{whose}{}", sentence(run, a)).into()
    };
    let all: Vec<Text> = run.answers.iter().map(one).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let measured: f64 = run.steps.iter().map(|s| s.measure_s).sum();
    let until = run.steps.iter().map(|s| s.ended_s).fold(0.0, f64::max);
    let clock = if run.meta.virtual_time { " of simulated time" } else { "" };
    let steps = if run.steps.len() == 1 { "step" } else { "steps" };
    let time = format!(
        "By then {} {steps} had taken {}{clock}, of which {} were measured.",
        run.steps.len(),
        words::span(until),
        words::span(measured)
    );
    vec![Block::List(all), Block::paragraph(time)]
}

/// Returns the end of a search in a sentence or two: `The search ended because the budget of 15m is spent.`
fn sentence(run: &Run, a: &Answer) -> String {
    let g = &a.goodput;
    let ended = if g.reason.ended().is_of_a_search() {
        format!("The search {}.", words::ended(g.reason.ended()))
    } else {
        format!("{}.", words::reason(&g.reason))
    };
    let meant = match g.status() {
        Status::Found => "The limit lies within what was measured.",
        Status::None => "No level was left that could keep the SLO.",
        Status::NotReached => "The limit lies above all that was tried.",
        Status::Undecided => "The limit was not closed in upon.",
        Status::Invalid => "More load would have told of the client, or of a server started anew.",
    };
    let halve = g.halve_s().filter(|s| *s > 0.0 && interval(g).is_some());
    let halve =
        halve.map(|s| format!(" Another {} of measuring would about halve the interval.", words::span(s)));
    let more = words::remedy(run, a).map(|r| format!(" {}.", capital(&r)));
    format!("{ended} {meant}{}{}", halve.unwrap_or_default(), more.unwrap_or_default()).replace("..", ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    #[test]
    fn why_a_search_stopped() {
        let names =
            ["two-steps", "soak", "open", "none", "top", "undecided", "invalid", "no-rate-unloaded", "tiers"];
        let case = |name: &str| fixture::cases().into_iter().find(|(n, _)| *n == name).unwrap().1;
        let said: String = names.map(|n| format!("{n}:\n{}\n", blocks(&section(&case(n)), 3))).concat();
        insta::assert_snapshot!(said, @r#"
        two-steps:
        - The search ended because all 2 levels of the list are measured. The limit lies within what was measured.

        By then 2 steps had taken 5 min, of which 4 min were measured.

        soak:
        - The search ended because the budget of 15m is spent. The limit lies within what was measured. Another 45 min of measuring would about halve the interval.

        By then 15 steps had taken 23 min, of which 22 min were measured.

        open:
        - The search ended because the budget of 15m is spent. The limit was not closed in upon. Another 90 min of measuring would about halve the interval.

        By then 5 steps had taken 3 min, of which 3 min were measured.

        none:
        - The search ended because all 4 levels of the list are measured. No level was left that could keep the SLO.

        By then 4 steps had taken 9 min, of which 8 min were measured.

        top:
        - The search ended because the budget of 15m is spent. The limit lies above all that was tried. A higher search.max-rate would tell how much more.

        By then 6 steps had taken 4 min, of which 3 min were measured.

        undecided:
        - The search ended because all 4 levels of the list are measured. The limit was not closed in upon. Longer steps at the undecided levels would decide it (step.measure, step.min-requests): at 25 req/s 4,600 more requests without a miss would do.

        By then 4 steps had taken 9 min, of which 40 s were measured.

        invalid:
        - The search ended because all 4 levels of the list are measured. More load would have told of the client, or of a server started anew. A client on an idle machine with more cores, or a higher step.max-in-flight, would tell.

        By then 4 steps had taken 9 min, of which 8 min were measured.

        no-rate-unloaded:
        - The search ended because the budget of 15m is spent. No level was left that could keep the SLO.

        By then 4 steps had taken 3 min, of which 3 min were measured.

        tiers:
        - gold: The search ended because all 8 levels of the list are measured. The limit lies within what was measured.
        - bulk: The search ended because all 8 levels of the list are measured. The limit lies within what was measured.

        By then 8 steps had taken 19 min, of which 16 min were measured.
        "#);
    }
}
