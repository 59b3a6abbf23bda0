//! What is said of the server's own side: pages that tell nothing, restarts, and where its counters and the client do not agree.

use super::Caveat;
use crate::units::short;

/// What is the case, as a sentence; empty for a caveat about anything else.
pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::MetricsSilent { source, why } => format!("The metrics of {source} tell nothing: {why}."),
        Caveat::ServerRestarted { step } => {
            format!("Step {step} is invalid: the server was started anew within it, its counters went back.")
        }
        Caveat::ServerChanged { what, was, is } => {
            format!(
                "The server is not as it was before the sweep was resumed: its {what} was {was} and is {is}."
            )
        }
        Caveat::TtftDiffers { step, steps, client_ms, server_ms, queue_ms } => {
            let queue = queue_ms.map(|ms| format!(" ({} ms of it)", short(ms))).unwrap_or_default();
            format!(
                "In step {step} the mean TTFT was {} ms as the client saw it and {} ms by the server's own clock, its queue{queue} \
                 included{}.",
                short(*client_ms),
                short(*server_ms),
                and_others(*steps)
            )
        }
        Caveat::TokensDiffer { prompt, step, steps, client, server } => format!(
            "In step {step} the server counted {server:.0} {} tokens while the client counted {client:.0}{}.",
            if *prompt { "prompt" } else { "output" },
            and_others(*steps)
        ),
        Caveat::InFlightDiffers { step, steps, client, server } => format!(
            "In step {step} the client had {} requests in flight on average, and the server {} running and waiting (Little's law \
             wants them equal){}.",
            short(*client),
            short(*server),
            and_others(*steps)
        ),
        _ => String::new(),
    }
}

/// What to do about it: the likely cause by the side that has more.
pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::MetricsSilent { .. } => {
            "Check the URL with curl and the names of its series; the sweep itself misses nothing."
        }
        Caveat::ServerRestarted { .. } => {
            "Look at its log for why it ended: the load itself may have done it, which is worse than a missed limit. Behind a balancer that \
             sends each request elsewhere, read the servers' own pages (server.metrics-urls)."
        }
        Caveat::ServerChanged { .. } => {
            "Steps before and after are not of the same server: start a new sweep, unless the difference cannot matter."
        }
        Caveat::TtftDiffers { client_ms, server_ms, .. } if *client_ms > *server_ms => {
            "The difference is lost on the way to the engine or back: network, proxy, or the API server's own work (HTTP, tokenising) on \
             too few cores (vLLM: --api-server-count)."
        }
        Caveat::TtftDiffers { .. } => {
            "The server's mean holds requests that are not this client's: measure while nobody else uses it."
        }
        Caveat::TokensDiffer { client, server, .. } if *server > *client => {
            "Somebody else uses the server, or it generates what it does not send, or the client counts otherwise: see token_source in \
             requests.csv."
        }
        Caveat::TokensDiffer { .. } => {
            "The pages that are read may not be those of every server (server.metrics-urls), or the client counts otherwise: see \
             token_source in requests.csv."
        }
        Caveat::InFlightDiffers { client, server, .. } if *client > *server => {
            "Requests wait before they reach the engine: in a proxy, a balancer, or the API server, which the engine's own queue does not \
             show."
        }
        Caveat::InFlightDiffers { .. } => {
            "Somebody else uses the server, or it goes on with requests that were given up."
        }
        _ => "",
    }
}

/// Whether it is not the only step.
fn and_others(steps: u32) -> String {
    match steps {
        0 | 1 => String::new(),
        2 => " (and alike in one more step)".into(),
        n => format!(" (and alike in {} more steps)", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_told_and_the_likely_cause() {
        let ttft = |client_ms, server_ms| Caveat::TtftDiffers {
            step: 3,
            steps: 2,
            client_ms,
            server_ms,
            queue_ms: Some(12.0),
        };
        let tokens =
            |client, server| Caveat::TokensDiffer { prompt: false, step: 1, steps: 1, client, server };
        let flight = |client, server| Caveat::InFlightDiffers { step: 1, steps: 1, client, server };
        for (caveat, say, advice) in [
            (
                ttft(120.0, 60.0),
                "120 ms as the client saw it and 60 ms by the server's own clock, its queue (12 ms of it) included (and alike in one more step)",
                "on the way",
            ),
            (ttft(60.0, 120.0), "60 ms as the client", "not this client's"),
            (
                tokens(100.0, 200.0),
                "the server counted 200 output tokens while the client counted 100",
                "Somebody else",
            ),
            (tokens(200.0, 100.0), "counted 100 output", "every server"),
            (
                flight(9.0, 2.0),
                "9 requests in flight on average, and the server 2 running",
                "before they reach",
            ),
            (flight(2.0, 9.0), "2 requests in flight", "given up"),
            (
                Caveat::MetricsSilent { source: "gpu".into(), why: "HTTP 404".into() },
                "of gpu tell nothing: HTTP 404.",
                "curl",
            ),
            (Caveat::ServerRestarted { step: 4 }, "Step 4 is invalid", "log"),
            (
                Caveat::ServerChanged { what: "version".into(), was: "1".into(), is: "2".into() },
                "version was 1 and is 2",
                "new sweep",
            ),
        ] {
            assert!(caveat.text().contains(say) && caveat.advice(true).contains(advice), "{}", caveat.text());
        }
    }
}
