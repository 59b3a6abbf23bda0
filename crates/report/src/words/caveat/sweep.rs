//! The words of caveats on how the sweep ended, was resumed, or left its files.

use super::{CaveatWords, Context};
use goodput_core::caveat::SweepCaveat;
use goodput_core::units::{Span, bytes, short};
use std::time::Duration;

pub(super) fn words(caveat: &SweepCaveat, context: Context) -> CaveatWords {
    match caveat {
        SweepCaveat::BudgetSpent { next } => CaveatWords::new(
            format!(
                "The budget ended the sweep: the next step, at {}, might not have finished within it.",
                short(*next)
            ),
            if context.adaptive {
                "Give it more time (--budget)."
            } else {
                "Give it more time (--budget), or shorter steps (step.measure, step.settle, step.drain)."
            },
        ),
        SweepCaveat::Interrupted => CaveatWords::new(
            "The sweep was interrupted: the answer rests on the steps measured until then.",
            "goodput sweep --resume RUN measures the rest.",
        ),
        SweepCaveat::Deadline { deadline_s, named } => deadline(*deadline_s, *named),
        SweepCaveat::DiskLow { free, reserve } => CaveatWords::new(
            format!(
                "The disk was nearly full ({} free, and {} are kept for the reports), so the sweep ended: the answer rests on the steps \
                 measured until then.",
                bytes(*free),
                bytes(*reserve)
            ),
            "Make room, then goodput sweep --resume RUN measures the rest.",
        ),
        SweepCaveat::Resumed { times, at, step } => CaveatWords::new(
            resumed(*times, at, *step),
            "Make sure that the server was in the same state before and after: all steps are read as one sweep.",
        ),
        SweepCaveat::PlanChanged { differences } => CaveatWords::new(
            format!(
                "The plan was changed before the sweep was resumed (--force): {}.",
                differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            ),
            "Steps before and after were measured under different plans: start a new sweep, unless the difference cannot matter.",
        ),
        SweepCaveat::BrokenOff { step, requests } => CaveatWords::new(
            format!(
                "An attempt at step {step} was aborted: its {requests} requests are in requests-partial.csv and are not judged."
            ),
            "There is nothing to do: the step is measured again.",
        ),
        SweepCaveat::PartialStep { step, requests } => CaveatWords::new(
            format!("Step {step} was not finished: its {requests} requests are kept and not judged."),
            "goodput sweep --resume RUN measures that step again and goes on.",
        ),
        SweepCaveat::TornRow { file } => CaveatWords::new(
            format!("The last row of {file} was incomplete and was dropped."),
            "The run was killed while writing; nothing else is affected.",
        ),
    }
}

fn deadline(deadline_s: f64, named: bool) -> CaveatWords {
    let span = Span(Duration::try_from_secs_f64(deadline_s.round()).unwrap_or_default());
    let (whose, advice) = if named {
        (
            "search.deadline",
            "goodput sweep --resume RUN measures the rest, with the same time again; or set a later search.deadline in a new sweep.",
        )
    } else {
        (
            "computed from the longest that its steps can take",
            "Find out what took so long, such as a server that hardly answers or starts slowly; goodput sweep --resume RUN measures the rest.",
        )
    };
    CaveatWords::new(
        format!(
            "The sweep ended at its deadline of {span} ({whose}): the answer rests on the steps measured until then."
        ),
        advice,
    )
}

fn resumed(times: u32, at: &str, step: u32) -> String {
    let often = match times {
        1 => "once, at".to_owned(),
        n => format!("{n} times, last at"),
    };
    format!(
        "The sweep was resumed {often} {at}, from step {step} on; the pause did not count against the budget."
    )
}
