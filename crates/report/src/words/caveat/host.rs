//! The words of caveats on a machine that ran both client and server.

use super::CaveatWords;
use goodput_core::caveat::{HostCaveat, Neighbours};

pub(super) fn words(caveat: &HostCaveat) -> CaveatWords {
    match caveat {
        HostCaveat::SharedCores { step, steps, of, neighbours } => {
            let (text, advice) = shared(*step, neighbours);
            let among = if *of > 1 {
                format!(
                    " It was so, to the same or a lesser degree, in {steps} of the {of} steps near the answer."
                )
            } else {
                String::new()
            };
            CaveatWords::new(format!("{text}.{among}"), advice)
        }
    }
}

fn shared(step: u32, neighbours: &Neighbours) -> (String, &'static str) {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    match neighbours {
        Neighbours::Processes { share, waiting } => {
            let waited = waiting.map_or(String::new(), |w| {
                format!(", and something runnable had no core for {} of the time", percent(w))
            });
            (
                format!(
                    "Other processes had {} of this machine's cores in step {step} while the server ran here{waited}",
                    percent(*share)
                ),
                "The server may take more load alone: stop the other programs, or give the server cores that nobody else uses (taskset, a \
                 container's cpuset), and measure again; host_others in steps.csv has every step, and --repeat shows how much the answer moves.",
            )
        }
        Neighbours::Unknown { busy, waiting } => (
            format!(
                "This machine's cores were {} busy in step {step} while the server ran here, and something runnable had no core for {} of \
                 the time; goodput cannot tell whether the server itself or a neighbour had them, because the server's processes are not visible from here",
                percent(*busy),
                percent(*waiting)
            ),
            "Look at what else runs (top): if it is not the server alone, stop it and measure again; run goodput as the server's user, outside \
             its container, so that its share can be measured.",
        ),
        Neighbours::Machines { steal } => (
            format!(
                "The hypervisor gave {} of this machine's cores to other machines (steal) in step {step} while the server ran here",
                percent(*steal)
            ),
            "The server may take more on a machine of its own: use a dedicated host or one without burst credits, and repeat the sweep \
             (--repeat) to see how much the answer moves.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_has_no_others_beside_it() {
        let said = |of| {
            let neighbours = Neighbours::Machines { steal: 0.1 };
            words(&HostCaveat::SharedCores { step: 1, steps: 1, of, neighbours }).text
        };
        assert!(
            !said(1).contains("near the answer") && said(2).ends_with("in 1 of the 2 steps near the answer.")
        );
    }
}
