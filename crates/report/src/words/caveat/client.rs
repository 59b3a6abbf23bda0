//! The words of caveats on the client.

use super::{CaveatWords, Context};
use crate::words::units::figure;
use goodput_core::caveat::{ClientCaveat, OwnFault, WorkerFault};
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
        ClientCaveat::OwnLimit { step, fault, invalid, judged } => {
            let said = client_fault::text(fault);
            let text = match (invalid, judged) {
                (true, _) => format!("Step {step} is invalid and shows nothing about the server: {said}."),
                (false, true) => format!("In step {step} {said}. Its verdict holds nevertheless."),
                (false, false) => format!("In step {step} {said}."),
            };
            CaveatWords::new(text, advice(fault, context))
        }
        ClientCaveat::WorkerApart { id, ttft_ms, others_ms, step } => CaveatWords::new(
            format!(
                "The worker {id} gets its first tokens later than the others: in step {step} its median TTFT was {} ms, theirs {} ms. \
                 The percentiles are those of all workers together.",
                figure(*ttft_ms),
                figure(*others_ms)
            ),
            "See whether it is farther from the server (another zone, a slower link), or short of CPU time; if its users are as far away, \
             keep it.",
        ),
        ClientCaveat::WorkerFaults { steps, id, fault } => {
            let those = if *steps == 1 {
                "1 step does not count and was measured again".to_owned()
            } else {
                format!("{steps} steps do not count and were measured again")
            };
            CaveatWords::new(format!("{those}, because {}.", what(id, *fault)), advice_on_worker(*fault))
        }
    }
}

/// Returns the fault of a worker as a clause.
fn what(id: &str, fault: WorkerFault) -> String {
    match fault {
        WorkerFault::Lost => format!("the worker {id} stopped answering"),
        WorkerFault::Frozen => format!("the worker {id} stood still"),
        WorkerFault::Replaced => format!("another process answered in the name of the worker {id}"),
        WorkerFault::RecordsMissing => format!("records of the worker {id} were missing"),
        WorkerFault::OtherRequests => {
            format!("the worker {id} reported requests that are not its own, or one of them twice")
        }
        WorkerFault::Refused => format!("the worker {id} refused its part"),
        WorkerFault::ClientLimit => {
            format!("the worker {id} ran out of descriptors or ports, or reached its max-in-flight")
        }
        WorkerFault::LateStart => format!("the worker {id} started late"),
        WorkerFault::UnstableClock => format!("the clock of the worker {id} was not stable"),
        WorkerFault::Late => format!("the worker {id} sent late"),
    }
}

/// Returns the advice for a fault of a worker.
const fn advice_on_worker(fault: WorkerFault) -> &'static str {
    match fault {
        WorkerFault::Lost => {
            "Look into its log, and that of its container or job, for why it ended: out of memory, evicted, out of time."
        }
        WorkerFault::Frozen | WorkerFault::LateStart | WorkerFault::Late => {
            "Give it whole cores that no other program uses and no quota cuts short, or spread the load over more workers."
        }
        WorkerFault::Replaced => {
            "Give every worker a name of its own, and let nothing start it again within a sweep."
        }
        WorkerFault::RecordsMissing => {
            "Look into its log, and that of the message bus, for errors of the network."
        }
        WorkerFault::OtherRequests => {
            "This is an error in goodput, or a program that answers in the name of the worker: please report it with the run folder."
        }
        WorkerFault::Refused => {
            "Look into its log for the reason. All workers must run the version of goodput that the sweep runs."
        }
        WorkerFault::ClientLimit => {
            "Raise its limit of open files (ulimit -n), its range of ports or step.max-in-flight, or spread the load over more workers."
        }
        WorkerFault::UnstableClock => {
            "Keep its clock steady with a time service (chrony), and keep the load away from the network between it and the leader."
        }
    }
}

/// Returns the advice for a limit of the client: no setting of goodput affects another tool's client.
fn advice(fault: &OwnFault, context: Context) -> &'static str {
    if context.imported { client_fault::OTHER_TOOL } else { client_fault::advice(fault) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_with_a_verdict_is_said_to_keep_it() {
        let text = |invalid, judged| {
            let fault = OwnFault::Starved { waiting: 0.2, allowed: 0.1 };
            let caveat = ClientCaveat::OwnLimit { step: 3, fault, invalid, judged };
            words(&caveat, Context { adaptive: true, imported: false }).text
        };
        assert!(text(false, true).ends_with(" Its verdict holds nevertheless."));
        assert!(text(false, false).starts_with("In step 3 ") && !text(false, false).contains("verdict"));
        assert!(text(true, false).starts_with("Step 3 is invalid"));
    }
}
