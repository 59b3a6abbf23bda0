//! The words of caveats on the server's counters: the counts of both sides, and the likely cause by the side that
//! counted more.

use super::{CaveatWords, and_other_steps};
use goodput_core::caveat::CountersCaveat;
use goodput_core::units::short;

pub(super) fn words(caveat: &CountersCaveat) -> CaveatWords {
    match caveat {
        CountersCaveat::OtherClients { step, asked, own, steps } => CaveatWords::new(
            format!(
                "Somebody else used the server in step {step}: it counted {asked:.0} prompt tokens where the step's own requests have at most {own:.0}{}.",
                and_other_steps(*steps)
            ),
            "Its load is not in the plan: measure while nobody else uses the server. Hit rates are those of all clients together.",
        ),
        CountersCaveat::TtftDiffers { step, steps, client_ms, server_ms, queue_ms } => {
            let queue = queue_ms.map(|ms| format!(" ({} ms of it)", short(ms))).unwrap_or_default();
            CaveatWords::new(
                format!(
                    "In step {step} the mean TTFT was {} ms as the client saw it and {} ms by the server's own clock, its queue{queue} \
                     included{}.",
                    short(*client_ms),
                    short(*server_ms),
                    and_alike(*steps)
                ),
                if client_ms > server_ms {
                    "The difference is lost on the way to the engine or back: network, proxy, or the API server's own work (HTTP, tokenising) on \
                     too few cores (vLLM: --api-server-count)."
                } else {
                    "The server's mean holds requests that are not this client's: measure while nobody else uses it."
                },
            )
        }
        CountersCaveat::TokensDiffer { prompt, step, steps, client, server } => CaveatWords::new(
            format!(
                "In step {step} the server counted {server:.0} {} tokens while the client counted {client:.0}{}.",
                if *prompt { "prompt" } else { "output" },
                and_alike(*steps)
            ),
            if server > client {
                "Somebody else uses the server, or it generates what it does not send, or the client counts otherwise: see token_source in \
                 requests.csv."
            } else {
                "The pages that are read may not be those of every server (server.metrics-urls), or the client counts otherwise: see \
                 token_source in requests.csv."
            },
        ),
        CountersCaveat::InFlightDiffers { step, steps, client, server } => CaveatWords::new(
            format!(
                "In step {step} the client had {} requests in flight on average, and the server {} running and waiting (by Little's law \
                 they should be equal){}.",
                short(*client),
                short(*server),
                and_alike(*steps)
            ),
            if client > server {
                "Requests wait before they reach the engine: in a proxy, a balancer, or the API server, which the engine's own queue does not \
                 show."
            } else {
                "Somebody else uses the server, or it continues requests that were cancelled."
            },
        ),
    }
}

/// Returns the number of other affected steps in brackets; empty if there is only one step.
fn and_alike(steps: u32) -> String {
    and_other_steps(steps).replacen("(and in", "(and similarly in", 1)
}
