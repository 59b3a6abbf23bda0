//! What is said of a sweep that ended before its time, or went on after it, under another plan perhaps.

use super::Caveat;
use crate::units::{Span, bytes};
use std::time::Duration;

/// What to do where the server went away.
const SERVER_GONE: &str = "Look at the server's log; the last step shows the load that it died under. Once it is back, goodput sweep --resume RUN goes on.";

/// What is the case, as a sentence; empty for a caveat about anything else.
pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::Interrupted => {
            "The sweep was interrupted: the answer rests on the steps measured until then.".into()
        }
        Caveat::ServerGone { step } => {
            format!("The server stopped answering in step {step}: nothing more was measured on it.")
        }
        Caveat::PartialStep { step, requests } => {
            format!("Step {step} was not finished: its {requests} requests are kept and not judged.")
        }
        Caveat::TornRow { file } => format!("The last row of {file} was torn and has been dropped."),
        Caveat::Resumed { times, at, step } => resumed(*times, at, *step),
        Caveat::BrokenOff { step, requests } => format!(
            "A try at step {step} was broken off: its {requests} requests stand in requests-partial.csv and are not judged."
        ),
        Caveat::Deadline { deadline_s, named } => {
            let span = Span(Duration::try_from_secs_f64(deadline_s.round()).unwrap_or_default());
            let whose = if *named {
                "search.deadline"
            } else {
                "reckoned from what its steps can take at the longest"
            };
            format!(
                "The sweep had come to its deadline of {span} ({whose}) and was ended: the answer rests on the steps measured until then."
            )
        }
        Caveat::DiskLow { free, reserve } => format!(
            "The disk was nearly full ({} free, and {} are kept for the reports), so the sweep was ended: the answer rests on the steps \
             measured until then.",
            bytes(*free),
            bytes(*reserve)
        ),
        Caveat::PlanChanged { differences } => {
            format!(
                "The plan was changed before the sweep was resumed (--force): {}.",
                differences.join("; ")
            )
        }
        _ => String::new(),
    }
}

/// What to do about it.
pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::Interrupted => "goodput sweep --resume RUN measures the rest.",
        Caveat::ServerGone { .. } => SERVER_GONE,
        Caveat::PartialStep { .. } => "goodput sweep --resume RUN measures that step again and goes on.",
        Caveat::TornRow { .. } => "The run was killed while writing; nothing else is affected.",
        Caveat::Resumed { .. } => {
            "Make sure that the server was in the same state before and after: all steps are read as one sweep."
        }
        Caveat::Deadline { named: true, .. } => {
            "goodput sweep --resume RUN measures the rest, with as much time again; a later search.deadline in a new sweep."
        }
        Caveat::Deadline { .. } => {
            "Look at what took so long, a server that hardly answers or hardly starts; goodput sweep --resume RUN measures the rest."
        }
        Caveat::DiskLow { .. } => "Make room, then goodput sweep --resume RUN measures the rest.",
        Caveat::PlanChanged { .. } => {
            "Steps before and after were not measured alike: start a new sweep, unless the difference cannot matter."
        }
        _ => "There is nothing to do: the step is measured again.",
    }
}

fn resumed(times: u32, at: &str, step: u32) -> String {
    let often = match times {
        1 => "once, at".to_owned(),
        n => format!("{n} times, last at"),
    };
    format!("The sweep was resumed {often} {at}, from step {step} on; the time in between spent no budget.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_says_what_it_was_and_how_to_go_on() {
        for (caveat, say, advice) in [
            (
                Caveat::Deadline { deadline_s: 7200.0, named: true },
                "deadline of 2h (search.deadline)",
                "as much time again",
            ),
            (
                Caveat::Deadline { deadline_s: 90.0, named: false },
                "deadline of 1m 30s (reckoned",
                "what took so long",
            ),
            (
                Caveat::DiskLow { free: 60 << 20, reserve: 64 << 20 },
                "60 MiB free, and 64 MiB are kept",
                "Make room",
            ),
            (
                Caveat::PlanChanged {
                    differences: vec!["seed was 1 and is 2".into(), "name was a and is b".into()],
                },
                "(--force): seed was 1 and is 2; name was a and is b.",
                "not measured alike",
            ),
        ] {
            assert!(caveat.text().contains(say), "{}", caveat.text());
            assert!(caveat.advice(true).contains(advice), "{}", caveat.advice(true));
        }
    }
}
