//! The words of caveats on the replayed trace.

use super::CaveatWords;
use goodput_core::caveat::TraceCaveat;
use goodput_core::units::{short, thousands};

pub(super) fn words(caveat: &TraceCaveat) -> CaveatWords {
    match caveat {
        TraceCaveat::TracePart { sent, of } => CaveatWords::new(
            format!(
                "Of the trace's {} requests {} were sent ({} %): the answer holds for those parts of it only.",
                thousands(*of as f64),
                thousands(*sent as f64),
                short((100.0 * *sent as f64 / (*of).max(1) as f64).round())
            ),
            "More steps or longer ones (step.measure, --budget) show more of it; or select the part that you need (workload.trace.window).",
        ),
        TraceCaveat::TraceRepeated { step, times, of } => CaveatWords::new(
            format!(
                "Step {step} sent the trace {} times over, the same {} requests each time: its result is more certain for these requests \
                 than for similar traffic.",
                short((10.0 * times).round() / 10.0),
                thousands(*of as f64)
            ),
            "Replay a longer trace or a larger window of it (workload.trace.window).",
        ),
    }
}
