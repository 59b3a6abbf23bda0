//! The words of caveats on the client.

use super::{CaveatWords, Context};
use goodput_core::caveat::{ClientCaveat, OwnFault};
use goodput_core::units::short;
use goodput_stats::stats::client_fault;

pub(super) fn words(caveat: &ClientCaveat, context: Context) -> CaveatWords {
    match caveat {
        ClientCaveat::BeyondCalibration { asked, most, unit } => CaveatWords::new(
            format!(
                "The plan asks for up to {} {}, and this machine's client was calibrated for {}: beyond that the client is measured, \
                 not the server.",
                short(*asked),
                unit.name(),
                short(*most)
            ),
            "Measure from a machine with more cores, or split the load over several; `goodput calibrate` shows what each can do.",
        ),
        ClientCaveat::OwnLimit { step, fault, invalid } => {
            let said = client_fault::text(fault);
            let text = if *invalid {
                format!("Step {step} is invalid and shows nothing about the server: {said}.")
            } else {
                format!("In step {step} {said}. Its verdict holds nevertheless.")
            };
            CaveatWords::new(text, advice(fault, context))
        }
    }
}

/// Returns the advice for a limit of the client: no setting of goodput affects another tool's client.
fn advice(fault: &OwnFault, context: Context) -> &'static str {
    if context.imported { client_fault::OTHER_TOOL } else { client_fault::advice(fault) }
}
