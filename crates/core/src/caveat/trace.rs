//! What is said of the part of a trace that was replayed.

use super::Caveat;
use crate::units::{short, thousands};

/// What is the case, as a sentence; empty for a caveat about anything else.
pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::TracePart { sent, of } => format!(
            "Of the trace's {} requests {} were sent ({} %): the answer speaks of those parts of it.",
            thousands(*of as f64),
            thousands(*sent as f64),
            short((100.0 * *sent as f64 / (*of).max(1) as f64).round())
        ),
        Caveat::TraceRepeated { step, times, of } => format!(
            "Step {step} sent the trace {} times over: they are the same {} requests again and again, so what it shows is surer of \
             these than of traffic like them.",
            short((10.0 * times).round() / 10.0),
            thousands(*of as f64)
        ),
        _ => String::new(),
    }
}

/// What to do about it.
pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::TracePart { .. } => {
            "More steps or longer ones (step.measure, --budget) show more of it; or name the part that is meant (workload.trace.window)."
        }
        Caveat::TraceRepeated { .. } => {
            "Replay a longer trace or a larger window of it (workload.trace.window)."
        }
        _ => "",
    }
}
