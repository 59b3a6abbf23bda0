//! The words of caveats on the replayed trace.

use super::CaveatWords;
use goodput_core::caveat::TraceCaveat;
use goodput_core::units::{short, thousands};

pub(super) fn words(caveat: &TraceCaveat) -> CaveatWords {
    match caveat {
        TraceCaveat::TracePart { sent, of } => CaveatWords::new(
            format!(
                "Of the trace's {} requests {} were sent ({} %): the answer speaks of those parts of it.",
                thousands(*of as f64),
                thousands(*sent as f64),
                short((100.0 * *sent as f64 / (*of).max(1) as f64).round())
            ),
            "More steps or longer ones (step.measure, --budget) show more of it; or name the part that is meant (workload.trace.window).",
        ),
        TraceCaveat::TraceRepeated { step, times, of } => CaveatWords::new(
            format!(
                "Step {step} sent the trace {} times over: they are the same {} requests again and again, so what it shows is surer of \
                 these than of traffic like them.",
                short((10.0 * times).round() / 10.0),
                thousands(*of as f64)
            ),
            "Replay a longer trace or a larger window of it (workload.trace.window).",
        ),
    }
}
