//! The words of caveats on token counts and on the lengths of prompts and answers.

use super::CaveatWords;
use goodput_core::caveat::{CalibrationFailure, LengthsCaveat, LengthsOf};

/// Advice if output lengths may differ from those requested.
const OUTPUT: &str =
    "Compare with other servers only at equal output lengths; see output_tokens_mean in steps.csv.";

/// Advice if input lengths may differ from those requested.
const INPUT: &str =
    "Quote the measured input length, not the one asked for; see input_tokens_mean in steps.csv.";

/// Advice if output tokens are counted by events.
const BY_EVENTS: &str =
    "Trust TTFT and e2e; TPOT and token rates are estimates where events carry several tokens.";

pub(super) fn words(caveat: &LengthsCaveat) -> CaveatWords {
    match caveat {
        LengthsCaveat::PinningRefused { field, message, held } => {
            let so = if *held {
                "the other one still pins output lengths"
            } else {
                "output lengths were not pinned"
            };
            CaveatWords::new(format!("The server refused {field} ({message}): {so}."), OUTPUT)
        }
        LengthsCaveat::LengthsNotPinned { asked, got, of } => CaveatWords::new(
            format!(
                "Answers{} had {got:.1} output tokens on average where {asked:.1} were asked for: output lengths were not pinned.",
                whose(of)
            ),
            OUTPUT,
        ),
        LengthsCaveat::UsageRefused { message } => CaveatWords::new(
            format!("The server refused stream_options ({message}): it sends no usage in streams."),
            BY_EVENTS,
        ),
        LengthsCaveat::TokensEstimated { requests } => CaveatWords::new(
            format!(
                "The server sent no usage for {requests} requests: their output tokens are estimated, one per event with text."
            ),
            BY_EVENTS,
        ),
        LengthsCaveat::TokensUnknown { requests } => CaveatWords::new(
            format!(
                "The server sent no usage for {requests} non-streamed answers: their token counts are unknown."
            ),
            "Trust e2e; token rates leave these answers out.",
        ),
        LengthsCaveat::InputLengthOff { asked, got, of } => CaveatWords::new(
            format!(
                "Prompts{} had {got:.1} input tokens on average where {asked:.1} were asked for.",
                whose(of)
            ),
            INPUT,
        ),
        LengthsCaveat::InputNotCalibrated { reason } => {
            CaveatWords::new(format!("Input lengths were not calibrated: {}.", cause(reason)), INPUT)
        }
    }
}

/// Returns the cause of a failed calibration, as a clause.
fn cause(failure: &CalibrationFailure) -> String {
    match failure {
        CalibrationFailure::RequestFailed { kind, body } => {
            format!("a request failed ({}: {})", kind.name(), body.as_deref().unwrap_or("no body"))
        }
        CalibrationFailure::NoUsage => "the server sends no usage".into(),
        CalibrationFailure::ConstantCounts => "the server's token counts do not grow with the prompt".into(),
        CalibrationFailure::TextsNotCounted { class } => {
            let of = class.iter().map(|class| format!(" of class {class}")).collect::<String>();
            format!("the server counted none of the texts{of}")
        }
        CalibrationFailure::Text(clause) => clause.clone(),
    }
}

/// Returns ` of class chat in the series mix`, or nothing.
fn whose(of: &LengthsOf) -> String {
    let class = of.class.iter().map(|class| format!(" of class {class}"));
    class.chain(of.series.iter().map(|series| format!(" in the series {series}"))).collect()
}
